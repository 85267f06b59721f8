"""A recipe as a job on a Ray cluster: the project's folder goes up, the job runs there, its log comes back.

The job is named after its recipe: a recipe that is running is not started a second time but followed. The driver
takes a little of a CPU, so that it runs on a worker and outlives the head.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from babelray.errors import INTERRUPTED, ClusterError, RecipeError
from babelray.nodes import code_digest
from babelray.upload import Files, check_size, files_to_send, largest, megabytes

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.run import Run

ADDRESS = "http://127.0.0.1:8265"
DRIVER_CPUS = 0.1
SETTINGS = "jobs/runtime-env.yaml"
STOPPING = {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": "60"}
"""Ray asks a job to stop with Ctrl-C's signal, so that it ends what it has begun, and waits that long."""
GRACE = 3.0
"""Seconds between Ctrl-C and the job's being asked to stop."""
SILENCE = 60.0
"""Seconds without a line after which the connection is made anew: a dead one does not always say so."""
PAUSE = 0.3
"""Seconds before a stream that ended while the job did not is taken up again."""
PATIENCE = 900.0
"""Seconds without an answer after which a cluster is given up."""


@dataclass(frozen=True)
class Submission:
    """All that is sent: what runs, with what, and the name that tells it from other jobs."""

    stem: str
    """The job's id without its number; the same for the same recipe."""
    entrypoint: str
    folder: Path
    files: Files
    runtime_env: dict[str, Any]
    code: str

    def show(self, address: str, console: Console) -> None:
        size = sum(self.files.values())
        passed = sorted(self.runtime_env.get("env_vars", {}))
        lines = {
            "address": address,
            "job": f"{self.stem}-NUMBER",
            "entrypoint": self.entrypoint,
            "folder": str(self.folder),
            "upload": f"{megabytes(size)} in {len(self.files):,} files, without what .rayignore and .gitignore name",
            "largest": ("\n" + " " * 12).join(largest(self.files)),
            "variables": ", ".join(passed),
        }
        for name, value in lines.items():
            console.print(f"{name:<11} {value}", highlight=False, markup=False, soft_wrap=True)


def prepare(
    recipe: str,
    overrides: Sequence[str] = (),
    stage: str = "run",
    sweep: bool = False,
    variables: Sequence[str] = (),
    max_upload: float = 100,
) -> Submission:
    """Read the recipe, and collect what is sent with it; everything that can be wrong here is found here.

    In a clone its folder is sent, and `jobs/` has the scripts. Elsewhere it is the current folder, and this very
    package beside it.
    """
    stage = "sweep" if sweep else stage
    name, resolved = _read(recipe, overrides, stage)
    clone = _clone()
    folder = clone or Path.cwd()
    package = Path(__file__).resolve().parent
    files = files_to_send(folder)
    check_size(files, folder, max_upload)
    inside = _inside(Path(recipe), folder, files)
    runtime_env = _settings(folder) | {"working_dir": str(folder)}
    if clone:
        command = ["python", "tune/sweep.py" if sweep else f"jobs/{stage}.py"]
    else:
        command = ["python", "-m", "babelray.cli", stage]
        runtime_env |= {"py_modules": [str(package)], "excludes": ["__pycache__"]}
    runtime_env["env_vars"] = {**STOPPING, **runtime_env.get("env_vars", {}), **_values(variables)}
    from babelray.stages.artifact import fingerprint

    return Submission(
        stem=f"babelray-{name}-{fingerprint(stage=stage, recipe=resolved)}",
        entrypoint=shlex.join([*command, inside, *overrides]),
        folder=folder,
        files=files,
        runtime_env=runtime_env,
        code=code_digest(clone / "platform/babelray" if clone else package),
    )


