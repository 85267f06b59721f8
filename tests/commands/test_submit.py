import asyncio
import io
import os
import re
import signal
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus
from rich.console import Console

from babelray.cluster.upload import check_size, files_to_send
from babelray.commands import job_client, submission
from babelray.commands.job_client import address_of, attend
from babelray.commands.submission import Submission, prepare
from babelray.errors import ClusterError, RecipeError
from babelray.recipe.shipped import ShippedFiles
from conftest import ROOT

URL = "http://cluster:8265"


@dataclass
class Info:
    submission_id: str
    status: JobStatus = JobStatus.RUNNING
    driver_exit_code: int | None = None
    message: str = ""
    start_time: int = 0
    metadata: dict[str, str] = field(default_factory=lambda: {"code": "this"})


class Cluster:
    """Stands in for Ray's client: it keeps jobs, and plays each stream of a log up to where it is told to break."""

    def __init__(self, *jobs: Info, log: str = "", streams: list[Any] | None = None, ends: Info | None = None) -> None:
        self.jobs = {job.submission_id: job for job in jobs}
        self.log, self.streams, self.ends = log, streams or [], ends
        self.submitted: list[dict[str, Any]] = []
        self.stopped: list[str] = []

    def list_jobs(self) -> list[Info]:
        return list(self.jobs.values())

    def submit_job(self, **options: Any) -> str:
        name = options["submission_id"]
        if name in self.jobs:
            raise RuntimeError(f"Request failed with status code 500: Job with submission_id {name} already exists.")
        self.submitted.append(options)
        self.jobs[name] = Info(name)
        return name

    async def tail_job_logs(self, job: str) -> AsyncIterator[str]:
        what = self.streams.pop(0) if self.streams else len(self.log)
        for i in range(0, what if isinstance(what, int) else 0, 7):
            yield self.log[i : min(i + 7, what)]
        if not isinstance(what, int):
            raise what
        if self.streams:
            raise RuntimeError("WebSocket connection closed unexpectedly")
        if self.ends is not None:
            self.jobs[job] = self.ends

    def get_job_info(self, job: str) -> Info:
        if job not in self.jobs:
            raise RuntimeError("Request failed with status code 404: Job does not exist.")
        return self.jobs[job]

    def get_job_logs(self, job: str) -> str:
        return self.log

    def stop_job(self, job: str) -> bool:
        self.stopped.append(job)
        self.ends = Info(job, JobStatus.STOPPED)
        return True


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was slept, without sleeping."""
    slept: list[float] = []
    monkeypatch.setattr(job_client.time, "sleep", slept.append)
    return slept


def shown(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined]


def a_submission(stem: str = "babelray-small-0123", code: str = "this") -> Submission:
    return Submission(stem, "python jobs/run.py r.yaml", Path(), {"r.yaml": 10}, {"env_vars": {}}, code)


# What is sent


def test_the_files_are_those_that_ray_packs(tmp_path: Path) -> None:
    from ray._private.ray_constants import get_runtime_env_default_excludes
    from ray._private.runtime_env.packaging import create_package

    folder = tmp_path / "project"
    for name in (
        "jobs/run.py",
        "runs/big.bin",
        "a/runs/kept.txt",
        "notes.log",
        "keep.log",
        "secret.env",
        "deep/own/x.txt",
        "deep/y",
        "deep/__pycache__/y.pyc",
        "deep/venv/z",
        ".git/config",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / ".rayignore").write_text("/runs/\n*.log\n!keep.log\n")
    (folder / ".gitignore").write_text("secret.env\n")
    (folder / "deep/.rayignore").write_text("own/\n")
    (folder / "link").symlink_to("jobs/run.py")
    expected = {".rayignore", ".gitignore", "deep/.rayignore", "jobs/run.py", "a/runs/kept.txt", "keep.log", "deep/y"}
    assert files_to_send(folder).keys() == expected | {"link"}
    assert files_to_send(folder)["jobs/run.py"] == len("jobs/run.py")
    excludes = get_runtime_env_default_excludes()
    create_package(str(folder), tmp_path / "package.zip", include_gitignore=True, excludes=excludes)
    with zipfile.ZipFile(tmp_path / "package.zip") as package:
        assert {n for n in package.namelist() if not n.endswith("/")} == files_to_send(folder).keys()


def test_the_project_is_small_and_without_secrets() -> None:
    files = files_to_send(ROOT)
    assert sum(files.values()) < 40_000_000
    assert {"jobs/run.py", "jobs/_job.py", "platform/babelray/commands/app.py", "tune/sweep.py"} <= files.keys()
    first = {name.split("/")[0] for name in files}
    assert not first & {".git", ".venv", ".cluster", ".tools", "runs", "tests"}
    assert not [name for name in files if name.endswith((".env", ".pyc")) and not name.endswith("example.env")]


def test_too_much_is_refused_with_the_largest_files(tmp_path: Path) -> None:
    files = {"a": 60_000_000, "small": 1, "b/c": 50_000_000, **{f"d{i}": i * 1000 for i in range(9)}}
    check_size(files, tmp_path, 111)
    with pytest.raises(ClusterError) as refused:
        check_size(files, tmp_path, 100)
    assert "110.0 MB to upload, more than 100 MB" in refused.value.problem
    assert [line.split()[-1] for line in refused.value.problem.splitlines()[1:]] == ["a", "b/c", "d8", "d7", "d6"]
    assert ".rayignore" in refused.value.remedy


# What is prepared


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe_file: Callable[..., Path]) -> Path:
    """A folder that is no clone, with a recipe in it."""
    recipe_file(storage="s3://bucket/runs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def clone(project: Path) -> Path:
    for name in ("jobs/run.py", "jobs/extract.py", "platform/babelray/x.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")
    return project


def test_a_clone_is_sent_as_it_is(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clone / "jobs/runtime-env.yaml").write_text("env_vars: {COLUMNS: '99'}\npip: [x]\n")
    monkeypatch.chdir(clone / "jobs")
    ready = prepare("../recipe.yaml", ["languages=[en, de]"], stage="extract")
    assert ready.entrypoint == "python jobs/extract.py recipe.yaml 'languages=[en, de]'"
    assert ready.folder == clone
    assert ready.runtime_env["working_dir"] == str(clone)
    assert "py_modules" not in ready.runtime_env
    assert ready.runtime_env["env_vars"] == {**submission.STOP_SETTINGS, "COLUMNS": "99"}
    assert ready.runtime_env["pip"] == ["x"]


def test_elsewhere_the_package_goes_with_the_folder(project: Path) -> None:
    ready = prepare("recipe.yaml")
    assert ready.entrypoint == "python -m babelray.commands.app run recipe.yaml"
    assert ready.runtime_env["py_modules"] == [str(ROOT / "platform/babelray")]
    assert ready.files.keys() == {"recipe.yaml"}


def test_the_name_is_that_of_the_resolved_recipe(clone: Path) -> None:
    stem = prepare("recipe.yaml").stem
    assert re.fullmatch(r"babelray-small-[0-9a-f]{16}", stem)
    assert prepare("recipe.yaml", ["seed=1"]).stem == stem, "1 is what it is anyway"
    others = {prepare("recipe.yaml", ["seed=2"]).stem, prepare("recipe.yaml", stage="extract").stem, stem}
    assert len(others) == 3


def test_variables_travel_only_if_they_are_named(
    clone: Path, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-value")
    assert "hidden-value" not in str(prepare("recipe.yaml"))
    ready = prepare("recipe.yaml", variables=["AWS_SECRET_ACCESS_KEY"])
    assert ready.runtime_env["env_vars"]["AWS_SECRET_ACCESS_KEY"] == "hidden-value"
    ready.show(URL, console)
    assert "AWS_SECRET_ACCESS_KEY" in shown(console)
    assert "hidden-value" not in shown(console)
    with pytest.raises(RecipeError, match="--env NOT_THERE"):
        prepare("recipe.yaml", variables=["NOT_THERE"])


def test_a_dry_run_says_what_and_where(clone: Path, console: Console) -> None:
    prepare("recipe.yaml").show(URL, console)
    for text in (URL, "python jobs/run.py recipe.yaml", "4 files", "recipe.yaml", str(clone)):
        assert text in shown(console)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"overrides": ["storage=runs"]}, "deleted with it"),
        ({"overrides": ["pretrain.stepz=1"]}, "did you mean 'steps'"),
        ({"stage": "extrct"}, "no stage 'extrct'"),
        ({"recipe": "/etc/none.yaml"}, "no recipe at"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(clone: Path, arguments: Any, problem: str) -> None:
    with pytest.raises(RecipeError, match=problem):
        prepare(**{"recipe": "recipe.yaml", **arguments})


def test_a_recipe_that_would_not_be_sent_is_refused(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "recipe.yaml"
    outside.write_text((clone / "recipe.yaml").read_text())
    with pytest.raises(RecipeError, match="it is not in"):
        prepare(str(outside))
    (clone / ".rayignore").write_text("recipe.yaml\n")
    with pytest.raises(RecipeError, match=r"rayignore or \.gitignore names it"):
        prepare("recipe.yaml")


def test_a_shipped_recipe_is_sent_by_its_path_or_with_the_package(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = ["storage=s3://bucket/runs"]
    with pytest.raises(RecipeError, match=r"it is not in (.|\n)*`babelray init`"):
        prepare("quickstart", storage)  # the sources are elsewhere, and the package has no copy
    monkeypatch.chdir(ROOT)
    assert prepare("quickstart", storage).entrypoint.startswith("python jobs/run.py jobs/recipes/quickstart.yaml ")
    package = tmp_path_factory.mktemp("installed")
    (package / "shipped").mkdir()
    (package / "shipped/mine.yaml").write_text((project / "recipe.yaml").read_text())
    monkeypatch.setattr(submission, "PACKAGE", package)
    monkeypatch.setattr(submission, "RECIPES", ShippedFiles("recipe", package / "shipped", package))
    monkeypatch.setattr("babelray.recipe.values.RECIPES", submission.RECIPES)
    monkeypatch.chdir(project)
    assert prepare("mine").entrypoint == "python -m babelray.commands.app run mine"


def test_the_settings_of_plain_ray_job_submit_are_those_of_submit() -> None:
    settings = yaml.safe_load((ROOT / submission.RUNTIME_ENV).read_text())
    assert submission.STOP_SETTINGS.items() <= settings["env_vars"].items()
    assert all(isinstance(value, str) for value in settings["env_vars"].values())


def test_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address_of(None) == "http://127.0.0.1:8265"
    monkeypatch.setenv("RAY_ADDRESS", "https://there:1/")
    assert address_of(None) == "https://there:1"
    assert address_of("here:2") == "http://here:2"


# Attaching


def test_a_recipe_that_runs_is_followed_and_one_that_ended_starts_anew(console: Console) -> None:
    cluster = Cluster(Info("babelray-other-99-1"))
    ours = a_submission()
    assert job_client.submit(cluster, ours, URL, console) == "babelray-small-0123-1"
    assert job_client.submit(cluster, ours, URL, console) == "babelray-small-0123-1"
    assert len(cluster.submitted) == 1
    assert cluster.submitted[0]["entrypoint_num_cpus"] > 0, "else the driver runs on the head"
    cluster.jobs["babelray-small-0123-1"].status = JobStatus.FAILED
    assert job_client.submit(cluster, ours, URL, console) == "babelray-small-0123-2"
    first, second = (sent["runtime_env"] for sent in cluster.submitted)
    assert first != second, "what a node could not set up once, it does not refuse the next time"


def test_who_was_a_moment_later_follows(console: Console) -> None:
    cluster = Cluster()
    first = cluster.list_jobs
    cluster.list_jobs = lambda: [] if not cluster.jobs else first()  # type: ignore[method-assign]
    hidden = Info("babelray-small-0123-1")

    def submit_job(**options: Any) -> str:
        cluster.jobs[hidden.submission_id] = hidden  # the other's, between our look and our request
        return Cluster.submit_job(cluster, **options)

    cluster.submit_job = submit_job  # type: ignore[method-assign]
    assert job_client.submit(cluster, a_submission(), URL, console) == hidden.submission_id
    assert cluster.submitted == []


def test_other_code_is_told(console: Console) -> None:
    job_client.submit(Cluster(Info("babelray-small-0123-4")), a_submission(code="newer"), URL, console)
    assert "different version of the code" in shown(console)


def test_a_refused_job_is_a_clear_error(console: Console) -> None:
    cluster = Cluster()

    def refuse(**options: Any) -> str:
        raise RuntimeError("Request failed with status code 500: disk full\ntrace")

    cluster.submit_job = refuse  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="disk full"):
        job_client.submit(cluster, a_submission(), URL, console)


def test_a_wrong_token_is_a_clear_error(console: Console) -> None:
    cluster = Cluster()

    def refuse() -> list[Info]:
        raise AuthenticationError("401")

    cluster.list_jobs = refuse  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="RAY_AUTH_TOKEN"):
        job_client.submit(cluster, a_submission(), URL, console)


# Following

LOG = "".join(f"line {i}: zählt\t[bold]{'lang ' * (i % 60)}\n" for i in range(40))


@pytest.mark.parametrize(
    "streams",
    [
        [],
        [100, 100, 30, 250],
        [0, len(LOG), 5],
        [50, requests.ConnectionError("refused"), OSError("gone"), RuntimeError("status code 500"), 60],
    ],
)
def test_each_line_is_shown_once_however_often_the_connection_is_lost(
    streams: list[Any], console: Console, naps: list[float]
) -> None:
    cluster = Cluster(Info("job"), log=LOG, streams=[*streams, len(LOG)], ends=Info("job", JobStatus.SUCCEEDED))
    assert attend(cluster, "job", URL, console, "babelray submit") == 0
    written = shown(console)
    assert [line for line in written.splitlines() if line.startswith("line ")] == LOG.splitlines()
    assert (written.count("is lost") > 0) == bool(streams)
    assert written.count("reconnected") == written.count("is lost")


def test_the_time_between_attempts_grows_and_begins_anew(console: Console, naps: list[float]) -> None:
    gone = OSError("gone")
    streams = [10, *[gone] * 6, 14, gone, gone, len(LOG)]
    cluster = Cluster(Info("job"), log=LOG, streams=streams, ends=Info("job", JobStatus.SUCCEEDED))
    attend(cluster, "job", URL, console, "")
    assert naps == [1, 2, 4, 8, 16, 30, 30, 1, 2, 4, job_client.PAUSE]
    assert shown(console).count("is lost") == shown(console).count("reconnected") == 2


def test_a_log_that_cannot_be_read_does_not_hide_the_end(console: Console, naps: list[float]) -> None:
    """Its node is gone; the head knows how the job ended."""
    cluster = Cluster(Info("job"), log="")
    asked = iter([Info("job")] * 40 + [Info("job", JobStatus.FAILED, None, "its node died")])

    async def tail(job: str) -> AsyncIterator[str]:
        raise OSError("no agent")
        yield

    cluster.tail_job_logs = tail  # type: ignore[method-assign]
    cluster.get_job_info = lambda job: next(asked)  # type: ignore[method-assign]
    assert attend(cluster, "job", URL, console, "") == 1
    assert shown(console).count("is lost") == 1
    assert "its node died" in shown(console)


def test_what_the_stream_left_out_at_its_end_is_shown(console: Console) -> None:
    log = LOG + "a last line without an end"
    cluster = Cluster(Info("job"), log=log, streams=[33], ends=Info("job", JobStatus.SUCCEEDED))
    attend(cluster, "job", URL, console, "")
    assert shown(console).startswith(log + "\n")


def test_a_stream_that_falls_silent_is_taken_up_again(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_client, "SILENCE", 0.05)
    cluster = Cluster(Info("job"), log=LOG, ends=Info("job", JobStatus.SUCCEEDED))
    whole = cluster.tail_job_logs
    asked = []

    async def tail(job: str) -> AsyncIterator[str]:
        asked.append(job)
        if len(asked) == 1:
            yield LOG[:21]
            await asyncio.sleep(60)
        async for text in whole(job):
            yield text

    cluster.tail_job_logs = tail  # type: ignore[method-assign]
    assert attend(cluster, "job", URL, console, "") == 0
    assert len(asked) == 2
    assert shown(console).startswith(LOG)
    assert "lost" not in shown(console)


def test_a_log_that_flows_for_long_is_an_answer(
    console: Console, naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is cut after hours is made anew, not given up."""
    now = [0.0]
    monkeypatch.setattr(job_client.time, "monotonic", lambda: now[0])
    cluster = Cluster(Info("job"), log=LOG, ends=Info("job", JobStatus.SUCCEEDED))
    whole = cluster.tail_job_logs
    asked = []

    async def tail(job: str) -> AsyncIterator[str]:
        asked.append(job)
        if len(asked) == 1:
            for position in range(0, 100, 10):
                now[0] += job_client.PATIENCE / 2
                yield LOG[position : position + 10]
            raise RuntimeError("the connection was closed abnormally")
        async for text in whole(job):
            yield text

    cluster.tail_job_logs = tail  # type: ignore[method-assign]
    assert attend(cluster, "job", URL, console, "") == 0
    assert shown(console).count("reconnected") == 1


