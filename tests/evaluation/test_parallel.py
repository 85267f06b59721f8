import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from babelray.errors import DataError, RecipeError
from babelray.evaluation.parallel import SORTED_LINES, read_parallel
from babelray.evaluation.tatoeba import Tatoeba
from babelray.languages import LANGUAGES, Language, resolve
from babelray.storage import Location

GERMAN = ["Der Hund bellt.", "Die Katze schläft.", "Es regnet."]
ENGLISH = ["The dog barks.", "The cat sleeps.", "It rains."]


def write(folder: Path, files: dict[str, list[str]]) -> Location:
    for name, lines in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Location.parse(folder)


def table(folder: Path, *rows: str, name: str = "test.tsv") -> Location:
    write(folder, {name: [row.replace("|", "\t") for row in rows]})
    return Location.parse(folder / name)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("tatoeba.deu-eng.deu", "tatoeba.deu-eng.eng"),
        ("tatoeba/tatoeba.deu-eng.deu", "tatoeba/tatoeba.deu-eng.eng"),
        ("de-en.de", "de-en.en"),
        ("tatoeba/de-en.de", "tatoeba/de-en.en"),
        ("en-de.de", "en-de.en"),
        ("news.2014.de-en.de", "news.2014.de-en.en"),
        ("news.en-de.de", "news.en-de.en"),
    ],
)
def test_layouts_of_two_files(tmp_path: Path, left: str, right: str) -> None:
    location = write(tmp_path, {left: GERMAN, right: ENGLISH, "README.md": ["Line n translates line n."]})
    assert list(read_parallel(location)) == [("de", GERMAN, ENGLISH)]


def test_lasers_codes_are_ours(tmp_path: Path) -> None:
    """Tatoeba's codes of our languages, two of which are those of groups of languages; others are passed over."""
    iso = {language.code: language.iso639_3 for language in LANGUAGES.values()} | {"ar": "ara", "et": "est"}
    missing = {"en", "my", "yo"}
    for code in [*(iso[code] for code in LANGUAGES if code not in missing), "amh", "arz", "gsw"]:
        write(
            tmp_path, {f"tatoeba.{code}-eng.{code}": [f"{code}."], f"tatoeba.{code}-eng.eng": [f"{code} in English."]}
        )
    found = list(read_parallel(Location.parse(tmp_path)))
    assert [pair.language for pair in found] == sorted(set(LANGUAGES) - missing)
    assert all(pair == (pair.language, [f"{c}."], [f"{c} in English."]) for pair in found for c in [iso[pair.language]])


def test_only_the_languages_that_are_asked_for_and_those_of_a_recipe(tmp_path: Path) -> None:
    sides = {f"tatoeba.{code}-eng.{side}": [f"A {code}."] for code in ("deu", "fra", "amh") for side in (code, "eng")}
    location = write(tmp_path, sides)
    amharic = Language(code="am", name="Amharic", native="አማርኛ", family="Semitic", script="Ethi", iso639_3="amh")
    assert [pair.language for pair in read_parallel(location, languages=resolve(["fr", "am"], [amharic]))] == [
        "fr",
        "am",
    ]


def test_another_hub(tmp_path: Path) -> None:
    location = write(
        tmp_path, {"de-fr.de": GERMAN, "de-fr.fr": ["a.", "b.", "c."], "de-en.de": ["x."], "de-en.en": ["y."]}
    )
    assert list(read_parallel(location, "fr")) == [("de", GERMAN, ["a.", "b.", "c."])]
    assert list(read_parallel(location, "de")) == [("en", ["y."], ["x."]), ("fr", ["a.", "b.", "c."], GERMAN)]


def test_tables(tmp_path: Path) -> None:
    location = table(
        tmp_path, "number|topic|de|en|xx|fr", "1|pets|Hund|dog|?|chien", "2|pets|Katze|cat|?|", "", "3||a|b|?|c"
    )
    expected = [("de", ["Hund", "Katze", "a"], ["dog", "cat", "b"]), ("fr", ["chien", "c"], ["dog", "b"])]
    assert list(read_parallel(location)) == list(read_parallel(location.parent)) == expected
    assert list(read_parallel(location, where={"number": (2, 3)})) == [
        ("de", ["Katze", "a"], ["cat", "b"]),
        ("fr", ["c"], ["b"]),
    ]


