"""Which small encoder learns most in a given time? Sizes and ways of training, by what they know at the end.

    python tests/benchmarks/same_time.py jobs/recipes/mini.yaml data=FOLDER --minutes 6 \\
        --try "width=128 layers=4" --try "width=256 layers=6" --try "embeddings=cooccurrence"

What is tried stands under `encoder.scratch` in the recipe. The first steps of a training tell how many fit into the
time; its learning rate then rises and falls over these. Prints a line of JSON for each: parameters, megabytes as
float16, subwords a second, steps, and the MLM loss, retrieval and semantic criterion on held-out sentences at the end.
Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "platform"))

import command

TRIAL_STEPS = 20


def train(recipe: str, overrides: list[str]) -> Path:
    """Train the encoder of a recipe; return its artifact."""
    process = command.start("encoder", recipe, *overrides)
    output, _ = process.communicate()
    if process.returncode:
        sys.exit(output)
    from babelray.recipe import load_recipe
    from babelray.stages.pipeline import plan

    (step,) = (s for s in plan(load_recipe(recipe, overrides), "encoder") if s.stage.name == "encoder")
    return Path(str(step.place))


def last(artifact: Path) -> dict[str, float]:
    """The last value of everything that was logged."""
    rows = json.loads((artifact / "curves.json").read_text())
    return {name: value for row in rows for name, value in row["values"].items()}


def measure(recipe: str, overrides: list[str], tried: str, minutes: float) -> dict[str, Any]:
    overrides = [*overrides, *(f"encoder.scratch.{override}" for override in shlex.split(tried))]

    def steps(count: int) -> list[str]:
        training = "encoder.scratch.training"
        return [*overrides, f"{training}.steps={count}", f"{training}.validation.every={count}"]

    trial = last(train(recipe, steps(TRIAL_STEPS)))
    count = round(minutes * 60 / trial["speed/seconds_per_step"])
    artifact = train(recipe, steps(count))
    found = last(artifact)
    from transformers import AutoModelForMaskedLM

    parameters = AutoModelForMaskedLM.from_pretrained(artifact / "encoder").num_parameters()
    return {
        "tried": tried,
        "parameters": parameters,
        "megabytes": round(parameters * 2 / 1e6, 1),
        "tokens_per_second": round(found["speed/tokens_per_second"]),
        "steps": count,
        **{name: round(found[f"validation/{name}"], 4) for name in ("mlm", "retrieval", "semantic")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*", help="data=FOLDER storage=FOLDER …, for all of them")
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--try", dest="tried", action="append", default=[], help="overrides under encoder.scratch")
    options = parser.parse_args()
    for tried in options.tried or [""]:
        print(json.dumps(measure(options.recipe, options.overrides, tried, options.minutes)), flush=True)


if __name__ == "__main__":
    main()
