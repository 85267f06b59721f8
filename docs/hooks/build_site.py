"""MkDocs calls these functions while it builds the site: generated pages, and equations."""

from __future__ import annotations

from typing import Any

from mkdocs.structure.files import File, Files

import command_reference
import recipe_reference
import repository_pages
from equations import Equations

_equations: dict[str, Equations] = {}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are written from the code and from other documents of the repository."""
    generated = [
        ("reference/commands.md", command_reference.page()),
        *recipe_reference.pages(),
        *repository_pages.pages(),
    ]
    for path, markdown in generated:
        files.append(File.generated(config, path, content=markdown))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Take the equations out of the Markdown."""
    equations = _equations[page.file.src_uri] = Equations()
    return equations.extract(markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the equations into the page."""
    return _equations[page.file.src_uri].insert(html)
