"""The built-in languages: the 40 of Hämmerl et al. (2022), Table 4. A recipe can add others."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict, Field

from babelray.errors import RecipeError

CODE = re.compile(r"^[a-z]{2,3}(_[A-Za-z]+)?$")


class Language(BaseModel):
    """One language: its names, family and script, and the segmenter of its text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str = Field(pattern=CODE.pattern, description="the code used in recipes and file names")
    name: str = Field(description="English name")
    native: str = Field(description="the name in the language itself")
    family: str = Field(description="language family, with the branch of Indo-European")
    script: str = Field(pattern=r"^[A-Z][a-z]{3}$", description="ISO 15924 code of the script")
    iso639_3: str = Field(pattern=r"^[a-z]{3}$", description="ISO 639-3 code")
    segmenter: str = Field("icu", description="splits its sentences into words; ICU if not installed")


NO_LANGUAGE = ("mis", "mul", "und", "zxx")
"""ISO 639 codes of texts in an uncoded, several, an undetermined and no language."""

_TABLE = """
af | Afrikaans  | Afrikaans        | IE: Germanic      | Latn | afr
ar | Arabic     | العربية          | Semitic           | Arab | arb
bg | Bulgarian  | български        | IE: Slavic        | Cyrl | bul
bn | Bengali    | বাংলা             | IE: Indo-Aryan    | Beng | ben
de | German     | Deutsch          | IE: Germanic      | Latn | deu
el | Greek      | Ελληνικά         | IE: Greek         | Grek | ell
en | English    | English          | IE: Germanic      | Latn | eng
es | Spanish    | español          | IE: Romance       | Latn | spa
et | Estonian   | eesti            | Uralic            | Latn | ekk
eu | Basque     | euskara          | Isolate           | Latn | eus
fa | Persian    | فارسی            | IE: Iranian       | Arab | pes
fi | Finnish    | suomi            | Uralic            | Latn | fin
fr | French     | français         | IE: Romance       | Latn | fra
he | Hebrew     | עברית            | Semitic           | Hebr | heb
hi | Hindi      | हिन्दी             | IE: Indo-Aryan    | Deva | hin
hu | Hungarian  | magyar           | Uralic            | Latn | hun
id | Indonesian | Bahasa Indonesia | Malayo-Polynesian | Latn | ind
it | Italian    | italiano         | IE: Romance       | Latn | ita
ja | Japanese   | 日本語            | Japonic           | Jpan | jpn
jv | Javanese   | Basa Jawa        | Malayo-Polynesian | Latn | jav
ka | Georgian   | ქართული          | Kartvelian        | Geor | kat
kk | Kazakh     | қазақ тілі       | Turkic            | Cyrl | kaz
ko | Korean     | 한국어            | Koreanic          | Kore | kor
ml | Malayalam  | മലയാളം           | Dravidian         | Mlym | mal
mr | Marathi    | मराठी             | IE: Indo-Aryan    | Deva | mar
ms | Malay      | Bahasa Melayu    | Malayo-Polynesian | Latn | zsm
my | Burmese    | မြန်မာ            | Sino-Tibetan      | Mymr | mya
nl | Dutch      | Nederlands       | IE: Germanic      | Latn | nld
pt | Portuguese | português        | IE: Romance       | Latn | por
ru | Russian    | русский          | IE: Slavic        | Cyrl | rus
sw | Swahili    | Kiswahili        | Niger-Congo       | Latn | swh
ta | Tamil      | தமிழ்             | Dravidian         | Taml | tam
te | Telugu     | తెలుగు            | Dravidian         | Telu | tel
th | Thai       | ไทย              | Kra-Dai           | Thai | tha
tl | Tagalog    | Tagalog          | Malayo-Polynesian | Latn | tgl
tr | Turkish    | Türkçe           | Turkic            | Latn | tur
ur | Urdu       | اردو             | IE: Indo-Aryan    | Arab | urd
vi | Vietnamese | Tiếng Việt       | Mon-Khmer         | Latn | vie
yo | Yoruba     | Yorùbá           | Niger-Congo       | Latn | yor
zh | Mandarin   | 中文              | Sino-Tibetan      | Hans | cmn
"""


