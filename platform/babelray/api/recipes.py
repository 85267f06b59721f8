"""Running a recipe from Python."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from babelray.api.tables import Tabular, to_html, to_text
from babelray.errors import DataError
from babelray.packages import explain_missing
from babelray.pipeline.summary import Column, Table
from babelray.storage import Location

if TYPE_CHECKING:
    from pathlib import Path

    from babelray.api.encoders import Encoder
    from babelray.pipeline.execution import RunResult
    from babelray.recipe.run import Run
    from babelray.storage.artifact import Artifact
    from babelray.vectors.word_vectors import WordVectors


@dataclass(frozen=True, repr=False)
class CompletedRun(Mapping[str, "Artifact"], Tabular):
    """The artifacts of a run by the names of its stages, and its scores: `result["pretrain"].location`."""

    result: RunResult
    """The steps of the run and their artifacts."""

    def __getitem__(self, stage: str) -> Artifact:
        return self.result[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self.result)

    def __len__(self) -> int:
        return len(self.result)

    @property
    def tables(self) -> list[Table]:
        """The tables that the command prints: the results of the stages that no other stage reads."""
        summaries = (step.stage.summary(artifact, step.settings) for step, artifact in self.result.results())
        return [table for summary in summaries for table in summary.tables if table.rows]

    @property
    def files(self) -> dict[str, str]:
        """The files that one may want to open, such as the report, by what they are."""
        return {
            label: str(artifact.location / path)
            for step, artifact in self.result.results()
            for label, path in step.stage.summary(artifact, step.settings).files.items()
        }

    @property
    def encoder_folder(self) -> Location:
        """The folder of the trained encoder, which `AutoModel` and `SentenceTransformer` load, too."""
        for step in reversed(self.result.steps):
            if step.stage.trains_encoder:
                return self[step.name].location / "encoder"
        raise DataError("this run has trained no encoder", f"It has the stages {', '.join(self)}.")

    def load_encoder(self, layer: int = -1) -> Encoder:
        """The trained encoder."""
        from babelray.api.encoders import load_encoder

        return load_encoder(self.encoder_folder, layer)

    def load_vectors(self, language: str, aligned: bool = True) -> WordVectors:
        """The static vectors of a language, in the space of the hub or as they were extracted."""
        from babelray.vectors.load import load_vectors

        stage = "align" if aligned else "extract"
        if stage not in self:
            raise DataError(f"this run has no stage {stage}", f"It has the stages {', '.join(self)}.")
        return load_vectors(self[stage].location / "vectors" / language)

    def table(self) -> Table:
        """The first table that the command prints; the stages of a run that has no scores."""
        if tables := self.tables:
            return tables[0]
        columns = [Column("stage"), Column("seconds", ",.1f"), Column("location")]
        rows = [(name, artifact.manifest["seconds"], str(artifact.location)) for name, artifact in self.items()]
        return Table("Stages", columns, rows)

    def __str__(self) -> str:
        files = "\n".join(f"{label}: {path}" for label, path in self.files.items())
        return "\n\n".join([*map(to_text, self.tables or [self.table()]), *([files] if files else [])])

    def _repr_html_(self) -> str:
        return "".join(map(to_html, self.tables or [self.table()]))

    def __repr__(self) -> str:
        return f"CompletedRun({', '.join(self)})"


def run(
    recipe: str | Path | Mapping[str, Any] | Run,
    overrides: Mapping[str, Any] | None = None,
    *,
    until: str | None = None,
    force: str | None = None,
    progress: bool = True,
) -> CompletedRun:
    """Run a recipe, on Ray: on this machine, or on the cluster that `RAY_ADDRESS` names.

    Complete artifacts are reused, and an interrupted run resumes from its last checkpoint.

    Args:
        recipe: The name of a shipped recipe, such as `"quickstart"`; the path of a YAML file; or its content.
        overrides: Values to change, by dotted path: `{"pretrain.steps": 50}`.
        until: The last stage to run; all by default.
        force: A stage to make again, with its successors, even if it is complete.
        progress: Whether progress is shown, on the standard error stream.

    Returns:
        The artifacts by stage, and the tables of scores.

    Examples:
        Two minutes on two cores:

        >>> import babelray as br
        >>> result = br.run("quickstart", {"pretrain.steps": 50})            # doctest: +SKIP
        >>> encoder = result.load_encoder()                                  # doctest: +SKIP
        >>> result.to_pandas()                                               # doctest: +SKIP

        What is wrong with a recipe is said before anything runs:

        >>> br.run({"name": "mine", "langages": ["de", "en"]})
        Traceback (most recent call last):
        ...
        babelray.errors.RecipeError: the recipe: ...
    """
    from rich.console import Console

    from babelray.pipeline import execution
    from babelray.recipe.load import load_any_run, with_values
    from babelray.recipe.run import Run

    if isinstance(recipe, Run):
        loaded = with_values(recipe, overrides or {}) if overrides else recipe
    else:
        loaded = load_any_run(recipe, [f"{path}={json.dumps(value)}" for path, value in (overrides or {}).items()])
    with explain_missing("babelray.run"):
        return CompletedRun(execution.run(loaded, Console(stderr=True, quiet=not progress), until, force))
