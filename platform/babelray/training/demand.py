"""What a training needs at the least, from its settings and the size of the encoder.

The estimates are lower bounds: what exceeds them cannot run, what stays below may still run out of memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from babelray.encoder.shape import EncoderShape
    from babelray.training.config import TrainingConfig

NUMBER = 4
"""Bytes of a float32."""
LEAST_SUBWORDS = 3
"""Of an example: a word between two special tokens."""
REMEDY = "Use a smaller batch_size, or `accumulate`, which computes a step in parts."


def least_memory(training: TrainingConfig, encoder: EncoderShape) -> int:
    """Bytes of all workers: weights and gradients, Adam's two moments, and one activation per layer and subword."""
    workers = training.workers or 1
    replicas = 1 if training.zero_stage else workers
    states = encoder.parameters * NUMBER * (2 * workers + 2 * replicas)
    if training.zero_stage == 3:
        states = encoder.parameters * NUMBER * 4
    largest = max(objective.batch_size for objective in training.objectives) // training.accumulate
    activations = largest * LEAST_SUBWORDS * encoder.width * encoder.layers * NUMBER
    return states + activations


def least_storage(training: TrainingConfig, encoder: EncoderShape) -> int:
    """Bytes of the encoder and of the checkpoints with Adam's moments that are kept during training."""
    return encoder.parameters * NUMBER * (1 + 3 * training.keep_checkpoints)