_SEGMENTERS = {"ja": "fugashi", "ko": "kiwipiepy", "th": "pythainlp", "zh": "jieba"}
"""Languages for which another segmenter finds better words than ICU."""


def _read_table() -> dict[str, Language]:
    fields = ("code", "name", "native", "family", "script", "iso639_3")
    rows = ([cell.strip() for cell in line.split("|")] for line in _TABLE.strip().splitlines())
    return {
        row[0]: Language(**dict(zip(fields, row, strict=True)), segmenter=_SEGMENTERS.get(row[0], "icu"))
        for row in rows
    }


LANGUAGES: dict[str, Language] = _read_table()


@functools.cache
def describe_language(code: str) -> Language | None:
    """A language beyond the built-in ones by its ISO 639 code, such as `is`, `yue` or `ace_Arab`; None if it has none.

    >>> describe_language("yue").name, describe_language("xx")
    ('Cantonese', None)
    """
    import langcodes

    tag = code.replace("_", "-")
    if not CODE.fullmatch(code) or not langcodes.tag_is_valid(tag):
        return None
    language = langcodes.Language.get(tag)
    try:
        iso639_3 = language.to_alpha3()
    except LookupError:
        return None
    if iso639_3 in NO_LANGUAGE or language.language_name().startswith("Unknown language"):
        return None
    return Language(
        code=code,
        name=language.display_name(),
        native=language.autonym(),
        family="",
        script=language.maximize().script or "Zyyy",
        iso639_3=iso639_3,
    )


def language_name(code: str, languages: Mapping[str, Language] = LANGUAGES) -> str:
    """The name of a language, or of a pair such as `de-en` or `ende`; empty if it is not known.

    >>> language_name("ende"), language_name("de-fr"), language_name("yue"), language_name("xx")
    ('English – German', 'German – French', 'Cantonese', '')
    """
    names = {one: language.name for one, language in {**LANGUAGES, **languages}.items()}
    if code in names:
        return names[code]
    pair = code.split("-") if "-" in code else [code[:2], code[2:]]
    if len(code) > 3 and all(one in names for one in pair):
        return " – ".join(names[one] for one in pair)
    described = describe_language(code)
    return described.name if described else ""


def resolve(codes: Iterable[str], extra: Iterable[Language] = (), any_iso: bool = False) -> dict[str, Language]:
    """The languages with these codes, in this order; `extra` adds to the 40 or replaces one of them.

    `any_iso`: other ISO 639 codes are accepted too.
    """
    available = LANGUAGES | {language.code: language for language in extra}
    resolved: dict[str, Language] = {}
    for code in codes:
        if code not in available and any_iso and (described := describe_language(code)):
            available[code] = described
        if code not in available:
            near = _nearest(code, available)
            suggestion = f"Did you mean {near[0]!r}? " if near else ""
            raise RecipeError(
                f"unknown language {code!r}",
                f"{suggestion}`babelray languages` lists the built-in ones. In a recipe, describe another under "
                "`extra_languages`; in Python and commands, give an ISO 639 code.",
            )
        if code in resolved:
            raise RecipeError(f"language {code!r} is listed twice", "List each language once.")
        resolved[code] = available[code]
    return resolved


def _nearest(code: str, available: Mapping[str, Language]) -> list[str]:
    """The code of the language that another code or a name stands for, else the most similar code, if there is one."""
    text = code.lower()
    meant = [
        language.code
        for language in available.values()
        if text in (language.iso639_3, language.name.lower(), language.native.lower())
    ]
    return meant or difflib.get_close_matches(text, available, n=1)
