"""Places on a real S3 server behave as places on disk do."""

import contextlib
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from babelray.errors import StorageError
from babelray.storage import Location, lock, s3
from babelray.storage.artifact import MANIFEST, Artifact, finish, partial_of, publish
from babelray.vectors.word_vectors import WordVectors
from support.command import STAGES, is_result


@pytest.fixture(autouse=True)
def server(s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    for name, value in s3_server.items():
        monkeypatch.setenv(name, value)
    s3._CLIENTS.__dict__.clear()
    yield s3_server
    s3._CLIENTS.__dict__.clear()


@pytest.fixture
def root(request: pytest.FixtureRequest) -> Location:
    return Location.parse(f"s3://bucket/{request.node.name}")


def test_files_and_folders(root: Location) -> None:
    assert not root.exists()
    (root / "a/1.txt").write_text("one")
    (root / "a/2.txt").write_text("two")
    assert root.exists() and (root / "a").exists() and (root / "a/1.txt").is_file() and not (root / "a").is_file()
    assert root.files() == ["a/1.txt", "a/2.txt"]
    assert [p.name for p in Location(f"{root}/a/*.txt").glob()] == ["1.txt", "2.txt"]
    assert (root / "a/1.txt").read_text() == "one"
    (root / "lines.txt").write_bytes(b"one\ntwo\n")
    with (root / "lines.txt").open() as stream:
        assert list(stream) == [b"one\n", b"two\n"]
        stream.seek(4)
        assert stream.read(2) == b"tw"
    (root / "lines.txt").delete()
    assert (root / "a/1.txt").digest() != (root / "a/2.txt").digest()
    (root / "a").move_to(root / "b", last="2.txt")
    assert root.files() == ["b/1.txt", "b/2.txt"]
    root.delete()
    assert not root.exists()


def test_local_copies(root: Location, tmp_path: Path) -> None:
    import torch

    vectors = WordVectors(["a", "b"], torch.randn(2, 3), [2, 1])
    vectors.save(root / "v")
    assert WordVectors.is_complete(root / "v")
    assert torch.equal(WordVectors.load(root / "v").matrix, vectors.matrix)


def test_an_artifact_is_published_with_its_manifest_last(root: Location) -> None:
    location = root / "corpus" / "abc"
    (partial_of(location) / "x.txt").write_text("x")
    publish(location, {"stage": "corpus", "fingerprint": "abc", "metrics": {}})
    assert location.files() == [MANIFEST, "x.txt"] and not partial_of(location).exists()
    assert Artifact.load(location) is not None
    (location / "x.txt").write_text("longer")
    with pytest.raises(StorageError.__bases__[0], match="damaged"):
        Artifact.load(location)


@pytest.mark.parametrize("request_before", range(1, 9))
def test_what_is_killed_while_it_is_published_can_be_finished(
    root: Location, monkeypatch: pytest.MonkeyPatch, request_before: int
) -> None:
    """Killed before any of the requests that replace one artifact with another."""
    location = root / "corpus" / "abc"
    left = [request_before]

    def until_killed(request: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            request(*arguments)

        return call

    for content in ("old", "new"):
        (partial_of(location) / "work/x.txt").write_text("half")
        (partial_of(location) / "x.txt").write_text(content)
        if content == "new":
            monkeypatch.setattr(s3, "copy", until_killed(s3.copy))
            monkeypatch.setattr(s3, "_delete", until_killed(s3._delete))
        with contextlib.suppress(KeyboardInterrupt):
            publish(location, {"stage": "corpus", "fingerprint": "abc", "metrics": {}})
    monkeypatch.undo()
    if Artifact.load(location) is None or (location / "x.txt").read_text() == "old":
        assert finish(location) is not None
    assert (location / "x.txt").read_text() == "new" and location.files() == [MANIFEST, "x.txt"]
    assert Artifact.load(location) is not None
    assert {name.split("/")[0] for name in location.parent.files()} <= {location.name, partial_of(location).name}


@pytest.fixture
def quick_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "RENEWAL_SECONDS", 0.3)
    monkeypatch.setattr(lock, "STALE_SECONDS", 2.0)


def test_two_runs_cannot_make_the_same_thing(root: Location, quick_locks: None) -> None:
    location = root / "corpus" / "abc"
    with lock.exclusive_lock(location) as check:
        with pytest.raises(StorageError, match="another run is making"), lock.exclusive_lock(location):
            pass
        check()
    assert not root.files()
    with lock.exclusive_lock(location):
        pass


def test_a_lock_that_was_left_behind_is_taken_over(
    root: Location, quick_locks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner, should it only have been stopped, learns of it before it publishes."""
    location = root / "corpus" / "abc"
    stopped = lock._S3Lock(f"{root}/.locks/corpus-abc", location)
    stopped.take()
    began = time.monotonic()
    with lock.exclusive_lock(location) as check:
        assert time.monotonic() - began > lock.STALE_SECONDS
        stopped.release()  # it does not know yet
        check()
        with pytest.raises(StorageError, match="another run has taken over"):
            stopped.check()
    assert not root.files()


def test_a_server_that_was_away_tells_nothing_of_the_owner_of_a_lock(
    root: Location, quick_locks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not be renewed meanwhile: it is looked at anew when the server is back."""
    location = root / "corpus" / "abc"
    owner = lock._S3Lock(f"{root}/.locks/corpus-abc", location)
    owner.take()
    read, asked = s3.read_tagged, []

    def slow(uri: str) -> tuple[bytes, str] | None:
        asked.append(uri)
        if len(asked) == 4:
            time.sleep(lock.STALE_SECONDS + 1)
        if len(asked) == 6:
            owner.renew()
        return read(uri)

    monkeypatch.setattr(s3, "read_tagged", slow)
    with pytest.raises(StorageError, match="another run is making"), lock.exclusive_lock(location):
        pass


def test_an_answer_that_gets_lost_costs_no_lock(root: Location) -> None:
    held = lock._S3Lock(f"{root}/.locks/corpus-abc", root / "corpus" / "abc")
    held.take()
    known = held._tag
    held.renew()
    held._tag = known
    held.check()


def test_errors_say_what_is_wrong_and_no_secret(
    root: Location, monkeypatch: pytest.MonkeyPatch, server: dict[str, str]
) -> None:
    with pytest.raises(StorageError, match="it does not exist"):
        (root / "none").read_bytes()
    with pytest.raises(StorageError, match="the bucket does not exist"):
        Location.parse("s3://nowhere/x").read_bytes()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    s3._CLIENTS.__dict__.clear()
    with pytest.raises(StorageError, match=r"secret key does not fit|access denied") as caught:
        (root / "x").write_bytes(b"x")
    assert "wrong-secret" not in str(caught.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(s3, "RETRY_SECONDS", 1.0)
    s3._CLIENTS.__dict__.clear()
    with pytest.raises(StorageError, match="the S3 server does not answer"):
        (root / "x").read_bytes()


def test_text_on_s3_that_cannot_be_read(babelray, recipe_file, server: dict[str, str]) -> None:
    """Said before anything starts: the key that is not there, the credentials that are refused."""
    arguments = ["corpus", str(recipe_file()), "corpus.text=s3://bucket/none/{lang}.txt"]
    process = babelray(*arguments, **server)
    assert process.returncode == 2 and "no file for language 'en' at s3://bucket/none/en.txt" in process.stderr
    process = babelray(*arguments, **server | {"AWS_SECRET_ACCESS_KEY": "wrong-secret"})
    assert process.returncode == 2 and "wrong-secret" not in process.stderr
    assert "secret key does not fit" in process.stderr or "access denied" in process.stderr


def results(storage: Location) -> dict[str, bytes]:
    """What must be the same wherever it is made, by stage and file; fingerprints are not: they know where text was."""
    found: dict[str, bytes] = {}
    for name in filter(is_result, storage.files()):
        stage, _, file = name.split("/", 2)
        assert f"{stage}/{file}" not in found, "a stage has one artifact"
        found[f"{stage}/{file}"] = (storage / name).read_bytes()
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_whole_run_on_s3(babelray, recipe_file, server: dict[str, str], tmp_path: Path) -> None:
    """It leaves what a run leaves whose text and storage are on disk, byte for byte."""
    from babelray.storage.location import STARTER

    for file in STARTER.rglob("*.txt"):
        if file.stem in ("en", "de"):
            Location.parse(f"s3://bucket/starter/{file.parent.name}/{file.name}").write_bytes(file.read_bytes())

    def arguments_of(text: str, storage: str) -> list[str]:
        corpus = [f'corpus.text={{path: "{text}", format: sentences}}', f"corpus.parallel={text}"]
        return [str(recipe_file()), "languages=[en, de]", f"storage={storage}", *corpus]

    arguments = arguments_of("s3://bucket/starter/text/{lang}.txt", "s3://bucket/runs")
    process: subprocess.CompletedProcess[str] = babelray("run", *arguments, cwd=tmp_path, **server)
    assert process.returncode == 0, process.stdout + process.stderr
    again = babelray("run", *arguments, cwd=tmp_path, **server)
    assert "nothing to do" in again.stdout
    written = [Location.parse("s3://bucket/runs") / name for name in Location.parse("s3://bucket/runs").files()]
    assert any(location.name == "report.html" for location in written)
    assert not [location for location in written if ".partial/" in location.uri]
    secret = server["AWS_SECRET_ACCESS_KEY"].encode()
    local = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(secret in content for content in [*local, *(location.read_bytes() for location in written)])
    assert secret.decode() not in process.stdout + process.stderr

    on_disk = babelray("run", *arguments_of(f"{STARTER}/text/{{lang}}.txt", f"{tmp_path}/runs"), cwd=tmp_path)
    assert on_disk.returncode == 0, on_disk.stdout + on_disk.stderr
    here, there = results(Location.parse(tmp_path / "runs")), results(Location.parse("s3://bucket/runs"))
    assert {name.split("/")[0] for name in here} == set(STAGES) - {"report"} and here.keys() == there.keys()
    differing = [name for name in here if here[name] != there[name]]
    assert not differing


class Wire:
    """A wire to the server that can be cut: what comes in on its port goes on to the server's."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._open: list[socket.socket] = []
        self.port = 0
        self.mend()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        for end in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.mark.fault
def test_the_server_goes_away_in_the_middle(babelray, recipe_file, server: dict[str, str], root: Location) -> None:
    """A clear error, nothing lost: the same command resumes, and writes the same bytes."""
    generator = random.Random(0)
    for code in ("en", "de"):
        words = [f"{code}{generator.randrange(5000)}" for _ in range(600_000)]
        text = "\n".join(" ".join(words[i : i + 12]) + "." for i in range(0, len(words), 12))
        (root / f"{code}.txt").write_text(text)
    source = {"path": f"{root}/{{lang}}.txt", "format": "sentences"}
    corpus = {"text": source, "chunk_bytes": 100_000, "cleaning": {"min_sentences": 1}}
    recipe = str(recipe_file(languages=["en", "de"], corpus=corpus))
    whole = babelray("corpus", recipe, f"storage={root}/whole", **server)
    assert whole.returncode == 0, whole.stdout + whole.stderr

    wire = Wire(int(server["AWS_ENDPOINT_URL"].rpartition(":")[2]))
    through = server | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{wire.port}"}
    with ThreadPoolExecutor() as pool:
        broken = pool.submit(babelray, "corpus", recipe, f"storage={root}/cut", **through)
        while not (notes := [name for name in (root / "cut").files() if name.endswith(".json")]):
            assert not broken.done(), broken.result().stdout + broken.result().stderr
        wire.cut()
        process = broken.result(timeout=300)
    assert process.returncode == 2, process.stdout + process.stderr
    assert "cannot" in process.stderr and str(root) in process.stderr and "Traceback" not in process.stderr
    assert len(notes) < 40
    assert set(notes) <= set((root / "cut").files())

    wire.mend()
    again = babelray("corpus", recipe, f"storage={root}/cut", **through)
    assert again.returncode == 0, again.stdout + again.stderr
    names = [name for name in (root / "whole").files() if "manifest" not in name]
    assert names == [name for name in (root / "cut").files() if "manifest" not in name] and len(names) > 4
    assert all((root / "whole" / name).read_bytes() == (root / "cut" / name).read_bytes() for name in names)
