import pytest

from babelray import cluster
from babelray.errors import ClusterError


def test_ray_that_does_not_start_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def init(**options: object) -> None:
        raise Exception("The current node timed out during startup.\nThis could happen because …")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "_set_defaults", lambda: None)
    with pytest.raises(ClusterError, match=r"cannot connect to Ray: The current node timed out during startup\.\n"):
        cluster.connect()
