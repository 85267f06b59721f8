import io
from pathlib import Path

import pytest
from rich.console import Console

from babelray.commands.corpus import show_corpus
from babelray.errors import ArtifactError
from babelray.storage import Location
from babelray.storage.artifact import partial_of, publish
from babelray.storage.tables import SENTENCES, write_rows


def test_statistics_and_sentences(tmp_path: Path) -> None:
    location = Location.parse(tmp_path / "corpus/abc")
    row = {"document": 0, "paragraph": 0, "sentence": 0, "text": "猫在睡觉。", "tokens": ["猫", "在", "睡觉", "。"]}
    write_rows(partial_of(location) / "sentences/zh/00000.parquet", [row], SENTENCES)
    counts = {"read": 1234, "kept": 1, "dropped: duplicate": 1233, "tokens": 4, "types": 3}
    (partial_of(location) / "statistics.json").write_json({"text": {"zh": counts}, "pairs": {}})
    settings = {"segmenters": {"zh": "jieba"}}
    publish(location, {"stage": "corpus", "fingerprint": "abc", "metrics": {}, "settings": settings})
    output = io.StringIO()
    show_corpus(str(location), Console(file=output, width=120))
    for text in ("1,234", "duplicate", "jieba", "猫在睡觉。", "猫 · 在 · 睡觉 · 。"):
        assert text in output.getvalue()


def test_what_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="is not a corpus"):
        show_corpus(str(tmp_path / "none"), Console(quiet=True))
