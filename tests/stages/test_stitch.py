"""The stitch stage in parts, on a task of forty words and a target language that is the source in disguise."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from babelray.cluster.tasks import Task
from babelray.encoder.load import load_with_head
from babelray.errors import DataError, RecipeError
from babelray.evaluation.classification import accuracy
from babelray.languages import LANGUAGES
from babelray.lexicon.pairs import Pair, write_pairs
from babelray.pipeline.plan import plan
from babelray.pipeline.stage import Job
from babelray.recipe.load import load_recipe
from babelray.recipe.stitch import StitchConfig
from babelray.report.stitching import render
from babelray.stages import stitch
from babelray.stages.stitch import (
    StitchingContext,
    StitchSettings,
    StitchStage,
    fine_tune_and_test,
    prepare_language,
    prepare_model,
    score_systems,
)
from babelray.stitching.fine_tunings import FineTuning, plan_fine_tunings
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from babelray.storage.tables import SENTENCES, write_rows
from babelray.vectors.word_vectors import WordVectors
from support.stitching_language import make_language, random_rotation

SYSTEMS = {
    "logistic": {"method": "logistic-regression"},
    "zero-shot": {"method": "zero-shot"},
    "squares": {"method": "least-squares", "freeze_embeddings": True},
    "relative": {"k": 8},
    "kept": {"k": 1, "keep_source": True, "freeze_embeddings": True},
    "wechsel": {"method": "wechsel", "k": 1, "freeze_embeddings": True},
}


def benchmark(folder: Path) -> dict[str, object]:
    return {
        "data": str(folder / "table.tsv"),
        "where": {"row": [150, 999]},
        "train": str(folder / "table.tsv"),
        "train_where": {"row": [0, 149]},
        "table": {"text": "{lang}", "label": "topic"},
        "seeds": [3],
        "fine_tuning": {"learning_rate": 1e-2, "epochs": 10, "batch_size": 16},
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> StitchingContext:
    """The artifacts of earlier stages. A text's topic is that of most of its words; a German word is an English one
    backwards, with a vector that is a rotated embedding.
    """
    folder = tmp_path_factory.mktemp("stitch")
    location = Location.parse(folder)
    language = make_language(folder / "encoder" / "encoder")
    words, matrix = language.words, language.source.hub.matrix
    german = [f"z{word[::-1]}" for word in words]
    WordVectors(words, matrix, [1] * 40).save(location / "extract" / "vectors" / "en")
    WordVectors(german, matrix @ random_rotation(16), [1] * 40).save(location / "extract" / "vectors" / "de")
    pairs = [Pair(*both, "train") for both in zip(german, words, strict=True)]
    write_pairs(location / "corpus" / "dictionary" / "de-en", pairs)
    generator = torch.Generator().manual_seed(0)
    rows = []
    for number in range(210):
        topic = number % 3
        chosen = [13 * topic + int(torch.randint(13, (), generator=generator)) for _ in range(5)]
        cells = [" ".join(column[i] for i in chosen) for column in (words, german)]
        rows.append("\t".join([str(number), "abc"[topic], *cells]))
    (folder / "table.tsv").write_text("\n".join(["row\ttopic\ten\tde", *rows]) + "\n")
    text = {"document": 0, "paragraph": 0, "sentence": 0, "text": " ".join(words[:8]), "tokens": words[:8]}
    write_rows(location / "corpus" / "sentences" / "en" / "00000.parquet", [text] * 8, list(SENTENCES))
    config = StitchConfig.model_validate({"benchmark": benchmark(folder), "systems": SYSTEMS, "save": "squares"})
    settings = StitchSettings(languages=["en", "de"], hub="en", seed=1, stitch=config)
    return StitchingContext(settings, location / "corpus", location / "encoder", location / "extract", location / "out")


def with_systems(made: StitchingContext, out: str, **systems: dict[str, object]) -> StitchingContext:
    config = StitchConfig.model_validate(made.settings.stitch.model_dump() | {"systems": systems, "save": None})
    settings = made.settings.model_copy(update={"stitch": config})
    return StitchingContext(settings, made.corpus, made.encoder, made.extract, made.out / out)


def test_a_language_in_disguise_is_classified_as_well_as_the_source(made: StitchingContext) -> None:
    data = prepare_language(made, "de")
    assert data["covered"] == 1 and data["words"] == 40
    assert data["anchors"] == dict.fromkeys(("squares", "relative", "kept", "wechsel"), 40)
    for run in plan_fine_tunings(made.settings.stitch.systems, ["de"]):
        fine_tune_and_test(made, run, 3)
    gold = [text.label for text in made.settings.benchmark.test_data()["de"]]
    for name in ("squares", "kept", "wechsel"):
        answers = made.answers(name, "de", 3).read_json()
        assert answers["answers"] == answers["en"], "embeddings were frozen: nothing is lost"
    scores = score_systems(made)
    assert scores.baseline == "squares" and scores.means()["squares"] > 0.9
    assert scores.means()["logistic"] > 0.9 and scores.means()["relative"] > 0.8
    assert scores.means()["zero-shot"] < 0.5, "the encoder has seen no German"
    folder = made.out / "models" / "de"
    tokenizer, model = (
        kind.from_pretrained(str(folder)) for kind in (AutoTokenizer, AutoModelForSequenceClassification)
    )
    texts = [text.text for text in made.settings.benchmark.test_data()["de"]]
    with torch.no_grad():
        numbers = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.argmax(1).tolist()
    labels = [model.config.id2label[number] for number in numbers]
    assert labels == made.answers("squares", "de", 3).read_json()["answers"] and accuracy(gold, labels) > 0.9


def test_the_whole_stage(made: StitchingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks one after the other, without a cluster."""
    ran: dict[str, list[str]] = {}

    def run_tasks(tasks: Sequence[Task], progress: object, unit: str, cpus: float = 0.5) -> dict[str, Any]:
        ran[unit] = [task.name for task in tasks]
        return {task.name: task.function(*task.arguments) for task in tasks}

    monkeypatch.setattr(stitch, "run_tasks", run_tasks)
    inputs: Any = {name: SimpleNamespace(location=getattr(made, name)) for name in StitchStage.needs}
    job = Job(made.settings, inputs, made.out, SimpleNamespace(), lambda values, step: None, print)  # type: ignore[arg-type]
    means = StitchStage().run(job)
    assert ran["languages"] == ["de"]
    assert ran["fine-tunings"] == [
        f"{n}, seed 3" for n in ("zero-shot, all languages", "squares, all languages", "relative, de")
    ]
    assert list(means) == list(SYSTEMS)
    scores = (made.out / "scores.json").read_json()
    assert scores["squares"]["de"]["macro_f1"] == [means["squares"]] and len(scores["squares"]["de"]["in_hub"]) == 1
    assert "in_hub" in scores["logistic"]["de"] and not scores["logistic"]["de"]["in_hub"]
    artifact = Artifact(made.out, {})
    pages = render(artifact, "small", LANGUAGES)
    assert all(f"| {name} " in pages["stitching.md"] for name in SYSTEMS) and "against squares" in pages["stitching.md"]
    assert "<svg" in pages["stitching.html"]
    scores_table, leaderboard, differences, languages = StitchStage().summary(artifact, made.settings).tables
    assert [row[0] for row in scores_table.rows] == list(SYSTEMS) and scores_table.rows[2][1] == means["squares"]
    assert [column.title for column in scores_table.columns] == ["system", "mean", "de", "en"]
    assert len(leaderboard.rows) == 6 and len(differences.rows) == 5 and differences.title == "Difference to squares"
    assert languages.rows == [["de", 40, 1.0, 40]]
    anchors = (made.out / "anchors" / "relative" / "de.tsv").read_text().splitlines()
    assert anchors[0] == "znlab\tbaln" and len(anchors) == 40


