"""The stitch stage in parts, on a task of forty words and a target language that is the source in disguise."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from babelray.encoder.load import load_with_head
from babelray.errors import DataError, RecipeError
from babelray.evaluation.classification import accuracy
from babelray.lexicon.pairs import Pair, write_pairs
from babelray.recipe import load_recipe
from babelray.stages import stitch
from babelray.stages.pipeline import plan
from babelray.stages.stage import Job
from babelray.stages.stitch import Plan, Settings, StitchStage, fine_tuned, judged, prepare, put_source, starts
from babelray.stitching.config import StitchConfig
from babelray.storage import Place
from babelray.tasks import Task
from babelray.text.tables import SENTENCES, write_rows
from babelray.vectors.word_vectors import WordVectors
from stitching_language import make_language, turn

SYSTEMS = {
    "logistic": {"method": "logistic-regression"},
    "zero-shot": {"method": "zero-shot"},
    "squares": {"method": "least-squares", "freeze_embeddings": True},
    "relative": {"k": 8},
    "kept": {"k": 1, "keep_source": True, "freeze_embeddings": True},
    "wechsel": {"method": "wechsel", "k": 1, "freeze_embeddings": True},
}


def task(folder: Path) -> dict[str, object]:
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
def made(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """The artifacts of earlier stages. A text's topic is that of most of its words; a German word is an English one
    backwards, with a vector that is a rotated embedding.
    """
    folder = tmp_path_factory.mktemp("stitch")
    place = Place.parse(folder)
    language = make_language(folder / "encoder" / "encoder")
    words, matrix = language.words, language.source.hub.matrix
    german = [f"z{word[::-1]}" for word in words]
    WordVectors(words, matrix, [1] * 40).save(place / "extract" / "vectors" / "en")
    WordVectors(german, matrix @ turn(16), [1] * 40).save(place / "extract" / "vectors" / "de")
    pairs = [Pair(*both, "train") for both in zip(german, words, strict=True)]
    write_pairs(place / "corpus" / "dictionary" / "de-en", pairs)
    generator = torch.Generator().manual_seed(0)
    rows = []
    for number in range(210):
        topic = number % 3
        chosen = [13 * topic + int(torch.randint(13, (), generator=generator)) for _ in range(5)]
        cells = [" ".join(some[i] for i in chosen) for some in (words, german)]
        rows.append("\t".join([str(number), "abc"[topic], *cells]))
    (folder / "table.tsv").write_text("\n".join(["row\ttopic\ten\tde", *rows]) + "\n")
    text = {"document": 0, "paragraph": 0, "sentence": 0, "text": " ".join(words[:8]), "tokens": words[:8]}
    write_rows(place / "corpus" / "sentences" / "en" / "00000.parquet", [text] * 8, list(SENTENCES))
    config = StitchConfig.model_validate({"task": task(folder), "systems": SYSTEMS, "save": "squares"})
    settings = Settings(languages=["en", "de"], hub="en", seed=1, stitch=config)
    return Plan(settings, place / "corpus", place / "encoder", place / "extract", place / "out")


def with_systems(made: Plan, out: str, **systems: dict[str, object]) -> Plan:
    config = StitchConfig.model_validate(made.settings.stitch.model_dump() | {"systems": systems, "save": None})
    settings = made.settings.model_copy(update={"stitch": config})
    return Plan(settings, made.corpus, made.encoder, made.extract, made.out / out)


def test_a_language_in_disguise_is_classified_as_well_as_the_source(made: Plan) -> None:
    found = prepare(made, "de")
    assert found["covered"] == 1 and found["words"] == 40
    assert found["anchors"] == dict.fromkeys(("squares", "relative", "kept", "wechsel"), 40)
    for start in starts(made.settings):
        fine_tuned(made, start, 3)
    gold = [text.label for text in made.settings.task.test_data()["de"]]
    for name in ("squares", "kept", "wechsel"):
        answers = made.answers(name, "de", 3).read_json()
        assert answers["answers"] == answers["en"], "embeddings were frozen: nothing is lost"
    scores = judged(made)
    assert scores.baseline == "squares" and scores.means()["squares"] > 0.9
    assert scores.means()["logistic"] > 0.9 and scores.means()["relative"] > 0.8
    assert scores.means()["zero-shot"] < 0.5, "the encoder itself knows no German"
    folder = made.out / "models" / "de"
    tokenizer, model = (
        kind.from_pretrained(str(folder)) for kind in (AutoTokenizer, AutoModelForSequenceClassification)
    )
    texts = [text.text for text in made.settings.task.test_data()["de"]]
    with torch.no_grad():
        numbers = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.argmax(1).tolist()
    told = [model.config.id2label[number] for number in numbers]
    assert told == made.answers("squares", "de", 3).read_json()["answers"] and accuracy(gold, told) > 0.9


def test_the_whole_stage(made: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks one after the other, without a cluster."""
    ran: dict[str, list[str]] = {}

    def inline(tasks: Sequence[Task], progress: object, unit: str, cpus: float = 0.5) -> dict[str, Any]:
        ran[unit] = [task.name for task in tasks]
        return {task.name: task.function(*task.arguments) for task in tasks}

    monkeypatch.setattr(stitch, "run_tasks", inline)
    inputs: Any = {name: SimpleNamespace(place=getattr(made, name)) for name in StitchStage.needs}
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
    tables = (made.out / "stitching.md").read_text()
    assert all(f"| {name} " in tables for name in SYSTEMS) and "against squares" in tables
    assert "<svg" in (made.out / "stitching.html").read_text()
    anchors = (made.out / "anchors" / "relative" / "de.tsv").read_text().splitlines()
    assert anchors[0] == "znlab\tbaln" and len(anchors) == 40


