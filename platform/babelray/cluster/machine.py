"""What this machine has, before Ray is started on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Machine:
    """Its processors and its memory in bytes."""

    cpus: int
    memory: int

    def gpus(self) -> int:
        """The number of GPUs that Ray will find; imports torch."""
        import torch

        return torch.cuda.device_count()


def machine_of_run() -> Machine | None:
    """This machine if Ray would be started on it; None if a run joins an existing cluster."""
    if os.environ.get("RAY_ADDRESS", "") not in ("", "local"):
        return None
    return Machine(len(os.sched_getaffinity(0)), _memory())


def _memory() -> int:
    """The memory of the machine, or of the container that this process runs in."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(installed, int(CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no control group, or "max"
        return installed
