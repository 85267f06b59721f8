"""What is found before a run; nothing here starts Ray or writes an artifact."""

from __future__ import annotations

import dataclasses
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from babelray.cluster.machine import Machine, machine_of_run
from babelray.errors import BabelrayError, StorageError
from babelray.pipeline import preflight
from babelray.pipeline.preflight import checked_plan
from babelray.recipe.load import load_recipe
from babelray.storage.artifact import Artifact
from support.small_recipe import MLM

RecipeFile = Callable[..., Path]


@pytest.fixture(autouse=True)
def nothing_is_written(tmp_path: Path) -> Any:
    yield
    assert not (tmp_path / "runs").exists()


def problems(path: Path, *overrides: str, until: str | None = None, force: str | None = None) -> str:
    with pytest.raises(BabelrayError) as caught:
        checked_plan(load_recipe(path, overrides), until, force)
    return str(caught.value)


def with_encoder(recipe_file: RecipeFile, encoder: str, **changes: Any) -> Path:
    return recipe_file(encoder={"path": encoder}, **changes)


def test_a_sound_recipe_has_no_problems(recipe_file: RecipeFile, tiny_encoder: str) -> None:
    for path in (recipe_file(), with_encoder(recipe_file, tiny_encoder)):
        plan = checked_plan(load_recipe(path))
        assert plan.steps[0].name == "corpus" and not plan.forced
        assert 0 < plan.demands["pretrain"].memory < 2**30 and plan.demands["pretrain"].storage > 0


def test_every_shipped_recipe_passes_where_its_data_are(recipe_file: RecipeFile) -> None:
    from conftest import ROOT

    plan = checked_plan(load_recipe(ROOT / "jobs/recipes/quickstart.yaml"))
    assert {"pretrain", "evaluate"} <= {step.name for step in plan.steps}


def test_layers(recipe_file: RecipeFile, tiny_encoder: str) -> None:
    path = with_encoder(recipe_file, tiny_encoder)
    text = problems(path, "extract.layer=6", "evaluate.layer=7", "pretrain.validation={layer: 3}")
    assert "extract.layer: the encoder has 2 layers, there is no layer 6" in text
    assert "the layer of benchmark retrieval: the encoder has 2 layers, there is no layer 7" in text
    assert "pretrain.validation.layer: the encoder has 2 layers, there is no layer 3" in text
    text = problems(recipe_file(), "extract={method: aggregate, layer: -1, also_layers: [1, 9]}")
    assert text.startswith("extract.also_layers: the encoder has 2 layers, there is no layer 9")
    assert "evaluate" not in problems(path, "evaluate.layer=7", "extract.layer=9", until="extract")


def test_an_encoder_that_is_missing_or_incomplete(recipe_file: RecipeFile, tiny_encoder: str, tmp_path: Path) -> None:
    assert problems(with_encoder(recipe_file, "/nowhere")).startswith("there is no folder /nowhere with an encoder")
    assert "Did you mean 'babelray-mini'?" in problems(with_encoder(recipe_file, "babelray-mni"))
    (tmp_path / "text").mkdir()
    assert "holds no encoder: it has no config.json" in problems(with_encoder(recipe_file, f"{tmp_path}/text"))
    shutil.copytree(tiny_encoder, tmp_path / "half")
    (tmp_path / "half/model.safetensors").unlink()
    assert "has no model.safetensors" in problems(with_encoder(recipe_file, f"{tmp_path}/half"))
    (tmp_path / "half/config.json").write_text("{}")
    assert "cannot load the encoder" in problems(with_encoder(recipe_file, f"{tmp_path}/half"))


def test_languages(recipe_file: RecipeFile) -> None:
    text = problems(recipe_file(languages=["en"]))
    assert "nothing can be aligned" in text and "nothing can be compared" in text
    assert checked_plan(load_recipe(recipe_file(languages=["en"])), "extract")


