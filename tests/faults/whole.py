"""A whole cluster on this machine into which faults can be injected: nodes, servers, and a small run.

A head with Redis and two workers, each in its own network, S3, MLflow; see `multinode/nodes.py` and
`support/servers.py`. Every fault is a function of the cluster and a random generator. It damages one thing, repairs it
if nothing else would, and returns a description; or an empty string if its target does not exist at the moment.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from multinode.nodes import HEAD, Nodes
from multinode.nodes import available as nodes_available
from support import servers
from support.command import STAGES, is_result

ROOT = Path(__file__).resolve().parents[2]
WORKERS = ("w1", "w2")
BUCKET = "babelray"
RUN = [
    "jobs/recipes/quickstart.yaml",
    "name=faults",
    "languages=[en, de, sw]",
    "extract.block_sentences=40",
    "pretrain.steps=40",
    "pretrain.checkpoint_every=5",
    "pretrain.max_failures=20",
    "pretrain.zero_stage=2",
]
STAGE = re.compile(rf"^(?:✓ )?({'|'.join(STAGES)})\b")
RECORD = "/work/workers/checkpoint_manager_snapshot.json"
"""Ray Train's record of its checkpoints."""
NOT_YET = re.compile(r"complete, kept|: 0/")
"""Matches lines that report reused artifacts, or no progress yet."""
Fault = Callable[["Whole", random.Random], str]


def available() -> str:
    """Empty if the cluster can be started here; otherwise the reason why not."""
    return nodes_available() or next(
        (why for name in ("s3", "redis", "mlflow") if (why := servers.available(name))), ""
    )


class Whole:
    """The cluster; `with` starts and stops all its parts."""

    def __init__(self, folder: Path) -> None:
        self.nodes = Nodes(folder / "nodes", "brf", "10.197.0")
        self.folder = folder
        self.stack = contextlib.ExitStack()
        """Resources that are released with the cluster."""

    def __enter__(self) -> Whole:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.nodes)
            host = self.nodes.host
            self.s3 = stack.enter_context(servers.s3(self.folder / "s3", host, BUCKET))
            self.redis = stack.enter_context(servers.redis(self.folder / "redis", host))
            records = f"sqlite:///{self.folder / 'mlflow.db'}"
            self.mlflow = stack.enter_context(
                servers.mlflow(self.folder / "mlflow", records, str(self.folder / "mlflow/artifacts"), host)
            )
            # A lost node is detected after 10 s, not 30, since a run of two minutes is struck many times.
            patience = {"RAY_health_check_period_ms": "2000", "RAY_health_check_failure_threshold": "5"}
            self._env = {**self.s3.env, **self.mlflow.env, **patience, "OMP_NUM_THREADS": "1"}
            self.start_head()
            for name in WORKERS:
                self.start_worker(name)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def start_head(self) -> None:
        self.nodes.start_head(redis=(self.redis.url, self.redis.env["REDIS_PASSWORD"]), env=self._env)

    def start_worker(self, name: str) -> None:
        self.nodes.start_worker(name, cpus=1, env=self._env)

    def replace_nodes(self) -> None:
        """Restart workers that have ended, as Kubernetes does: a node that the head has given up ends by itself."""
        for name in WORKERS:
            if self.nodes.ended(name):
                self.start_worker(name)

    def processes(self, command: str) -> list[psutil.Process]:
        """The processes of all nodes with this text in their command line."""
        found = []
        for name in (HEAD, *WORKERS):
            with contextlib.suppress(psutil.NoSuchProcess, KeyError):
                found += self.nodes.processes(name, command)
        return found

    def digests(self, storage: str) -> dict[str, str]:
        """The digest of each file of a run's artifacts, without those that record time and place."""
        kept = [name for name in self._names(storage) if is_result(name)]
        return {name: hashlib.sha256(self._read(f"{storage}/{name}")).hexdigest() for name in kept}

    def saved_step(self, storage: str) -> int:
        """The step of the newest complete checkpoint of the current training; 0 without one."""
        records = [n for n in self._names(storage) if n.startswith("pretrain/") and n.endswith(RECORD)]
        newest = [json.loads(self._read(f"{storage}/{name}"))["latest_checkpoint_result"] for name in records]
        return max((result["metrics"]["step"] for result in newest if result), default=0)

    def leaks(self) -> list[str]:
        """Files of the nodes, with Ray's logs, that contain a password of the storage or of MLflow."""
        secrets = [self.s3.env["AWS_SECRET_ACCESS_KEY"], self.mlflow.env["MLFLOW_TRACKING_PASSWORD"]]
        written = [path for path in (self.folder / "nodes").rglob("*") if path.is_file() and not path.is_symlink()]
        assert any(path.suffix == ".log" for path in written)
        return [str(path) for path in written if any(secret.encode() in path.read_bytes() for secret in secrets)]

    def _names(self, storage: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{storage}/")
        names = [item["Key"] for page in pages for item in page.get("Contents", [])]
        return [name.removeprefix(f"{storage}/") for name in names]

    def _read(self, key: str) -> bytes:
        return self._client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    @functools.cached_property
    def _client(self) -> Any:
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.s3.env["AWS_ENDPOINT_URL"],
            aws_access_key_id=self.s3.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.s3.env["AWS_SECRET_ACCESS_KEY"],
            region_name=self.s3.env["AWS_DEFAULT_REGION"],
            config=Config(retries={"total_max_attempts": 2}, connect_timeout=2, read_timeout=30),
        )


