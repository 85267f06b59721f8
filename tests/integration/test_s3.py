"""Places on a real S3 server behave as places on disk do."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from babelray.errors import StorageError
from babelray.stages.artifact import MANIFEST, Artifact, partial_of, publish
from babelray.storage import Place, s3
from babelray.vectors.word_vectors import WordVectors


@pytest.fixture(autouse=True)
def server(s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    for name, value in s3_server.items():
        monkeypatch.setenv(name, value)
    s3._CLIENTS.__dict__.clear()
    yield s3_server
    s3._CLIENTS.__dict__.clear()


@pytest.fixture
def root(request: pytest.FixtureRequest) -> Place:
    return Place.parse(f"s3://bucket/{request.node.name}")


def test_files_and_folders(root: Place) -> None:
    assert not root.exists()
    (root / "a/1.txt").write_text("one")
    (root / "a/2.txt").write_text("two")
    assert root.exists() and (root / "a").exists() and (root / "a/1.txt").is_file() and not (root / "a").is_file()
    assert root.files() == ["a/1.txt", "a/2.txt"]
    assert [p.name for p in Place(f"{root}/a/*.txt").glob()] == ["1.txt", "2.txt"]
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


def test_local_copies(root: Place, tmp_path: Path) -> None:
    import torch

    vectors = WordVectors(["a", "b"], torch.randn(2, 3), [2, 1])
    vectors.save(root / "v")
    assert WordVectors.is_complete(root / "v")
    assert torch.equal(WordVectors.load(root / "v").matrix, vectors.matrix)


def test_an_artifact_is_published_with_its_manifest_last(root: Place) -> None:
    place = root / "corpus" / "abc"
    (partial_of(place) / "x.txt").write_text("x")
    publish(place, {"stage": "corpus", "fingerprint": "abc", "metrics": {}})
    assert place.files() == [MANIFEST, "x.txt"] and not partial_of(place).exists()
    assert Artifact.load(place) is not None
    (place / "x.txt").write_text("longer")
    with pytest.raises(StorageError.__bases__[0], match="damaged"):
        Artifact.load(place)


def test_errors_say_what_is_wrong_and_no_secret(
    root: Place, monkeypatch: pytest.MonkeyPatch, server: dict[str, str]
) -> None:
    with pytest.raises(StorageError, match="it is not there"):
        (root / "none").read_bytes()
    with pytest.raises(StorageError, match="the bucket does not exist"):
        Place.parse("s3://nowhere/x").read_bytes()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    s3._CLIENTS.__dict__.clear()
    with pytest.raises(StorageError, match=r"secret key does not fit|access denied") as caught:
        (root / "x").write_bytes(b"x")
    assert "wrong-secret" not in str(caught.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
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


@pytest.mark.slow
def test_a_whole_run_on_s3(babelray, recipe_file, server: dict[str, str], tmp_path: Path) -> None:
    from babelray.storage.place import STARTER

    for file in STARTER.rglob("*.txt"):
        if file.stem in ("en", "de"):
            Place.parse(f"s3://bucket/starter/{file.parent.name}/{file.name}").write_bytes(file.read_bytes())
    corpus = ["corpus.text=s3://bucket/starter/text/{lang}.txt", "corpus.parallel=s3://bucket/starter/text/{lang}.txt"]
    arguments = [str(recipe_file()), "languages=[en, de]", "storage=s3://bucket/runs", *corpus]
    process: subprocess.CompletedProcess[str] = babelray("run", *arguments, cwd=tmp_path, **server)
    assert process.returncode == 0, process.stdout + process.stderr
    again = babelray("run", *arguments, cwd=tmp_path, **server)
    assert "nothing to do" in again.stdout
    written = [Place.parse("s3://bucket/runs") / name for name in Place.parse("s3://bucket/runs").files()]
    assert any(place.name == "report.html" for place in written)
    assert not [place for place in written if ".partial/" in place.uri]
    secret = server["AWS_SECRET_ACCESS_KEY"].encode()
    local = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(secret in content for content in [*local, *(place.read_bytes() for place in written)])
    assert secret.decode() not in process.stdout + process.stderr
