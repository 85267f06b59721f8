from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from babelray.errors import DataError
from babelray.languages import LANGUAGES
from babelray.lexicon.config import DictionaryConfig, ParallelConfig
from babelray.lexicon.pairs import Pair, dictionary_pairs, is_held_out, parallel_pairs, read_pairs, write_pairs
from babelray.lexicon.read import Problems
from babelray.storage import Location


@given(st.integers(1, 500), st.floats(0, 0.99))
def test_held_out_share_is_met_to_one(count: int, share: float) -> None:
    assert abs(sum(is_held_out(i, share) for i in range(count)) - count * share) <= 1


def write(folder: Path, **texts: str) -> str:
    for code, text in texts.items():
        (folder / f"{code}.txt").write_text(text, encoding="utf-8")
    return str(folder / "{lang}.txt")


def parallel(path: str, problems: Problems | None = None, **more: object) -> tuple[list[Pair], Counter[str]]:
    return parallel_pairs([ParallelConfig(path=path, **more)], "de", "en", problems or Problems())


def dictionary(*configs: DictionaryConfig, problems: Problems | None = None) -> tuple[list[Pair], Counter[str]]:
    return dictionary_pairs(configs, "de", "en", problems or Problems())


def test_aligned_text_holds_out_whole_paragraphs(tmp_path: Path) -> None:
    path = write(tmp_path, de="a\nb\n\nc\nd\n", en="A\nB\n\nC\nD\n")
    pairs, counts = parallel(path, held_out=0.5)
    assert pairs == [Pair("a", "A", "train"), Pair("b", "B", "train"), Pair("c", "C", "test"), Pair("d", "D", "test")]
    assert counts["train"] == counts["test"] == 2


def test_keyed_text_holds_out_chapters(tmp_path: Path) -> None:
    for code in ("de", "en"):
        rows = [f"GEN {c}:{v}\t{code} {c} {v}" for c in range(4) for v in range(3) if (code, c, v) != ("en", 0, 0)]
        (tmp_path / f"{code}.tsv").write_text("\n".join([*rows, "broken", f"ONLY {code}:1\tx"]))
    problems = Problems()
    pairs, _ = parallel(str(tmp_path / "{lang}.tsv"), problems, layout="keyed", held_out=0.5)
    assert (
        len(pairs) == 11 and problems.count == 2 and "not `key<TAB>text`: 1, first in line 13" in problems.summaries[0]
    )
    assert {pair.source.split()[1] for pair in pairs if pair.split == "test"} == {"1", "3"}


def test_two_files_and_one_file_and_a_table(tmp_path: Path) -> None:
    sides = {"de": [f"Satz {i}" for i in range(40)], "en": [f"phrase {i}" for i in range(40)]}
    for code, lines in sides.items():
        (tmp_path / f"news.en-de.{code}").write_text("\n".join(lines))
    rows = ["\t".join(pair) for pair in zip(sides["en"], sides["de"], strict=True)]
    (tmp_path / "en-de.tsv").write_text("\n".join(rows))
    (tmp_path / "all.tsv").write_text("\n".join(["id\ten\tde", *(f"x\t{row}" for row in rows)]))
    moses, tsv, table = (
        parallel(str(tmp_path / name))[0] for name in ("news.{hub}-{lang}.{side}", "{hub}-{lang}.tsv", "all.tsv")
    )
    assert moses == tsv == table and len(moses) == 40
    assert Counter(pair.split for pair in moses) == {"train": 40}, "four blocks of ten lines: a fifth of four is none"
    held_out, _ = parallel(str(tmp_path / "all.tsv"), held_out=0.5)
    assert [pair.split for pair in held_out] == ["train"] * 10 + ["test"] * 10 + ["train"] * 10 + ["test"] * 10


def test_a_file_that_names_only_the_language_has_it_first(tmp_path: Path) -> None:
    (tmp_path / "de.tsv").write_text("Haus\thouse\nHund\tdog\n")
    pairs, _ = dictionary(DictionaryConfig(path=str(tmp_path / "{lang}.tsv"), layout="pairs", split="train"))
    assert [(pair.source, pair.target) for pair in pairs] == [("haus", "house"), ("hund", "dog")]
    with pytest.raises(ValueError, match=r"must contain \{lang\}"):
        DictionaryConfig(path="x.tsv", layout="pairs")


