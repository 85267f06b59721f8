"""ray job submit --working-dir . -- python tune/sweep.py tune/spaces/transport.yaml [key=value ...]"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "jobs"))

from _job import main

main()
