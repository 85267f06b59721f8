"""A user's hour with `babelray submit`, against a real Ray head in this namespace; test_job.py runs it.

The dashboard dies under a running job, someone submits the recipe twice, then again when it is done, and stops another
with Ctrl-C. Any surprise is an AssertionError with the output so far.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

STORAGE = f"storage={os.environ.get('SCRATCH')}/runs"
RECIPE = ["jobs/recipes/quickstart.yaml", STORAGE, "languages=[en, sw]"]


class Submit:
    """`babelray submit` in the background, with what it has written so far."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "babelray.commands.app", "submit", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            print(line, end="", flush=True)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str, patience: float = 240) -> None:
        deadline = time.monotonic() + patience
        while text not in self.text:
            assert self.process.poll() is None, f"it ended before {text!r}:\n{self.text}"
            assert time.monotonic() < deadline, f"no {text!r} in time:\n{self.text}"
            time.sleep(0.1)

    def end(self) -> int:
        code = self.process.wait(timeout=400)
        self._reader.join(timeout=30)
        return code


def restart_dashboard() -> None:
    """Kill it, and after a while start it again just as it was."""
    (dashboard,) = (p for p in psutil.process_iter() if "dashboard/dashboard.py" in " ".join(command_line(p)))
    command, env, cwd = dashboard.cmdline(), dashboard.environ(), dashboard.cwd()
    everyone = [dashboard, *dashboard.children(recursive=True)]
    for process in everyone:
        process.kill()
    psutil.wait_procs(everyone, timeout=20)
    time.sleep(3)
    subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def command_line(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def job_of(submit: Submit) -> str:
    return next(line.split()[1] for line in submit.lines if line.startswith("Submitted "))


def log_of(job: str) -> list[str]:
    from ray.job_submission import JobSubmissionClient

    return JobSubmissionClient().get_job_logs(job).splitlines()


def main() -> None:
    first = Submit(*RECIPE, "--stage=encoder")
    first.wait_for("Running entrypoint")
    second = Submit(*RECIPE, "--stage=encoder", "--detach")
    assert second.end() == 0
    assert f"already running: following {job_of(first)}" in second.text, second.text
    restart_dashboard()
    first.wait_for("is lost")
    assert first.end() == 0, first.text
    own = log_of(job_of(first))
    ours = ("Uploading ", "Submitted ", "the connection ", "reconnected", f"✓ {job_of(first)} succeeded")
    assert [line for line in first.lines if not line.startswith(ours)] == own
    assert "✓ encoder" in first.text

    third = Submit(*RECIPE, "--stage=encoder")
    assert third.end() == 0
    assert job_of(third) == job_of(first).removesuffix("1") + "2"
    assert "nothing to do" in third.text

    fourth = Submit(*RECIPE, "--stage=extract")
    fourth.wait_for("encoder   complete, kept")
    fourth.process.send_signal(signal.SIGINT)
    assert fourth.end() == 130
    assert "Ctrl-C again leaves it running" in fourth.text
    assert f"{job_of(fourth)} was stopped; run the same command again to resume" in fourth.text

    wrong = Submit(*RECIPE, "--stage=corpus", "corpus.dictionary=/not/there/{lang}.txt")
    assert wrong.end() == 2, "the exit code of the job"
    assert "/not/there" in wrong.text

    folder = Path(os.environ["SCRATCH"]) / "elsewhere"
    folder.mkdir()
    (folder / "mine.yaml").write_text(Path(RECIPE[0]).read_text())
    os.chdir(folder)
    fifth = Submit("mine.yaml", *RECIPE[1:], "--stage=corpus")
    assert fifth.end() == 0, fifth.text
    assert "nothing to do" in fifth.text, "the same code, sent as a package: the same corpus"
    print("all is well")


if __name__ == "__main__":
    main()
