from collections.abc import Callable
from pathlib import Path

import pytest

from babelray.errors import DataError
from babelray.languages import LANGUAGES
from babelray.lexicon.config import DictionaryConfig, ParallelConfig
from babelray.lexicon.pairs import dictionary_pairs, parallel_pairs
from babelray.lexicon.read import Problems
from babelray.lexicon.shift import BLOCK, find_shift
from conftest import ROOT

STARTER = ROOT / "platform/babelray/starter"
ALPHABETIC = ["af", "de", "es", "fr", "it", "ms", "nl", "pt"]


def starter(kind: str, code: str) -> list[str]:
    return [line for line in (STARTER / kind / f"{code}.txt").read_text(encoding="utf-8").splitlines() if line]


@pytest.mark.parametrize("kind", ["words", "text"])
@pytest.mark.parametrize("lines", [0, 1, -2])
def test_translations_of_the_starter_corpus(kind: str, lines: int) -> None:
    """Never a false alarm; sentences are recognised in most languages, words in those that share spellings."""
    english = starter(kind, "en")
    recognised = []
    for code in (code for code in LANGUAGES if code != "en"):
        own = starter(kind, code)
        pairs = list(zip(own[max(0, lines) :], english[max(0, -lines) :], strict=False))
        shift = find_shift(pairs)
        if shift:
            assert lines and shift.lines == lines
            recognised.append(code)
    if lines and kind == "text":
        assert len(recognised) > 30
    if lines and kind == "words":
        assert {*ALPHABETIC} <= {*recognised}


def test_a_line_that_is_missing_in_the_middle() -> None:
    words = [f"{i * i} name" for i in range(4 * BLOCK)]
    assert find_shift(list(zip(words, words, strict=True))) is None
    later = [*words[: 2 * BLOCK], *words[2 * BLOCK + 1 :]]
    shift = find_shift(list(zip(words, later, strict=False)))
    assert shift is not None and shift.start == 2 * BLOCK + 1 and shift.lines == -1


@pytest.mark.parametrize("read", [dictionary_pairs, parallel_pairs])
def test_shifted_files_are_refused(tmp_path: Path, read: Callable[..., object]) -> None:
    kind, config = ("words", DictionaryConfig) if read is dictionary_pairs else ("text", ParallelConfig)
    german, english = starter(kind, "de"), starter(kind, "en")
    (tmp_path / "de.txt").write_text("\n".join(german[1:]), encoding="utf-8")
    (tmp_path / "en.txt").write_text("\n".join(english[:-1]), encoding="utf-8")
    with pytest.raises(DataError, match=r"de\.txt and .*en\.txt: the entries are shifted.* 1 line later"):
        read([config(path=str(tmp_path / "{lang}.txt"))], "de", "en", Problems())
