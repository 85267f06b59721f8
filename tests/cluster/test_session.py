import json
from typing import Any

import pytest

from babelray.cluster import session as cluster
from babelray.errors import ClusterError
from conftest import ROOT


def test_ray_that_does_not_start_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def init(**options: object) -> None:
        raise Exception("The current node timed out during startup.\nThis could happen because …")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "_set_defaults", lambda: None)
    with pytest.raises(ClusterError, match=r"cannot connect to Ray: The current node timed out during startup\.\n"):
        cluster.connect()


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"working_dir": "gcs://x.zip", "env_vars": {"RAY_DEDUP_LOGS": "1", "MINE": "2"}},
        {"py_modules": ["gcs://y.zip"], "excludes": ["__pycache__"]},
        {"env_vars": None},
    ],
)
def test_what_is_sent_agrees_with_what_the_job_came_with(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own merge says None where it would refuse."""
    from ray.runtime_env.runtime_env import _merge_runtime_env

    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps({"runtime_env": job}))
    for name, value in cluster.DEFAULTS.items():
        monkeypatch.setenv(name, (job.get("env_vars") or {}).get(name, value))
    sent = cluster._runtime_env()
    merged = _merge_runtime_env({key: value for key, value in job.items() if value is not None}, sent)
    assert merged is not None
    assert cluster.DEFAULTS.keys() <= merged["env_vars"].keys()
    assert merged["env_vars"]["RAY_DEDUP_LOGS"] == ("1" if "MINE" in merged["env_vars"] else "0")
    assert merged["py_modules"] == job.get("py_modules", [str(ROOT / "platform/babelray")])


def test_an_error_of_the_shutdown_does_not_fail_a_run_that_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def fails() -> None:
        raise RuntimeError("the connection was lost")

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "shutdown", fails)
    cluster.disconnect()
