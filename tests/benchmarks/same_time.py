"""Which small encoder learns most in a given time? Compares sizes and ways of training by the scores at the end.

    python tests/benchmarks/same_time.py jobs/recipes/mini.yaml data=FOLDER --minutes 5 \\
        --try "width=128 layers=4" --try "width=256 layers=6" --try "embeddings=cooccurrence"

Each `--try` changes keys under `encoder.scratch` in the recipe. The corpus must exist (`babelray corpus`). Each encoder
is trained in this process, on one core and without Ray; time is processor time, so that other work on the machine
hardly matters. The learning rate rises and falls with the elapsed time, so that every encoder completes its schedule.
Prints one line of JSON for each: parameters, megabytes as float16, subwords per second, steps, and the MLM loss,
retrieval and semantic criterion on held-out sentences at the end.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import torch

from babelray.cluster.prefetch import prefetch
from babelray.encoder.load import load_masked_lm
from babelray.pipeline.plan import plan
from babelray.recipe.load import Recipe, load_recipe
from babelray.stages.encoder import EncoderStage, initialise
from babelray.storage import Location
from babelray.training.config import learning_rate
from babelray.training.mixture import Group, Mixture
from babelray.training.training_data import ArtifactTrainingData
from babelray.training.validation import Validation

FIRST_STEPS = 3
"""Steps before the measurement: memory is allocated, caches are filled."""


def training_data_of(recipe: Recipe) -> ArtifactTrainingData:
    (step,) = (s for s in plan(recipe, "corpus") if s.name == "corpus")
    artifact = step.found()
    if artifact is None:
        sys.exit("There is no corpus yet: babelray corpus RECIPE …")
    held_out = recipe.encoder.scratch.training.validation.held_out
    segmenters = artifact.manifest["settings"]["segmenters"]
    return ArtifactTrainingData(
        "", artifact.location, None, recipe.languages, recipe.hub, recipe.seed, segmenters, held_out
    )


def measure(recipe: Recipe, shared: ArtifactTrainingData, minutes: float) -> dict[str, Any]:
    config = recipe.encoder.scratch.training
    with tempfile.TemporaryDirectory() as folder:
        initialise(EncoderStage().settings(recipe), shared.corpus, Location.parse(folder) / "start")
        training_data = dataclasses.replace(shared, encoder=f"{folder}/start")  # the corpus is read once
        model = load_masked_lm(training_data.encoder).train()
        objectives = [objective.build(training_data) for objective in config.objectives]
        mixture = Mixture(model, objectives, Group(), 1, training_data.seed)
        for objective in objectives:
            objective.start(torch.device("cpu"))
        steps, tokens, seconds = train(mixture, config, minutes * 60)
        engine = SimpleNamespace(module=mixture, device=torch.device("cpu"), zero_optimization_stage=lambda: 0)
        found = Validation(config.validation, engine, training_data, Group()).measure()
    parameters = model.num_parameters()
    return {
        "parameters": parameters,
        "megabytes": round(parameters * 2 / 1e6, 1),
        "tokens_per_second": round(tokens / seconds),
        "steps": steps,
        **{name.removeprefix("validation/"): round(value, 4) for name, value in found.items()},
    }


def train(mixture: Mixture, config: Any, seconds: float) -> tuple[int, int, float]:
    """Steps, subwords and seconds; the learning rate follows the clock."""
    optimizer = torch.optim.AdamW(mixture.parameters(), weight_decay=config.weight_decay)
    weights = {label: objective.weight_at(0.5) for label, objective in mixture.objectives.items()}
    steps, tokens, began = 0, 0, time.process_time()
    for data in prefetch(mixture.draw(step, 0.5) for step in range(10**9)):
        if steps == FIRST_STEPS:
            tokens, began = 0, time.process_time()
        gone = (time.process_time() - began) / seconds if steps >= FIRST_STEPS else 0.0
        if gone >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, int(gone * config.steps))
        loss, _ = mixture.losses(data, 0, weights, mixture.counts(data))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(mixture.parameters(), config.clip)
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
        tokens += data.tokens
    return steps, tokens, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*", help="data=FOLDER storage=FOLDER …, for all of them")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--try", dest="tried", action="append", default=[], help="overrides under encoder.scratch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shared = training_data_of(load_recipe(options.recipe, options.overrides))
    for tried in options.tried or [""]:
        overrides = [*options.overrides, *(f"encoder.scratch.{override}" for override in shlex.split(tried))]
        found = measure(load_recipe(options.recipe, overrides), shared, options.minutes)
        print(json.dumps({"tried": tried, **found}), flush=True)


if __name__ == "__main__":
    main()
