"""DeepSpeed around a mixture of objectives, on CPUs (gloo) and GPUs (nccl) alike."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from babelray.errors import TrainingError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from babelray.training.config import OptimizationConfig
    from babelray.training.mixture import Mixture


def deepspeed_config(config: OptimizationConfig) -> dict[str, Any]:
    """DeepSpeed's configuration. The loop sets the learning rate of each step."""
    alone = config.workers == 1 and config.zero_stage < 3 and config.precision == "fp32" and config.offload == "none"
    zero: dict[str, Any] = {"stage": 0 if alone else config.zero_stage}  # one worker has nothing to shard
    if not torch.cuda.is_available():
        # DeepSpeed's defaults, 500 million numbers, take several gigabytes of main memory per worker.
        zero |= {"reduce_bucket_size": 50_000_000, "allgather_bucket_size": 50_000_000}
    if config.offload != "none":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if config.offload == "all":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    return {
        "train_micro_batch_size_per_gpu": 1,  # required by DeepSpeed; objectives make their own batches
        "gradient_accumulation_steps": config.accumulate,
        "gradient_clipping": 0.0 if alone or not config.zero_stage else config.clip,  # at stage 0 the loop clips
        "zero_optimization": zero,
        "bf16": {"enabled": config.precision == "bf16"},
        "fp16": {"enabled": config.precision == "fp16"},
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": config.learning_rate, "weight_decay": config.weight_decay, "torch_adam": True},
        },
        "steps_per_print": 10**9,
    }


def start_engine(mixture: Mixture, config: OptimizationConfig) -> Any:
    """A DeepSpeed engine in the existing process group: Ray Train's, or that of `fine_tuning`."""
    if not torch.cuda.is_available() and (config.precision == "fp16" or config.offload != "none"):
        option = "precision: fp16" if config.precision == "fp16" else f"offload: {config.offload}"
        raise TrainingError(f"{option} needs GPUs, and there are none", "Use fp32 or bf16, and offload: none.")
    deepspeed = import_deepspeed()
    if config.activation_checkpointing:
        mixture.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if config.compile:
        mixture.model.base_model.compile(dynamic=True)
    decayed = [p for p in mixture.parameters() if p.requires_grad and p.ndim > 1]
    others = [p for p in mixture.parameters() if p.requires_grad and p.ndim <= 1]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    engine, _, _, _ = deepspeed.initialize(
        model=mixture, model_parameters=[g for g in groups if g["params"]], config=deepspeed_config(config)
    )
    return engine


def shard_encoder(path: str, precision: str, cut: Callable[[PreTrainedModel], None]) -> tuple[Any, Any]:
    """An encoder for inference, whose weights are sharded over the workers (ZeRO 3) as they are loaded.

    `cut` may remove layers before DeepSpeed wraps it. Returns the engine and an object that must stay alive with it.
    All workers must run it the same number of times: each gathers the others' shards.
    """
    from transformers.integrations import HfDeepSpeedConfig

    from babelray.encoder.load import load_encoder

    deepspeed = import_deepspeed()
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3},
        "bf16": {"enabled": precision == "bf16"},
        "steps_per_print": 10**9,
    }
    sharding = HfDeepSpeedConfig(config)  # from_pretrained finds it
    model = load_encoder(path, device=None, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    cut(model)
    engine, _, _, _ = deepspeed.initialize(model=model, config=config)
    engine.module.eval()
    return engine, sharding


def import_deepspeed() -> Any:
    """Import DeepSpeed, on a machine without GPU without its `deepspeed_shm_comm`.

    Compiling that takes minutes, and only inference uses it.
    """
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import logging

    import deepspeed

    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    if not torch.cuda.is_available():
        vars(deepspeed.ops)["__compatible_ops__"] = {"deepspeed_shm_comm": False}
    return deepspeed