def _read(recipe: str, overrides: Sequence[str], stage: str) -> tuple[str, Any]:
    """The name of a run and its resolved values; an error if the recipe is wrong or cannot run on a cluster."""
    from babelray.recipe import load_run

    run: Any
    if stage == "sweep":
        from babelray.sweeping.space import load_sweep

        sweep = load_sweep(recipe, overrides)
        run, values = sweep.recipe, [sweep.space.model_dump(mode="json"), sweep.recipe.model_dump(mode="json")]
        name = sweep.space.name
    else:
        run = load_run(_kind(stage), recipe, overrides)
        name, values = run.name, run.model_dump(mode="json")
    if "://" not in run.storage and not Path(run.storage).is_absolute():
        raise RecipeError(
            f"storage {run.storage!r} would be a folder of the job's own, which is deleted with it",
            "Give a place that all nodes reach: storage=s3://bucket/runs, or the full path of a shared folder.",
        )
    return name, values


def _kind(stage: str) -> type[Run]:
    from babelray.recipe import Recipe
    from babelray.simulation.config import Simulation
    from babelray.stages.pipeline import STAGES

    names = ["run", *(known.name for known in STAGES), "simulate"]
    if stage not in names:
        raise RecipeError(f"there is no stage {stage!r}", f"Stages: {', '.join(names)}.")
    return Simulation if stage == "simulate" else Recipe


def _clone() -> Path | None:
    here = Path.cwd()
    found = (p for p in (here, *here.parents) if (p / "jobs/run.py").is_file() and (p / "platform/babelray").is_dir())
    return next(found, None)


def _inside(recipe: Path, folder: Path, files: Files) -> str:
    """The recipe's path in the folder that is sent."""
    try:
        inside = recipe.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        inside = ""
    if inside not in files:
        why = ".rayignore or .gitignore names it" if inside else f"it is not in {folder}"
        raise RecipeError(
            f"the recipe {recipe} would not be sent: {why}", "Put it where it is sent, beside the others."
        )
    return inside


def _settings(folder: Path) -> dict[str, Any]:
    file = folder / SETTINGS
    found = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if not isinstance(found, dict):
        raise RecipeError(f"{file}: not a mapping of keys to values", "It is a runtime environment of Ray's.")
    return found


def _values(names: Sequence[str]) -> dict[str, str]:
    for name in names:
        if name not in os.environ:
            raise RecipeError(f"--env {name}: there is no such variable here", f"export {name}=… first.")
    return {name: os.environ[name] for name in names}


def connect(address: str) -> Any:
    """Ray's client of the jobs at an address."""
    import logging

    from ray.job_submission import JobSubmissionClient

    os.environ["RAY_ADDRESS"] = address  # Ray prefers the variable to what it is told
    os.environ.pop("RAY_API_SERVER_ADDRESS", None)
    for chatty in ("dashboard.modules.job.sdk", "dashboard.modules.dashboard_sdk"):
        logging.getLogger(f"ray.{chatty}").setLevel(logging.ERROR)
    logging.getLogger("ray._private.runtime_env").setLevel(logging.ERROR)
    with _clear_errors(address):
        return JobSubmissionClient(address)


def address_of(given: str | None) -> str:
    """Where Ray's dashboard is: as given, else RAY_ADDRESS, else this machine.

    >>> address_of("10.0.0.1:8265")
    'http://10.0.0.1:8265'
    """
    address = given or os.environ.get("RAY_ADDRESS") or ADDRESS
    return (address if "://" in address else f"http://{address}").rstrip("/")


@contextlib.contextmanager
def _clear_errors(address: str) -> Iterator[None]:
    from ray.exceptions import AuthenticationError

    expected: tuple[type[Exception], ...] = (*_unreachable(), ValueError)
    try:
        yield
    except AuthenticationError:
        raise ClusterError(
            f"{address} refuses us: no token, or a wrong one",
            "export RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH (a file) or RAY_AUTH_TOKEN.",
        ) from None
    except expected as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ClusterError(
            f"no Ray dashboard answers at {address} as it should: {first[:300]}",
            "Give its URL with --address or RAY_ADDRESS, such as http://HEAD:8265.",
        ) from None