def test_what_is_done_is_not_done_again(made: Plan) -> None:
    for name in SYSTEMS:
        seed = 0 if name == "logistic" else 3
        made.answers(name, "de", seed).write_json({"answers": ["a"] * 60, "en": ["a"] * 60})
    for start in starts(made.settings):
        fine_tuned(made, start, 3)
    assert all(made.answers(name, "de", made.seeds(name)[0]).read_json()["answers"][1] == "a" for name in SYSTEMS)
    assert prepare(made, "de") == (made.out / "languages" / "de.json").read_json()


def test_systems_that_start_alike_share_a_fine_tuning(made: Plan) -> None:
    settings = made.settings.model_copy(update={"languages": ["en", "de", "fr"]})
    found = {start.name: start.uses for start in starts(settings)}
    assert found == {
        "zero-shot, all languages": (("zero-shot", "de"), ("zero-shot", "fr")),
        "squares, all languages": tuple((n, c) for n in ("squares", "kept", "wechsel") for c in ("de", "fr")),
        "relative, de": (("relative", "de"),),
        "relative, fr": (("relative", "fr"),),
    }


def test_the_body_adapts_to_new_embeddings_which_stay(made: Plan) -> None:
    own = with_systems(made, "adapted", relative={"k": 8, "adapt_steps": 2})
    (start,) = starts(own.settings)
    with own.folder() as folder:
        plain, adapted = (load_with_head(folder, "classification", ["a", "b", "c"], 1) for _ in range(2))
        source = own.source(plain, folder)
        short = start.system.model_copy(update={"adapt_steps": 0})
        put_source(own, type(start)(short, "de", start.uses), plain, source, folder, 1)
        put_source(own, start, adapted, source, folder, 1)
    before, after = plain.base_model.state_dict(), adapted.base_model.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert torch.equal(before["embeddings.word_embeddings.weight"], after["embeddings.word_embeddings.weight"])
    assert not torch.equal(before["embeddings.word_embeddings.weight"], source.embeddings_VD)
    assert any("layer.0.attention" in name for name in moved) and not any("pooler" in name for name in moved)


def test_a_vocabulary_without_the_words_of_the_task(made: Plan) -> None:
    other = Plan(made.settings, made.corpus, made.encoder, made.out / "other", made.out / "bad")
    for code in ("en", "de"):
        WordVectors(["ыыы", "ььь"], torch.eye(2), [1, 1]).save(other.extract / "vectors" / code)
    with pytest.raises(DataError, match="de: none of the 60 texts of the task has a word with a static vector"):
        prepare(other, "de")


def test_a_language_without_anchors_is_named(made: Plan) -> None:
    write_pairs(made.out / "corpus" / "dictionary" / "de-en", [Pair("zweit", "second", "train")])
    other = Plan(made.settings, made.out / "corpus", made.encoder, made.extract, made.out / "none")
    with pytest.raises(DataError, match="de: none of 1 translation pairs"):
        prepare(other, "de")


def test_a_recipe_with_it(recipe_file, tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("row\ttopic\ten\tde\n0\ta\tx\ty\n150\tb\tx\ty\n")
    told = {"task": task(tmp_path)}
    recipe = load_recipe(recipe_file(stitch=told, languages=["en", "de"]), ["pretrain=null"])
    assert [step.stage.name for step in plan(recipe, "stitch")] == ["corpus", "encoder", "extract", "stitch"]
    assert (
        load_recipe(recipe_file(stitch=told), ["stitch.systems.relative.k=all"]).stitch.systems["relative"].k == "all"
    )
    with pytest.raises(RecipeError, match="has no stitch"):
        plan(load_recipe(recipe_file()), "stitch")
    with pytest.raises(RecipeError, match="only one language"):
        StitchStage().settings(load_recipe(recipe_file(stitch=told, languages=["en"])))
    for wrong, problem in {
        "{mine: {k: 0}}": "k",
        "{mine: {keep_source: true, method: wechsel}}": "wechsel does so anyway",
        "{mine: {encoder: other}}": "only zero-shot",
        "{my system: {}}": "needs a name of letters",
        "{mine: {weigting: softmax}}": "weighting",
    }.items():
        with pytest.raises(RecipeError, match=problem):
            load_recipe(recipe_file(stitch=told), [f"stitch.systems={wrong}"])
    with pytest.raises(RecipeError, match="is not a system that stitches"):
        load_recipe(recipe_file(stitch=told | {"save": "none"}))
