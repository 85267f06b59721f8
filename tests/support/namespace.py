"""Run a command in a network namespace of its own, with nothing but loopback; everything it starts ends with it.

    python tests/support/namespace.py COMMAND [ARGUMENT]...

Ray's head binds to the machine's address; in here that address is 127.0.0.1, and no other machine can reach it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys


def available() -> str:
    """Empty if namespaces can be made here, else why not."""
    if not shutil.which("unshare"):
        return "unshare (util-linux) is not installed"
    process = subprocess.run([*_unshare(), "true"], capture_output=True, text=True)
    return "" if process.returncode == 0 else f"namespaces are not permitted here: {process.stderr.strip()}"


def command(*arguments: str) -> list[str]:
    """The command line that runs these arguments in a namespace."""
    return [*_unshare(), sys.executable, __file__, *arguments]


def _unshare() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]


def _loopback_up() -> None:
    """What `ip link set lo up` does, where iproute2 is missing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        up_and_running = 0x41
        fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", up_and_running))  # SIOCSIFFLAGS


if __name__ == "__main__":
    _loopback_up()
    sys.exit(subprocess.run(sys.argv[1:]).returncode)
