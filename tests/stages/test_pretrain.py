"""The settings and the summary of stages that train; a training on a cluster is in `integration/`."""

from pathlib import Path

import pytest

from babelray.errors import RecipeError
from babelray.pipeline.code_version import code_version, reachable
from babelray.pipeline.stage import STAGES
from babelray.recipe.load import load_recipe
from babelray.stages.encoder import EncoderStage
from babelray.stages.pretrain import Curves, PretrainStage
from babelray.storage import Location
from babelray.storage.artifact import Artifact

METRICS = {"steps": 6, "step": 4, "loss/mlm": 2.5, "validation/mlm": 2.25, "gradient_norm": 1.0}
MLM = {"kind": "mlm", "batch_size": 4}


def test_the_stages_are_registered(recipe_file) -> None:
    assert STAGES["pretrain"] is PretrainStage and STAGES["encoder"] is EncoderStage
    assert PretrainStage.trains_encoder and not EncoderStage.trains_encoder
    assert PretrainStage().wanted(load_recipe(recipe_file()))
    assert not PretrainStage().wanted(load_recipe(recipe_file(pretrain=None)))


def test_the_seed_of_the_training_is_its_own_or_the_recipes(recipe_file) -> None:
    for override, seed in ((["seed=3"], 3), (["seed=3", "pretrain.seed=5"], 5)):
        settings = PretrainStage().settings(load_recipe(recipe_file(), override))
        assert settings.seed == seed and settings.others == ["de", "zh"]


@pytest.mark.parametrize(
    ("objective", "key"),
    [({"kind": "tlm", "batch_size": 4}, "parallel"), ({"kind": "contrastive", "pairs": "words"}, "dictionary")],
)
def test_data_that_the_recipe_does_not_give(recipe_file, objective: dict, key: str) -> None:
    path = recipe_file(pretrain={"objectives": [MLM, objective]})
    recipe = load_recipe(path, [f"corpus.{key}=[]"])
    with pytest.raises(RecipeError, match=f"the objective {objective['kind']} needs data: {key}") as caught:
        PretrainStage().settings(recipe)
    assert f"corpus.{key}" in caught.value.remedy
    PretrainStage().settings(load_recipe(path))
    recipe = load_recipe(path, [f"corpus.{key}=[]", f"encoder.scratch.training.objectives=[{MLM | objective}]"])
    with pytest.raises(RecipeError, match="needs data"):
        EncoderStage().settings(recipe)


def test_the_folder_of_a_teacher_is_a_source(recipe_file, tiny_encoder: str) -> None:
    def sources(teacher: str) -> list[Location]:
        objective = {"kind": "distillation", "teacher": teacher, "batch_size": 4}
        recipe = load_recipe(recipe_file(pretrain={"objectives": [objective]}))
        return PretrainStage().sources(PretrainStage().settings(recipe))

    assert Location.parse(tiny_encoder) / "model.safetensors" in sources(tiny_encoder)
    assert sources("universal-sentence-encoder") == []


def test_files_of_objectives_are_sources_of_both_stages(recipe_file, tmp_path: Path) -> None:
    for code in ("de", "zh"):
        (tmp_path / f"{code}.tsv").write_text("")
    (tmp_path / "names-de.txt").write_text("")
    objectives = [
        {"kind": "word-l2", "alignments": f"{tmp_path}/{{lang}}.tsv"},
        {"kind": "contrastive", "pairs": "synonyms", "synonyms": f"{tmp_path}/names-{{lang}}.txt"},
    ]
    expected = [Location.parse(tmp_path / name) for name in ("de.tsv", "zh.tsv", "names-de.txt")]
    recipe = load_recipe(recipe_file(pretrain={"objectives": objectives}))
    assert PretrainStage().sources(PretrainStage().settings(recipe)) == expected
    recipe = load_recipe(recipe_file(), [f"encoder.scratch.training.objectives={objectives}"])
    assert EncoderStage().sources(EncoderStage().settings(recipe)) == expected


def test_only_the_chosen_objectives_are_part_of_the_code(recipe_file) -> None:
    """Another objective, or a change of one that is not in the recipe, makes no trained encoder again."""
    module = PretrainStage.__module__
    modules = reachable(module)
    assert "babelray.training.loop" in modules and "babelray.objectives.objective" in modules
    assert not {"babelray.objectives.transport", "babelray.objectives.word_l2", "babelray.report.run"} & modules
    transport = {"objectives": [MLM, {"kind": "transport"}]}
    recipes = [load_recipe(recipe_file(pretrain=pretrain)) for pretrain in ({"objectives": [MLM]}, transport)]
    assert len({code_version(module, PretrainStage().settings(recipe)) for recipe in recipes}) == 2


def test_the_summary_has_the_last_losses_and_the_encoder(recipe_file) -> None:
    artifact = Artifact(Location.parse("runs/pretrain/1"), {"metrics": METRICS})
    recipe = load_recipe(recipe_file())
    for stage in (PretrainStage(), EncoderStage()):
        summary = stage.summary(artifact, stage.settings(recipe))
        (table,) = summary.tables
        assert list(table.rows) == [("loss mlm", 2.5), ("validation mlm", 2.25)] and "step 4" in table.title
        assert list(summary.files.values()) == ["encoder"]
    existing = load_recipe(recipe_file(encoder={"path": "babelray-mini"}))
    summary = EncoderStage().summary(artifact, EncoderStage().settings(existing))
    assert not summary.tables and list(summary.files.values()) == ["encoder"]


def test_curves_of_a_resumed_run_are_continued(tmp_path: Path) -> None:
    file = Location.parse(tmp_path) / "curves.json"
    curves = Curves(file)
    curves.add(1, {"loss/mlm": 3.0, "language/mlm/de": 2.0, "speed/tokens_per_second": 9.0})
    resumed = Curves(file)
    resumed.add(2, {"loss/mlm": 2.0})
    resumed.add(2, {"validation/mlm": 1.5})
    assert resumed.steps[1] == {"loss/mlm": 3.0, "speed/tokens_per_second": 9.0}
    assert resumed.last() == {"loss/mlm": 2.0, "validation/mlm": 1.5}
    assert Curves(file).at(2, "validation/") == {"validation/mlm": 1.5}
