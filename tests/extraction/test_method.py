"""An extraction method is one registered class: a recipe can name it, and a language is extracted with it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest
import torch
from pydantic import ValidationError

from babelray.extraction.language import LanguageExtraction
from babelray.extraction.method import (
    EXTRACTION_METHODS,
    EncoderMethod,
    OnProgress,
    PreparedBlock,
    default_method,
)
from babelray.extraction.x2static import X2StaticMethod
from babelray.recipe.recipe import Recipe
from support.extraction import TEXTS, encode_sentences, tokenize

if TYPE_CHECKING:
    from babelray.extraction.method import ReadBlocks

RECIPE = {"name": "small", "languages": ["en"], "corpus": {"text": "starter:text/{lang}.txt"}, "encoder": {"path": "x"}}


def parse(extract: object) -> Recipe:
    return Recipe.model_validate(RECIPE | {"extract": extract})


@pytest.fixture
def first_occurrence() -> Iterator[None]:
    """A toy method: the vector of a word is that of its first occurrence, times a factor."""

    @EXTRACTION_METHODS.register
    class FirstOccurrence(EncoderMethod):
        """The first occurrence of a word."""

        method: Literal["first-occurrence"] = "first-occurrence"
        factor: float = 1.0

        def encode(
            self, language: LanguageExtraction, block: PreparedBlock, on_progress: OnProgress
        ) -> dict[str, torch.Tensor]:
            occurrences: list[tuple[int, int, torch.Tensor]] = []
            for batch, hidden in language.read(block.batches, on_progress):
                sums, subwords = batch.pool(hidden[language.layer])
                rows = zip(batch.number_W.tolist(), batch.word_W.tolist(), sums / subwords[:, None], strict=True)
                occurrences.extend(rows)
            occurrences.sort(key=lambda occurrence: occurrence[0])
            return {
                "words": torch.tensor([word for _, word, _ in occurrences]),
                "vectors": torch.stack([vector for _, _, vector in occurrences]),
            }

        def combine(
            self, language: LanguageExtraction, blocks: "ReadBlocks", layer: int, on_progress: OnProgress
        ) -> tuple[torch.Tensor, torch.Tensor]:
            matrix = torch.zeros(len(language.words), 32)
            counts = torch.zeros(len(language.words), dtype=torch.long)
            for block in blocks():
                for word, vector in zip(block["words"].tolist(), block["vectors"], strict=True):
                    if not counts[word]:
                        matrix[word] = self.factor * vector
                    counts[word] += 1
            return matrix, counts

    yield
    EXTRACTION_METHODS.remove("first-occurrence")


def test_a_method_is_one_class(first_occurrence: None, language) -> None:
    settings = parse({"method": "first-occurrence", "factor": 2, "layer": 1}).extract.model_dump()
    toy, mean = language(**settings), language(method="aggregate")
    sentences = tokenize(TEXTS)
    blocks = [encode_sentences(toy, number, sentences[2 * number : 2 * number + 2]) for number in (0, 1)]
    vectors = toy.combine(lambda: blocks, 1)
    assert vectors.words == toy.words and vectors.counts == list(toy.vocabulary.values())
    (block,) = [encode_sentences(mean, 0, tokenize(TEXTS[:1]))]
    first = mean.combine(lambda: [block], 1)
    assert torch.allclose(vectors.matrix[vectors.position["cat"]], 2 * first.matrix[first.position["cat"]], atol=1e-5)
    assert parse("first-occurrence").extract.description() == "The first occurrence of a word."
    dumped = parse(settings).to_yaml()
    assert "method: first-occurrence" in dumped and "factor: 2.0" in dumped
    with pytest.raises(ValidationError, match="factr"):
        parse({"method": "first-occurrence", "factr": 2})


def test_a_removed_method_is_unknown() -> None:
    with pytest.raises(ValidationError, match="there is no extraction method 'first-occurrence'"):
        parse("first-occurrence")


def test_the_methods_of_a_recipe() -> None:
    assert list(EXTRACTION_METHODS) == ["aggregate", "given", "isolated", "x2static"]
    assert Recipe.model_validate(RECIPE).extract == default_method() == X2StaticMethod()
    assert parse({"epochs": 5}).extract == parse({"method": "x2static", "epochs": 5}).extract
    assert parse("isolated").extract.method == "isolated"
    with pytest.raises(ValidationError, match="did you mean 'x2static'"):
        parse("x2statik")
    with pytest.raises(ValidationError, match=r"extract.*epochs"):
        parse({"method": "isolated", "epochs": 5})


def test_a_variant_can_change_the_method() -> None:
    training = {"steps": 4, "objectives": [{"kind": "mlm", "batch_size": 4}]}
    variants = {"mean": {"extract": {"method": "aggregate", "layer": 3}}, "longer": {"extract.epochs": 3}}
    recipe = Recipe.model_validate(RECIPE | {"extract": {"layer": 3}, "pretrain": training, "variants": variants})
    assert recipe.variant("mean", 1).extract == parse({"method": "aggregate", "layer": 3}).extract
    assert recipe.variant("longer", 1).extract == parse({"layer": 3, "epochs": 3}).extract


@pytest.mark.parametrize("name", EXTRACTION_METHODS)
def test_every_method_describes_itself(name: str) -> None:
    method = EXTRACTION_METHODS[name]
    assert method.description().endswith(".") and {*method.needs} <= {"encoder", "text"}
    assert ("encoder" in method.needs) == issubclass(method, EncoderMethod)


def test_x2static_reads_one_layer() -> None:
    with pytest.raises(ValidationError, match="x2static reads one layer; use aggregate or isolated for several"):
        parse({"also_layers": "all"})
    assert parse({"method": "aggregate", "also_layers": "all"}).extract.also_layers == "all"
