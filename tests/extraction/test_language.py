import pyarrow as pa
import torch

from babelray.extraction.language import sentences_from_table
from support.extraction import TEXTS, encode_sentences, tokenize


def test_paragraphs_are_read_at_once() -> None:
    table = pa.table(
        {
            "document": [1, 1, 1, 2],
            "paragraph": [0, 0, 1, 0],
            "text": ["A b.", "C.", "D.", "E."],
            "tokens": [["A", "b", "."], ["C", "."], ["D", "."], ["E", "."]],
        }
    )
    assert [s.text for s in sentences_from_table(table, paragraphs=False)] == ["A b.", "C.", "D.", "E."]
    joined = sentences_from_table(table, paragraphs=True)
    assert [s.text for s in joined] == ["A b. C.", "D.", "E."]
    assert joined[0].tokens == ["A", "b", ".", "C", "."]


def test_dimensions_are_changed_on_request(language) -> None:
    block = encode_sentences(language(method="aggregate"), 0, tokenize(TEXTS))
    matrices = {}
    for name, settings in {"as": {}, "removed": {"remove_dimensions": 2}, "standard": {"standardise": True}}.items():
        matrices[name] = language(method="aggregate", **settings).combine(lambda: [block], 1).matrix
    assert (matrices["removed"] == 0).all(0).sum() == 2
    assert torch.allclose(matrices["standard"].mean(0), torch.zeros(32), atol=1e-5)
    assert not torch.allclose(matrices["as"].mean(0), torch.zeros(32), atol=1e-2)
