from pathlib import Path

from babelray.stages.corpus import CorpusStage, Settings
from babelray.storage import Location
from babelray.storage.artifact import Artifact

SETTINGS = Settings.model_validate(
    {
        "languages": ["en", "zh"],
        "hub": "en",
        "seed": 1,
        "segmenters": {"en": "icu", "zh": "jieba"},
        "remarks": [],
        "corpus": {
            "text": "starter:text/{lang}.txt",
            "parallel": "starter:text/{lang}.txt",
            "dictionary": "starter:words/{lang}.txt",
        },
    }
)


def test_the_summary_shows_sentences_by_reason(tmp_path: Path) -> None:
    counts = {
        "en": {"read": 1234, "kept": 1000, "tokens": 9000, "types": 70, "dropped: duplicate": 234},
        "zh": {"read": 5, "kept": 4, "tokens": 9, "types": 7, "dropped: held out": 1},
    }
    location = Location.parse(tmp_path)
    (location / "statistics.json").write_json({"text": counts, "pairs": {}})
    (table,) = CorpusStage().summary(Artifact(location, {}), SETTINGS).tables
    titles = ["language", "segmenter", "read", "kept", "tokens", "types", "duplicate", "held out"]
    assert [column.title for column in table.columns] == titles
    assert [list(row) for row in table.rows] == [
        ["en", "icu", 1234, 1000, 9000, 70, 234, 0],
        ["zh", "jieba", 5, 4, 9, 7, 0, 1],
    ]


def test_sources_are_the_files_of_text_and_translations() -> None:
    sources = [location.uri.rpartition("/starter/")[2] for location in CorpusStage().sources(SETTINGS)]
    assert sources == ["text/en.txt", "text/zh.txt", "words/en.txt", "words/zh.txt"]
