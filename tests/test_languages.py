import json
import unicodedata

import pytest

from babelray.errors import RecipeError
from babelray.languages import LANGUAGES, Language, resolve

SCRIPTS = {  # ISO 15924 to how Unicode names the letters
    "Latn": "LATIN", "Arab": "ARABIC", "Cyrl": "CYRILLIC", "Beng": "BENGALI", "Grek": "GREEK", "Hebr": "HEBREW",
    "Deva": "DEVANAGARI", "Jpan": "CJK", "Geor": "GEORGIAN", "Kore": "HANGUL", "Mlym": "MALAYALAM", "Mymr": "MYANMAR",
    "Taml": "TAMIL", "Telu": "TELUGU", "Thai": "THAI", "Hans": "CJK",
}  # fmt: skip


def test_the_forty_languages_of_the_paper() -> None:
    codes = (
        "af ar bg bn de el en es et eu fa fi fr he hi hu id it ja jv ka kk ko ml mr ms my nl pt ru sw ta te th tl tr"
    )
    assert list(LANGUAGES) == [*codes.split(), "ur", "vi", "yo", "zh"]
    assert len({language.iso639_3 for language in LANGUAGES.values()}) == 40


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=lambda language: language.code)
def test_native_name_is_written_in_the_languages_script(language: Language) -> None:
    letters = [c for c in language.native if unicodedata.category(c).startswith("L")]
    assert all(SCRIPTS[language.script] in unicodedata.name(c) for c in letters)


def test_unknown_language_names_the_nearest() -> None:
    with pytest.raises(RecipeError, match="unknown language 'German'") as caught:
        resolve(["en", "German"])
    assert "'de'" in caught.value.remedy
    assert "In a recipe" in caught.value.remedy and "in Python and commands" in caught.value.remedy


@pytest.mark.parametrize(("given", "meant"), [("deu", "de"), ("ekk", "et"), ("Deutsch", "de"), ("enn", "en")])
def test_other_codes_and_names_of_a_language_are_understood(given: str, meant: str) -> None:
    with pytest.raises(RecipeError) as caught:
        resolve([given])
    assert caught.value.remedy.startswith(f"Did you mean '{meant}'?")


def test_a_language_twice_is_an_error() -> None:
    with pytest.raises(RecipeError, match="listed twice"):
        resolve(["en", "de", "en"])


def test_a_recipe_can_add_a_language() -> None:
    other = Language(code="ga", name="Irish", native="Gaeilge", family="IE: Celtic", script="Latn", iso639_3="gle")
    assert list(resolve(["en", "ga"], [other])) == ["en", "ga"]


def test_command_lists_them(babelray) -> None:
    rows = json.loads(babelray("languages", "--json").stdout)
    assert len(rows) == 40
    assert rows[4] == LANGUAGES["de"].model_dump()
    assert "Deutsch" in babelray("languages").stdout
