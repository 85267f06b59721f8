import torch

from babelray.encoder.load import load_encoder, load_tokenizer
from support.extraction import TEXTS, encode_sentences, tokenize


def by_definition(folder: str, word: str, layer: int) -> torch.Tensor:
    """The mean over occurrences of the mean over subwords, one sentence at a time."""
    model, tokenizer = load_encoder(folder), load_tokenizer(folder)
    occurrences = []
    for text in TEXTS:
        encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = encoded.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            hidden = model(**encoded, output_hidden_states=True).hidden_states[layer][0]
        start = text.lower().find(word)
        while start >= 0:
            end = start + len(word)
            rows = [i for i, (a, b) in enumerate(offsets) if max(a, start) < min(b, end)]
            occurrences.append(hidden[rows].mean(0))
            start = text.lower().find(word, end)
    return torch.stack(occurrences).mean(0)


def test_same_as_the_definition_in_any_batches_and_blocks(tiny_encoder: str, language) -> None:
    sentences = tokenize(TEXTS)
    for budget in (64, 10_000):
        extraction = language(
            {"the": 5, "cat": 3, "garden": 1, "absent": 1}, (0, 1, 2), method="aggregate", batch_tokens=budget
        )
        for size in (1, 3, 4):
            blocks = [encode_sentences(extraction, i, sentences[i : i + size]) for i in range(0, len(sentences), size)]
            for layer in (0, 1, 2):
                vectors = extraction.combine(lambda blocks=blocks: blocks, layer)
                assert vectors.words == ["the", "cat", "garden"], "a word that never occurs has no vector"
                assert vectors.counts[1:] == [3, 1]
                for word in ("cat", "garden"):
                    expected = by_definition(tiny_encoder, word, layer)
                    assert torch.allclose(vectors.matrix[vectors.position[word]], expected, atol=1e-5)


def test_progress_is_told(language) -> None:
    rows: list[int] = []
    encode_sentences(language(method="aggregate", batch_tokens=64), 0, tokenize(TEXTS), rows.append)
    assert rows == sorted(rows) and rows[-1] == len(TEXTS) and len(rows) > 1
