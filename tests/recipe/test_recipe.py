import ast
import inspect
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from babelray.config import Config
from babelray.errors import RecipeError
from babelray.recipe.load import Recipe, load_recipe, load_run, with_values
from babelray.recipe.simulation import Simulation
from conftest import ROOT

QUICKSTART = ROOT / "jobs/recipes/quickstart.yaml"


@pytest.mark.parametrize("path", sorted((ROOT / "jobs/recipes").glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_recipe_loads_and_explains_every_key(path: Path) -> None:
    recipe = load_run(Simulation if path.stem == "simulation" else Recipe, path)
    assert recipe.name == path.stem
    assert path.read_text().startswith("#"), "a shipped recipe begins with what it is for"


def test_resolved_recipe_loads_to_the_same(tmp_path: Path) -> None:
    recipe = load_recipe(QUICKSTART)
    (tmp_path / "again.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    assert load_recipe(tmp_path / "again.yaml") == recipe


def test_overrides_of_a_component_given_by_its_name() -> None:
    overrides = ["align.mapping=vecmap", "align.mapping.cutoff=500", "pretrain.objectives=[mlm]"]
    recipe = load_recipe(QUICKSTART, [*overrides, "pretrain.objectives.0.batch_size=8"])
    assert (recipe.align.mapping.method, recipe.align.mapping.cutoff) == ("vecmap", 500)
    assert recipe.pretrain.objectives[0].batch_size == 8


def test_another_component_drops_the_settings_that_it_does_not_have() -> None:
    recipe = load_recipe(QUICKSTART, ["align.mapping={method: vecmap, cutoff: 500, name: self-learning}"])
    mapping = with_values(recipe, {"align.mapping.method": "procrustes"}).align.mapping
    assert (mapping.method, mapping.name) == ("procrustes", "self-learning")
    with pytest.raises(RecipeError, match=r"align.mapping.cutof: unknown key; did you mean 'cutoff'"):
        load_recipe(QUICKSTART, ["align.mapping.method=vecmap", "align.mapping.cutof=500"])


def test_overrides_reach_keys_lists_and_types() -> None:
    recipe = load_recipe(
        QUICKSTART, ["pretrain.steps=7", "languages=[en, de]", "pretrain.objectives.0.batch_size=4", "experiment=x"]
    )
    assert (recipe.pretrain.steps, recipe.languages, recipe.experiment) == (7, ["en", "de"], "x")
    assert recipe.pretrain.objectives[0].batch_size == 4


def test_a_list_of_one_can_be_given_and_changed_as_a_mapping(recipe_file: Callable[..., Path]) -> None:
    for text in ({"path": "a/{lang}"}, [{"path": "a/{lang}"}]):
        corpus = {"text": text}
        for override in ("corpus.text.format=jsonl", "corpus.text.0.format=jsonl"):
            recipe = load_recipe(recipe_file(corpus=corpus), [override])
            assert recipe.corpus.text[0].format == "jsonl" and recipe.corpus.text[0].path == "a/{lang}"


def test_an_override_changes_one_use_of_an_anchor_only(tmp_path: Path, recipe_file: Callable[..., Path]) -> None:
    shared = [{"kind": "mlm", "batch_size": 4}]
    scratch = {"training": {"objectives": shared, "steps": 1}}
    path = recipe_file(encoder={"scratch": scratch}, pretrain={"objectives": shared, "steps": 1})
    assert "&id" in path.read_text()
    recipe = load_recipe(path, ["pretrain.objectives.0.batch_size=8"])
    assert recipe.pretrain.objectives[0].batch_size == 8
    assert recipe.encoder.scratch.training.objectives[0].batch_size == 4


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("languages=[en, no]", "languages.1: YAML reads no, off and false without quotes as False: write 'no'"),
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
        ("encoder.scratch={training: {objectives: [{kind: mlm}]}}", "encoder: give either `path` or `scratch`"),
        ("encoder={scratch: {heads: 5, training: {objectives: [{kind: mlm}]}}}", r"heads \(5\) must divide width"),
        (
            "encoder={scratch: {static: {objectives: [mlm]}, "
            "training: {objectives: [mlm], validation: {held_out: 0.1}}}}",
            "must hold out the same share",
        ),
        (
            "encoder={scratch: {architecture: xlm-roberta, static: {objectives: [mlm]}, "
            "training: {objectives: [mlm]}}}",
            "`static` needs the architecture roberta-prelayernorm",
        ),
        ("pretrain.objectives.1.name=mlm", "two objectives have the same name"),
        ("pretrain.objectives.0.kind=[tlm]", "pretrain.objectives.0"),
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


def documented(model: type[Config]) -> set[str]:
    """The fields with a docstring under them."""
    lines = ast.parse(inspect.getsource(model)).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id
        for field, below in itertools.pairwise(lines)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and below.value.value
    }


def test_every_field_is_documented() -> None:
    undocumented = [
        f"{model.__name__}.{name}"
        for model in (Recipe, type(load_recipe(QUICKSTART).corpus))
        for name, field in model.model_fields.items()
        if not hasattr(field.annotation, "model_fields")
        and not any(name in documented(base) for base in model.__mro__ if issubclass(base, Config))
    ]
    assert undocumented == []


def varied(**changes: object) -> dict[str, object]:
    return load_recipe(QUICKSTART).model_dump(mode="json") | changes


def test_variants_are_the_recipe_with_other_values() -> None:
    variants = {"plain": {}, "fast": {"pretrain.learning_rate": 0.5, "pretrain.objectives.0.batch_size": 32}}
    recipe = Recipe.model_validate(varied(variants=variants, seeds=[3, 4]))
    plain, fast = recipe.variant("plain", 3), recipe.variant("fast", 4)
    assert plain.pretrain.seed == 3 and plain.name == "quickstart-plain-3" and plain.experiment == "quickstart"
    assert plain.model_dump(exclude={"name", "experiment", "pretrain"}) == load_recipe(QUICKSTART).model_dump(
        exclude={"name", "experiment", "pretrain"}
    )
    assert fast.pretrain.learning_rate == 0.5 and fast.pretrain.objectives[0].batch_size == 32


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ({"a": {"pretrain.step": 3}}, "variant a: pretrain.step: unknown key; did you mean 'steps'"),
        ({"a": {"pretrain.objectives.9.weight": 3}}, "variant a: override 'pretrain.objectives.9.weight'"),
        ({"a b": {}}, "needs a name"),
    ],
)
def test_a_variant_that_is_no_recipe_is_refused_at_once(variants: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe.model_validate(varied(variants=variants))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("pretrain.workers=3", r"batch_size of mlm \(16\) is not a multiple of workers x accumulate \(3 x 1\)"),
        ("pretrain.precision=bf16", None),
        ("pretrain.zero_stage=0", None),
        ("pretrain.objectives.0.weight={0: 0.0, 1.5: 1.0}", "from 0 to 1"),
        ("pretrain.objectives.0.weight=0", "nor 0 all the time"),
        ("pretrain.objectives.0.weight={0: 0.0, 0.5: 1.0}", None),
        ("pretrain.offload=all", "needs zero_stage 3"),
    ],
)
def test_trainings_that_cannot_be_are_refused(override: str, message: str | None) -> None:
    if message is None:
        load_recipe(QUICKSTART, [override])
        return
    with pytest.raises(RecipeError, match=message):
        load_recipe(QUICKSTART, [override])


def test_how_it_is_computed_is_no_part_of_what_it_is() -> None:
    plain = load_recipe(QUICKSTART).pretrain
    for override in ("workers=1", "accumulate=2", "zero_stage=2", "keep_checkpoints=5", "log_every=3"):
        assert load_recipe(QUICKSTART, [f"pretrain.{override}"]).pretrain.identity() == plain.identity()
    for override in ("steps=9", "precision=bf16", "objectives.0.batch_size=2", "objectives.1.scale=9", "seed=4"):
        assert load_recipe(QUICKSTART, [f"pretrain.{override}"]).pretrain.identity() != plain.identity()


@pytest.mark.parametrize("override", ["storage=s3://AK:topsecret@b/runs", "extract.path=s3://topsecret@b/{lang}.vec"])
def test_no_password_in_a_recipe(recipe_file: Callable[..., Path], override: str) -> None:
    with pytest.raises(RecipeError) as refused:
        load_recipe(recipe_file(), [override])
    assert override.partition("=")[0] in str(refused.value) and "topsecret" not in str(refused.value)
    load_recipe(recipe_file(), ["storage=s3://bucket/a@b/runs"])