def test_a_cluster_that_never_comes_back_is_given_up(
    console: Console, naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = job_client.time.monotonic
    monkeypatch.setattr(job_client.time, "monotonic", lambda: clock() + sum(naps))
    cluster = Cluster(Info("job"))

    def gone(job: str) -> Info:
        raise requests.ConnectionError("gone")

    cluster.get_job_info = gone  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="15 minutes") as given_up:
        attend(cluster, "job", URL, console, "")
    assert "--follow job" in given_up.value.remedy
    assert max(naps) == 30


def test_a_job_that_the_cluster_does_not_know(console: Console) -> None:
    with pytest.raises(ClusterError, match="there is no job"):
        attend(Cluster(), "job", URL, console, "")


@pytest.mark.parametrize(
    ("info", "code"),
    [
        (Info("job", JobStatus.SUCCEEDED, 0), 0),
        (Info("job", JobStatus.FAILED, 2), 2),
        (Info("job", JobStatus.FAILED, -9), 137),
        (Info("job", JobStatus.FAILED, None, "no node has [so many] CPUs"), 1),
        (Info("job", JobStatus.STOPPED), 130),
    ],
)
def test_the_exit_code_is_the_jobs(info: Info, code: int, console: Console) -> None:
    assert attend(Cluster(Info("job"), log="x\n", ends=info), "job", URL, console, "") == code
    assert info.message in shown(console)
    assert ("the same command again to resume" in shown(console)) == (code not in (0, 2))


