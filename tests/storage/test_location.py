import os
from pathlib import Path

import pytest

from babelray.errors import DataError, StorageError
from babelray.storage import Location


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.parse("a/b").path == tmp_path / "a/b"
    assert Location.parse(f"file://{tmp_path}/a") == Location.parse("a")
    assert Location.parse("s3://bucket/key/") == Location("s3://bucket/key")
    assert (Location.parse("s3://bucket") / "a" / "b").uri == "s3://bucket/a/b"
    assert Location.parse("starter:text/en.txt").is_file()


@pytest.mark.parametrize("text", ["", "ftp://host/x", "s3://", "s3://user:secret@bucket/key"])
def test_what_is_no_place_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(StorageError) as caught:
        Location.parse(text)
    assert "secret" not in str(caught.value)


def test_write_is_atomic_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = Location.parse(tmp_path / "folder/file.json")
    location.write_json({"a": "é"})
    assert location.read_json() == {"a": "é"}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match=r"cannot write .*file.json: no space left on the device"):
        location.write_json({"b": 1})
    assert location.read_json() == {"a": "é"}
    assert [p.name for p in (tmp_path / "folder").iterdir()] == ["file.json"]


def test_full_disk_for_real() -> None:
    """/dev/full answers every write with ENOSPC."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with (
        pytest.raises(StorageError, match="no space left"),
        Location("/tmp").local_output(),
        open("/dev/full", "w") as file,
    ):
        file.write("x")
        file.flush()


def test_what_safetensors_says_of_a_place_is_explained(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    with (
        pytest.raises(StorageError, match=r"cannot write .*: it does not exist"),
        Location(str(tmp_path)).local_output() as folder,
    ):
        save_file({"a": torch.ones(2)}, folder / "none/file.safetensors")
    with pytest.raises(ValueError, match="of another kind"), Location(str(tmp_path)).local_output():
        raise ValueError("of another kind (os error 99999)")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    (tmp_path / "closed").write_text("x")
    (tmp_path / "closed").chmod(0)
    with pytest.raises(StorageError, match="permission denied"):
        Location.parse(tmp_path / "closed").read_bytes()


def test_permission_error_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(StorageError, match="permission denied"):
        Location.parse(tmp_path / "x").read_bytes()


def test_missing_file_and_wrong_text(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="it does not exist"):
        Location.parse(tmp_path / "none").read_text()
    (tmp_path / "bad").write_bytes(b"good\nbad \xff\n")
    with pytest.raises(DataError, match=r"bad, line 2: not valid UTF-8"):
        Location.parse(tmp_path / "bad").read_text()
    with pytest.raises(StorageError, match="is a folder"):
        Location.parse(tmp_path).read_bytes()


def test_glob_files_move_and_delete(tmp_path: Path) -> None:
    root = Location.parse(tmp_path)
    for name in ("a/1.txt", "a/2.txt", "a/2.gz", "b/1.txt"):
        (root / name).write_text(name)
    assert [p.name for p in Location.parse(tmp_path / "a/*.txt").glob()] == ["1.txt", "2.txt"]
    assert len(Location.parse(tmp_path / "*/1.txt").glob()) == 2
    assert Location.parse(tmp_path / "c/*.txt").glob() == []
    (root / "a").move_to(root / "c" / "d", last="1.txt")
    assert root.files() == ["b/1.txt", "c/d/1.txt", "c/d/2.gz", "c/d/2.txt"]
    (root / "c").delete()
    (root / "c").delete()
    assert root.files() == ["b/1.txt"]


def test_digest_follows_the_content(tmp_path: Path) -> None:
    one, two = Location.parse(tmp_path / "1"), Location.parse(tmp_path / "2")
    one.write_text("x")
    two.write_text("x")
    assert one.digest() == two.digest()
    two.write_text("y")
    assert one.digest() != two.digest()
