"""The extract stage: static vectors of every language, from one layer of the encoder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from babelray.config import Config
from babelray.extraction.config import ExtractConfig
from babelray.stages.stage import Job, Stage
from babelray.storage import Place

if TYPE_CHECKING:
    from babelray.recipe import Recipe
    from babelray.training.launch import Worker


class Settings(Config):
    languages: list[str]
    extract: ExtractConfig


class ExtractStage(Stage[Settings]):
    """Leaves `vectors/<language>/`: safetensors and a vocabulary."""

    name = "extract"
    needs = ("corpus", "encoder")

    def settings(self, recipe: Recipe) -> Settings:
        return Settings(languages=recipe.languages, extract=recipe.extract)

    def run(self, job: Job[Settings]) -> dict[str, Any]:
        from babelray.training.launch import run_workers

        work = job.out / "work"
        run_workers(
            partial(_extract, job.settings, job.source("encoder") / "encoder", job.source("corpus"), job.out),
            min(job.settings.extract.workers, len(job.settings.languages)),
            work,
            3,
            job.progress,
            job.track,
            job.say,
        )
        work.delete()
        return {"languages": len(job.settings.languages)}


def _extract(settings: Settings, encoder: Place, corpus: Place, out: Place, worker: Worker) -> None:
    """What each worker does: its share of the languages, one after the other; complete ones are not done again."""
    from babelray.encoder.load import load_encoder, load_tokenizer, resolve_layer
    from babelray.extraction.aggregate import aggregate
    from babelray.text.corpus import read_sentences, read_vocabulary
    from babelray.vectors.word_vectors import WordVectors

    with encoder.local_input() as folder:
        tokenizer, model = load_tokenizer(str(folder)), load_encoder(str(folder))
    layer = resolve_layer(settings.extract.layer, model.config.num_hidden_layers)
    mine = {code: read_sentences(corpus, code) for code in settings.languages[worker.rank :: worker.count]}
    total = sum(len(table) for table in mine.values())
    before = 0

    def advance(done: int) -> None:
        worker.progress(before + done, total, "sentences", code)

    for code, table in mine.items():
        place = out / "vectors" / code
        if not WordVectors.is_complete(place):
            vectors = aggregate(
                model,
                tokenizer,
                table["text"].to_pylist(),
                table["tokens"].to_pylist(),
                read_vocabulary(corpus, code),
                layer,
                settings.extract.batch_tokens,
                advance,
            )
            vectors.save(place)
        before += len(table)
        advance(0)
