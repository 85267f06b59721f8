"""The client of jobs on a Ray cluster: it submits a recipe, follows the job's log, and stops it.

A job is named after its recipe: a recipe that is already running is not started a second time but followed. The driver
asks for a fraction of a CPU, so that it runs on a worker and outlives the head.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from babelray.cluster.upload import megabytes
from babelray.errors import INTERRUPTED, ClusterError

if TYPE_CHECKING:
    from rich.console import Console

    from babelray.commands.submission import Submission

ADDRESS = "http://127.0.0.1:8265"
DRIVER_CPUS = 0.1
GRACE = 3.0
"""Seconds between Ctrl-C and the request to stop the job."""
SILENCE = 60.0
"""Seconds without a line after which the connection is renewed: a dead one does not always report it."""
PAUSE = 0.3
"""Seconds before a stream that ended while the job did not is opened again."""
PATIENCE = 900.0
"""Seconds without an answer after which a cluster is given up."""


def connect(address: str) -> Any:
    """Ray's job client for an address."""
    import logging

    from ray.job_submission import JobSubmissionClient

    os.environ["RAY_ADDRESS"] = address  # Ray prefers the variable to the argument
    os.environ.pop("RAY_API_SERVER_ADDRESS", None)
    for logger in ("dashboard.modules.job.sdk", "dashboard.modules.dashboard_sdk"):
        logging.getLogger(f"ray.{logger}").setLevel(logging.ERROR)
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
            f"{address} refused the token, or there is none",
            "export RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH (a file) or RAY_AUTH_TOKEN.",
        ) from None
    except expected as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ClusterError(
            f"no Ray dashboard answers at {address}: {first[:300]}",
            "Give its URL with --address or RAY_ADDRESS, such as http://HEAD:8265.",
        ) from None


def submit(client: Any, submission: Submission, address: str, console: Console) -> str:
    """The id of the recipe's job: the running one, or a new one."""
    with _clear_errors(address):
        running, number = _earlier(client, submission.stem)
        if running is None:
            job = f"{submission.stem}-{number}"
            # A node that failed to set up an environment refuses the identical one for ten minutes.
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
                if running is None:  # otherwise another process was faster
                    raise
            else:
                console.print(f"Submitted {job}", highlight=False, soft_wrap=True)
                return job
    since = time.strftime("%H:%M", time.localtime((running.start_time or 0) / 1000))
    note = f"This recipe is already running: following {running.submission_id}, submitted at {since}"
    console.print(note, highlight=False, soft_wrap=True)
    if (running.metadata or {}).get("code") != submission.code:
        note = "[yellow]The job runs a different version of the code.[/] Stop it with Ctrl-C and submit again."
        console.print(note, highlight=False, soft_wrap=True)
    return str(running.submission_id)


def _earlier(client: Any, stem: str) -> tuple[Any | None, int]:
    """The recipe's job that has not ended yet, and the number of the next one."""
    pattern = re.compile(rf"{re.escape(stem)}-(\d+)")
    jobs = {int(m[1]): job for job in client.list_jobs() if (m := pattern.fullmatch(job.submission_id or ""))}
    active = [job for job in jobs.values() if not job.status.is_terminal()]
    return (active[0] if active else None), max(jobs, default=0) + 1


def attend(client: Any, job: str, address: str, console: Console, command: str) -> int:
    """Follow a job to its end, and stop it on Ctrl-C; returns its exit code."""

    def write(text: str) -> None:  # not through rich, which would expand tabs
        console.file.write(text)
        console.file.flush()

    log = Log(client, job, write)
    try:
        return _follow(client, log, address, console)
    except KeyboardInterrupt:
        return _interrupted(client, log, address, console, command)


