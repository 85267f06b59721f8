"""Fine-tuning in this process: it learns, it can be repeated, and it leaves nothing behind."""

import os
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import distributed

from babelray.encoder.load import load_masked_lm, load_tokenizer, load_with_head
from babelray.errors import DataError, TrainingError
from babelray.evaluation.classification import LabelledText, classify, text_examples
from babelray.objectives.labelled import LabelledObjective, text_head
from babelray.objectives.mlm import MlmConfig
from babelray.training.config import FineTuningConfig, OptimizationConfig, TrainingConfig
from babelray.training.fine_tuning import SINGLE_PROCESS, fine_tune
from support.small_training_data import SmallTrainingData

pytestmark = pytest.mark.integration  # DeepSpeed

LABELS = ["animal", "thing"]
ANIMALS, THINGS = ["cat", "dog"], ["bed", "garden"]
TEXTS = [
    LabelledText(f"The {word} {rest}", None, label)
    for label, words in zip(LABELS, (ANIMALS, THINGS), strict=True)
    for word in words
    for rest in ("sleeps.", "runs.", "is big.", "is warm.", "is in the bed.", "on the garden.", "sleeps on the bed.")
]


def trained(encoder: str, seed: int = 1, **settings: Any) -> tuple[Any, Any, list[float]]:
    """A model that was fine-tuned to tell what comes after `The`, its tokenizer, and the losses."""
    tokenizer, model = load_tokenizer(encoder), load_with_head(encoder, "classification", LABELS, seed)
    examples = {"en": text_examples(TEXTS, LABELS, tokenizer, 32)}
    config = FineTuningConfig(**{"learning_rate": 5e-3, "batch_size": 8, "epochs": 12} | settings)
    losses = fine_tune(model, LabelledObjective(examples, text_head, tokenizer, config.batch_size, seed), config)
    return model, tokenizer, losses