def submit(client: Any, submission: Submission, address: str, console: Console) -> str:
    """The id of the recipe's job: one that is running, else a new one."""
    with _clear_errors(address):
        running, number = _earlier(client, submission.stem)
        if running is None:
            job = f"{submission.stem}-{number}"
            # A node that could not set up an environment refuses the very same one for ten minutes.
            variables = submission.runtime_env["env_vars"] | {"BABELRAY_JOB": job}
            size = megabytes(sum(submission.files.values()))
            console.print(f"Uploading {submission.folder} ({size})", highlight=False, markup=False, soft_wrap=True)
            try:
                client.submit_job(
                    entrypoint=submission.entrypoint,
                    submission_id=job,
                    runtime_env=submission.runtime_env | {"env_vars": variables},
                    metadata={"code": submission.code},
                    entrypoint_num_cpus=DRIVER_CPUS,
                )
            except RuntimeError:
                running, _ = _earlier(client, submission.stem)
                if running is None:  # else someone was a moment faster
                    raise
            else:
                console.print(f"Submitted {job}", highlight=False, soft_wrap=True)
                return job
    since = time.strftime("%H:%M", time.localtime((running.start_time or 0) / 1000))
    note = f"This recipe is running already: following {running.submission_id}, of {since}"
    console.print(note, highlight=False, soft_wrap=True)
    if (running.metadata or {}).get("code") != submission.code:
        note = "[yellow]It runs other code than is here now.[/] Stop it with Ctrl-C and submit again to run this."
        console.print(note, highlight=False, soft_wrap=True)
    return str(running.submission_id)


def _earlier(client: Any, stem: str) -> tuple[Any | None, int]:
    """The recipe's job that has not ended yet, and the number of the next one."""
    pattern = re.compile(rf"{re.escape(stem)}-(\d+)")
    found = {int(m[1]): job for job in client.list_jobs() if (m := pattern.fullmatch(job.submission_id or ""))}
    active = [job for job in found.values() if not job.status.is_terminal()]
    return (active[0] if active else None), max(found, default=0) + 1


def attend(client: Any, job: str, address: str, console: Console, command: str) -> int:
    """Follow a job to its end, and stop it on Ctrl-C; returns its exit code."""

    def write(text: str) -> None:  # as it is: rich would expand tabs
        console.file.write(text)
        console.file.flush()

    log = Log(client, job, write)
    try:
        return _follow(client, log, address, console)
    except KeyboardInterrupt:
        return _interrupted(client, log, address, console, command)


class Log:
    """What a job writes, line by line: each once, however often the connection is lost.

    Ray's stream begins with the first line every time; what was seen is passed over.
    """

    def __init__(self, client: Any, job: str, write: Callable[[str], None]) -> None:
        self.client, self.job, self.write = client, job, write
        self.heard: Callable[[], None] = lambda: None
        """Called whenever something arrives."""
        self.seen = 0
        self._begun = ""

    async def tail(self) -> None:
        """Until the stream ends, or says nothing for long."""
        stream = self.client.tail_job_logs(self.job)
        position = 0
        while True:
            try:
                async with asyncio.timeout(SILENCE):  # wait_for may lose a Ctrl-C that comes with a line
                    text = await anext(stream)
            except (StopAsyncIteration, TimeoutError):
                return
            self.heard()
            self._take(position, text)
            position += len(text)

    def finish(self) -> None:
        """What the stream may have left out at its end, and a last line that has no end."""
        with contextlib.suppress(*_unreachable()):  # the log may have gone with its node
            self._take(0, self.client.get_job_logs(self.job))
        if self._begun:
            self.write(self._begun + "\n")

    def _take(self, position: int, text: str) -> None:
        fresh = text[max(self.seen - position, 0) :]
        self.seen += len(fresh)
        lines, newline, self._begun = (self._begun + fresh).rpartition("\n")
        if newline:
            self.write(lines + newline)


def _unreachable() -> tuple[type[Exception], ...]:
    """What Ray's client raises when the cluster does not answer, or not as it should."""
    import aiohttp
    import requests

    return (OSError, RuntimeError, aiohttp.ClientError, requests.RequestException)


