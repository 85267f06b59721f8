"""Training without Ray: whatever the ZeRO stage, the workers and the parts, it is the same training."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from babelray.errors import TrainingError
from babelray.objectives.contrastive import Contrastive
from babelray.training.engine import import_deepspeed
from support.process_group import LocalWorker, free_port, run, start_group, two_workers, weights

pytestmark = pytest.mark.integration  # process groups and DeepSpeed

OBJECTIVES = [
    {"kind": "static-mse", "batch_size": 8},
    {"kind": "static-dcca", "batch_size": 48},
    {"kind": "transport", "batch_size": 8, "weight": {0: 0.0, 0.5: 1.0}},
    {"kind": "word-l2", "batch_size": 8, "weight": 0.01},
    {"kind": "contrastive", "pairs": "words", "batch_size": 8, "hard_negatives": 2},
]
LABELS = ["static-mse", "static-dcca", "transport", "word-l2", "contrastive"]
MLM = [{"kind": "mlm", "batch_size": 8}, {"kind": "tlm", "batch_size": 4}]


def config(**changes: Any) -> dict[str, Any]:
    return {
        "objectives": OBJECTIVES,
        "steps": 6,
        "learning_rate": 1e-3,
        "log_every": 1,
        "checkpoint_every": 3,
        "zero_stage": 0,
    } | changes


@pytest.fixture(scope="module", autouse=True)
def alone() -> Iterator[None]:
    """This process as the only worker of a group."""
    before = dict(os.environ)
    start_group(0, 1, free_port())
    yield
    import_deepspeed().comm.destroy_process_group()  # torch's own would leave DeepSpeed to take the next for this one
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def undisturbed(tiny_encoder: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalWorker, Path]:
    folder = tmp_path_factory.mktemp("undisturbed")
    return run(tiny_encoder, config(), folder), folder


def close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float) -> bool:
    return found.keys() == expected.keys() and all(
        torch.allclose(found[name], expected[name], atol=tolerance) for name in expected
    )


def test_parts_make_no_difference(undisturbed, tiny_encoder: str, tmp_path: Path) -> None:
    """Losses of a whole step, such as static-dcca's, are the same when the encoder sees a part at a time."""
    worker, folder = undisturbed
    parts = run(tiny_encoder, config(accumulate=4), tmp_path)
    for label in LABELS:
        assert parts.losses(label) == pytest.approx(worker.losses(label), rel=1e-4, abs=1e-5)
    assert close(weights(tmp_path / "step-00006"), weights(folder / "step-00006"), 2e-4)


def test_an_objective_without_weight_is_left_out(undisturbed) -> None:
    worker, _ = undisturbed
    assert "loss/transport" not in worker.values[1] and "loss/transport" in worker.values[2]
    first = worker.values[2]
    expected = sum(
        weight * first[f"loss/{label}"] for label, weight in zip(LABELS, (1, 1, 1 / 3, 0.01, 1), strict=True)
    )
    assert first["loss/total"] == pytest.approx(expected)
    assert first["language/static-mse/de"] != first["language/static-mse/en"]


@pytest.mark.parametrize(
    "changes",
    [
        {"zero_stage": 0},
        {"zero_stage": 1, "accumulate": 2},
        {"zero_stage": 2, "precision": "bf16"},
        {"zero_stage": 3, "activation_checkpointing": True},
    ],
)
def test_a_resumed_training_ends_with_the_same_bits(tiny_encoder, tmp_path: Path, changes: dict[str, Any]) -> None:
    how = config(objectives=[*MLM, *OBJECTIVES], **changes)
    run(tiny_encoder, how, tmp_path / "whole")
    stopped = run(tiny_encoder, how, tmp_path / "stopped", stop_after=3)
    assert stopped.saved == 3
    resumed = run(tiny_encoder, how, tmp_path / "stopped")
    assert min(resumed.values) == 4 and resumed.said == ["resumed at step 3"]
    found, expected = (weights(tmp_path / name / "step-00006") for name in ("stopped", "whole"))
    assert found.keys() == expected.keys() and all(found[name].equal(expected[name]) for name in expected)