def test_tables_of_a_folder_are_read_one_after_the_other(tmp_path: Path) -> None:
    table(tmp_path, "id|eng|deu|ind", "1|one|eins|satu", "5|five|fünf|lima", name="a.tsv")
    table(tmp_path, "id|de|en", "2|zwei|two", name="b.tsv")
    table(tmp_path, "id|split", "1|train", name="splits.tsv")
    expected = [("de", ["eins", "fünf", "zwei"], ["one", "five", "two"]), ("id", ["satu", "lima"], ["one", "five"])]
    for location in (Location.parse(tmp_path), Location.parse(tmp_path / "*.tsv")):
        assert list(read_parallel(location)) == expected
    some = read_parallel(Location.parse(tmp_path / "[ab].tsv"), where={"id": (2, 5)})
    assert list(some) == [("de", ["fünf", "zwei"], ["five", "two"]), ("id", ["lima"], ["five"])]


lines = st.lists(st.text(min_size=1, max_size=20).filter(lambda line: line.strip() and "\n" not in line), min_size=1)


@settings(max_examples=50)
@given(lines, st.booleans())
def test_what_is_written_is_read(sentences: list[str], windows: bool) -> None:
    """Whatever characters stand in a line: some of them end lines for Python, but not in these files."""
    expected = [unicodedata.normalize("NFC", line.replace("\0", " ")).strip() for line in sentences]
    kept = [line for line in expected if line]
    with tempfile.TemporaryDirectory() as folder:
        text = ("\r\n" if windows else "\n").join(sentences)
        Path(folder, "x.de-en.de").write_bytes(b"\xef\xbb\xbf" + text.encode() + b"\n")
        Path(folder, "x.de-en.en").write_bytes(text.encode())
        assert list(read_parallel(Location.parse(folder))) == [("de", kept, kept)]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "no parallel sentences of 'en' and another language in FOLDER"),
        ({"notes.txt": ["x"], "de-fr.de": ["x"], "de-fr.fr": ["x"]}, "no parallel sentences of 'en' and another"),
        ({"deep/er/de-en.de": ["x"], "deep/er/de-en.en": ["x"]}, "no parallel sentences"),
        ({"tatoeba.xxx-eng.xxx": ["x"], "tatoeba.xxx-eng.eng": ["x"]}, "no parallel sentences"),
        (
            {"de-en.de": ["a", "b"], "de-en.en": ["A"]},
            "FOLDER/de-en.en, line 1: the last of 1 lines, but FOLDER/de-en.de",
        ),
        (
            {"de-en.de": ["a"], "de-en.en": ["A", "B"]},
            "FOLDER/de-en.de, line 1: the last of 1 lines, but FOLDER/de-en.en",
        ),
        ({"de-en.de": ["a", ""], "de-en.en": ["A", "B"]}, "FOLDER/de-en.de, line 2: empty, but not in FOLDER/de-en.en"),
        (
            {"de-en.de": ["a", "b"], "de-en.en": [" ", "B"]},
            "FOLDER/de-en.en, line 1: empty, but not in FOLDER/de-en.de",
        ),
        ({"de-en.de": [""], "de-en.en": [""]}, "FOLDER/de-en.de, line 1: there are no sentences"),
        ({"de-en.de": ["a"]}, "FOLDER/de-en.de has no FOLDER/de-en.en beside it"),
        ({"tatoeba.deu-eng.eng": ["a"]}, "FOLDER/tatoeba.deu-eng.eng has no FOLDER/tatoeba.deu-eng.deu beside it"),
        (
            {"a.de-en.de": ["a"], "a.de-en.en": ["A"], "b.en-de.de": ["a"], "b.en-de.en": ["A"]},
            "FOLDER/a.de-en.de and FOLDER/b.en-de.de are both sentences of language 'de'",
        ),
        ({"x.tsv": ["de\tfr", "a\tb"]}, "FOLDER/x.tsv, line 1: no column 'en'"),
        ({"x.tsv": ["de\ten", "a\tb", "c"]}, "FOLDER/x.tsv, line 3: 1 columns instead of 2"),
        ({"x.tsv": ["de\tdeu\ten", "a\tb\tc"]}, "FOLDER/x.tsv, line 1: two columns of language 'de'"),
        ({"x.tsv": ["de\ten", "a\t", "\tb"]}, "FOLDER/x.tsv, line 1: no sentence in 'en' and another language"),
        ({"x.tsv": ["id\ten", "1\ta"]}, "FOLDER/x.tsv, line 1: no sentence in 'en' and another language"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, files: dict[str, list[str]], problem: str) -> None:
    location = write(tmp_path, files)
    with pytest.raises(DataError) as raised:
        read_parallel(location)
    assert raised.value.problem.startswith(problem.replace("FOLDER", str(tmp_path)))
    assert raised.value.remedy


