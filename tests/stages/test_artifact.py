import json
from pathlib import Path

import pytest

from babelray.errors import ArtifactError, StorageError
from babelray.stages.artifact import MANIFEST, Artifact, fingerprint, only_one, partial_of, publish
from babelray.storage import Place

DESCRIPTION = {"stage": "corpus", "fingerprint": "abc", "metrics": {"kept": 2}}


def make(tmp_path: Path, content: str = "hello") -> Place:
    place = Place.parse(tmp_path / "corpus" / "abc")
    (partial_of(place) / "data" / "x.txt").write_text(content)
    publish(place, DESCRIPTION)
    return place


def test_published_whole_with_a_manifest(tmp_path: Path) -> None:
    place = make(tmp_path)
    artifact = Artifact.load(place)
    assert artifact and artifact.metrics == {"kept": 2}
    assert artifact.manifest["files"]["data/x.txt"]["bytes"] == 5
    assert sorted(p.name for p in (tmp_path / "corpus").iterdir()) == ["abc"]


def test_what_a_killed_writer_left_is_not_published(tmp_path: Path) -> None:
    place = Place.parse(tmp_path / "corpus" / "abc")
    with (partial_of(place) / "data" / "x.txt").writing() as unfinished:
        unfinished.write_text("hal")
        left = unfinished.name
        Path(unfinished).with_name(f".y.txt.{left[-8:]}").write_text("f")
    (partial_of(place) / "data" / ".hidden").write_text("on purpose")
    publish(place, DESCRIPTION)
    assert place.files() == ["data/.hidden", "data/x.txt", MANIFEST]


def test_absent_until_published(tmp_path: Path) -> None:
    place = Place.parse(tmp_path / "corpus" / "abc")
    (partial_of(place) / "x").write_text("half")
    assert Artifact.load(place) is None


def test_made_again_it_replaces_the_old_one(tmp_path: Path) -> None:
    make(tmp_path)
    place = make(tmp_path, "other")
    assert (place / "data/x.txt").read_text() == "other"
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
    place = make(tmp_path)
    damage(place.path)
    with pytest.raises(ArtifactError) as caught:
        Artifact.load(place)
    assert "--force corpus" in caught.value.remedy


def test_fingerprint_depends_on_content_not_on_order() -> None:
    assert fingerprint(a=1, b={"x": 1, "y": 2}) == fingerprint(b={"y": 2, "x": 1}, a=1)
    assert fingerprint(a=1) != fingerprint(a=2)


def test_two_runs_cannot_make_the_same_artifact(tmp_path: Path) -> None:
    place = Place.parse(tmp_path / "corpus" / "abc")
    with only_one(place), pytest.raises(StorageError, match="another run is making"), only_one(place):
        pass
    with only_one(place):
        pass