def test_a_sample_of_the_pairs_is_that_of_other_languages(tmp_path: Path) -> None:
    def sample(name: str, lines: list[str]) -> list[str]:
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines))
        pairs, _ = parallel(str(tmp_path / f"{name}.tsv"), split="train", max_pairs=20)
        return [pair.target for pair in pairs]

    rows = [f"Satz {i}\tphrase {i}" for i in range(100)]
    header = "de\ten"
    targets = sample("all", [header, *rows])
    assert len(targets) == 20 and targets == sorted(targets, key=lambda text: int(text.split()[1]))
    assert max(int(target.split()[1]) for target in targets) > 60, "not the first ones"
    assert set(sample("odd", [header, *rows[1::2]])) > {target for target in targets if int(target.split()[1]) % 2}
    assert len(sample("few", [header, *rows[:9]])) == 9


def test_some_rows_of_a_table(tmp_path: Path) -> None:
    rows = [f"{i}\tphrase {i}\tSatz {i}" for i in range(40)]
    (tmp_path / "all.tsv").write_text("\n".join(["id\ten\tde", *rows, "x\tphrase\tSatz"]))
    problems = Problems()
    pairs, _ = parallel(str(tmp_path / "all.tsv"), problems, split="test", where={"id": (10, 12)})
    assert [pair.target for pair in pairs] == ["phrase 10", "phrase 11", "phrase 12"]
    assert "no number in a column of `where`: 1, first in line 42" in problems.summaries[0]
    with pytest.raises(DataError, match="no column 'block'"):
        parallel(str(tmp_path / "all.tsv"), where={"block": (0, 1)})
    with pytest.raises(ValueError, match="`where` is for tables"):
        ParallelConfig(path="{lang}.txt", where={"id": (0, 1)})


def test_pairs_of_unlike_length_are_dropped(tmp_path: Path) -> None:
    path = write(
        tmp_path, de="eins zwei\ndrei vier\nx\nfünf sechs\n", en="one two\nthree four\nlong and longer\nfive six\n"
    )
    pairs, counts = parallel(path, split="train")
    assert len(pairs) == 3 and counts["dropped: unlike lengths"] == 1


def test_a_tested_sentence_is_in_no_training_pair(tmp_path: Path) -> None:
    path = write(tmp_path, de="a\nb\n\nb\nd\n", en="A\nB\n\nX\nD\n")
    pairs, counts = parallel(path, held_out=0.5)
    assert Pair("b", "B", "train") not in pairs and counts["dropped: shared with test"] == 1


@pytest.mark.parametrize(("de", "message"), [("a\n", "has 1 lines"), ("a\nb\nc\nd", "4 lines")])
def test_files_that_are_not_aligned(tmp_path: Path, de: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parallel(write(tmp_path, de=de, en="A\nB\nC\n"))


def test_dictionary_formats(tmp_path: Path) -> None:
    (tmp_path / "en-de.txt").write_text("house Haus\ncar Auto\ncar Wagen\n")
    (tmp_path / "de-en.tsv").write_text("Eis\tice cream\tnoun\nheute Abend\ttonight\n")
    muse = DictionaryConfig(path=str(tmp_path / "{hub}-{lang}.txt"), split="train")
    panlex = DictionaryConfig(path=str(tmp_path / "{lang}-{hub}.tsv"), split="train", lowercase=False)
    pairs, counts = dictionary(muse, panlex)
    assert [(pair.source, pair.target) for pair in pairs] == [
        ("haus", "house"), ("auto", "car"), ("wagen", "car"), ("Eis", "ice cream"), ("heute Abend", "tonight"),
    ]  # fmt: skip
    assert counts["train"] == 5


@pytest.mark.parametrize("separator", ["\t", " "])
@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("yacle.train.freq.5k.{hub}-{lang}.tsv", "yacle.test.freq.2k.{hub}-{lang}.tsv"),
        ("all/{lang}-{hub}/{lang}-{hub}.train.1000.cc.trans", "all/{lang}-{hub}/{lang}-{hub}.test.2000.cc.trans"),
    ],
    ids=["GT-BLI", "PanLex-BLI"],
)
def test_the_files_of_published_benchmarks(tmp_path: Path, train: str, test: str, separator: str) -> None:
    """In their order, the most frequent words first; columns in the order in which the name has the languages."""
    rows = {train: [("of", "von"), ("in", "im"), ("dog", "hund")], test: [("house", "haus"), ("dog", "köter")]}
    for name, pairs in rows.items():
        file = tmp_path / name.replace("{hub}", "en").replace("{lang}", "de")
        file.parent.mkdir(parents=True, exist_ok=True)
        sides = pairs if name.startswith("yacle") else [pair[::-1] for pair in pairs]
        file.write_text("".join(f"{separator.join(pair)}\n" for pair in sides), encoding="utf-8")
    configs = [DictionaryConfig(path=str(tmp_path / n), split=s) for n, s in ((train, "train"), (test, "test"))]
    pairs, counts = dictionary(*configs)
    assert [(pair.source, pair.target) for pair in pairs if pair.split == "train"] == [("von", "of"), ("im", "in")]
    assert [pair.source for pair in pairs if pair.split == "test"] == ["haus", "köter"]
    assert counts["dropped: shared with test"] == 1, "dog is tested"