def test_rows_that_cannot_be_chosen(tmp_path: Path) -> None:
    location = table(tmp_path, "n|topic|de|en", "1|pets|Hund|dog", "2|7|Katze|cat")
    with pytest.raises(DataError, match=r"test\.tsv, line 1: no column 'm'"):
        read_parallel(location, where={"m": (0, 1)})
    with pytest.raises(DataError, match=r"test\.tsv, line 2: 'pets' in column 'topic' is not a number"):
        read_parallel(location, where={"topic": (0, 9)})
    with pytest.raises(DataError, match="line 1: no sentence in 'en' and another language in the rows that `where`"):
        read_parallel(location, where={"n": (3, 9)})
    (tmp_path / "pairs").mkdir()
    with pytest.raises(DataError, match="it is for tables"):
        read_parallel(write(tmp_path / "pairs", {"de-en.de": ["a"], "de-en.en": ["A"]}), where={"n": (3, 9)})


@pytest.mark.parametrize("name", ["de-en.de", "tatoeba.deu-eng.deu", "x.tsv"])
def test_not_utf8(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"de-en.en": ["a", "b"]} if name == "de-en.de" else {"tatoeba.deu-eng.eng": ["a", "b"]})
    if name == "x.tsv":
        (tmp_path / "tatoeba.deu-eng.eng").unlink()
    (tmp_path / name).write_bytes("de\ten\nsüß\tx\n".encode("latin-1"))
    with pytest.raises(DataError, match=f"{name}, line 2: not valid UTF-8"):
        read_parallel(Location.parse(tmp_path))


def test_a_place_that_is_not_there(tmp_path: Path) -> None:
    for name in ("nowhere", "*.tsv"):
        with pytest.raises(DataError, match="there is no "):
            read_parallel(Location.parse(tmp_path / name))


def test_xtremes_sorted_english_is_refused(tmp_path: Path) -> None:
    """Line by line it is no translation; files with the names of other layouts are."""
    german = [f"Satz {i}." for i in range(SORTED_LINES)]
    english = sorted(f"Sentence {i}." for i in range(SORTED_LINES))
    location = write(tmp_path, {"de-en.de": german, "de-en.en": english})
    with pytest.raises(DataError, match=r"de-en\.en, line 1: the sentences are in alphabetical order") as raised:
        read_parallel(location)
    assert "`sorted.de-en.de` and `sorted.de-en.en`" in raised.value.remedy
    for stem, left, right in (("sorted.de-en", "de", "en"), ("en-de", "de", "en"), ("tatoeba.deu-eng", "deu", "eng")):
        (tmp_path / stem).mkdir()
        location = write(tmp_path / stem, {f"{stem}.{left}": german, f"{stem}.{right}": english})
        assert list(read_parallel(location)) == [("de", german, english)]


@pytest.mark.parametrize("english", [["A", "B", "C"], ["Same."] * 50, [*map(str, range(10, 60)), "1"]])
def test_english_that_is_in_order_by_chance_is_not_refused(tmp_path: Path, english: list[str]) -> None:
    german = [f"Satz {i}." for i in range(len(english))]
    location = write(tmp_path, {"de-en.de": german, "de-en.en": english})
    assert list(read_parallel(location)) == [("de", german, english)]


