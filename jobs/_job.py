"""What every job script does: find the package, then be `babelray STAGE RECIPE …`.

Under `ray job submit --working-dir .` the package comes with the upload, so nodes need only its dependencies.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "platform"


def main(stage: str) -> None:
    sys.path.insert(0, str(SOURCE))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.argv[1:1] = [stage]
    from babelray.cli import main as babelray

    babelray()