class Log:
    """The output of a job, each line once, however often the connection is lost.

    Ray's stream starts with the first line every time; lines that were written before are skipped.
    """

    def __init__(self, client: Any, job: str, write: Callable[[str], None]) -> None:
        self.client, self.job, self.write = client, job, write
        self.on_data: Callable[[], None] = lambda: None
        """Called whenever data arrive."""
        self.seen = 0
        self._partial = ""

    async def tail(self) -> None:
        """Write lines until the stream ends or is silent for long."""
        stream = self.client.tail_job_logs(self.job)
        position = 0
        while True:
            try:
                async with asyncio.timeout(SILENCE):  # wait_for may lose a Ctrl-C that arrives with a line
                    text = await anext(stream)
            except (StopAsyncIteration, TimeoutError):
                return
            self.on_data()
            self._take(position, text)
            position += len(text)

    def finish(self) -> None:
        """Write what the stream may have omitted at its end, and a last line without a line break."""
        with contextlib.suppress(*_unreachable()):  # the log may be lost with its node
            self._take(0, self.client.get_job_logs(self.job))
        if self._partial:
            self.write(self._partial + "\n")

    def _take(self, position: int, text: str) -> None:
        fresh = text[max(self.seen - position, 0) :]
        self.seen += len(fresh)
        lines, newline, self._partial = (self._partial + fresh).rpartition("\n")
        if newline:
            self.write(lines + newline)


def _unreachable() -> tuple[type[Exception], ...]:
    """The errors of Ray's client when the cluster does not answer properly."""
    import aiohttp
    import requests

    return (OSError, RuntimeError, aiohttp.ClientError, requests.RequestException)


def _follow(client: Any, log: Log, address: str, console: Console) -> int:
    from ray.exceptions import AuthenticationError

    answered = time.monotonic()
    wait = 0.0

    def on_data() -> None:
        nonlocal wait, answered
        answered = time.monotonic()
        if wait:
            console.print("[green]reconnected[/]")
        wait = 0.0

    log.on_data = on_data
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
                    f"there is no job {log.job} at {address}",
                    "If the head was restarted, submit the recipe again: complete stages are kept.",
                ) from None
            if time.monotonic() - answered > PATIENCE:
                raise ClusterError(
                    f"{address} has not answered for {PATIENCE / 60:.0f} minutes",
                    f"Follow the job when it is back: babelray submit --follow {log.job}",
                ) from None
            if not wait:
                console.print(
                    f"[yellow]the connection to {address} is lost[/]; the job continues, reconnecting",
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
        console.print(f"{log.job} was stopped; run the same command again to resume", highlight=False, soft_wrap=True)
        return INTERRUPTED
    code = info.driver_exit_code or 1
    console.print(f"[red]{log.job} failed[/] (exit code {code})", highlight=False, soft_wrap=True)
    message = (info.message or "").strip()
    if message and (info.driver_exit_code is None or not log.seen):  # otherwise its last lines contain the reason
        console.print(message, highlight=False, markup=False, soft_wrap=True)
    if (info.driver_exit_code or -1) < 0:
        console.print("If it was killed or lost with its node, run the same command again to resume.", soft_wrap=True)
    return int(code) if code > 0 else 128 - int(code)


def _interrupted(client: Any, log: Log, address: str, console: Console, command: str) -> int:
    later = f"Follow it: {command} --follow {log.job}"
    console.print(
        f"\nThe job will be stopped in {GRACE:.0f} s. Ctrl-C again leaves it running.", highlight=False, soft_wrap=True
    )
    try:
        time.sleep(GRACE)
    except KeyboardInterrupt:
        console.print(f"\nThe job continues. {later}", highlight=False, soft_wrap=True)
        return INTERRUPTED
    console.print("Stopping …")
    asked = False
    try:
        _stop(client, log.job, address, console)
        asked = True
        return _follow(client, log, address, console)
    except KeyboardInterrupt:
        state = "It was asked to stop." if asked else "It could not be asked to stop, and continues."
        console.print(f"\n{state} {later}", highlight=False, soft_wrap=True)
        return INTERRUPTED


def _stop(client: Any, job: str, address: str, console: Console) -> None:
    """Ask a job to stop, and ask again if the cluster does not answer."""
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
                note = f"[yellow]{address} does not answer[/]; trying again. Ctrl-C leaves the job running."
                console.print(note, highlight=False, soft_wrap=True)
            wait = min(2 * wait or 1.0, 30.0)
            time.sleep(wait)
