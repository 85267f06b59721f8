"""One encoder on one benchmark, without a recipe."""

import json
from itertools import permutations
from pathlib import Path

import pytest
from pydantic import ValidationError
from rich.console import Console
from typer.testing import CliRunner

from babelray.api.evaluation import model_fingerprint
from babelray.commands.app import app
from babelray.commands.evaluate import compare_results, evaluate_model, print_result, rank_results
from babelray.errors import BabelrayError, DataError, RecipeError
from babelray.evaluation.benchmark import BENCHMARKS, Result
from babelray.recipe.evaluate import EvaluateConfig
from babelray.recipe.load import configure
from babelray.recipe.problems import describe_problems

EN = ["The cat sleeps.", "A dog runs.", "It is warm.", "The garden is big.", "A bed.", "Sleep well, cat."]
DE = [
    "Die Katze schläft.",
    "Ein Hund läuft.",
    "Es ist warm.",
    "Der Garten ist groß.",
    "Ein Bett.",
    "Schlaf gut, Katze.",
]


def written(folder: Path, **files: list[str]) -> str:
    folder.mkdir(exist_ok=True)
    for name, lines in files.items():
        (folder / name.replace("__", "-").replace("_", ".")).write_text("".join(f"{line}\n" for line in lines))
    return str(folder)


def evaluate(encoder: str, benchmark: str, data: str, out: Path, *settings: str) -> tuple[dict, dict, str]:
    console = Console(record=True, width=120)
    location = evaluate_model(
        encoder,
        configure(BENCHMARKS[benchmark], {"benchmark": benchmark, "data": data}, list(settings)),
        str(out),
        console,
    )
    return (location / "result.json").read_json(), (location / "predictions.json").read_json(), console.export_text()


def test_retrieval_of_a_language_that_is_the_hub_itself(tiny_encoder: str, tmp_path: Path) -> None:
    data = written(tmp_path / "data", de__en_de=EN, de__en_en=EN, fr__en_fr=DE, fr__en_en=EN)
    result, predictions, shown = evaluate(tiny_encoder, "tatoeba", data, tmp_path / "out", "layer=1")
    assert result["scores"]["de"]["mean"] == 1 and result["scores"]["de"]["sentences"] == 6
    assert predictions["de"]["to_hub"]["positions"] == list(range(6))
    example_scores = [hit for side in predictions["fr"].values() for hit in side["example_scores"]]
    assert result["scores"]["fr"]["mean"] == pytest.approx(sum(example_scores) / 12)
    assert result["mean"]["mean"] == pytest.approx((1 + result["scores"]["fr"]["mean"]) / 2)
    assert result["model"]["fingerprint"] == model_fingerprint(tiny_encoder) and len(result["sources"]) == 4
    assert "tatoeba" in shown and "100.0" in shown


def test_word_alignment(tiny_encoder: str, tmp_path: Path) -> None:
    pairs = [f"{text} ||| {text}" for text in ("the cat sleeps", "a big dog runs")]
    data = written(tmp_path / "data", deen_gold=["0-0 1-1 2-2", "0-0 1-1 2-2 3-3"])
    (tmp_path / "data/deen.src-tgt").write_text("\n".join(pairs) + "\n")
    result, predictions, _ = evaluate(
        tiny_encoder, "word-alignment", data, tmp_path / "out", "method=argmax", "layer=0"
    )
    assert predictions["deen"] == ["0-0 1-1 2-2", "0-0 1-1 2-2 3-3"]
    assert result["scores"]["deen"]["f1"] == 1 and result["scores"]["deen"]["aer"] == 0


def test_mt_quality(tiny_encoder: str, tmp_path: Path) -> None:
    rows = [
        f"de-en\t{text}\t{' '.join(text.split()[:count])}\t{count}" for text, count in zip(EN, range(6), strict=True)
    ]
    data = written(tmp_path / "data", testset_x=[])
    (tmp_path / "data/testset_de-en.tsv").write_text("\n".join(["LP\tsource\ttranslation\tHUMAN_score", *rows]) + "\n")
    result, predictions, _ = evaluate(tiny_encoder, "mt-quality", data, tmp_path / "out")
    assert len(predictions["de-en"]) == 6 and predictions["de-en"][0] == -1  # nothing was translated
    assert result["scores"]["de-en"]["pearson"] > 0.3


