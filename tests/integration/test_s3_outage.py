"""An S3 server that goes away: for a short while, for long, in the middle of a request."""

import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.fs
import pytest

from babelray.errors import StorageError
from babelray.storage import Location, s3
from support import servers

MB = 1 << 20
LARGE = os.urandom(20 * MB)
"""Sent in three parts."""


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    if reason := servers.available("s3"):
        pytest.skip(reason)
    with servers.s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def server(own_server: servers.Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.Server]:
    for name, value in own_server.env.items():
        monkeypatch.setenv(name, value)
    s3._CLIENTS.__dict__.clear()
    yield own_server
    s3._CLIENTS.__dict__.clear()


@pytest.fixture
def root(server: servers.Server, request: pytest.FixtureRequest) -> Location:
    return Location.parse(f"s3://bucket/{request.node.name}")


def test_large_files_go_in_parts(root: Location) -> None:
    with (root / "large").writing() as path:
        path.write_bytes(LARGE)
    parts = (root / "large").digest().split("-")
    assert int(parts[1]) == 3 and int(parts[2]) == len(LARGE), "the entity tag of an object that came in three parts"
    assert (root / "large").read_bytes() == LARGE
    with (root / "large").local_input() as path:
        assert path.read_bytes() == LARGE
    with (root / "large").open() as stream:
        stream.seek(-5, os.SEEK_END)
        assert stream.read(100) == LARGE[-5:] and stream.read() == b""
        stream.seek(7 * MB)
        assert stream.read(3 * MB) == LARGE[7 * MB : 10 * MB] and stream.tell() == 10 * MB
    root.move_to(root.parent / "moved", last="large")
    assert (root.parent / "moved/large").read_bytes() == LARGE


def test_what_ray_keeps_checkpoints_with(root: Location, tmp_path: Path, server: servers.Server) -> None:
    """A folder goes there and comes back; pyarrow's own S3 filesystem sees the same."""
    from babelray.storage.arrow import run_config_storage

    for name, content in {"a/b/deep": b"deep", "shard": LARGE, "state.json": b"{}", "a/empty": b""}.items():
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_bytes(content)
    kept = run_config_storage(root)
    sent = pickle.dumps(kept["storage_filesystem"])
    assert not any(value.encode() in sent for name, value in server.env.items() if "KEY" in name)
    ours, path, local = pickle.loads(sent), kept["storage_path"], pyarrow.fs.LocalFileSystem()
    theirs, same_path = pyarrow.fs.FileSystem.from_uri(str(root))
    assert path == same_path
    assert ours.get_file_info(path).type == pyarrow.fs.FileType.NotFound
    pyarrow.fs.copy_files(
        str(tmp_path / "here"), path, source_filesystem=local, destination_filesystem=ours, chunk_size=64 * MB
    )
    pyarrow.fs.copy_files(
        path, str(tmp_path / "back"), source_filesystem=ours, destination_filesystem=local, chunk_size=64 * MB
    )
    for file in (p for p in (tmp_path / "here").rglob("*") if p.is_file()):
        assert (tmp_path / "back" / file.relative_to(tmp_path / "here")).read_bytes() == file.read_bytes()
    for recursive in (False, True):
        selector = pyarrow.fs.FileSelector(path, recursive=recursive)
        seen = [{(i.path, i.type, i.size) for i in f.get_file_info(selector)} for f in (ours, theirs)]
        assert seen[0] == seen[1]
    ours.delete_dir(f"{path}/a")
    assert root.files() == ["shard", "state.json"]
    with pytest.raises(FileNotFoundError):
        ours.open_input_stream(f"{path}/none")
    with pytest.raises(FileNotFoundError):
        ours.get_file_info(pyarrow.fs.FileSelector(f"{path}/none"))


def test_ray_train_keeps_and_finds_checkpoints(root: Location, tmp_path: Path) -> None:
    """Its own storage, with our filesystem: stored, seen, fetched, deleted."""
    import ray.train
    from ray.train.v2._internal.execution.storage import StorageContext, delete_fs_path

    from babelray.storage.arrow import run_config_storage

    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint/shard-00000.safetensors").write_bytes(LARGE)
    kept = run_config_storage(root)
    storage = pickle.loads(pickle.dumps(StorageContext(experiment_dir_name="workers", **kept)))
    stored = storage.persist_current_checkpoint(ray.train.Checkpoint(str(tmp_path / "checkpoint")), "checkpoint_1")
    assert (root / "workers/checkpoint_1/shard-00000.safetensors").size() == len(LARGE)
    with pickle.loads(pickle.dumps(stored)).as_directory() as folder:
        assert (Path(folder) / "shard-00000.safetensors").read_bytes() == LARGE
    delete_fs_path(fs=stored.filesystem, fs_path=stored.path)
    assert not (root / "workers/checkpoint_1").exists()


def read_in_two_halves(location: Location, cut: Callable[[], object]) -> bytes:
    with location.open() as stream:
        half = stream.read(10 * MB)
        cut()
        return half + stream.read()


REQUESTS: dict[str, Callable[[Location], object]] = {
    "read": lambda root: (root / "large").read_bytes() == LARGE,
    "list": lambda root: root.files() == ["large"],
    "write": lambda root: (root / "small").write_bytes(b"x"),
    "upload": lambda root: _upload(root / "again"),
    "download": lambda root: _download(root / "large"),
    "move": lambda root: root.move_to(root.parent / "moved", last="large"),
    "delete": lambda root: root.delete(),
}


def _upload(location: Location) -> bool:
    with location.writing() as path:
        path.write_bytes(LARGE)
    return location.read_bytes() == LARGE


def _download(location: Location) -> bool:
    with location.local_input() as path:
        return path.read_bytes() == LARGE


@pytest.mark.fault
@pytest.mark.parametrize("name", REQUESTS)
def test_a_short_outage_is_waited_for(root: Location, server: servers.Server, name: str) -> None:
    (root / "large").write_bytes(LARGE)
    server.kill()
    again = threading.Timer(3, server.start)
    again.start()
    begun = time.monotonic()
    try:
        assert REQUESTS[name](root) is not False
        assert time.monotonic() - begun > 2.5
    finally:
        again.join()


@pytest.mark.fault
def test_an_outage_in_the_middle_of_a_stream(root: Location, server: servers.Server) -> None:
    (root / "large").write_bytes(LARGE)
    again = threading.Timer(3, server.start)

    def cut() -> None:
        server.kill()
        again.start()

    try:
        assert read_in_two_halves(root / "large", cut) == LARGE
    finally:
        again.join()


@pytest.mark.fault
def test_a_long_outage_is_an_error(root: Location, server: servers.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "RETRY_SECONDS", 2.0)
    server.kill()
    try:
        begun = time.monotonic()
        with pytest.raises(StorageError, match=f"cannot write {root}/x: the S3 server does not answer"):
            (root / "x").write_bytes(b"x")
        assert 1 < time.monotonic() - begun < 15
    finally:
        server.start()
    (root / "x").write_bytes(b"x")


def test_an_answer_is_not_asked_for_again(root: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for what time will not mend."""
    begun = time.monotonic()
    with pytest.raises(StorageError, match="the bucket does not exist"):
        Location.parse("s3://nowhere/x").write_bytes(b"x")
    with pytest.raises(StorageError, match="it does not exist"):
        (root / "none").read_bytes()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    s3._CLIENTS.__dict__.clear()
    for request in (lambda: (root / "x").write_bytes(b"x"), root.files, lambda: _upload(root / "x"), root.exists):
        with pytest.raises(StorageError, match=r"the access key is not known|access denied"):
            request()
    assert time.monotonic() - begun < 10