def test_bad_lines_are_summarised_by_file(tmp_path: Path) -> None:
    bad = ["alone", "three words here", "\tempty side", "empty\t"] * 4
    (tmp_path / "en-de.txt").write_bytes("\n".join(["good gut", *bad]).encode() + b"\n\xff\xfe broken\n")
    problems = Problems()
    pairs, _ = dictionary(DictionaryConfig(path=str(tmp_path / "{hub}-{lang}.txt"), split="train"), problems=problems)
    assert len(pairs) == 1 and problems.count == 17
    (summary,) = problems.summaries
    assert "en-de.txt: 17 of 18 lines are unusable (fewer than two columns: 12, first in line 2; more" in summary
    assert "beginning of the translation is unclear: 4, first in line 3; not UTF-8: 1, first in line 18)" in summary


def test_a_dictionary_without_any_good_line_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "en-de.txt").write_text("alone\n" * 30)
    with pytest.raises(DataError, match=r"30 of 30 lines are unusable \(fewer than two columns: 30") as caught:
        dictionary(DictionaryConfig(path=str(tmp_path / "{hub}-{lang}.txt")))
    assert "'pairs'" in caught.value.remedy


def test_train_and_test_share_no_word(tmp_path: Path) -> None:
    (tmp_path / "train.en-de").write_text("bank Bank\nbench Bank\nshore Ufer\nhouse Haus\n")
    (tmp_path / "test.en-de").write_text("bank Bank\n")
    sources = [
        DictionaryConfig(path=str(tmp_path / "train.{hub}-{lang}"), split="train"),
        DictionaryConfig(path=str(tmp_path / "test.{hub}-{lang}"), split="test"),
    ]
    pairs, counts = dictionary(*sources)
    assert counts == {"train": 2, "test": 1, "dropped: shared with test": 1}
    assert {pair.target for pair in pairs if pair.split == "train"} == {"shore", "house"}


WORDS = st.sampled_from("abcdefgh")


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=30), st.floats(0, 0.9))
def test_splits_never_share_a_word(entries: list[tuple[str, str]], share: float) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "en-de").write_text("".join(f"{a}\t{b}\n" for a, b in entries))
        pairs, _ = dictionary(DictionaryConfig(path=f"{folder}/{{hub}}-{{lang}}", held_out=share))
    for side in ("source", "target"):
        train, test = ({getattr(p, side) for p in pairs if p.split == split} for split in ("train", "test"))
        assert train.isdisjoint(test)


def test_languages_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no translations of language 'de'"):
        dictionary(DictionaryConfig(path=str(tmp_path / "{hub}-{lang}")))
    assert dictionary(DictionaryConfig(path=str(tmp_path / "{hub}-{lang}"), required=False))[0] == []
    assert dictionary(DictionaryConfig(path=str(tmp_path / "{hub}-{lang}"), languages=["fr"]))[0] == []


def test_written_in_shards_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("babelray.lexicon.pairs.SHARD", 2)
    pairs = [Pair("é", "b", "train"), Pair("c", "d", "test"), Pair("e", "f", "train")]
    location = Location.parse(tmp_path / "de-en")
    write_pairs(location, pairs)
    assert location.files() == ["00000.parquet", "00001.parquet"]
    assert read_pairs(location, "train") == [pairs[0], pairs[2]] and read_pairs(location, "test") == [pairs[1]]
    assert read_pairs(Location.parse(tmp_path / "none"), "test") == []


@pytest.mark.parametrize("code", [code for code in LANGUAGES if code != "en"])
def test_starter_files_are_aligned(code: str) -> None:
    problems = Problems()
    sentences, _ = parallel_pairs([ParallelConfig(path="starter:text/{lang}.txt")], code, "en", problems)
    words, _ = dictionary_pairs([DictionaryConfig(path="starter:words/{lang}.txt")], code, "en", problems)
    assert problems.count == 0 and len(sentences) == 242 and len(words) > 350