def test_geometry(tiny_encoder: str, tmp_path: Path) -> None:
    data = written(tmp_path / "data", de__en_de=DE, de__en_en=EN, fr__en_fr=EN, fr__en_en=EN)
    result, _, _ = evaluate(tiny_encoder, "geometry", data, tmp_path / "out")
    assert result["scores"]["fr"]["gap"] == pytest.approx(0) and result["scores"]["de"]["gap"] > 0.01


def test_two_results_side_by_side(tiny_encoder: str, tmp_path: Path) -> None:
    many = [" ".join(words) for words in permutations(["cat", "dog", "bed", "warm"])]
    written(tmp_path / "data", de__en_de=many, de__en_en=many)
    written(tmp_path / "other", de__en_de=many[::-1], de__en_en=many)
    for name in ("data", "other"):
        evaluate(tiny_encoder, "tatoeba", str(tmp_path / name), tmp_path / f"{name}-out")
    folders = [str(tmp_path / f"{name}-out") for name in ("data", "other")]
    with pytest.raises(DataError, match=r"data: de-en\.de not the same in data-out and other-out"):
        compare_results(*folders, Console())
    console = Console(record=True, width=120)
    compare_results(*folders, console, allow_differences=True)
    shown = console.export_text()
    assert "-100.0" in shown and "warning: they differ in data: de-en.de" in shown
    assert "< 0.001" not in shown and "permutation" not in shown, "other examples cannot be paired"


def test_a_difference_of_encoders_is_tested(tmp_path: Path) -> None:
    names = [stored(tmp_path / name, right=right, model=name) for name, right in (("before", 2), ("after", 18))]
    console = Console(record=True, width=120)
    compare_results(*names, console)
    shown = console.export_text()
    assert "before" in shown and "after" in shown and "+80.0" in shown and "< 0.001" in shown
    assert "warning" not in shown and str(tmp_path) not in shown


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"settings": {"scoring": "csls", "data": "/d"}}, "scoring: cosine (a), csls (b)"),
        ({"settings": {"scoring": "cosine", "data": "/d", "layer": 3}}, "layer: default (a), 3 (b)"),
        ({"sources": {"/d/x.tsv": "2"}}, "data: x.tsv not the same in a and b"),
        ({"sources": {"/d/x.tsv": "1", "/d/y.tsv": "2"}}, "data: y.tsv only in b"),
        ({"scores": {"de": {"accuracy": 0.5}, "fr": {"accuracy": 0.5}}}, "languages: fr in b, not in all"),
    ],
)
def test_every_difference_is_refused_and_named(tmp_path: Path, changes: dict, line: str) -> None:
    paths = [stored(tmp_path / "a", right=2), stored(tmp_path / "b", right=18, **changes)]
    with pytest.raises(DataError) as caught:
        compare_results(*paths, Console())
    assert line in caught.value.problem and "--allow-differences" in caught.value.remedy
    with pytest.raises(DataError):
        rank_results([*paths, stored(tmp_path / "c", right=3)], Console())
    console = Console(record=True, width=120)
    compare_results(*paths, console, allow_differences=True)
    assert f"warning: they differ in {line}" in console.export_text()


def test_the_same_files_elsewhere_are_no_difference(tmp_path: Path) -> None:
    paths = [
        stored(
            tmp_path / folder,
            right=right,
            sources={f"{data}/x.tsv": "1"},
            settings={"data": data, "batch_tokens": size},
        )
        for folder, data, right, size in (("a", "/one", 2, 64), ("b", "/two", 18, 128))
    ]
    console = Console(record=True, width=120)
    compare_results(*paths, console)
    assert "warning" not in console.export_text()


def stored(folder: Path, right: int, model: str = "x", **changes: object) -> str:
    """A result of classification with 20 examples."""
    folder.mkdir()
    hits = {"example_scores": [1] * right + [0] * (20 - right)}
    about = {
        "benchmark": "classification",
        "scores": {"de": {"accuracy": right / 20}},
        "sources": {"/d/x.tsv": "1"},
        "settings": {"scoring": "cosine", "data": "/d"},
        "model": {"path": model, "fingerprint": model},
    } | changes
    (folder / "predictions.json").write_text(json.dumps(dict.fromkeys(about["scores"], hits)))
    (folder / "result.json").write_text(json.dumps(about))
    return str(folder)


