from pathlib import Path

from babelray.evaluation.data_languages import languages_of_files
from babelray.languages import describe_language, language_name


def test_languages_of_files_in_any_spelling(tmp_path: Path) -> None:
    for name in (
        "de/test.de.tsv",
        "deu_Latn/test.deu_Latn.tsv",
        "is/test.is.tsv",
        "dev/test.dev.tsv",
        "de/test.fr.tsv",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = languages_of_files(f"{tmp_path}/{{lang}}/test.{{lang}}.tsv")
    assert found.codes == ["de", "is"] and found.unread == [f"{tmp_path}/dev/test.dev.tsv"]
    assert languages_of_files(f"{tmp_path}/none/{{lang}}.tsv").codes == []


def test_names_of_languages_beyond_the_40() -> None:
    yue = describe_language("yue")
    assert yue is not None and (yue.native, yue.iso639_3, yue.script) == ("粵語", "yue", "Hant")
    assert describe_language("is").iso639_3 == "isl" and describe_language("Is") is None
    assert language_name("ace_Arab") == "Acehnese (Arabic)" and language_name("de") == "German"
