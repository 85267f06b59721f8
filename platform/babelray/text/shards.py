"""The corpus of many languages, built on the cluster with Ray Data."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from babelray.errors import DataError
from babelray.languages import Language
from babelray.storage import Place
from babelray.text.config import CorpusConfig
from babelray.text.corpus import build_language, source_files

if TYPE_CHECKING:
    from babelray.progress import Progress


def build_corpus(
    languages: Mapping[str, Language],
    config: CorpusConfig,
    held_out: Mapping[str, frozenset[str]],
    out: Place,
    progress: Progress,
) -> dict[str, dict[str, int]]:
    """Build every language as one row of a Ray Data set; return the statistics of each."""
    import ray.data

    progress.update(0, len(languages), "languages")
    rows = [
        {"language": language.model_dump(), "files": [str(file) for file in source_files(config.text, code)]}
        for code, language in languages.items()
    ]
    held_out_everywhere = ray.put(dict(held_out))

    def build(row: dict[str, Any]) -> dict[str, Any]:
        language = Language(**row["language"])
        files = [Place(file) for file in row["files"]]
        sentences = ray.get(held_out_everywhere)[language.code]
        try:
            statistics = build_language(language, files, out, config, sentences)
        except DataError as error:  # as a row: Ray would wrap it in its own traceback
            return {"code": language.code, "statistics": [], "error": [error.problem, error.remedy]}
        return {"code": language.code, "statistics": list(statistics.items()), "error": []}

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    dataset = ray.data.from_items(rows, override_num_blocks=len(rows)).map(build, num_cpus=0.5)
    found: dict[str, dict[str, int]] = {}
    for row in dataset.iter_rows():
        if row["error"]:
            raise DataError(*row["error"])
        found[row["code"]] = {name: int(count) for name, count in row["statistics"]}
        progress.update(len(found), len(languages), "languages", row["code"])
    return {code: found[code] for code in languages}
