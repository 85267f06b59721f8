"""Static vectors through the command: the same on one worker and on two, with a whole encoder and a sharded one."""

import json
from pathlib import Path

import pytest
import torch

from babelray.storage import Location
from babelray.vectors.word_vectors import WordVectors

pytestmark = pytest.mark.slow


@pytest.fixture
def extract(babelray, recipe_file, tmp_path: Path):
    """Run the stage with some settings; the corpus and the encoder are made once."""

    def run(*overrides: str, storage: Path = tmp_path / "runs") -> Path:
        before = set((storage / "extract").iterdir()) if (storage / "extract").exists() else set()
        process = babelray("extract", str(recipe_file()), "languages=[en, de]", f"storage={storage}", *overrides)
        assert process.returncode == 0, process.stdout + process.stderr
        (made,) = set((storage / "extract").iterdir()) - before
        return made

    return run


def test_workers_and_sharding_do_not_change_the_vectors(extract) -> None:
    small = ["extract.block_sentences=50", "extract.min_steps=50", "extract.subsample=0.01"]
    one = extract(*small, "extract.workers=1")
    for overrides in (["extract.workers=2"], ["extract.workers=2", "extract.zero_stage=3"]):
        other = extract(*small, *overrides)
        assert not (other / "work").exists()
        for code in ("en", "de"):
            expected, found = (WordVectors.load(Location.parse(folder / "vectors" / code)) for folder in (one, other))
            assert found.words == expected.words and found.counts == expected.counts and len(found) > 100
            assert torch.allclose(found.matrix, expected.matrix, atol=1e-3), (overrides, code)
        assert json.loads((other / "statistics.json").read_text()) == json.loads((one / "statistics.json").read_text())


@pytest.mark.parametrize("method", ["aggregate", "isolated"])
def test_all_layers_in_one_pass(extract, method: str) -> None:
    made = extract(f"extract.method={method}", "extract.also_layers=all", "extract.layer=1")
    for code in ("en", "de"):
        layers = [WordVectors.load(Location.parse(made / f"layer-{layer}" / code)) for layer in range(3)]
        assert torch.equal(layers[1].matrix, WordVectors.load(Location.parse(made / "vectors" / code)).matrix)
        assert not torch.allclose(layers[0].matrix, layers[2].matrix, atol=1e-2)


def test_errors_say_what_to_do(babelray, recipe_file) -> None:
    recipe = str(recipe_file())
    process = babelray("extract", recipe, "extract.layer=9")
    assert process.returncode == 2 and "there is no layer 9" in process.stderr and "Traceback" not in process.stderr
    process = babelray("extract", recipe, "extract.layer=1", "extract.subsample=1e-15")
    assert process.returncode == 2 and "subsampling left no occurrence of any word" in process.stderr
