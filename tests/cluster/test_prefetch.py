import threading

import pytest

from babelray.cluster.prefetch import prefetch


def test_the_next_is_made_while_the_last_is_used() -> None:
    made = threading.Event()

    def items():
        yield 1
        made.set()
        yield 2

    found = prefetch(items())
    assert next(found) == 1
    assert made.wait(5)
    assert list(found) == [2]


def test_errors_come_in_their_place() -> None:
    def items():
        yield 1
        raise ValueError("second")

    found = prefetch(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="second"):
        next(found)
    assert list(prefetch([])) == []
