import contextlib
import json
from pathlib import Path

import pytest

from babelray.errors import ArtifactError, StorageError
from babelray.storage import Location
from babelray.storage.artifact import MANIFEST, Artifact, fingerprint, finish, partial_of, publish

DESCRIPTION = {"stage": "corpus", "fingerprint": "abc", "metrics": {"kept": 2}}


def make(tmp_path: Path, content: str = "hello") -> Location:
    location = Location.parse(tmp_path / "corpus" / "abc")
    (partial_of(location) / "data" / "x.txt").write_text(content)
    publish(location, DESCRIPTION)
    return location


def test_published_whole_with_a_manifest(tmp_path: Path) -> None:
    location = make(tmp_path)
    artifact = Artifact.load(location)
    assert artifact and artifact.metrics == {"kept": 2}
    assert artifact.manifest["files"]["data/x.txt"]["bytes"] == 5
    assert sorted(p.name for p in (tmp_path / "corpus").iterdir()) == ["abc"]


def test_what_a_killed_writer_left_is_not_published(tmp_path: Path) -> None:
    location = Location.parse(tmp_path / "corpus" / "abc")
    with (partial_of(location) / "data" / "x.txt").writing() as unfinished:
        unfinished.write_text("hal")
        left = unfinished.name
        Path(unfinished).with_name(f".y.txt.{left[-8:]}").write_text("f")
    (partial_of(location) / "data" / ".hidden").write_text("on purpose")
    publish(location, DESCRIPTION)
    assert location.files() == ["data/.hidden", "data/x.txt", MANIFEST]


def test_absent_until_published(tmp_path: Path) -> None:
    location = Location.parse(tmp_path / "corpus" / "abc")
    (partial_of(location) / "x").write_text("half")
    assert Artifact.load(location) is None


def test_made_again_it_replaces_the_old_one(tmp_path: Path) -> None:
    make(tmp_path)
    location = make(tmp_path, "other")
    assert (location / "data/x.txt").read_text() == "other"
    assert sorted(p.name for p in (tmp_path / "corpus").iterdir()) == ["abc"]


def damage_size(folder: Path) -> None:
    (folder / "data/x.txt").write_text("hell")


def damage_missing(folder: Path) -> None:
    (folder / "data/x.txt").unlink()


def damage_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text('{"files": ')


def damage_manifest_content(folder: Path) -> None:
    (folder / MANIFEST).write_text(json.dumps({"stage": "corpus"}))


def damage_no_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


@pytest.mark.parametrize(
    "damage", [damage_size, damage_missing, damage_manifest, damage_manifest_content, damage_no_manifest]
)
def test_damage_is_found_and_the_remedy_named(tmp_path: Path, damage) -> None:
    location = make(tmp_path)
    damage(location.path)
    with pytest.raises(ArtifactError) as caught:
        Artifact.load(location)
    assert "--force corpus" in caught.value.remedy


def test_fingerprint_depends_on_content_not_on_order() -> None:
    assert fingerprint(a=1, b={"x": 1, "y": 2}) == fingerprint(b={"y": 2, "x": 1}, a=1)
    assert fingerprint(a=1) != fingerprint(a=2)


def test_what_is_needed_only_to_go_on_is_not_published(tmp_path: Path) -> None:
    location = Location.parse(tmp_path / "corpus" / "abc")
    for work in ("work/blocks/1", "work/workers/checkpoint/2", "all/work/3"):
        (partial_of(location) / work).write_text("half")
    (partial_of(location) / "x").write_text("whole")
    assert list(publish(location, DESCRIPTION).manifest["files"]) == ["x"]
    assert location.files() == [MANIFEST, "x"]


def test_what_was_killed_while_it_was_published_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was done is done again, though the work in progress may be half deleted already."""
    location = Location.parse(tmp_path / "corpus" / "abc")
    (partial_of(location) / "work/x").write_text("half")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Location, "move_to", killed)
        make(tmp_path)
    assert Artifact.load(location) is None
    finished = finish(location)
    assert finished and finished.metrics == {"kept": 2} and finished == Artifact.load(location)
    assert location.files() == ["data/x.txt", MANIFEST] and not partial_of(location).exists()
    assert finish(location) is None


@pytest.mark.parametrize("step", ["delete", "move_to"])
@pytest.mark.parametrize("calls", [1, 2])
def test_what_was_killed_while_it_replaced_another_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, calls: int
) -> None:
    make(tmp_path)
    left, real = [calls], getattr(Location, step)

    def until_killed(location: Location, *arguments: object, **named: object) -> None:
        left[0] -= 1
        if not left[0]:
            killed()
        real(location, *arguments, **named)

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(Location, step, until_killed)
        make(tmp_path, "other")
    location = Location.parse(tmp_path / "corpus" / "abc")
    if Artifact.load(location) is None or (location / "data/x.txt").read_text() == "hello":
        assert finish(location) is not None
    assert (location / "data/x.txt").read_text() == "other" and Artifact.load(location) is not None
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == ["abc"]


def test_who_has_lost_the_lock_leaves_what_the_other_one_made(tmp_path: Path) -> None:
    location = make(tmp_path)

    def lost() -> None:
        raise StorageError("another run has taken over")

    (partial_of(location) / "data" / "x.txt").write_text("other")
    (partial_of(location) / "work" / "checkpoint").write_text("other")
    there = partial_of(location).files()
    with pytest.raises(StorageError, match="taken over"):
        publish(location, DESCRIPTION, lost)
    assert partial_of(location).files() == there, "what the other one is working on is left alone"
    (partial_of(location) / MANIFEST).write_json({"files": {}})
    with pytest.raises(StorageError, match="taken over"):
        finish(location, lost)
    assert partial_of(location).files() == sorted([*there, MANIFEST])
    assert (location / "data/x.txt").read_text() == "hello" and Artifact.load(location) is not None


def killed(*arguments: object, **named: object) -> None:
    raise KeyboardInterrupt