def test_existing_answers_are_not_computed_again(made: StitchingContext) -> None:
    for name in SYSTEMS:
        seed = 0 if name == "logistic" else 3
        made.answers(name, "de", seed).write_json({"answers": ["a"] * 60, "en": ["a"] * 60})
    for run in plan_fine_tunings(made.settings.stitch.systems, ["de"]):
        fine_tune_and_test(made, run, 3)
    assert all(made.answers(name, "de", made.seeds(name)[0]).read_json()["answers"][1] == "a" for name in SYSTEMS)
    assert prepare_language(made, "de") == (made.out / "languages" / "de.json").read_json()


def test_the_body_adapts_to_new_embeddings_which_stay(made: StitchingContext) -> None:
    own = with_systems(made, "adapted", relative={"k": 8, "adapt_steps": 2})
    (run,) = plan_fine_tunings(own.settings.stitch.systems, ["de"])
    with own.local_encoder() as folder:
        plain, adapted = (load_with_head(folder, "classification", ["a", "b", "c"], 1) for _ in range(2))
        source = own.source(plain, folder)
        without = FineTuning(run.start._replace(adapt_steps=0), "de", run.uses)
        prepare_model(own, without, plain, source, folder, 1)
        prepare_model(own, run, adapted, source, folder, 1)
    before, after = plain.base_model.state_dict(), adapted.base_model.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert torch.equal(before["embeddings.word_embeddings.weight"], after["embeddings.word_embeddings.weight"])
    assert not torch.equal(before["embeddings.word_embeddings.weight"], source.embeddings_VD)
    assert any("layer.0.attention" in name for name in moved) and not any("pooler" in name for name in moved)