def test_a_batch_that_fits_into_no_memory(recipe_file: RecipeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recipe_file(pretrain={"steps": 4, "objectives": [dict(MLM)]})
    batch = f"pretrain.objectives.0.batch_size={10**9}"
    text = problems(path, batch)
    assert "pretrain needs at least 768.0 GB of memory" in text, "10⁹ examples, 3 subwords, 32 wide, 2 layers, 4 bytes"
    assert "accumulate" in text
    assert checked_plan(load_recipe(path, [batch, "pretrain.accumulate=100000"]))
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert machine_of_run() is None and checked_plan(load_recipe(path, [batch])), "a cluster may have more"


def test_fp16_needs_a_gpu(recipe_file: RecipeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recipe_file()
    assert "pretrain.precision: fp16 needs GPUs" in problems(path, "pretrain.precision=fp16")
    monkeypatch.setattr(Machine, "gpus", lambda self: 2)
    assert checked_plan(load_recipe(path, ["pretrain.precision=fp16"]))


def test_a_full_disk(recipe_file: RecipeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(StorageError, match=r"needs at least 0.0 GB of disk, .*/runs has 0.0 GB left"):
        checked_plan(load_recipe(recipe_file()))


def test_storage(recipe_file: RecipeFile) -> None:
    assert problems(recipe_file(), "storage=/proc/runs").startswith("cannot write /proc/runs: ")


def test_files_that_cannot_be_used(recipe_file: RecipeFile, tmp_path: Path) -> None:
    for code, text in {"en": "A dog.\n", "de": "Häuser für Bären.\n", "zh": "狗。\n"}.items():
        (tmp_path / f"{code}.txt").write_bytes(text.encode("latin-1" if code == "de" else "utf-8") * 50)
        (tmp_path / f"{code}.jsonl.gz").write_bytes(gzip.compress(json.dumps({"body": text}).encode() + b"\n"))
    text = problems(recipe_file(), f"corpus.text={tmp_path}/{{lang}}.txt")
    assert f"de: 50 of the first 50 lines of {tmp_path}/de.txt cannot be used: not UTF-8" in text
    assert "en:" not in text and "zh:" not in text
    source = f"corpus.text={{path: '{tmp_path}/{{lang}}.jsonl.gz', format: jsonl}}"
    text = problems(recipe_file(), source)
    assert "3 problems" in text and "no field 'text'" in text


def test_translations_that_cannot_be_used(recipe_file: RecipeFile, tmp_path: Path) -> None:
    for code, lines in {"en": ["dog"] * 3, "de": ["Hund"] * 2, "zh": ["狗"] * 3}.items():
        (tmp_path / f"{code}.txt").write_text("\n".join(lines))
        (tmp_path / f"{code}-en.txt").write_text("\n".join(lines))
    text = problems(recipe_file(), f"corpus.parallel={tmp_path}/{{lang}}.txt")
    assert f"{tmp_path}/de.txt has 2 lines, {tmp_path}/en.txt has 3" in text
    text = problems(recipe_file(), f"corpus.dictionary={tmp_path}/{{lang}}-{{hub}}.txt")
    assert (
        "de: no pairs in" in text and "(layout pairs)" in text and "fewer than two columns: 2, first in line 1" in text
    )
    text = problems(recipe_file(), f"corpus.dictionary={{path: '{tmp_path}/{{lang}}.txt', layout: keyed}}")
    assert "zh: no pairs in" in text and "A line holds a key, a tab and the text" in text


def test_keyed_files_are_recognised(recipe_file: RecipeFile, tmp_path: Path) -> None:
    for code in ("en", "de", "zh"):
        (tmp_path / f"{code}.tsv").write_text("".join(f"MAT:1:{verse}\ttext {verse} {code}\n" for verse in range(9)))
    path = f"{tmp_path}/{{lang}}.tsv"
    assert "Set `layout: keyed`" in problems(recipe_file(), f"corpus.parallel={path}")
    assert checked_plan(load_recipe(recipe_file(), [f"corpus.parallel={{path: '{path}', layout: keyed}}"]))


def test_a_missing_dictionary(recipe_file: RecipeFile) -> None:
    assert "the align stage needs a dictionary" in problems(recipe_file(), "corpus.dictionary=[]")
    assert checked_plan(load_recipe(recipe_file(), ["corpus.dictionary=[]", "align.dictionary=identical"]))


def test_forced_stages_are_shown(recipe_file: RecipeFile) -> None:
    plan = checked_plan(load_recipe(recipe_file()), force="pretrain")
    forced = [step.name for step in plan.steps if step.fingerprint in plan.forced]
    assert forced == ["pretrain", "evaluate", "report"]
    assert "this command does not reach that stage" in problems(recipe_file(), until="align", force="pretrain")


def test_what_is_complete_is_not_checked(recipe_file: RecipeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its encoder may have come from a model hub that is out of reach now, and its storage may be read-only."""
    recipe = load_recipe(with_encoder(recipe_file, "someone/encoder"))
    complete = {step.fingerprint: Artifact(step.location, {}) for step in preflight.plan_parts(recipe)[0].steps}
    monkeypatch.setattr(preflight, "_load", lambda step: complete.get(step.fingerprint))
    monkeypatch.setattr(preflight, "check_writable", lambda storage: pytest.fail("there is nothing to write"))
    assert not checked_plan(recipe).demands


def test_a_comparison_lists_each_problem_once(recipe_file: RecipeFile) -> None:
    variants = {"short": {"pretrain.steps": 2}, "long": {"pretrain.steps": 3}}
    path = recipe_file(variants=variants, seeds=[1, 2], evaluate={"layer": 5}, extract={"layer": 5})
    text = problems(path, "pretrain.validation={layer: 5}")
    assert text.count("pretrain.validation.layer") == 1 and text.count("extract.layer") <= 1


def test_the_shape_of_an_encoder(tiny_encoder: str) -> None:
    from babelray.encoder.load import load_masked_lm
    from babelray.encoder.shape import EncoderShape

    shape, model = EncoderShape.of(tiny_encoder), load_masked_lm(tiny_encoder)
    assert (shape.layers, shape.width) == (2, 32)
    assert shape.parameters == pytest.approx(model.num_parameters(), rel=0.2)


def test_the_least_memory_of_a_training() -> None:
    """Weights, gradients and two moments of every parameter on every worker; ZeRO shares the moments, or all."""
    from babelray.encoder.shape import EncoderShape
    from babelray.training.config import TrainingConfig
    from babelray.training.demand import least_memory

    encoder = EncoderShape(1, 10, 0)
    assert encoder.parameters == 1200
    one_example = {"objectives": [MLM | {"batch_size": 2}], "workers": 2}
    memory = {stage: least_memory(TrainingConfig(**one_example, zero_stage=stage), encoder) for stage in (0, 1, 3)}
    activations = 2 * 3 * 10 * 4
    assert memory[0] - activations == 1200 * 4 * 4 * 2
    assert memory[1] - activations == 1200 * 4 * (2 * 2 + 2)
    assert memory[3] - activations == 1200 * 4 * 4


def test_the_memory_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from babelray.cluster import machine

    (tmp_path / "memory.max").write_text("4096\n")
    monkeypatch.setattr(machine, "CGROUP_LIMIT", tmp_path / "memory.max")
    limited = machine_of_run()
    assert limited is not None and limited.memory == 4096
    (tmp_path / "memory.max").write_text("max\n")
    unlimited = machine_of_run()
    assert unlimited is not None and unlimited.memory > 2**28
    assert dataclasses.replace(limited, cpus=1).cpus == 1
