"""Running a notebook without Jupyter: its code cells, one after the other, in one namespace.

`python tests/support/notebook.py NOTEBOOK` prints, for each cell that ends with an expression, the value as a notebook
would show it: as HTML if the value has a table, else its representation.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def code_cells(notebook: Path) -> Iterator[str]:
    """The source of each code cell."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def run_cell(source: str, namespace: dict[str, Any]) -> Any:
    """Run a cell; returns the value of the expression that it ends with."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), namespace)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), namespace) if isinstance(last, ast.Expr) else None


def shown(value: Any) -> str:
    """What a notebook displays."""
    html = getattr(value, "_repr_html_", None)
    return html() if html else repr(value)


def main() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for source in code_cells(Path(sys.argv[1])):
        value = run_cell(source, namespace)
        if value is not None:
            print(shown(value), flush=True)


if __name__ == "__main__":
    main()
