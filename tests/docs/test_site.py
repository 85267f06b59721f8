"""The site builds without a warning and without a network, and no page loads anything from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from conftest import ROOT


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        if tag == "a" and values.get("href"):
            self.links.add(values["href"] or "")
        elif tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.add(values.get("href") or "")
        elif tag in ("script", "img", "iframe") and values.get("src"):
            self.loaded.add(values["src"] or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, without a route to anywhere."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    process = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "platform"), "NO_MKDOCS_2_WARNING": "1", **nowhere},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    assert "WARNING" not in process.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}


def test_links_and_anchors_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            target, _, fragment = link.partition("#")
            file = (path.parent / target).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            assert file.exists(), (path.name, link)
            assert not fragment or fragment.startswith("__") or fragment in pages[file].anchors, (path.name, link)


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert not [url for url in page.loaded if re.match(r"(https?:)?//", url)], path.name
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", styles)


def test_every_page_can_be_found_and_equations_are_drawn(site: Path, pages: dict[Path, Page]) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in pages}
    assert texts["papers.html"].count("<math") > 40
    assert not [name for name, text in texts.items() if re.search(r"equation\d+x(block|inline)|```", text)]
    assert "static_dcca" in (site / "search/search_index.json").read_text(encoding="utf-8")
    assert len(pages) > 40


def test_the_public_names_are_in_the_api_reference(pages: dict[Path, Page], site: Path) -> None:
    import babelray

    anchors = {anchor.rsplit(".", 1)[-1] for anchor in pages[site / "reference/api.html"].anchors}
    assert {*babelray.__all__} - {"__version__"} <= anchors
    assert {*babelray.losses.__all__} <= anchors
