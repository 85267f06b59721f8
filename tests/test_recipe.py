from pathlib import Path

import pytest

from babelray.errors import RecipeError
from babelray.recipe import Recipe, load_recipe
from conftest import ROOT

QUICKSTART = ROOT / "jobs/recipes/quickstart.yaml"


@pytest.mark.parametrize("path", sorted((ROOT / "jobs/recipes").glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_recipe_loads_and_explains_every_key(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.name == path.stem
    assert path.read_text().startswith("#"), "a shipped recipe begins with what it is for"


def test_resolved_recipe_loads_to_the_same(tmp_path: Path) -> None:
    recipe = load_recipe(QUICKSTART)
    (tmp_path / "again.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    assert load_recipe(tmp_path / "again.yaml") == recipe


def test_overrides_reach_keys_lists_and_types() -> None:
    recipe = load_recipe(
        QUICKSTART, ["pretrain.steps=7", "languages=[en, de]", "pretrain.objectives.0.batch_size=4", "experiment=x"]
    )
    assert (recipe.pretrain.steps, recipe.languages, recipe.experiment) == (7, ["en", "de"], "x")
    assert recipe.pretrain.objectives[0].batch_size == 4


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("pretrain.stepz=7", "pretrain.stepz: unknown key; did you mean 'steps'?"),
        ("corpus.minimum=7", "corpus.minimum: unknown key; did you mean"),
        ("pretrain.objectives.0.batchsize=3", "objectives.0.batchsize: unknown key; did you mean 'batch_size'?"),
        ("pretrain.objectives.1.scales=3", r"pretrain.objectives.1.scales: unknown key; did you mean 'scale'?"),
        ("pretrain.objectives.0.kind=mlmm", "pretrain.objectives.0"),
        ("pretrain.steps=many", "pretrain.steps: .*integer.*given: 'many'"),
        ("pretrain.steps=0", "pretrain.steps: .*greater than or equal to 1"),
        ("pretrain.precision=fp64", "pretrain.precision"),
        ("languages=[en, xx]", "unknown language 'xx'"),
        ("hub=fi", "the hub 'fi' is not among the languages"),
        ("name=a/b", "name: "),
        ("encoder.path=xlm-roberta-base", "encoder: give either `path` or `scratch`"),
        ("encoder.scratch.heads=5", r"heads \(5\) must divide width"),
        ("pretrain.objectives.1.name=mlm", "two objectives have the same name"),
        ("pretrain.steps.more=1", "has no keys below it"),
        ("pretrain.objectives.9.weight=1", "not a position in a list"),
        ("pretrain", "cannot understand the override"),
        ("pretrain.steps=[", "cannot read the value"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_an_error_with_its_path(override: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_recipe(QUICKSTART, [override])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "line 1"),
        ("name: a\nname: b", "line 2: key 'name' is given twice"),
        ("- a", "a recipe is a mapping"),
        ("", "a recipe is a mapping"),
        ("name: !!python/object/apply:os.system [ls]", "line 1"),
        ("name: a", "languages: this key is required"),
    ],
)
def test_a_file_that_is_no_recipe(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message):
        load_recipe(path)


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="there is no recipe at"):
        load_recipe(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="not valid UTF-8"):
        load_recipe(tmp_path / "binary.yaml")
    with pytest.raises(RecipeError, match="cannot read"):
        load_recipe(tmp_path)


def test_every_field_is_documented() -> None:
    undocumented = [
        f"{model.__name__}.{name}"
        for model in (Recipe, type(load_recipe(QUICKSTART).corpus))
        for name, field in model.model_fields.items()
        if not field.description and not hasattr(field.annotation, "model_fields")
    ]
    assert undocumented == []
