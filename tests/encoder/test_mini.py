"""The encoder that is shipped: it loads as any other does, and it knows something."""

from statistics import fmean

import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from babelray.encoder.load import SHIPPED, load_encoder, load_masked_lm
from babelray.encoder.text_encoder import TextEncoder
from babelray.metrics.retrieval import retrieval_accuracy
from babelray.storage.location import STARTER

MINI = SHIPPED["babelray-mini"]


def sentences(code: str) -> list[str]:
    return [line for line in (STARTER / "text" / f"{code}.txt").read_text(encoding="utf-8").splitlines() if line]


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder.from_pretrained("babelray-mini")


def test_it_is_small() -> None:
    assert (MINI / "model.safetensors").stat().st_size < 32e6
    assert sum(file.stat().st_size for file in MINI.rglob("*") if file.is_file()) < 36e6


def test_it_loads_by_its_name_and_as_any_other() -> None:
    model, ours = AutoModel.from_pretrained(MINI), load_encoder("babelray-mini")
    assert model.dtype == torch.float32 and load_masked_lm("babelray-mini").dtype == torch.float32
    inputs = AutoTokenizer.from_pretrained(MINI)("Ein Hund bellt.", return_tensors="pt")
    assert torch.equal(model(**inputs).last_hidden_state, ours(**inputs).last_hidden_state)


def test_sentence_transformers_pools_as_we_do(encoder: TextEncoder) -> None:
    texts = ["A dog barks in the garden.", "Ein Hund bellt im Garten."]
    theirs = torch.from_numpy(SentenceTransformer(str(MINI), device="cpu").encode(texts))
    assert torch.nn.functional.cosine_similarity(theirs, encoder.encode(texts)).min() > 0.95  # they count <s> too


def test_every_script_is_read(encoder: TextEncoder) -> None:
    """No language's text falls apart into bytes, but for rare characters and Persian's half-spaces."""
    for file in sorted((STARTER / "text").glob("*.txt")):
        texts = [text.replace("\u200c", " ") for text in sentences(file.stem)]
        pieces = [piece for text in texts for piece in encoder.tokenizer.tokenize(text)]
        assert sum(piece.startswith("<0x") for piece in pieces) < 0.1 * len(pieces), file.stem
        assert encoder.tokenizer.unk_token not in pieces, file.stem


@pytest.mark.integration
def test_it_finds_translations_that_it_has_never_seen(encoder: TextEncoder) -> None:
    """Of 242 sentences; chance is 0.4 %. Languages that its teacher knows, and others."""
    english = encoder.encode(sentences("en"))

    def mean(codes: str) -> float:
        return fmean(retrieval_accuracy(encoder.encode(sentences(c)), english)["mean"] for c in codes.split())

    assert mean("de es fr it nl pt") > 0.9
    assert mean("af bg el fi hi id sw") > 0.8
    assert mean("ka kk ml my ta te yo") > 0.4
