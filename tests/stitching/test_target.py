"""Stitching with a known result: the target is the source itself, or the source in disguise."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from babelray.errors import DataError
from babelray.objectives.labelled import Example
from babelray.stitching.focus import Focus
from babelray.stitching.least_squares import LeastSquares
from babelray.stitching.method import StitchingMethod
from babelray.stitching.relative import Relative
from babelray.stitching.swap import only_used, swap_embeddings
from babelray.stitching.target import Target
from babelray.stitching.wechsel import Wechsel
from babelray.vectors.word_vectors import WordVectors
from support.stitching_language import SourceLanguage, random_rotation

SYSTEMS: dict[str, StitchingMethod] = {
    "relative": Relative(k=5),
    "all anchors": Relative(k="all", weighting="softmax", temperature=0.1),
    "sparsemax": Relative(k=7, weighting="sparsemax"),
    "least-squares": LeastSquares(),
    "wechsel": Wechsel(k=1),
}
ORDER = torch.randperm(40, generator=torch.Generator().manual_seed(5)).tolist()


def disguised(language: SourceLanguage, anchors: int = 40) -> Target:
    """The source language with other words for the same things, in another order and a rotated space."""
    words = [f"z{language.words[row][::-1]}" for row in ORDER]
    vectors = WordVectors(words, language.source.hub.matrix[ORDER] @ random_rotation(16), [1] * 40)
    pairs = [(word, language.words[row]) for word, row in zip(words, ORDER, strict=True)]
    return Target.from_vectors(vectors, language.source, pairs[:anchors])


def texts(words: list[str], count: int = 20) -> list[str]:
    generator = torch.Generator().manual_seed(2)
    rows = [
        torch.randint(40, (int(n),), generator=generator) for n in torch.randint(1, 9, (count,), generator=generator)
    ]
    return [" ".join(words[i] for i in row.tolist()) + " , 7 ." for row in rows]


def logits(model, tokenizer, texts: list[str]) -> torch.Tensor:
    with torch.no_grad():
        return model(**tokenizer(texts, padding=True, return_tensors="pt")).logits


def stitched(language: SourceLanguage, system: StitchingMethod, target: Target):
    """The stitched model, and the logits of source texts before the swap."""
    model = language.model()
    start = system.start()
    if start is not None and start.source is not None:
        swap_embeddings(model, start.source.source_embeddings(target, 1), language.source.tokenizer)
    before = logits(model, language.source.tokenizer, texts(language.words))
    tuned = model.get_input_embeddings().weight.detach().clone()
    swap_embeddings(model, target.matrix(system.target_embeddings(target, 1), tuned), target.tokenizer)
    return model, before


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_language_in_disguise_gives_the_same_logits(language: SourceLanguage, name: str) -> None:
    target = disguised(language)
    model, before = stitched(language, SYSTEMS[name], target)
    words = dict(zip(ORDER, target.words.words, strict=True))
    after = logits(model, target.tokenizer, texts([words[row] for row in range(40)]))
    assert torch.allclose(after, before, atol=1e-3)
    assert before.std(0).min() > 1e-3, "the texts have different logits"


@pytest.mark.parametrize("name", [*SYSTEMS, "focus"])
def test_the_source_itself_changes_no_prediction(language: SourceLanguage, name: str) -> None:
    """Up to the effect of F^s, which is there before the swap as well."""
    target = Target.from_vectors(language.source.hub, language.source, [(word, word) for word in language.words])
    model, before = stitched(language, SYSTEMS.get(name, Focus()), target)
    assert torch.allclose(logits(model, target.tokenizer, texts(language.words)), before, atol=1e-3)


@pytest.mark.parametrize("name", ["relative", "all anchors", "sparsemax", "wechsel", "least-squares"])
def test_a_rotation_of_the_target_changes_nothing(language: SourceLanguage, name: str) -> None:
    target = disguised(language, anchors=25)
    turned = WordVectors(target.words.words, target.words.matrix @ random_rotation(16, 9), target.words.counts)
    other = Target.from_vectors(turned, language.source, target.dictionary)
    rotated, plain = (SYSTEMS[name].target_embeddings(side, 1)[:40] for side in (other, target))
    assert torch.allclose(rotated, plain, atol=1e-2)
    assert torch.allclose(rotated.mean(), plain.mean(), atol=1e-4)


def test_k_larger_than_the_number_of_anchors(language: SourceLanguage) -> None:
    target = disguised(language, anchors=6)
    large, all_anchors = (Relative(k=k).target_embeddings(target, 1) for k in (1000, "all"))
    assert torch.equal(large, all_anchors)
    with pytest.raises(DataError, match="1 anchor, of 1 pairs"):
        Relative().target_embeddings(disguised(language, anchors=1), 1)
    with pytest.raises(DataError, match="none of 0 translation pairs"):
        LeastSquares().target_embeddings(disguised(language, anchors=0), 1)
    with pytest.raises(DataError, match="no word in common"):
        Focus().target_embeddings(disguised(language), 1)


def test_a_stitched_model_loads_everywhere(language: SourceLanguage, tmp_path: Path) -> None:
    target = disguised(language)
    model, _ = stitched(language, SYSTEMS["relative"], target)
    model.save_pretrained(tmp_path)
    target.tokenizer.save_pretrained(tmp_path)
    loaded, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(tmp_path),
        AutoTokenizer.from_pretrained(tmp_path),
    )
    examples = texts(target.words.words)
    after = logits(loaded.eval(), tokenizer, examples)
    assert torch.allclose(after, logits(model, target.tokenizer, examples), atol=1e-5)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["vocab_size"] == len(tokenizer) and config["pad_token_id"] == tokenizer.pad_token_id


def test_a_head_that_is_tied_to_the_embeddings_stays_tied(language: SourceLanguage, tiny_encoder: str) -> None:
    model = AutoModelForMaskedLM.from_pretrained(tiny_encoder)
    positions = next(p for name, p in model.named_parameters() if "position_embeddings" in name).clone()
    new = torch.randn(17, 32)
    swap_embeddings(model, new, disguised(language).tokenizer)
    assert torch.equal(model.get_output_embeddings().weight, new) and torch.equal(
        model.get_input_embeddings().weight, new
    )
    assert model(input_ids=torch.tensor([[3, 16]])).logits.shape == (1, 2, 17)
    after = next(p for name, p in model.named_parameters() if "position_embeddings" in name)
    assert torch.equal(after, positions)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_training_needs_only_the_embeddings_that_its_texts_use(
    language: SourceLanguage, tiny_encoder: str, family: str
) -> None:
    """The same loss and the same gradients; updates are put back in their places."""
    path = language.folder if family == "bert" else tiny_encoder
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForSequenceClassification.from_pretrained(path, num_labels=3).eval()
    encoded = tokenizer(["baln 7 geln"], padding="max_length", max_length=9)
    example = Example({name: encoded[name][0] for name in tokenizer.model_input_names if name in encoded}, [1])

    def loss(example: Example) -> torch.Tensor:
        inputs = {name: torch.tensor([values]) for name, values in example.inputs.items()}
        return model(**inputs, labels=torch.tensor([1])).loss

    (wanted,) = torch.autograd.grad(loss(example), [model.get_input_embeddings().weight])
    before = model.get_input_embeddings().weight.detach().clone()
    with only_used(model, [example], tokenizer) as examples:
        trimmed = model.get_input_embeddings().weight
        assert len(trimmed) < len(before) / 2
        (gradient,) = torch.autograd.grad(loss(examples[0]), [trimmed])
        with torch.no_grad():
            trimmed -= gradient
    assert torch.allclose(model.get_input_embeddings().weight, before - wanted, atol=1e-6) and wanted.any()


def test_special_words_of_the_vectors_are_left_out(language: SourceLanguage) -> None:
    vectors = WordVectors(["[SEP]", "zwei"], torch.ones(2, 16), [2, 1])
    assert Target.from_vectors(vectors, language.source, []).words.words == ["zwei"]


def test_coverage_and_averages_of_texts(language: SourceLanguage) -> None:
    target = Target.from_vectors(WordVectors(["zwei", "drei"], torch.eye(2), [2, 1]), language.source, [])
    assert target.coverage(["zwei drei , 7"]) == 1, "signs do not count"
    assert target.coverage(["zwei zw"]) == 1 / 3, "z and w are parts of words"
    assert torch.equal(target.average(["zwei drei zwei", "ы"]), torch.tensor([[2 / 3, 1 / 3], [0.0, 0.0]]))
    with pytest.raises(DataError, match="none of the 1 texts"):
        target.coverage(["z"])
