"""`make cluster-down`: stop what `make cluster` started, also after a crash, and delete its data; it can be repeated.

python tests/multinode/down.py [FOLDER]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from multinode import keeper
from multinode.up import FOLDER


def main(folder: Path = FOLDER) -> None:
    was_there = folder.exists()
    keeper.stop(folder)
    shutil.rmtree(folder, ignore_errors=True)
    print("The cluster is gone, with its data." if was_there else "There is no cluster.")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
