import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

import babelray as br
from babelray.commands.vectors import export, show_neighbours
from babelray.errors import ArtifactError, DataError
from babelray.storage import Location
from babelray.storage.artifact import partial_of, publish
from babelray.vectors.formats import read_vectors, write_vectors
from babelray.vectors.neighbours import neighbours
from babelray.vectors.word_vectors import WordVectors

ENGLISH = WordVectors(["cat", "kitten", "dog", "[bold]", "car", "far"], torch.eye(6), [6, 5, 4, 3, 2, 1])


@pytest.fixture
def artifact(tmp_path: Path) -> str:
    location = Location.parse(tmp_path / "runs/align/abc")
    matrix = torch.tensor([[1, 0.0], [3, 4], [0, 2], [-1, 0], [6, 1], [-9, -7]])  # their mean is zero
    ENGLISH.with_matrix(matrix).save(partial_of(location) / "vectors/en")
    WordVectors(["katze", "hund"], torch.eye(2), [2, 1]).save(partial_of(location) / "vectors/de")
    (partial_of(location) / "mappings/de/mapping.safetensors").write_bytes(b"x")
    publish(location, {"stage": "align", "fingerprint": "abc", "metrics": {}})
    return str(location)


def test_neighbours_by_cosine_without_the_word_itself(artifact: str) -> None:
    output = io.StringIO()
    show_neighbours(artifact, "en", "cat", 3, Console(file=output, width=80))
    lines = [line.split() for line in output.getvalue().splitlines()]
    assert lines == [["word", "cosine"], ["car", "0.986"], ["kitten", "0.600"], ["dog", "0.000"]]


GERMAN = WordVectors(["katze", "hund", "auto"], torch.eye(6)[[0, 2, 4]] * 3, [3, 2, 1])


def test_neighbours_in_another_language() -> None:
    assert neighbours(ENGLISH, "dog", 2, GERMAN)[0][0] == "hund" and len(neighbours(ENGLISH, "dog", 9, GERMAN)) == 3
    with pytest.raises(DataError, match="6 and 2 dimensions"):
        neighbours(ENGLISH, "dog", 2, WordVectors(["a"], torch.ones(1, 2), [1]))


def shown(*arguments: object, **options: object) -> list[str]:
    """The neighbours that are printed."""
    output = io.StringIO()
    show_neighbours(*arguments, 2, Console(file=output, width=80), **options)
    return [line.split()[0] for line in output.getvalue().splitlines()[1:]]


@pytest.mark.parametrize("ending", [".vec", ".bin.gz", ""])
def test_results_of_two_files_and_files_alone(tmp_path: Path, ending: str) -> None:
    for name, vectors in (("source", GERMAN), ("target", ENGLISH)):
        place = Location.parse(tmp_path / f"{name}{ending}")
        write_vectors(vectors, place) if ending else vectors.save(place)
        (tmp_path / f"mapping/{name}").mkdir(parents=True)
        (tmp_path / f"mapping/{name}/mapping.json").write_text("{}")
    (tmp_path / "scores.json").write_text("{}")
    assert shown(str(tmp_path), "source", "hund", to="target")[0] == "dog"
    assert "hund" not in shown(str(tmp_path), "source", "hund")
    files = [str(tmp_path / f"{name}{ending}") for name in ("source", "target")]
    assert shown(files[0], "", "katze", to=files[1])[0] == "cat" and len(shown(files[1], "", "cat")) == 2
    with pytest.raises(DataError, match="several sets of vectors") as caught:
        shown(str(tmp_path), "", "hund")
    assert caught.value.remedy == "It has: source, target."
    with pytest.raises(DataError, match="no vectors of language 'de'"):
        shown(str(tmp_path), "de", "hund")
    with pytest.raises(DataError, match="without a language"):
        shown(files[0], "de", "hund")


def test_languages_of_an_artifact(artifact: str) -> None:
    assert shown(artifact, "de", "hund", to="en") and shown(artifact, "de", "hund") == ["katze"]
    with pytest.raises(DataError, match="no vectors of language 'fr'"):
        shown(artifact, "de", "hund", to="fr")


def test_what_all_vectors_share_does_not_count() -> None:
    matrix = torch.tensor([[1, 0.0], [3, 4], [0, 2], [-1, 0], [6, 1], [-9, -7]])
    far = neighbours(ENGLISH.with_matrix(matrix + 1000), "cat", 5)
    assert [word for word, _ in far] == [word for word, _ in neighbours(ENGLISH.with_matrix(matrix), "cat", 5)]


def test_as_many_neighbours_as_there_are_and_words_that_look_like_markup(artifact: str) -> None:
    output = io.StringIO()
    show_neighbours(artifact, "en", "cat", 99, Console(file=output, width=80))
    assert output.getvalue().splitlines()[-1].split() == ["[bold]", "-1.000"]