def test_what_cannot_be_compared(tiny_encoder: str, tmp_path: Path) -> None:
    console = Console()
    with pytest.raises(DataError, match="is not a result"):
        compare_results(str(tmp_path), str(tmp_path / "none"), console)
    with pytest.raises(DataError, match="named twice"):
        compare_results(str(tmp_path), f"{tmp_path}/", console)
    for name, benchmark in (("a", "tatoeba"), ("b", "geometry")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps({"benchmark": benchmark, "scores": {}, "sources": {}}))
    with pytest.raises(DataError, match="is of tatoeba"):
        compare_results(str(tmp_path / "a"), str(tmp_path / "b"), console)


TRAIN = ["train=nowhere/{lang}.train"]
ALSO = dict.fromkeys(["classification", "tagging", "question-answering"], TRAIN)
ALSO["entity-linking"] = ["knowledge_base=nowhere"]


@pytest.mark.parametrize("benchmark", [name for name in BENCHMARKS if "data" in BENCHMARKS[name].model_fields])
def test_data_that_are_not_there(tiny_encoder: str, tmp_path: Path, benchmark: str) -> None:
    name = "nothing-{lang}.txt" if benchmark in ALSO else "nothing"
    with pytest.raises(DataError):
        evaluate(tiny_encoder, benchmark, str(tmp_path / name), tmp_path / "out", *ALSO.get(benchmark, []))
    assert not (tmp_path / "out").exists()