# Ctrl-C


def interrupts(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Ctrl-C while the log is followed, and again in the nap number `at`, if there is one."""
    follow, naps = job_client._follow, iter(range(100))
    first = iter([True])

    def following(*arguments: Any) -> int:
        if next(first, False):
            raise KeyboardInterrupt
        return follow(*arguments)

    def nap(seconds: float) -> None:
        if next(naps) == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(job_client, "_follow", following)
    monkeypatch.setattr(job_client.time, "sleep", nap)


def test_ctrl_c_stops_the_job_and_waits_for_it(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts(monkeypatch, at=-1)
    cluster = Cluster(Info("job"), log="closing\n")
    assert attend(cluster, "job", URL, console, "babelray submit") == 130
    assert cluster.stopped == ["job"]
    assert "closing" in shown(console)
    assert "run the same command again to resume" in shown(console)


@pytest.mark.parametrize(("at", "stopped"), [(-1, ["job"]), (2, [])])
def test_a_cluster_that_does_not_answer_is_asked_again_to_stop_the_job(
    console: Console, monkeypatch: pytest.MonkeyPatch, at: int, stopped: list[str]
) -> None:
    interrupts(monkeypatch, at)
    cluster = Cluster(Info("job"))
    stop, away = cluster.stop_job, iter([OSError("gone"), RuntimeError("status code 503")])

    def stop_job(job: str) -> Any:
        if error := next(away, None):
            raise error
        return stop(job)

    cluster.stop_job = stop_job  # type: ignore[method-assign]
    assert attend(cluster, "job", URL, console, "babelray submit") == 130
    assert cluster.stopped == stopped
    assert shown(console).count("does not answer") == 1
    assert ("continues. Follow it: babelray submit --follow job" in shown(console)) == (not stopped)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Heeded, also where a script has started the tests in the background: there it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_at_the_moment_of_a_line_is_not_lost(
    ctrl_c: None, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_client, "GRACE", 0.0)
    monkeypatch.setattr(job_client, "SILENCE", 2.0)
    cluster = Cluster(Info("job"), log=LOG)

    async def tail(job: str) -> AsyncIterator[str]:
        yield LOG[:10]
        await asyncio.sleep(0.01)
        signal.raise_signal(signal.SIGINT)
        yield LOG[10:20]
        await asyncio.sleep(0.5)
        cluster.jobs[job] = Info("job", JobStatus.SUCCEEDED)

    cluster.tail_job_logs = tail  # type: ignore[method-assign]
    assert attend(cluster, "job", URL, console, "babelray submit") == 130
    assert cluster.stopped == ["job"]


def test_a_second_ctrl_c_leaves_it_running(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts(monkeypatch, at=0)
    cluster = Cluster(Info("job"))
    assert attend(cluster, "job", URL, console, "babelray submit --address x") == 130
    assert cluster.stopped == []
    assert "babelray submit --address x --follow job" in shown(console)


def test_ctrl_c_while_it_stops_ends_the_waiting(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts(monkeypatch, at=1)
    cluster = Cluster(Info("job"), streams=[OSError("gone"), 0])
    assert attend(cluster, "job", URL, console, "babelray submit") == 130
    assert cluster.stopped == ["job"]
    assert "It was asked to stop" in shown(console)


# The command


def test_the_command_wants_a_recipe_or_a_job(babelray: Callable[..., Any]) -> None:
    done = babelray("submit")
    assert done.returncode == 2
    assert "submit needs a recipe, or --follow" in done.stderr


def test_no_cluster_is_a_clear_error(babelray: Callable[..., Any]) -> None:
    recipe = "jobs/recipes/quickstart.yaml"
    done = babelray("submit", recipe, "storage=s3://b/runs", "--address", "127.0.0.1:9", RAY_ADDRESS="http://other:1")
    assert done.returncode == 2
    assert "http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
    assert os.environ.get("RAY_ADDRESS") is None
