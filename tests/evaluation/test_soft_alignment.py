import io
import re
from pathlib import Path

import pytest
import torch
from rich.console import Console

from babelray.errors import DataError, RecipeError
from babelray.evaluation.soft_alignment import show, soft_alignment

GERMAN, ENGLISH = "Die Katze schläft auf dem Bett.", "The cat sleeps on the bed."
PAIR = ("de", "en")


def shown(encoder: str, source: str, target: str, width: int = 140, **options) -> str:
    output = io.StringIO()
    found = soft_alignment(encoder, source, target, **{"level": "words", "languages": PAIR} | options)
    show(found, Console(file=output, width=width))
    return output.getvalue()


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize("p", [1, 2])
def test_a_sentence_is_aligned_with_itself(tiny_encoder: str, p: int, pooling: str) -> None:
    found = soft_alignment(tiny_encoder, GERMAN, GERMAN, "words", ("de", "de"), p=p, pooling=pooling)
    assert found.rows == found.columns == ["Die", "Katze", "schläft", "auf", "dem", "Bett", "."]
    assert torch.allclose(found.shares_ST, torch.eye(7), atol=1e-3)
    assert found.divergence == pytest.approx(0, abs=1e-3)


def test_vectors_are_those_of_the_layer(tiny_encoder: str) -> None:
    """By hand: the last subword of each word, at the embedding layer, and the transport of the two sides."""
    from transformers import AutoModel, AutoTokenizer

    from babelray.objectives.sinkhorn import transport_plan

    tokenizer, model = AutoTokenizer.from_pretrained(tiny_encoder), AutoModel.from_pretrained(tiny_encoder).eval()
    sides = []
    for text in (GERMAN, ENGLISH):
        ends = [found.end() for found in re.finditer(r"\w+|\.", text)]
        encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0].tolist()
        last = [max(i for i, (a, b) in enumerate(offsets) if a < end and b > a) for end in ends]
        hidden = model(**encoded, output_hidden_states=True).hidden_states[1][0, last].detach()
        sides += [hidden[None], torch.ones(1, len(last))]
    expected = transport_plan(*sides, blur=2.0, p=1, iterations=100)[0]
    found = soft_alignment(tiny_encoder, GERMAN, ENGLISH, "words", PAIR, layer=1, blur=2.0, p=1)
    assert torch.allclose(found.shares_ST, expected * len(found.rows), atol=1e-4)
    other = soft_alignment(tiny_encoder, GERMAN, ENGLISH, "words", PAIR, layer=2, blur=2.0, p=1)
    assert not torch.allclose(found.shares_ST, other.shares_ST, atol=2e-4)


def test_the_table(tiny_encoder: str) -> None:
    lines = shown(tiny_encoder, GERMAN, ENGLISH, blur=1.0).splitlines()
    assert lines[0].split() == ["The", "cat", "sleeps", "on", "the", "bed", "."]
    rows = [line.split() for line in lines[1:8]]
    assert [row[0] for row in rows] == ["Die", "Katze", "schläft", "auf", "dem", "Bett", "."]
    found = soft_alignment(tiny_encoder, GERMAN, ENGLISH, "words", PAIR, blur=1.0)
    assert [[int(cell) for cell in row[1:]] for row in rows] == (100 * found.shares_ST).round().int().tolist()
    assert lines[9].split() == f"divergence {found.divergence:.4g}".split()
    best = [found.columns[i] for i in found.shares_ST.argmax(1).tolist()]
    assert lines[10] == " · ".join(f"{row} → {word}" for row, word in zip(found.rows, best, strict=True))


def test_the_largest_is_highlighted_and_small_ones_are_dimmed(tiny_encoder: str) -> None:
    output = io.StringIO()
    console = Console(file=output, width=140, force_terminal=True, color_system="standard")
    show(soft_alignment(tiny_encoder, GERMAN, GERMAN, "words", ("de", "de")), console)
    row = output.getvalue().splitlines()[2]
    assert re.search("\x1b\\[1;32m *100\x1b", row) and row.count("\x1b[2m") == 6


@pytest.mark.parametrize(("width", "words"), [(140, 15), (40, 12)])
def test_a_table_too_wide_is_a_list(tiny_encoder: str, width: int, words: int) -> None:
    long = " ".join(["cat"] * (words - 1)) + "."
    lines = shown(tiny_encoder, "Die Katze.", long, width).splitlines()
    found = soft_alignment(tiny_encoder, "Die Katze.", long, "words", PAIR)
    for line, word, shares in zip(lines, ["Die", "Katze", "."], found.shares_ST, strict=False):
        best = shares.topk(3)
        cells = [
            f"{found.columns[i]} {100 * share:.0f}%" for share, i in zip(*map(torch.Tensor.tolist, best), strict=True)
        ]
        assert line.split() == f"{word} {' '.join(cells)}".split()


def test_subwords_and_words_that_look_like_markup(tiny_encoder: str) -> None:
    found = soft_alignment(tiny_encoder, GERMAN, "A [bold] dog.", "subwords", PAIR)
    assert "".join(found.rows) == "▁" + GERMAN.replace(" ", "▁")
    assert len(found.rows) > 7
    assert "[" in shown(tiny_encoder, GERMAN, "A [bold] dog.").splitlines()[0]


def test_languages_without_spaces(tiny_encoder: str) -> None:
    assert soft_alignment(tiny_encoder, "猫在床上睡觉。", ENGLISH, "words", ("zh", "en")).rows[0] == "猫"


def test_what_cannot_be_shown(tiny_encoder: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no words in ' '"):
        soft_alignment(tiny_encoder, GERMAN, " ", "words", PAIR)
    with pytest.raises(DataError, match="there are no words in ''"):
        soft_alignment(tiny_encoder, "", ENGLISH, "subwords", PAIR)
    with pytest.raises(RecipeError, match="unknown language 'german'"):
        soft_alignment(tiny_encoder, GERMAN, ENGLISH, "words", ("german", "en"))
    with pytest.raises(DataError, match="there is no layer 3"):
        soft_alignment(tiny_encoder, GERMAN, ENGLISH, "words", PAIR, layer=3)
    with pytest.raises(DataError, match="holds no encoder"):
        soft_alignment(str(tmp_path), GERMAN, ENGLISH, "words", PAIR)


def test_the_command(babelray, tiny_encoder: str) -> None:
    process = babelray("transport", "show", tiny_encoder, GERMAN, ENGLISH, "--from", "de", "--blur", "0.5", "-p", "1")
    assert process.returncode == 0, process.stderr
    assert "Katze" in process.stdout and "divergence" in process.stdout
    process = babelray("transport", "show", tiny_encoder, GERMAN, ENGLISH, "--from", "de", "--blur", "-1")
    assert process.returncode == 2 and "blur above 0" in process.stderr
    assert "LOAD REPORT" not in process.stderr
