import signal
import sys

import pytest

from babelray.training.launch import _interruptible


def test_ctrl_c_stays_an_interruption() -> None:
    """Ray Train puts a handler of its own in place, which exits with 0, and leaves it there."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), _interruptible():
        signal.signal(signal.SIGINT, lambda number, frame: sys.exit(0))
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before
    with _interruptible():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) == before