def test_a_word_with_twins_is_not_its_own_neighbour() -> None:
    twins = ENGLISH.with_matrix(torch.ones(6, 2))
    assert sorted(word for word, _ in neighbours(twins, "car", 5)) == ["[bold]", "cat", "dog", "far", "kitten"]
    assert len(neighbours(twins, "cat", 2)) == 2


def test_a_word_that_is_not_there_is_answered_with_near_spellings() -> None:
    with pytest.raises(DataError, match="no vector of 'Kiten'") as caught:
        neighbours(ENGLISH, "Kiten", 3)
    assert "kitten" in caught.value.remedy
    with pytest.raises(DataError) as caught:
        neighbours(ENGLISH, "猫", 3)
    assert caught.value.remedy == ""


@pytest.mark.parametrize("ending", ["vec", "vec.gz", "bin"])
def test_export(artifact: str, tmp_path: Path, ending: str) -> None:
    output = io.StringIO()
    export(artifact, str(tmp_path / "out"), [], ending, Console(file=output, width=200))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"de.{ending}", f"en.{ending}"]
    vectors = read_vectors(Location.parse(tmp_path / f"out/en.{ending}"))
    assert vectors.words == ENGLISH.words and vectors.matrix[1].tolist() == [3, 4]
    assert f"en: 6 words, 2 dimensions → {tmp_path}/out/en.{ending}" in output.getvalue()


def test_export_of_some_languages(artifact: str, tmp_path: Path) -> None:
    export(artifact, str(tmp_path / "out"), ["de"], "vec", Console(quiet=True))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["de.vec"]
    (tmp_path / "out/de.vec").write_text("mine")
    with pytest.raises(DataError, match=r"out/de\.vec exists already"):
        export(artifact, str(tmp_path / "out"), [], "vec", Console(quiet=True))
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["mine"]
    with pytest.raises(DataError, match="no vectors of language 'fr'") as caught:
        export(artifact, str(tmp_path / "more"), ["de", "fr"], "vec", Console(quiet=True))
    assert caught.value.remedy == "It has: de, en." and not (tmp_path / "more").exists()


@pytest.mark.parametrize("ending", [".vec", ".bin.gz", ""])
@pytest.mark.filterwarnings("ignore:the mapping has collapsed")
def test_export_of_two_files_in_one_space(tmp_path: Path, ending: str) -> None:
    br.align(GERMAN, ENGLISH, method="normalisation", progress=False).save(tmp_path / "mapped", ending)
    expected = br.load_vectors(tmp_path / f"mapped/source{ending}")
    export(str(tmp_path / "mapped"), str(tmp_path / "out"), [], "vec", Console(quiet=True))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["source.vec", "target.vec"]
    exported = read_vectors(Location.parse(tmp_path / "out/source.vec"))
    assert exported.words == GERMAN.words and torch.equal(exported.matrix, expected.matrix)
    export(str(tmp_path / "mapped"), str(tmp_path / "one"), ["target"], "bin", Console(quiet=True))
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["target.bin"]
    with pytest.raises(DataError, match="no vectors of language 'de'") as caught:
        export(str(tmp_path / "mapped"), str(tmp_path / "none"), ["de"], "vec", Console(quiet=True))
    assert caught.value.remedy == "It has: source, target."


def test_what_holds_no_vectors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is nothing at"):
        show_neighbours(str(tmp_path / "none"), "en", "cat", 3, Console(quiet=True))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.md").write_text("x")
    with pytest.raises(DataError, match="there are no vectors in") as caught:
        show_neighbours(str(tmp_path / "mine"), "en", "cat", 3, Console(quiet=True))
    assert "--force" not in str(caught.value)
    with pytest.raises(ArtifactError, match="mine is no artifact") as refused:
        export(str(tmp_path / "mine"), str(tmp_path / "out"), [], "vec", Console(quiet=True))
    assert "--force" not in str(refused.value)
    location = Location.parse(tmp_path / "corpus/abc")
    (partial_of(location) / "statistics.json").write_json({})
    publish(location, {"stage": "corpus", "fingerprint": "abc", "metrics": {}})
    with pytest.raises(ArtifactError, match="has no vectors: it belongs to the stage corpus"):
        export(str(location), str(tmp_path / "out"), [], "vec", Console(quiet=True))


def test_the_commands(babelray, artifact: str, tmp_path: Path) -> None:
    process = babelray("vectors", "neighbours", artifact, "en", "cat", "--count", "2")
    assert process.returncode == 0 and "0.986" in process.stdout and "dog" not in process.stdout
    process = babelray("vectors", "neighbours", artifact, "de", "hund", "--to", "en")
    assert process.returncode == 0 and "kitten" in process.stdout
    process = babelray("vectors", "export", artifact, str(tmp_path / "out"), "--languages", "en, de", "--format", "bin")
    assert process.returncode == 0 and "de: 2 words, 2 dimensions" in process.stdout
    assert len(read_vectors(Location.parse(tmp_path / "out/de.bin"))) == 2
    process = babelray("vectors", "export", artifact, str(tmp_path / "x"), "--format", "csv")
    assert process.returncode == 2 and "vec.gz" in process.stderr