def test_negatives_are_refreshed_and_a_resumed_training_has_the_same(
    tiny_encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch is three steps of two of the six entries; the run is killed in the middle of the second and third."""
    calls: list[int] = []
    mine_negatives = Contrastive.mine_negatives
    monkeypatch.setattr(
        Contrastive, "mine_negatives", lambda *arguments: (calls.append(1), mine_negatives(*arguments))[1]
    )
    objective = {"kind": "contrastive", "pairs": "words", "batch_size": 2, "hard_negatives": 2, "sampling": "epochs"}
    how = config(
        objectives=[objective | {"refresh_negatives": "every epoch"}], steps=8, checkpoint_every=1, learning_rate=1e-2
    )
    run(tiny_encoder, how, tmp_path / "whole")
    assert len(calls) == 3, "before the first, the fourth and the seventh step"
    for step in (4, 6, 7):
        run(tiny_encoder, how, tmp_path / "stopped", stop_after=step)
    run(tiny_encoder, how, tmp_path / "stopped")
    found, expected = (weights(tmp_path / name / "step-00008") for name in ("stopped", "whole"))
    assert all(found[name].equal(expected[name]) for name in expected)
    run(tiny_encoder, how | {"objectives": [objective]}, tmp_path / "once")
    once = weights(tmp_path / "once" / "step-00008")
    assert not all(once[name].equal(expected[name]) for name in expected)


def test_two_workers(undisturbed, tiny_encoder: str, tmp_path: Path) -> None:
    """Every ZeRO stage gives the losses of one worker; a killed run resumes bit for bit, and with another number of
    workers and another stage it goes on.
    """
    worker, folder = undisturbed
    jobs: list[dict[str, Any]] = []
    for stage in (0, 1, 2, 3):
        how = config(zero_stage=stage)
        jobs.append({"config": how, "folder": str(tmp_path / f"whole-{stage}"), "labels": LABELS})
        stopped = {"config": how, "folder": str(tmp_path / f"stopped-{stage}"), "labels": LABELS}
        jobs += [stopped | {"stop_after": 3}, stopped]
    cached = config(accumulate=2, zero_stage=3)
    jobs.append({"config": cached, "folder": str(tmp_path / "parts"), "labels": LABELS})
    measured = config(zero_stage=3, objectives=MLM, validation={"every": 2, "words": 10, "best": "mlm"})
    jobs.append({"config": measured, "folder": str(tmp_path / "measured"), "labels": []})
    *losses, validated = two_workers(tiny_encoder, jobs)
    expected = weights(folder / "step-00006")
    for stage in (0, 1, 2, 3):
        complete, stopped, resumed = losses[3 * stage : 3 * stage + 3]
        for label in LABELS:
            assert complete[label] == pytest.approx(worker.losses(label), rel=1e-4, abs=1e-5)
            assert stopped[label] + resumed[label] == complete[label]
        found = weights(tmp_path / f"whole-{stage}" / "step-00006")
        assert close(found, expected, 2e-4)
        again = weights(tmp_path / f"stopped-{stage}" / "step-00006")
        assert all(again[name].equal(found[name]) for name in found)
    for label in LABELS:
        assert losses[-1][label] == pytest.approx(worker.losses(label), rel=1e-4, abs=1e-5)
    assert close(weights(tmp_path / "parts" / "step-00006"), expected, 2e-4)

    assert list(validated["measured"]) == ["2", "4", "6"], "under ZeRO 3 too"

    (tmp_path / "whole-2" / "step-00006").rename(tmp_path / "later")
    alone = run(tiny_encoder, config(zero_stage=1), tmp_path / "whole-2")
    assert alone.said == [
        "resumed at step 3 with workers 2 → 1, zero_stage 2 → 1: the same training, not the same bits"
    ]
    assert close(weights(tmp_path / "whole-2" / "step-00006"), expected, 2e-4)


def test_a_loss_that_is_not_a_number_stops_it(tiny_encoder: str, tmp_path: Path, monkeypatch) -> None:
    from babelray.objectives.static_mse import StaticMse

    right = StaticMse.loss_terms

    def wrong(self, model, batch):
        loss_terms = right(self, model, batch)
        return (
            torch.where(batch["language"] == 1, torch.nan, loss_terms)
            if model.training and calls.pop() == 0
            else loss_terms
        )

    calls = [*range(4)]
    monkeypatch.setattr(StaticMse, "loss_terms", wrong)
    with pytest.raises(TrainingError) as caught:
        run(tiny_encoder, config(objectives=OBJECTIVES[:1]), tmp_path)
    assert "diverged at step 4: the loss of static-mse is nan (languages de; drawn rows de:" in caught.value.problem
    assert "last good checkpoint is that of step 3" in caught.value.remedy
    assert weights(tmp_path / "step-00003") and not (tmp_path / "step-00006").exists()


@pytest.mark.parametrize("stage", [0, 3])
def test_a_gradient_that_is_not_a_number_stops_it(tiny_encoder: str, tmp_path: Path, monkeypatch, stage: int) -> None:
    """The loss is right, its gradient is not: the checkpoint of that step must not be written."""
    from babelray.objectives.static_mse import StaticMse

    right = StaticMse.loss_terms
    calls = [*range(3)]

    def wrong(self, model, batch):
        loss_terms = right(self, model, batch)
        return loss_terms + (0 * loss_terms).sqrt() if calls.pop() == 0 else loss_terms

    monkeypatch.setattr(StaticMse, "loss_terms", wrong)
    with pytest.raises(TrainingError, match=r"diverged at step 3: the gradient's norm is (nan|inf)"):
        run(tiny_encoder, config(objectives=OBJECTIVES[:1], zero_stage=stage), tmp_path)
    assert not list(tmp_path.glob("step-*"))


def test_an_exploding_loss_stops_it(tiny_encoder: str, tmp_path: Path) -> None:
    how = config(objectives=OBJECTIVES[:1], learning_rate=300.0, warmup=0.0, clip=1e9, steps=50)
    with pytest.raises(TrainingError, match="diverged at step"):
        run(tiny_encoder, how, tmp_path)


def test_it_stops_when_it_gets_no_better(tiny_encoder: str, tmp_path: Path) -> None:
    validation = {"every": 2, "best": "mlm", "patience": 2, "words": 10}
    how = config(objectives=MLM, learning_rate=1e-9, steps=40, validation=validation)
    worker = run(tiny_encoder, how, tmp_path)
    measured = [step for step, values in worker.values.items() if "validation/mlm" in values]
    assert len(measured) < 20 and worker.said == [f"stopped at step {measured[-1]}: no better mlm in 2 measurements"]
    assert {"validation/mlm", "validation/retrieval", "validation/semantic"} <= worker.values[2].keys()
    scored = {step for step, said in worker.reported.items() if "score" in said}
    assert scored == set(measured) and set(worker.reported) - scored, "a checkpoint that was not measured has no score"


@pytest.mark.parametrize("changes", [{"precision": "fp16", "zero_stage": 1}, {"offload": "optimizer", "zero_stage": 2}])
def test_what_needs_a_gpu_says_so(tiny_encoder: str, tmp_path: Path, changes) -> None:
    with pytest.raises(TrainingError, match="needs GPUs"):
        run(tiny_encoder, config(**changes), tmp_path)


def test_a_damaged_checkpoint_is_an_error(tiny_encoder: str, tmp_path: Path) -> None:
    run(tiny_encoder, config(), tmp_path, stop_after=3)
    shard = tmp_path / "step-00003" / "shard-00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(TrainingError, match="damaged"):
        run(tiny_encoder, config(), tmp_path)