def test_languages_beyond_the_40(tmp_path: Path) -> None:
    names = ("tatoeba.ces-eng.ces", "tatoeba.ces-eng.eng", "tatoeba.deu-eng.deu", "tatoeba.deu-eng.eng")
    location = write(tmp_path, {name: ["a", "b"] for name in names})
    czech = {"code": "cs", "name": "Czech", "native": "čeština", "family": "IE: Slavic", "script": "Latn"}
    extra = [czech | {"iso639_3": "ces"}]
    assert [found.language for found in Tatoeba(data=str(location)).read()] == ["de", "ces"]
    assert [found.language for found in Tatoeba(data=str(location), languages=["cs"]).read()] == ["cs"]
    assert [found.language for found in Tatoeba(data=str(location), extra_languages=extra).read()] == ["de", "cs"]
    only = Tatoeba(data=str(location), extra_languages=extra, languages=["cs"])
    assert [found.language for found in only.read()] == ["cs"]
    with pytest.raises(RecipeError, match="unknown language 'xx'"):
        Tatoeba(data=str(location), languages=["xx"]).read()


def test_every_language_of_the_data_is_read_and_omissions_are_said(tmp_path: Path) -> None:
    """All codes of LASER's Tatoeba that the 40 languages lack are ISO codes."""
    codes = "amh ang arq arz ast awa aze bel ben ber bos bre cat cbk ceb ces cha cor csb cym dsb dtp epo fao fry gla "
    codes += "gle glg gsw hrv hsb hye ido ile ina isl kab khm kur kzj lat lfn lit lvs max mhr mkd mon nds nno nob nov "
    codes += "oci orv pam pms pol ron slk slv sqi srp swe swg tat tuk tzl uig ukr uzb war wuu xho yid yue"
    for code in codes.split():
        write(tmp_path, {f"tatoeba.{code}-eng.{side}": [f"A sentence in {side}."] for side in (code, "eng")})
    write(tmp_path, {f"tatoeba.qqq-eng.{side}": ["?"] for side in ("qqq", "eng")})
    write(tmp_path, {f"tatoeba.deu-fra.{side}": ["?"] for side in ("deu", "fra")})
    benchmark = Tatoeba(data=str(tmp_path))
    found = [pair.language for pair in benchmark.read()]
    assert {*codes.split()} - {"ben"} | {"bn"} == {*found} and "qqq" not in found
    (omission,) = benchmark.omissions()
    assert all(name in omission for name in ("tatoeba.qqq-eng.qqq", "tatoeba.deu-fra.deu")) and "yue" not in omission
    assert Tatoeba(data=str(tmp_path), languages=["yue"]).omissions() == []


def test_columns_of_other_languages_are_written_like_the_hub(tmp_path: Path) -> None:
    short = table(tmp_path, "key|en|de|is|url", "a|dog|Hund|hundur|http", name="short.tsv")
    assert [pair.language for pair in Tatoeba(data=str(short)).read()] == ["de", "is"]
    assert Tatoeba(data=str(short)).omissions() == [
        "not read, since their names are no language codes: columns key, url"
    ]
    long = table(tmp_path, "id|eng|deu|isl|ace_Arab|text", "1|dog|Hund|hundur|x|y", name="long.tsv")
    assert [pair.language for pair in Tatoeba(data=str(long)).read()] == ["de", "ace_Arab", "isl"]


def test_only_files_that_are_read_count_as_data(tmp_path: Path) -> None:
    for name in ("de-en.de", "de-en.en", "notes.txt", "out/result.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    assert [location.name for location in Tatoeba(data=str(tmp_path)).sources()] == ["de-en.de", "de-en.en"]
    with pytest.raises(DataError, match="there is nothing at"):
        Tatoeba(data=str(tmp_path / "nowhere")).sources()


def test_a_folder_without_parallel_sentences_is_described(tmp_path: Path) -> None:
    write(tmp_path, {"german.txt": GERMAN, "english.txt": ENGLISH, "deep/er/de-en.de": GERMAN})
    with pytest.raises(DataError, match=r"tatoeba: no file in .*; it has deep/, english\.txt, german\.txt\n") as caught:
        Tatoeba(data=str(tmp_path)).sources()
    assert "`name.de-en.de`" in caught.value.remedy and "`.tsv` tables" in caught.value.remedy
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="it is empty"):
        Tatoeba(data=str(tmp_path / "empty")).sources()
    write(tmp_path / "many", {f"{letter}.txt": ["x"] for letter in "abcdefghijk"})
    with pytest.raises(DataError, match=r"it has a\.txt, .*, h\.txt and 3 more"):
        Tatoeba(data=str(tmp_path / "many")).sources()