def weights(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_a_separable_set_is_learned(tiny_encoder: str) -> None:
    model, tokenizer, losses = trained(tiny_encoder)
    assert len(losses) == 42, "12 epochs of 28 examples, 8 a step"
    assert losses[0] == pytest.approx(0.693, abs=0.1) and losses[-1] < losses[0] / 2
    labels = classify(model, TEXTS, LABELS, tokenizer, 32, 1024)
    assert sum(a == text.label for a, text in zip(labels, TEXTS, strict=True)) >= len(TEXTS) - 1
    assert not model.training


def test_it_is_repeated_exactly_by_its_seed(tiny_encoder: str) -> None:
    one, other, third = (trained(tiny_encoder, seed, epochs=2) for seed in (1, 1, 2))
    assert one[2] == other[2] and torch.equal(weights(one[0]), weights(other[0]))
    assert one[2] != third[2]


def test_parts_make_no_difference(tiny_encoder: str) -> None:
    single, parts = (trained(tiny_encoder, epochs=2, accumulate=count) for count in (1, 4))
    assert parts[2] == pytest.approx(single[2], rel=1e-4)


def test_the_steps_are_those_of_adamw(tiny_encoder: str) -> None:
    """The same three steps, by hand: the loss of each batch, clipped gradients, the learning rate of the schedule."""
    settings = {"steps": 3, "learning_rate": 1e-3, "warmup": 0.0, "schedule": "constant", "weight_decay": 0.0}
    fine_tuned, tokenizer, losses = trained(tiny_encoder, **settings)
    model = load_with_head(tiny_encoder, "classification", LABELS, seed=1).train()
    examples = {"en": text_examples(TEXTS, LABELS, tokenizer, 32)}
    objective = LabelledObjective(examples, text_head, tokenizer, 8, seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    for step in range(3):
        loss = objective.loss_terms(model, objective.batch(step)).mean()  # this encoder drops nothing out
        assert losses[step] == pytest.approx(loss.item(), rel=1e-4)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert torch.allclose(weights(fine_tuned), weights(model), atol=1e-5)


def test_half_precision_leaves_float32(tiny_encoder: str) -> None:
    model, _, losses = trained(tiny_encoder, precision="bf16")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert losses[-1] < losses[0] / 2


def test_nothing_is_left_behind(tiny_encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")  # as another launcher may have set it
    monkeypatch.delenv("RANK", raising=False)
    before = dict(os.environ)
    model, _, _ = trained(tiny_encoder, steps=1)
    changed = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
    assert not changed & {*SINGLE_PROCESS, "MASTER_ADDR", "MASTER_PORT"}
    assert not distributed.is_initialized()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_group_that_is_there_is_used_and_stays(tiny_encoder: str) -> None:
    expected = trained(tiny_encoder, steps=2)[2]
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        assert trained(tiny_encoder, steps=2)[2] == expected
        assert distributed.is_initialized()
    finally:
        import deepspeed

        deepspeed.comm.destroy_process_group()


def test_a_loss_that_is_no_number(tiny_encoder: str) -> None:
    with pytest.raises(TrainingError, match="the loss of fine-tuning is nan") as caught:
        trained(tiny_encoder, learning_rate=1e30, clip=1e30, warmup=0.0)
    assert "learning_rate" in caught.value.remedy
    assert not distributed.is_initialized(), "also after an error"
    assert len(trained(tiny_encoder, steps=1)[2]) == 1, "and the next one starts as if nothing had been"


def test_progress_is_reported(tiny_encoder: str) -> None:
    calls: list[tuple[int, int]] = []
    tokenizer, model = load_tokenizer(tiny_encoder), load_with_head(tiny_encoder, "classification", LABELS)
    objective = LabelledObjective({"en": text_examples(TEXTS, LABELS, tokenizer, 32)}, text_head, tokenizer, 4, 1)
    fine_tune(
        model, objective, FineTuningConfig(steps=3, batch_size=4), lambda done, total: calls.append((done, total))
    )
    assert calls == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"workers": 2}, "workers"),
        ({"batch_size": 8, "accumulate": 3}, "not a multiple of accumulate"),
        ({"zero_stage": 3}, "zero_stage"),
        ({"precision": "bf16", "zero_stage": 0}, "bf16 needs zero_stage"),
        ({"epochs": 0}, "epochs"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        FineTuningConfig(**settings)


def test_another_objective_with_the_config_of_a_training(tiny_encoder: str) -> None:
    """It may ask for workers and ZeRO 3, which one process has no use for; its weights are all there afterwards."""
    config = TrainingConfig(objectives=[{"kind": "mlm", "batch_size": 4}], steps=3, workers=2, zero_stage=3)
    before, model = (load_masked_lm(tiny_encoder) for _ in range(2))
    losses = fine_tune(model, config.objectives[0].build(SmallTrainingData(tiny_encoder)), config)
    assert len(losses) == 3 and weights(model).shape == weights(before).shape
    assert not torch.equal(weights(model), weights(before))


def test_what_one_process_cannot_do(tiny_encoder: str) -> None:
    training_data = SmallTrainingData(tiny_encoder)
    config = TrainingConfig(objectives=[{"kind": "mlm"}], zero_stage=3, offload="all")
    with pytest.raises(TrainingError, match="offload: all needs ZeRO 3"):
        fine_tune(load_masked_lm(tiny_encoder), MlmConfig().build(training_data), config)


def test_what_trainings_share_is_checked_in_both() -> None:
    assert {*OptimizationConfig.model_fields} < {*TrainingConfig.model_fields}
    with pytest.raises(ValidationError, match="offload: all needs zero_stage 3"):
        TrainingConfig(objectives=[{"kind": "mlm"}], offload="all")


def test_heads_are_drawn_by_the_seed_and_nothing_else_is(tiny_encoder: str) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one, same, other = (load_with_head(tiny_encoder, "tagging", LABELS, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(one.classifier.weight, same.classifier.weight)
    assert not torch.equal(one.classifier.weight, other.classifier.weight)
    assert one.config.id2label == {0: "animal", 1: "thing"} and one.dtype == torch.float32


def test_a_head_for_other_labels_is_there_already(tiny_encoder: str, tmp_path: Any) -> None:
    load_with_head(tiny_encoder, "classification", ["a", "b", "c"]).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="do not fit a head for classification with 2 labels"):
        load_with_head(str(tmp_path), "classification", LABELS)