class Submitted:
    """`babelray submit` of the small run, with its log; submitted again, it is the same run."""

    def __init__(self, whole: Whole, storage: str) -> None:
        self.lines: list[str] = []
        self.heard = time.monotonic()
        """The time of the last line."""
        self.progressed = 0.0
        """The time of the last line that reports progress."""
        command = [sys.executable, "-m", "babelray.commands.app", "submit", *RUN, f"storage=s3://{BUCKET}/{storage}"]
        environment = {**os.environ, **whole.nodes.env, "PYTHONPATH": str(ROOT / "platform")}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        whole.stack.callback(self.end)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())
            self.heard = time.monotonic()
            if STAGE.match(line) and not NOT_YET.search(line):
                self.progressed = self.heard

    @property
    def code(self) -> int | None:
        return self._process.poll()

    @property
    def stage(self) -> str:
        """The current stage, from the last line of progress."""
        found = ((line, match[1]) for line in reversed(self.lines) if (match := STAGE.match(line)))
        line, stage = next(found, ("", STAGES[0]))
        ended = line.startswith("✓") or "complete, kept" in line
        return STAGES[min(STAGES.index(stage) + ended, len(STAGES) - 1)]

    def end(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)


def _kill(processes: list[psutil.Process], what: str) -> str:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return f"kill -9 of {what}" if processes else ""


def one_train_worker(whole: Whole, chance: random.Random) -> str:
    return _kill(_some(whole.processes("RayTrainWorker"), chance), "a train worker")


def all_train_workers(whole: Whole, chance: random.Random) -> str:
    return _kill(whole.processes("RayTrainWorker"), "all train workers")


def one_task(whole: Whole, chance: random.Random) -> str:
    return _kill(_some(whole.processes("ray::_guarded") or whole.processes("ray::Map("), chance), "a task's worker")


def driver(whole: Whole, chance: random.Random) -> str:
    return _kill(whole.processes("jobs/run.py"), "the driver")


def node(whole: Whole, chance: random.Random) -> str:
    name = chance.choice(WORKERS)
    whole.nodes.kill(name)
    time.sleep(chance.uniform(0, 20))
    whole.start_worker(name)
    return "kill -9 of a node, which came back"


def head(whole: Whole, chance: random.Random) -> str:
    whole.nodes.kill(HEAD)
    time.sleep(chance.uniform(0, 10))
    whole.start_head()
    return "kill -9 of the head, which came back"


def tracking_server(whole: Whole, chance: random.Random) -> str:
    whole.mlflow.kill()
    time.sleep(chance.uniform(0, 20))
    whole.mlflow.start()
    return "kill -9 of the tracking server, which came back"


def s3_server(whole: Whole, chance: random.Random) -> str:
    whole.s3.kill()
    time.sleep(chance.uniform(0, 10))
    whole.s3.start()
    return "kill -9 of the S3 server, which came back"


def stopped_worker(whole: Whole, chance: random.Random) -> str:
    return _stop(_some(whole.processes("RayTrainWorker") or whole.processes("ray::_guarded"), chance), "a worker")


def stopped_driver(whole: Whole, chance: random.Random) -> str:
    return _stop(whole.processes("jobs/run.py"), "the driver")


def _stop(processes: list[psutil.Process], what: str) -> str:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
    time.sleep(60 if processes else 0)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)
    return f"{what} stopped for a minute (SIGSTOP)" if processes else ""


def partition(whole: Whole, chance: random.Random) -> str:
    name = chance.choice(WORKERS)
    seconds = chance.choice([3, 40])
    whole.nodes.link(name, up=False)
    time.sleep(seconds)
    whole.nodes.link(name, up=True)
    return f"a node cut off for {seconds} s"


def _some(processes: list[Any], chance: random.Random) -> list[Any]:
    return [chance.choice(processes)] if processes else []


FAULTS: tuple[Fault, ...] = (
    one_train_worker,
    all_train_workers,
    one_task,
    driver,
    node,
    head,
    tracking_server,
    s3_server,
    stopped_worker,
    stopped_driver,
    partition,
)