def test_a_vocabulary_without_the_words_of_the_task(made: StitchingContext) -> None:
    other = StitchingContext(made.settings, made.corpus, made.encoder, made.out / "other", made.out / "bad")
    for code in ("en", "de"):
        WordVectors(["ыыы", "ььь"], torch.eye(2), [1, 1]).save(other.extract / "vectors" / code)
    with pytest.raises(DataError, match="de: none of the 60 texts of the benchmark has a word with a static vector"):
        prepare_language(other, "de")


def test_a_language_without_anchors_is_named(made: StitchingContext) -> None:
    write_pairs(made.out / "corpus" / "dictionary" / "de-en", [Pair("zweit", "second", "train")])
    other = StitchingContext(made.settings, made.out / "corpus", made.encoder, made.extract, made.out / "none")
    with pytest.raises(DataError, match="de: none of 1 translation pairs"):
        prepare_language(other, "de")


def test_a_recipe_with_it(recipe_file, tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("row\ttopic\ten\tde\n0\ta\tx\ty\n150\tb\tx\ty\n")
    stitch = {"benchmark": benchmark(tmp_path)}
    recipe = load_recipe(recipe_file(stitch=stitch, languages=["en", "de"]), ["pretrain=null"])
    assert [step.name for step in plan(recipe, "stitch")][:4] == ["corpus", "encoder", "extract", "stitch"]
    assert (
        load_recipe(recipe_file(stitch=stitch), ["stitch.systems.relative.k=all"]).stitch.systems["relative"].k == "all"
    )
    with pytest.raises(RecipeError, match="has no stitch"):
        plan(load_recipe(recipe_file()), "stitch")
    with pytest.raises(RecipeError, match="only one language"):
        StitchStage().settings(load_recipe(recipe_file(stitch=stitch, languages=["en"])))
    for wrong, problem in {
        "{mine: {k: 0}}": "k",
        "{mine: {keep_source: true, method: wechsel}}": "mine.keep_source: unknown key",
        "{mine: {encoder: other}}": "mine.encoder: unknown key",
        "{mine: {method: wexel}}": "did you mean 'wechsel'",
        "{my system: {}}": "needs a name of letters",
        "{mine: {weigting: softmax}}": "weighting",
    }.items():
        with pytest.raises(RecipeError, match=problem):
            load_recipe(recipe_file(stitch=stitch), [f"stitch.systems={wrong}"])
    with pytest.raises(RecipeError, match="is not a system that stitches"):
        load_recipe(recipe_file(stitch=stitch | {"save": "none"}))


def test_files_of_every_training_are_sources(recipe_file, tmp_path: Path) -> None:
    files = {code: {split: tmp_path / f"{split}-{code}.tsv" for split in ("train", "test")} for code in ("en", "de")}
    for code in files:
        for file in files[code].values():
            file.write_text("text\tlabel\nx\ta\ny\tb\n")
    paths = {"data": f"{tmp_path}/test-{{lang}}.tsv", "train": f"{tmp_path}/train-{{lang}}.tsv"}
    stitch = {"benchmark": paths, "systems": {"relative": {}}}

    def sources(*overrides: str) -> set[str]:
        recipe = load_recipe(recipe_file(stitch=stitch, languages=["en", "de"]), overrides)
        return {location.name for location in StitchStage().sources(StitchStage().settings(recipe))}

    assert sources() == {"train-en.tsv", "test-en.tsv", "test-de.tsv"}
    logistic = "stitch.systems={vectors: {method: logistic-regression}}"
    assert sources(logistic) - sources() == {"train-de.tsv"}, "it learns in the language itself"