def _follow(client: Any, log: Log, address: str, console: Console) -> int:
    from ray.exceptions import AuthenticationError

    answered = time.monotonic()
    wait = 0.0

    def heard() -> None:
        nonlocal wait, answered
        answered = time.monotonic()
        if wait:
            console.print("[green]connected again[/]")
        wait = 0.0

    log.heard = heard
    while True:
        try:
            info = client.get_job_info(log.job)
            answered = time.monotonic()
            if info.status.is_terminal():
                return _ended(log, info, console)
            asyncio.run(log.tail())
            time.sleep(PAUSE)
        except AuthenticationError:
            with _clear_errors(address):
                raise
        except _unreachable() as error:
            if "status code 404" in str(error):
                raise ClusterError(
                    f"{address} knows no job {log.job}",
                    "If its head was started anew, submit the recipe again: what is complete is kept.",
                ) from None
            if time.monotonic() - answered > PATIENCE:
                raise ClusterError(
                    f"{address} has not answered for {PATIENCE / 60:.0f} minutes",
                    f"Follow the job when it is back: babelray submit --follow {log.job}",
                ) from None
            if not wait:
                console.print(
                    f"[yellow]the connection to {address} is lost[/]; the job goes on, trying again",
                    highlight=False,
                    soft_wrap=True,
                )
            wait = min(2 * wait or 1.0, 30.0)
            time.sleep(wait)


def _ended(log: Log, info: Any, console: Console) -> int:
    log.finish()
    state = str(getattr(info.status, "value", info.status))
    if state == "SUCCEEDED":
        console.print(f"[green]✓[/] {log.job} succeeded", highlight=False, soft_wrap=True)
        return 0
    if state == "STOPPED":
        console.print(f"{log.job} was stopped; the same command goes on from here", highlight=False, soft_wrap=True)
        return INTERRUPTED
    code = info.driver_exit_code or 1
    console.print(f"[red]{log.job} failed[/] (exit code {code})", highlight=False, soft_wrap=True)
    message = (info.message or "").strip()
    if message and (info.driver_exit_code is None or not log.seen):  # else its last lines say why
        console.print(message, highlight=False, markup=False, soft_wrap=True)
    if (info.driver_exit_code or -1) < 0:
        console.print("If it was killed, or lost with its node: the same command goes on from there.", soft_wrap=True)
    return int(code) if code > 0 else 128 - int(code)


def _interrupted(client: Any, log: Log, address: str, console: Console, command: str) -> int:
    later = f"Follow it: {command} --follow {log.job}"
    console.print(
        f"\nThe job will be stopped in {GRACE:.0f} s. Ctrl-C again leaves it running.", highlight=False, soft_wrap=True
    )
    try:
        time.sleep(GRACE)
    except KeyboardInterrupt:
        console.print(f"\nIt goes on. {later}", highlight=False, soft_wrap=True)
        return INTERRUPTED
    console.print("Stopping …")
    asked = False
    try:
        _stop(client, log.job, address, console)
        asked = True
        return _follow(client, log, address, console)
    except KeyboardInterrupt:
        state = "It was asked to stop." if asked else "It could not be asked to stop, and goes on."
        console.print(f"\n{state} {later}", highlight=False, soft_wrap=True)
        return INTERRUPTED


def _stop(client: Any, job: str, address: str, console: Console) -> None:
    """Ask a job to stop; a cluster that does not answer is asked again."""
    wait, deadline = 0.0, time.monotonic() + PATIENCE
    while True:
        try:
            client.stop_job(job)
            return
        except _unreachable() as error:
            if "status code 404" in str(error) or time.monotonic() > deadline:
                with _clear_errors(address):
                    raise
            if not wait:
                note = f"[yellow]{address} does not answer[/]; asking again. Ctrl-C leaves the job running."
                console.print(note, highlight=False, soft_wrap=True)
            wait = min(2 * wait or 1.0, 30.0)
            time.sleep(wait)
