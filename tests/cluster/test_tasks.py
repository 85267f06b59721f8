import io
import os
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from babelray.cluster import tasks
from babelray.cluster.nodes import Driver
from babelray.cluster.progress import Progress
from babelray.cluster.tasks import Task, run_tasks
from babelray.errors import ClusterError, DataError


def run(*functions: Callable[..., Any]) -> dict[str, Any]:
    with Progress(Console(file=io.StringIO()), "test") as progress:
        return run_tasks([Task(f.__name__, f, ()) for f in functions], progress, "tasks")


def one() -> int:
    return 1


def lost() -> None:
    os._exit(1)


def refused() -> None:
    raise DataError("no text", "Give some.")


def mistaken() -> None:
    raise ZeroDivisionError


def test_results_have_their_names(local_ray: None) -> None:
    assert run(one) == {"one": 1}


def test_an_error_for_the_user_comes_back_as_it_was(local_ray: None) -> None:
    with pytest.raises(DataError, match="no text") as caught:
        run(refused)
    assert caught.value.remedy == "Give some."


def test_a_worker_that_is_lost_again_and_again_is_said_with_a_remedy(local_ray: None) -> None:
    with pytest.raises(ClusterError, match="the worker of lost was lost repeatedly") as caught:
        run(lost)
    assert "the same command again" in caught.value.remedy


def test_a_mistake_of_ours_keeps_its_traceback(local_ray: None) -> None:
    with pytest.raises(ZeroDivisionError):
        run(mistaken)


def test_a_node_that_differs_from_the_driver_does_nothing(local_ray: None, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Driver("another node", {**Driver.this().versions, "torch": "1.0"})
    monkeypatch.setattr(tasks.Driver, "this", lambda: other)
    with pytest.raises(ClusterError, match="the nodes of the cluster differ"):
        run(one)
