"""A broken space is refused before anything starts, with the path of what is wrong."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from babelray.errors import RecipeError
from babelray.recipe.shipped import RECIPES
from babelray.sweeping.space import Range, load_sweep
from support.sweep_data import space, space_file

FIRST_TRIES = ("alignment", "quickstart")
SPACES = sorted(Path("tune/spaces").glob("*.yaml"))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"metric": []}, "metric: unknown key; did you mean 'metrics'"),
        ({"metrics": []}, "metrics: list should have at least 1 item"),
        ({"parameters": {}}, "parameters"),
        ({"parameters": {"simulate.turn": {"valuse": [1]}}}, r"parameters.simulate.turn.valuse: unknown key"),
        ({"parameters": {"simulate.turn": {}}}, "parameters.simulate.turn: give one of values"),
        ({"parameters": {"simulate.turn": {"values": [1], "uniform": [0, 1]}}}, "give one of values"),
        ({"parameters": {"simulate.turn": {"uniform": [2, 1]}}}, "the first number must be less"),
        ({"parameters": {"simulate.turn": {"log_uniform": [0, 1]}}}, "above 0"),
        ({"parameters": {"simulate.turn": {"uniform": [0, 1]}}}, "a grid needs values"),
        ({"search": "random"}, "trials: the search random needs a number"),
        ({"search": "bayes"}, "search: input should be 'grid', 'random' or 'optuna'"),
        ({"scheduler": "pbt"}, "scheduler: population-based training .* no recipe reproduces its encoder"),
        ({"scheduler": "asha"}, "has no pretrain.validation"),
        ({"seeds": [1, 1]}, "seeds: a seed is given twice"),
        ({"seed_key": "simulate.turn"}, "is the key that the seeds set"),
        ({"seed_key": "sead"}, "seed_key: with 1: sead: unknown key; did you mean 'seed'"),
        ({"paper": {"simulate.runs": 1}}, "paper: simulate.runs is not among the parameters"),
        ({"paper": {"simulate.turn": 31}}, "paper: simulate.turn: 31 is not in the range"),
        ({"change": {"simulate.wrods": 3}}, r"simulation.yaml: simulate.wrods: unknown key; did you mean 'words'"),
        (
            {"parameters": {"simulate.trun": {"values": [1]}}, "paper": {}},
            "parameters.simulate.trun: with 1: simulate.trun: unknown key; did you mean 'turn'",
        ),
        (
            {"parameters": {"simulate.turn": {"values": [1, 181]}}, "paper": {}},
            "parameters.simulate.turn: with 181: simulate.turn: input should be less than or equal to 180",
        ),
        ({"parameters": {"simulate.t.7": {"values": [1]}}, "paper": {}}, "'7' is not a position in a list of 1"),
        ({"recipe": "nowhere.yaml"}, "there is no recipe at nowhere.yaml"),
    ],
)
def test_a_broken_space_is_refused(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(RecipeError, match=problem):
        load_sweep(space_file(tmp_path, **changes))


def test_a_space_that_is_not_there() -> None:
    with pytest.raises(RecipeError, match=r"there is no space at tune/spaces/none\.yaml") as raised:
        load_sweep("tune/spaces/none.yaml")
    assert "transport" in raised.value.remedy


def test_a_shipped_space_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_path = load_sweep("tune/spaces/alignment.yaml")
    monkeypatch.chdir(tmp_path)
    assert load_sweep("alignment") == by_path
    with pytest.raises(RecipeError, match="there is no space at alignmnt; did you mean 'alignment'"):
        load_sweep("alignmnt")


def test_overrides_are_the_recipes_and_with_sweep_before_them_the_spaces(tmp_path: Path) -> None:
    changing = space_file(tmp_path, change={"simulate.runs": 2, "simulate.tested": 7})
    loaded = load_sweep(changing, ["simulate.runs=3", "sweep.seeds=[4, 5]", "sweep.trials=2"])
    assert loaded.recipe.simulate.tested == 7  # type: ignore[attr-defined]
    assert loaded.recipe.simulate.runs == 3 and loaded.space.seeds == [4, 5]  # type: ignore[attr-defined]
    assert loaded.space.points == 2
    varied = loaded.varied({"simulate.t.0": 5}, 4)
    assert varied.simulate.t == [5] and varied.seed == 4 and loaded.recipe.simulate.t == [1]  # type: ignore[attr-defined]


def test_variants_of_a_recipe_are_left_out(tmp_path: Path, recipe_file) -> None:
    recipe = recipe_file(variants={"short": {"pretrain.steps": 2}})
    parameters = {"pretrain.learning_rate": {"values": ["1e-3", 1.0e-4]}}
    written = {"recipe": str(recipe), "stage": "pretrain", "parameters": parameters, "paper": {}}
    loaded = load_sweep(space_file(tmp_path, **written))
    assert loaded.recipe.variants == {}  # type: ignore[attr-defined]
    assert loaded.space.parameters["pretrain.learning_rate"].values == [1e-3, 1e-4], "YAML takes 1e-3 for text"


@given(share=st.floats(0, 1, exclude_max=True))
def test_every_share_of_a_range_is_in_it(share: float) -> None:
    for some in (
        Range(values=["a", None, 3]),
        Range(uniform=(-1, 2)),
        Range(log_uniform=(1e-6, 1e-2)),
        Range(integers=(2, 4)),
    ):
        assert some.contains(some.at(share))


def test_how_many_points_there_are() -> None:
    assert space().points == 6 and space(trials=4).points == 4 and space(trials=99).points == 6
    assert space(search="random", trials=99).points == 99


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_shipped_spaces_fit_their_recipes(path: Path) -> None:
    loaded = load_sweep(path)
    assert loaded.space.name == path.stem and bool(loaded.space.paper) == (path.stem not in FIRST_TRIES)
    assert yaml.safe_load(path.read_text())["recipe"] in RECIPES.names(), "a name works without a clone, too"


def test_all_spaces_are_there() -> None:
    assert {path.stem for path in SPACES} == {
        "density",
        "exposure",
        "extraction",
        "stitching",
        "transport",
        *FIRST_TRIES,
    }


@pytest.mark.parametrize("name", FIRST_TRIES)
def test_a_first_try_needs_no_data_and_shows_the_value_before(name: str) -> None:
    loaded = load_sweep(f"tune/spaces/{name}.yaml")
    sources = {location for step in loaded.plan(loaded.recipe) for location in step.sources}
    assert sources and all("/babelray/" in location for location in sources)
    assert loaded.space.metrics[0].starting is not None and loaded.space.points <= 9


def test_pages_are_no_part_of_a_trial(tmp_path: Path) -> None:
    sweep = load_sweep(space_file(tmp_path))
    assert [step.name for step in sweep.plan(sweep.recipe)] == ["simulate"]
    sweep = load_sweep(space_file(tmp_path, stage="report"))
    assert [step.name for step in sweep.plan(sweep.recipe)] == ["simulate", "report"], "unless they are asked for"