def test_a_fingerprint_is_of_the_weights(tiny_encoder: str, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(tiny_encoder, tmp_path / "copy")
    assert model_fingerprint(str(tmp_path / "copy")) == model_fingerprint(tiny_encoder)
    (tmp_path / "copy/README.md").write_text("a card")
    assert model_fingerprint(str(tmp_path / "copy")) == model_fingerprint(tiny_encoder)
    (tmp_path / "copy/config.json").write_text("{}")
    assert model_fingerprint(str(tmp_path / "copy")) != model_fingerprint(tiny_encoder)


def test_the_command(babelray, tiny_encoder: str, tmp_path: Path) -> None:
    data = written(tmp_path / "data", de__en_de=DE, de__en_en=EN)
    arguments = ["--model", tiny_encoder, "--benchmark", "tatoeba", "--data", data, "--out", str(tmp_path / "out")]
    process = babelray("evaluate", "layer=1", *arguments)
    assert process.returncode == 0 and "from hub" in process.stdout, process.stderr
    assert json.loads((tmp_path / "out/result.json").read_text())["settings"]["layer"] == 1
    process = babelray("evaluate", "scoring=csls", "layer=1", *arguments)
    assert process.returncode == 2 and "scoring: cosine (there), csls (this command)" in process.stderr
    process = babelray("compare", str(tmp_path / "out"), str(tmp_path / "out"))
    assert process.returncode == 2 and "named twice" in process.stderr
    process = babelray("evaluate", "scoring=cosin", *arguments)
    assert process.returncode == 2 and "scoring" in process.stderr
    process = babelray("evaluate", "--benchmark", "tatoeba")
    assert process.returncode == 2 and "--model" in process.stderr


def test_a_result_is_kept_and_not_overwritten(tiny_encoder: str, tmp_path: Path) -> None:
    data, out = written(tmp_path / "data", de__en_de=DE, de__en_en=EN), tmp_path / "out"
    first, _, shown = evaluate(tiny_encoder, "tatoeba", data, out, "layer=1")
    assert "kept:" not in shown
    (out / "predictions.json").write_text("{}")  # shows whether it is computed again
    again, predictions, shown = evaluate(tiny_encoder, "tatoeba", data, out, "layer=1")
    assert again == first and not predictions and "kept: the same encoder, data and settings" in shown
    assert "95 % interval" in shown and "16.7" in shown, "the level of chance of six sentences"
    with pytest.raises(DataError, match=r"another result \(layer: 1 \(there\), 2 \(this command\)\)") as caught:
        evaluate(tiny_encoder, "tatoeba", data, out, "layer=2")
    assert "--force evaluate" in caught.value.remedy
    with pytest.raises(DataError, match="benchmark: tatoeba"):
        evaluate(tiny_encoder, "geometry", data, out)
    config = configure(BENCHMARKS["tatoeba"], {"benchmark": "tatoeba", "data": data}, ["layer=2"])
    evaluate_model(tiny_encoder, config, out, Console(quiet=True), force=True)
    assert json.loads((out / "result.json").read_text())["settings"]["layer"] == 2
    assert json.loads((out / "predictions.json").read_text())


def test_three_results_are_ranked(tmp_path: Path) -> None:
    for name, right in (("a", 0), ("b", 20), ("c", 19)):
        example_scores = {"de": {"example_scores": [1] * right + [0] * (20 - right)}}
        score = {"de": {"accuracy": right / 20}}
        (tmp_path / name).mkdir()
        (tmp_path / name / "predictions.json").write_text(json.dumps(example_scores))
        about = {"benchmark": "classification", "scores": score, "sources": {"x": "1"}}
        (tmp_path / name / "result.json").write_text(json.dumps(about))
    console = Console(record=True, width=160)
    rank_results([str(tmp_path / name) for name in "abc"], console)
    lines = [line for line in console.export_text().splitlines() if line.split()[:1] in (["a"], ["b"], ["c"])]
    assert [line.split()[0] for line in lines] == ["b", "c", "a"]
    assert ["●" in line for line in lines] == [True, True, False] and "< 0.001" in lines[2]


def test_a_benchmark_on_held_out_data_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(BabelrayError, match="retrieval needs the corpus of a run"):
        evaluate_model("babelray-mini", BENCHMARKS.parse("retrieval"), str(tmp_path), Console())
    arguments = ["evaluate", "--model", "babelray-mini", "--data", str(tmp_path), "--benchmark"]
    for name, own in (("retrieval", "tatoeba"), ("bli", "`babelray bli`"), ("perplexity", ""), ("similarity", "")):
        error = CliRunner().invoke(app, [*arguments, name]).exception
        assert isinstance(error, BabelrayError) and f"{name} needs the" in error.problem, "not: data is unknown"
        assert "`babelray evaluate RECIPE`" in error.remedy and own in error.remedy
        assert ("held-out" in error.remedy) == (name != "similarity") and ("own files" in error.remedy) == bool(own)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_missing_key_is_shown_by_an_example(name: str) -> None:
    kind = BENCHMARKS[name]
    required = {key for key, field in kind.model_fields.items() if field.is_required()}
    assert set(kind.examples) == required
    if required:
        with pytest.raises(RecipeError) as caught:
            configure(kind, {"benchmark": name}, [])
        for key in required:
            assert f"{key}: this key is required, for example {kind.examples[key]}" in caught.value.problem
    if "train" in required:
        with pytest.raises(ValidationError) as in_recipe:
            EvaluateConfig.model_validate(own := {"benchmarks": [{"benchmark": name, "data": "{lang}.tsv"}]})
        text = describe_problems(in_recipe.value, EvaluateConfig, own)
        assert f"train: this key is required, for example {kind.examples['train']}" in text


def test_intervals_are_whole_in_80_columns() -> None:
    metrics = {"sentences": 1004, "to_hub": 0.667, "from_hub": 0.667, "mean": 0.667, "mean_margin": 0.089}
    codes = ("de", "id", "ms")  # with the longest names of Latin script
    result = Result(
        dict.fromkeys(codes, metrics), chance=dict.fromkeys(codes, 0.01), intervals=dict.fromkeys(codes, (0.58, 0.71))
    )
    console = Console(record=True, width=80)
    print_result(result, BENCHMARKS["tatoeba"](data="x"), "tatoeba: babelray-mini", console)
    shown = console.export_text()
    assert "58.0–71.0" in shown and "id Indonesian" in shown and "1,004" in shown and "…" not in shown


@pytest.mark.parametrize("name", ["word-alignment", "geometry"])
def test_a_table_that_is_wider_than_the_terminal_is_divided(name: str) -> None:
    kind = BENCHMARKS[name]
    codes = ("id-ms", "de-en")
    result = Result(
        dict.fromkeys(codes, dict.fromkeys(kind.columns, 0.123)),
        chance=dict.fromkeys(codes, 0.1),
        intervals=dict.fromkeys(codes, (0.05, 0.2)),
    )
    console = Console(record=True, width=80)
    print_result(result, kind(data="x"), "title", console)
    lines = console.export_text().splitlines()
    text = " ".join(" ".join(lines).split())
    assert max(len(line.rstrip()) for line in lines) <= 80 and "…" not in text
    assert text.count("title") == 1 and all(word in text for metric in kind.columns for word in metric.split("_"))
    assert text.count("id-ms Indonesian – Malay") == text.count("mean") - text.count("mean cosine") == 2
