import torch

from babelray.encoder.load import load_masked_lm
from babelray.objectives.word_l2 import WordL2, WordL2Config, word_distances


def test_distances_by_hand() -> None:
    x = torch.tensor([[[0.0, 0.0], [1.0, 1.0]], [[2.0, 0.0], [5.0, 5.0]]])
    y = torch.tensor([[[3.0, 4.0], [1.0, 0.0]], [[2.0, 1.0], [0.0, 0.0]]])
    links = torch.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 0]])
    assert word_distances(x, y, links).tolist() == [26.0, 1.0]
    assert word_distances(x, y, links[:0]).tolist() == [0.0, 0.0]


def test_aligned_words_approach_each_other(training_data, tiny_encoder: str) -> None:
    """Descending the loss moves aligned words towards each other; a link to a truncated word is left out."""
    training_data.max_tokens = 12
    rows = [("Die Katze schläft.", "The cat sleeps on the warm bed.", [(1, 1), (2, 2), (3, 7)])]
    training_data.word_alignments = lambda code, path: rows
    objective = WordL2(WordL2Config(batch_size=2, regulariser=0.1), training_data)
    batch = objective.batch(step=0)
    assert batch["links"].tolist() == [[0, 1, 1], [0, 2, 2], [1, 1, 1], [1, 2, 2]]
    model = load_masked_lm(tiny_encoder)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    losses = []
    for _ in range(20):
        loss_terms = objective.loss_terms(model, batch)
        optimizer.zero_grad()
        loss_terms.mean().backward()
        optimizer.step()
        losses.append(loss_terms.mean().item())
    assert losses[-1] < 0.5 * losses[0]


def test_given_alignments_are_cut_at_spaces(training_data) -> None:
    training_data.word_alignments = lambda code, path: [("Katze .", "cat .", [(0, 0), (1, 1)])]
    objective = WordL2(WordL2Config(batch_size=1, alignments="{lang}.tsv"), training_data)
    assert objective.words_of("de", "Katze  . x") == ["Katze", ".", "x"]
    assert objective.batch(0)["links"].tolist() == [[0, 0, 0], [0, 1, 1]]
