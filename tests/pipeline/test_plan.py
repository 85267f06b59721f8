"""Planning needs no cluster; what runs on one is in integration/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from babelray.config import Config
from babelray.errors import DataError, RecipeError
from babelray.pipeline.force import forced_stages
from babelray.pipeline.plan import Step, ordered_stages, plan, plan_parts, results
from babelray.pipeline.stage import STAGES, Job, Stage
from babelray.recipe.load import load_any_run, load_recipe
from conftest import ROOT
from support.small_recipe import small_recipe

COMPUTED = ["corpus", "encoder", "extract", "align", "pretrain", "evaluate"]


def fingerprints(path: Path, *overrides: str) -> dict[str, str]:
    return {step.name: step.fingerprint for step in plan(load_recipe(path, overrides)) if step.name in COMPUTED}


def changed(path: Path, *overrides: str) -> list[str]:
    before, after = fingerprints(path), fingerprints(path, *overrides)
    return [name for name in COMPUTED if before[name] != after[name]]


def names(steps: list[Step]) -> list[str]:
    return [step.name for step in steps]


def test_a_change_reaches_only_what_depends_on_it(recipe_file) -> None:
    path = recipe_file()
    assert list(fingerprints(path)) == COMPUTED
    assert changed(path, "corpus.cleaning.min_tokens=5") == COMPUTED
    assert changed(path, "extract.layer=1") == ["extract", "align", "evaluate"], "mlm reads no aligned vectors"
    assert changed(path, "pretrain.steps=9") == ["pretrain", "evaluate"]
    assert changed(path, "seed=2") == COMPUTED
    assert changed(path, "storage=elsewhere") == changed(path, "experiment=x") == []


STATIC = {"steps": 4, "objectives": [{"kind": "static-mse", "batch_size": 4}]}
WORDS = {"steps": 4, "objectives": [{"kind": "contrastive", "pairs": "words", "batch_size": 4}]}


def test_stages_depend_on_the_parts_of_the_corpus_that_they_read(recipe_file, tiny_encoder: str) -> None:
    dictionary, parallel = "corpus.dictionary.held_out=0.3", "corpus.parallel.held_out=0.3"
    path = recipe_file(corpus=separate_sources())
    assert changed(path, dictionary) == ["corpus", "align", "evaluate"]
    assert changed(path, parallel) == COMPUTED, "what is held out of parallel text is held out of text"
    assert changed(recipe_file(corpus=separate_sources(), pretrain=STATIC), dictionary) == [
        "corpus",
        "align",
        "pretrain",
        "evaluate",
    ]
    assert changed(recipe_file(corpus=separate_sources(), pretrain=WORDS), dictionary) == [
        "corpus",
        "align",
        "pretrain",
        "evaluate",
    ]
    path = recipe_file(corpus=separate_sources(), encoder={"path": tiny_encoder})
    assert changed(path, "corpus.cleaning.min_tokens=5") == [name for name in COMPUTED if name != "encoder"]


def separate_sources() -> dict[str, Any]:
    corpus = small_recipe(Path())["corpus"]
    return corpus | {kind: {"path": corpus[kind]} for kind in ("parallel", "dictionary")}


def test_the_content_of_a_dictionary_changes_what_reads_it(recipe_file, tmp_path: Path) -> None:
    import shutil

    from babelray.storage.location import STARTER

    shutil.copytree(STARTER / "words", tmp_path / "words")
    path = recipe_file()
    override = f"corpus.dictionary={tmp_path}/words/{{lang}}.txt"
    before = fingerprints(path, override)
    for code, word in (("de", "Neu"), ("en", "new"), ("zh", "新")):
        with (tmp_path / f"words/{code}.txt").open("a", encoding="utf-8") as file:
            file.write(f"{word}\n")
    after = fingerprints(path, override)
    assert [name for name in COMPUTED if before[name] != after[name]] == ["corpus", "align", "evaluate"]


def test_content_of_the_sources_counts_not_their_location(recipe_file, tmp_path: Path) -> None:
    import shutil

    from babelray.storage.location import STARTER

    shutil.copytree(STARTER, tmp_path / "copy")
    path = recipe_file()
    copied = f"corpus.text={tmp_path}/copy/text/{{lang}}.txt"
    step = plan(load_recipe(path, [copied]), "corpus")[0]
    with (tmp_path / "copy/text/de.txt").open("a", encoding="utf-8") as file:
        file.write("\nNoch ein Satz.\n")
    again = plan(load_recipe(path, [copied]), "corpus")[0]
    assert sorted(again.sources.values()) != sorted(step.sources.values()) and again.fingerprint != step.fingerprint


def test_until_a_stage(recipe_file) -> None:
    recipe = load_recipe(recipe_file())
    assert names(plan(recipe, "corpus"))[:1] == ["corpus"] and "encoder" not in names(plan(recipe, "corpus"))
    assert names(plan(recipe, "extract"))[:3] == ["corpus", "encoder", "extract"]
    assert "align" not in names(plan(recipe, "extract"))


def test_bad_stage_names_and_missing_files(recipe_file, tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file())
    with pytest.raises(RecipeError, match="there is no stage 'extrakt'"):
        plan(recipe, "extrakt")
    for absent in ("stitch", "simulate"):
        with pytest.raises(RecipeError, match=f"this recipe has no {absent}") as raised:
            plan(recipe, absent)
        assert raised.value.remedy == f"Give it a key `{absent}`."
    with pytest.raises(RecipeError, match="this recipe has no compare") as raised:
        plan(recipe, "compare")
    assert raised.value.remedy == "Give it a key `variants`."
    with pytest.raises(DataError, match="no file for language 'en'"):
        plan(load_recipe(recipe_file(), [f"corpus.text={tmp_path}/none/{{lang}}.txt"]))


def test_force_reaches_what_follows(recipe_file) -> None:
    steps = plan(load_recipe(recipe_file()), "extract")
    with (
        pytest.raises(RecipeError, match="does not reach that stage"),
        forced_stages(steps, "pretrain", "runs"),
    ):
        pass
    with forced_stages(steps, "encoder", "runs") as forced:
        assert [step.name for step in steps if forced.includes(step)][:2] == ["encoder", "extract"]
        assert not forced.includes(steps[0])


def test_stages_are_ordered_by_what_they_read() -> None:
    order = list(ordered_stages())
    for name, stage in ordered_stages().items():
        earlier = order[: order.index(name)]
        assert {*stage.needs, *stage.uses, *stage.follows} <= {*earlier}
    assert next(iter(ordered_stages("simulation"))) == "simulate" and "corpus" not in ordered_stages("simulation")


def test_a_recipe_without_pretrain_has_no_scores(recipe_file) -> None:
    steps = names(plan(load_recipe(recipe_file(pretrain=None))))
    assert "align" in steps and not {"pretrain", "evaluate"} & {*steps}
    with pytest.raises(RecipeError, match="this recipe has no report") as raised:
        plan(load_recipe(recipe_file(pretrain=None)), "report")
    assert raised.value.remedy == "Give it a key `expose or stitch or map or pretrain or variants`."


def test_a_simulation_is_planned_like_any_run() -> None:
    steps = plan(load_any_run(ROOT / "jobs/recipes/simulation.yaml"))
    assert names(steps)[0] == "simulate"
    with pytest.raises(RecipeError, match="register_as: unknown key"):
        load_any_run(ROOT / "jobs/recipes/simulation.yaml", ["register_as=babel"])
    with pytest.raises(RecipeError, match="this recipe has no corpus"):
        plan(load_any_run(ROOT / "jobs/recipes/simulation.yaml"), "corpus")


VARIANTS = {"short": {"pretrain.steps": 2}, "late": {"extract.layer": 1}}


def test_a_comparison_has_a_part_for_each_variant_and_seed(recipe_file) -> None:
    recipe = load_recipe(recipe_file(variants=VARIANTS, seeds=[1, 2]))
    parts = plan_parts(recipe)
    runs = [f"{variant}, seed {seed}" for variant in recipe.variants for seed in (1, 2)]
    assert [part.name for part in parts] == [*runs, "compare"]
    assert [names(list(part.steps)) for part in parts[:-1]] == [COMPUTED[:-1]] * 4
    comparison = parts[-1].steps[0]
    trained = {part.name: part.steps[-1].fingerprint for part in parts[:-1]}
    assert len({*trained.values()}) == 4
    assert {name: key for name, key in comparison.inputs.items() if name in trained} == trained
    assert {*comparison.inputs} - {*trained} == {"corpus", "encoder"}
    made = [step.fingerprint for step in plan(recipe)]
    assert len(made) == len({*made}), "what variants share is made once"
    assert names(plan(recipe)).count("extract") == 2 and names(plan(recipe)).count("pretrain") == 4
    assert results(plan(recipe))[0].name == "compare"


def test_a_comparison_is_made_by_a_whole_run_only(recipe_file) -> None:
    recipe = load_recipe(recipe_file(variants=VARIANTS))
    assert "compare" in names(plan(recipe)) and "compare" in names(plan(recipe, "compare"))
    assert names(plan(recipe, "evaluate"))[:6] == COMPUTED
    with forced_stages(plan(recipe), "extract", "runs") as forced:
        again = {step.name for step in plan(recipe) if forced.includes(step)}
        assert {"extract", "align", "pretrain", "compare"} <= again and not {"corpus", "encoder"} & again


def test_results_are_what_no_other_stage_reads(recipe_file) -> None:
    recipe = load_recipe(recipe_file())
    assert "evaluate" in names(results(plan(recipe)))
    assert not {"corpus", "encoder", "extract", "align", "pretrain"} & {*names(results(plan(recipe)))}
    assert "align" in names(results(plan(recipe, "align")))


class Counting(Stage[Config]):
    """Counts what others have made."""

    name = "counting"
    needs = ("corpus",)
    uses = ("extract", "stitch")
    follows = ("encoder",)

    def settings(self, recipe: Any) -> Config:
        return Config()

    def run(self, job: Job[Config]) -> dict[str, Any]:
        return {}


def test_a_registered_stage_is_part_of_the_plan(recipe_file) -> None:
    recipe = load_recipe(recipe_file())
    STAGES.register(Counting)
    try:
        steps = {step.name: step for step in plan(recipe)}
        assert {*steps["counting"].inputs} == {"corpus", "extract"}, "stages that it uses, if the run has them"
        assert "counting" in names(plan(recipe, "encoder")), "it follows"
        assert "counting" not in names(plan(recipe, "corpus"))
        assert {*{step.name: step for step in plan(recipe, "counting")}} >= {"corpus", "counting"}
    finally:
        STAGES.remove("counting")
