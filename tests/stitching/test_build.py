"""A whole stitching, with an answer that is known: the target is the source itself, or the source in disguise."""

import json
from pathlib import Path
from typing import get_args

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from babelray.errors import DataError
from babelray.objectives.labelled import Example
from babelray.stitching.build import Target, source_embeddings, target_embeddings
from babelray.stitching.config import SystemConfig, Weighting
from babelray.stitching.relative import relative
from babelray.stitching.swap import only_used, swap_embeddings
from babelray.vectors.word_vectors import WordVectors
from stitching_language import SourceLanguage, turn

SYSTEMS = {
    "relative": SystemConfig(k=5),
    "all anchors": SystemConfig(k="all", weighting="softmax", temperature=0.1),
    "sparsemax": SystemConfig(k=7, weighting="sparsemax"),
    "least-squares": SystemConfig(method="least-squares"),
    "wechsel": SystemConfig(method="wechsel", k=1),
}
ORDER = torch.randperm(40, generator=torch.Generator().manual_seed(5)).tolist()


def disguised(language: SourceLanguage, anchors: int = 40) -> Target:
    """The source language with other words for the same things, in another order and a rotated space."""
    words = [f"z{language.words[row][::-1]}" for row in ORDER]
    vectors = WordVectors(words, language.source.hub.matrix[ORDER] @ turn(16), [1] * 40)
    pairs = [(word, language.words[row]) for word, row in zip(words, ORDER, strict=True)]
    return Target.of(vectors, language.source, pairs[:anchors])


def texts(words: list[str], count: int = 20) -> list[str]:
    generator = torch.Generator().manual_seed(2)
    rows = [
        torch.randint(40, (int(n),), generator=generator) for n in torch.randint(1, 9, (count,), generator=generator)
    ]
    return [" ".join(words[i] for i in row.tolist()) + " , 7 ." for row in rows]


def logits(model, tokenizer, some: list[str]) -> torch.Tensor:
    with torch.no_grad():
        return model(**tokenizer(some, padding=True, return_tensors="pt")).logits


def stitched(language: SourceLanguage, system: SystemConfig, target: Target):
    """The model with the source embeddings of a system, what it says of source texts, and the model after the swap."""
    model = language.model()
    if system.own_source:
        swap_embeddings(
            model, source_embeddings(system, target, target.anchors(system.anchors, 1)), language.source.tokenizer
        )
    before = logits(model, language.source.tokenizer, texts(language.words))
    tuned = model.get_input_embeddings().weight.detach().clone()
    swap_embeddings(model, target.matrix(target_embeddings(system, target, 1), tuned), target.tokenizer)
    return model, before


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_language_in_disguise_is_understood_as_well(language: SourceLanguage, name: str) -> None:
    target = disguised(language)
    model, before = stitched(language, SYSTEMS[name], target)
    words = dict(zip(ORDER, target.words.words, strict=True))
    after = logits(model, target.tokenizer, texts([words[row] for row in range(40)]))
    assert torch.allclose(after, before, atol=1e-3)
    assert before.std(0).min() > 1e-3, "the texts are told apart"


@pytest.mark.parametrize("name", [*SYSTEMS, "focus"])
def test_the_source_itself_changes_no_prediction(language: SourceLanguage, name: str) -> None:
    """Up to the effect of F^s, which is there before the swap as well."""
    target = Target.of(language.source.hub, language.source, [(word, word) for word in language.words])
    model, before = stitched(language, SYSTEMS.get(name, SystemConfig(method="focus")), target)
    assert torch.allclose(logits(model, target.tokenizer, texts(language.words)), before, atol=1e-3)


@pytest.mark.parametrize("name", ["relative", "all anchors", "sparsemax", "wechsel", "least-squares"])
def test_a_rotation_of_the_target_changes_nothing(language: SourceLanguage, name: str) -> None:
    target = disguised(language, anchors=25)
    turned = WordVectors(target.words.words, target.words.matrix @ turn(16, 9), target.words.counts)
    other = Target.of(turned, language.source, target.dictionary)
    found, wanted = (target_embeddings(SYSTEMS[name], one, 1)[:40] for one in (other, target))
    assert torch.allclose(found, wanted, atol=1e-2)
    assert torch.allclose(found.mean(), wanted.mean(), atol=1e-4)


def test_more_anchors_asked_for_than_there_are(language: SourceLanguage) -> None:
    target = disguised(language, anchors=6)
    many, all_of_them = (target_embeddings(SystemConfig(k=k), target, 1) for k in (1000, "all"))
    assert torch.equal(many, all_of_them)
    with pytest.raises(DataError, match="1 anchor, of 1 pairs"):
        target_embeddings(SystemConfig(), disguised(language, anchors=1), 1)
    with pytest.raises(DataError, match="none of 0 translation pairs"):
        target_embeddings(SystemConfig(method="least-squares"), disguised(language, anchors=0), 1)
    with pytest.raises(DataError, match="no word in common"):
        target_embeddings(SystemConfig(method="focus"), disguised(language), 1)


def test_a_stitched_model_loads_everywhere(language: SourceLanguage, tmp_path: Path) -> None:
    target = disguised(language)
    model, _ = stitched(language, SYSTEMS["relative"], target)
    model.save_pretrained(tmp_path)
    target.tokenizer.save_pretrained(tmp_path)
    loaded, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(tmp_path),
        AutoTokenizer.from_pretrained(tmp_path),
    )
    some = texts(target.words.words)
    assert torch.allclose(logits(loaded.eval(), tokenizer, some), logits(model, target.tokenizer, some), atol=1e-5)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["vocab_size"] == len(tokenizer) and config["pad_token_id"] == tokenizer.pad_token_id


def test_a_head_that_shares_the_embeddings_goes_on_to(language: SourceLanguage, tiny_encoder: str) -> None:
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
    """The same loss and the same gradients; what is changed comes back to its place."""
    path = language.folder if family == "bert" else tiny_encoder
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForSequenceClassification.from_pretrained(path, num_labels=3).eval()
    encoded = tokenizer(["baln 7 geln"], padding="max_length", max_length=9)
    example = Example({name: encoded[name][0] for name in tokenizer.model_input_names if name in encoded}, [1])

    def loss(example: Example) -> torch.Tensor:
        inputs = {name: torch.tensor([values]) for name, values in example.inputs.items()}
        return model(**inputs, labels=torch.tensor([1])).loss

    whole = loss(example)
    (wanted,) = torch.autograd.grad(whole, [model.get_input_embeddings().weight])
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
    assert Target.of(vectors, language.source, []).words.words == ["zwei"]


def test_systems_that_do_the_same_are_the_same() -> None:
    assert SystemConfig(k=50, temperature=0.1) == SystemConfig(k=50)
    assert SystemConfig(k=1, weighting="softmax", temperature=0.1) == SystemConfig(k=1)
    assert SystemConfig(k=50, weighting="softmax", temperature=0.1).temperature == 0.1
    assert SystemConfig(method="wechsel", temperature=0.3).sharpness == 0.3
    words_NE, anchors_AE = torch.randn(7, 3), torch.randn(4, 3)
    all_alike = [relative(words_NE, anchors_AE, torch.eye(4), 1, weights, 0.1) for weights in get_args(Weighting)]
    assert all(torch.allclose(found_ND, all_alike[0], atol=1e-6) for found_ND in all_alike)
