import torch

from babelray.mapping.linear import unit_centred
from babelray.mapping.procrustes import procrustes
from babelray.mapping.selection import mapping_helps
from babelray.vectors.word_vectors import WordVectors


def world(turn: bool, noise: float) -> tuple[WordVectors, WordVectors, list[tuple[str, str]]]:
    torch.manual_seed(0)
    matrix = unit_centred(torch.randn(300, 20))[0]
    rotation = torch.linalg.qr(torch.randn(20, 20)).Q if turn else torch.eye(20)
    words = [str(i) for i in range(300)]
    source = WordVectors(words, matrix @ rotation + noise * torch.randn(300, 20), [1] * 300)
    return source, WordVectors(words, matrix, [1] * 300), [(word, word) for word in words[:120]]


def test_a_turned_space_is_mapped() -> None:
    source, target, pairs = world(turn=True, noise=0.02)
    outcome = mapping_helps(source, target, pairs, lambda d: procrustes(source.matrix, target.matrix, d)[0])
    assert outcome["mapped"] and outcome["mrr_mapped"] > 0.9 > 0.1 > outcome["mrr_raw"]


def test_a_space_that_agrees_already_is_left_alone_when_pairs_are_few() -> None:
    source, target, pairs = world(turn=False, noise=0.15)
    outcome = mapping_helps(source, target, pairs[:16], lambda d: procrustes(source.matrix, target.matrix, d)[0])
    assert not outcome["mapped"] and outcome["mrr_raw"] > outcome["mrr_mapped"]
