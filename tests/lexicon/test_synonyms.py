"""Names of concepts: read, paired, and learned without a name ever being a negative of its own concept."""

from itertools import permutations
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from babelray.errors import DataError
from babelray.lexicon.synonyms import MAX_NAMES, names_by_concept, synonym_pairs
from babelray.objectives.contrastive import Contrastive, ContrastiveConfig
from babelray.storage import Location
from babelray.training.training_data import ArtifactTrainingData


def test_names_in_one_form_each_once(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("C1||flu\nC1|C2||cold\n\nC1||flu\nC2\tcommon cold\n")
    names = names_by_concept(Location.parse(tmp_path / "en.txt"))
    assert names == {"C1": ["flu", "cold"], "C2": ["cold", "common cold"]}


def test_all_names_of_a_concept_are_pairs_in_both_orders() -> None:
    names = ["a", "b", "c"]
    assert set(synonym_pairs({"C": names}, {"C": names})) == set(permutations(names, 2))
    many = [str(i) for i in range(100)]
    assert len(synonym_pairs({"C": many}, {"C": many})) == MAX_NAMES * (MAX_NAMES - 1)


def test_a_line_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("C1||flu\nflu\n")
    with pytest.raises(DataError, match="line 2: not a concept and a text"):
        names_by_concept(Location.parse(tmp_path / "en.txt"))


def test_synonyms_are_learned_in_the_hub_and_across(tiny_encoder: str, tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("C1||cat\nC1||kitty\nC2||dog\nC2||hound\nC3||bed\n")
    (tmp_path / "de.txt").write_text("C1||Katze\nC2||Hund\nC9||Haus\n")
    location = Location.parse(tmp_path)
    training_data = ArtifactTrainingData(tiny_encoder, location, None, ["en", "de", "zh"], "en", 1, {})
    path = str(tmp_path / "{lang}.txt")
    config = ContrastiveConfig(
        pairs="synonyms", synonyms=path, batch_size=12, hard_negatives=2, symmetric_negatives=True
    )
    objective = Contrastive(config, training_data)
    assert objective.codes == ["en", "de"], "Mandarin has no names"
    assert set(zip(*objective.pairs["de"], strict=True)) == {
        ("Katze", "cat"),
        ("Katze", "kitty"),
        ("Hund", "dog"),
        ("Hund", "hound"),
    }
    objective.start(torch.device("cpu"))
    concepts = {"cat": 1, "kitty": 1, "Katze": 1, "dog": 2, "hound": 2, "Hund": 2}
    assert len(objective.hard_negatives) > 6
    for (_, _, name), negatives in objective.hard_negatives.items():
        assert negatives and all(concepts[name] != concepts[negative] for negative in negatives)
    assert set(config.synonym_files(["en", "de", "zh"])) == {"en", "de"}


def test_a_path_is_needed_and_only_then() -> None:
    for wrong in ({"pairs": "synonyms"}, {"synonyms": "x/{lang}"}, {"pairs": "synonyms", "synonyms": "x"}):
        with pytest.raises(ValidationError, match="needs `synonyms`"):
            ContrastiveConfig(**wrong)
