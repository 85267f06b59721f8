"""What is known of a run before it begins, and what its stages demand of a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from babelray.errors import DataError, RecipeError

if TYPE_CHECKING:
    from babelray.cluster.machine import Machine
    from babelray.encoder.shape import EncoderShape
    from babelray.errors import CollectedErrors
    from babelray.evaluation.benchmark import Benchmark
    from babelray.training.config import OptimizationConfig, TrainingConfig


@dataclass(frozen=True)
class Prospects:
    """The encoder that a run starts from, and the machine that it runs on, as far as they are known."""

    encoder: EncoderShape | None = None
    machine: Machine | None = None
    """This machine, if the run starts Ray on it."""

    def check_layer(self, layer: int | None, key: str) -> None:
        """Raise an error if the encoder has no such layer; `key` is the one in the recipe."""
        from babelray.encoder.load import resolve_layer

        if self.encoder is None or layer is None:
            return
        try:
            resolve_layer(layer, self.encoder.layers)
        except DataError as error:
            raise RecipeError(f"{key}: {error.problem}", error.remedy) from None

    def check_benchmarks(self, benchmarks: Sequence[Benchmark], errors: CollectedErrors) -> None:
        """Collect the layers of benchmarks that the encoder does not have."""
        for benchmark in benchmarks:
            with errors.attempt():
                self.check_layer(getattr(benchmark, "layer", None), f"the layer of benchmark {benchmark.label}")

    def check_training(self, training: OptimizationConfig, key: str, errors: CollectedErrors) -> None:
        """Collect why this encoder cannot be trained so on this machine."""
        if validation := getattr(training, "validation", None):
            with errors.attempt():
                self.check_layer(validation.layer, f"{key}.validation.layer")
        with errors.attempt():
            if training.precision == "fp16" and self.machine is not None and not self.machine.gpus():
                raise RecipeError(f"{key}.precision: fp16 needs GPUs, this machine has none", "Use fp32 or bf16.")

    def training_demand(self, training: TrainingConfig) -> Demand:
        """What a training needs, if the size of the encoder is known. GPUs have memory of their own."""
        from babelray.training.demand import REMEDY, least_memory, least_storage

        if self.encoder is None:
            return Demand()
        memory = least_memory(training, self.encoder)
        if self.machine is not None and memory > self.machine.memory and self.machine.gpus():
            memory = 0
        return Demand(memory, least_storage(training, self.encoder), REMEDY)


@dataclass(frozen=True)
class Demand:
    """What a stage needs, at the least: bytes of memory on one machine, and of storage."""

    memory: int = 0
    storage: int = 0
    remedy: str = ""
    """How it needs less memory."""


def check_several(languages: Sequence[str], purpose: str) -> None:
    """Raise an error if there is only one language."""
    if len(languages) < 2:
        raise RecipeError(f"there is only one language: nothing can be {purpose}", "List at least two languages.")
