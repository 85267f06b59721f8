"""Shared by all job scripts: find the package and call the command with the script's name, `babelray STAGE RECIPE …`.

With `ray job submit --working-dir .` the package is in the upload, so that nodes need only its dependencies.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "platform"


def main() -> None:
    sys.path.insert(0, str(SOURCE))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.argv[1:1] = [Path(sys.argv[0]).stem]
    from babelray.commands.app import main as babelray

    babelray()
