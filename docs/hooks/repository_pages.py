"""Pages that exist elsewhere in the repository: recipes, sweep spaces, and documents at the top level."""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from recipe_reference import as_markdown

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = {
    "CHANGELOG.md": "development/changelog.md",
    "CONTRIBUTING.md": "development/contributing.md",
    "SECURITY.md": "development/security.md",
    "k8s/README.md": "guides/kubernetes.md",
    "platform/babelray/mini/README.md": "reference/babelray-mini.md",
    "platform/babelray/starter/README.md": "reference/starter.md",
}
"""Documents, and the pages that show them."""
DIAGRAM = re.compile(r"(<!--[^>]*-->\n)?```mermaid\n.*?```\n", re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?://|#|mailto:)([^)#\s]*)(#[^)]*)?\)")


def pages() -> Iterator[tuple[str, str]]:
    """The path of each page and its Markdown."""
    for source, page in DOCUMENTS.items():
        yield page, with_links((ROOT / source).read_text(encoding="utf-8"), source, page)
    yield "guides/examples.md", examples_page()
    yield "reference/shipped-recipes.md", yaml_page("Shipped recipes", RECIPES, "jobs/recipes")
    yield "reference/shipped-spaces.md", yaml_page("Shipped sweep spaces", SPACES, "tune/spaces")


RECIPES = """`babelray recipes` lists these, `babelray init FOLDER` writes an editable copy of one, and
`babelray run NAME` runs one. Those that end in `-mini`, and the quickstart, are for a laptop. The others have the
settings of the papers and need data and an encoder that are not shipped: the first lines of each say which."""
SPACES = "`babelray sweep NAME` runs one. `quickstart` and `alignment` need no other data."


def yaml_page(title: str, introduction: str, folder: str) -> str:
    """All YAML files of a folder."""
    files = sorted((ROOT / folder).glob("*.yaml"))
    names = ", ".join(f"[{file.stem}](#{file.stem.replace('.', '')})" for file in files)
    blocks = [f"## {file.stem}\n\n```yaml\n{file.read_text(encoding='utf-8')}```" for file in files]
    return "\n\n".join([f"# {title}", introduction, names, *blocks])


EXAMPLES = """Scripts and notebooks in the folder `examples` of the repository. Each takes under three minutes on
two cores, and needs nothing but what is shipped. They show how, not how well: the starter corpus is small."""


def examples_page() -> str:
    """The scripts with their code, and the first lines of the notebooks."""
    parts = ["# Examples", EXAMPLES]
    for script in sorted((ROOT / "examples").glob("*.py")):
        code = script.read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(code)) or ""
        body = re.sub(r'^""".*?"""\n+', "", code, count=1, flags=re.DOTALL)
        parts.append(f"## {script.name}\n\n{as_markdown(docstring)}\n\n```python\n{body}```")
    for notebook in sorted((ROOT / "examples").glob("*.ipynb")):
        first = json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]
        text = re.sub(r"^#+ (.*)", r"**\1**", "".join(first["source"]))
        parts.append(f"## {notebook.name}\n\n{text}")
    return "\n\n".join(parts)


def with_links(markdown: str, source: str, page: str) -> str:
    """Links to documents that are pages lead to those; of links to source files the text remains.

    Diagrams, which code forges draw with a script, are left out.
    """
    markdown = DIAGRAM.sub(f"(see `{source}`)\n", markdown)

    def replacement(match: re.Match[str]) -> str:
        text, target, fragment = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in DOCUMENTS:
            return f"[{text}]({posixpath.relpath(DOCUMENTS[path], posixpath.dirname(page))}{fragment})"
        if re.fullmatch(r"(jobs/recipes|tune/spaces)/[\w-]+\.yaml", path):
            name = "shipped-recipes" if path.startswith("jobs") else "shipped-spaces"
            relative = posixpath.relpath(f"reference/{name}.md", posixpath.dirname(page))
            return f"[{text}]({relative}#{Path(path).stem})"
        return text if "`" in text else f"`{path}`" if text == target else text

    return LINK.sub(replacement, markdown)
