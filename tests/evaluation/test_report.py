from dataclasses import replace
from html.parser import HTMLParser

from babelray.evaluation.report import ReportData, render
from babelray.languages import LANGUAGES


def data(name: str = "demo") -> ReportData:
    score = {"mean": 0.25, "p1": 0.5, "sentences": 48, "words": 80}
    better = score | {"mean": 0.75, "p1": 0.25}
    manifest = {
        "fingerprint": "abc", "code": "def", "created": "2026-01-01T00:00:00+00:00", "seconds": 1.5, "commit": None,
        "babelray": "0", "python": "3", "packages": {"torch": "2"}, "settings": {"a": "<b>"},
    }  # fmt: skip
    return ReportData(
        name=name,
        hub="en",
        languages={code: LANGUAGES[code] for code in ("en", "de", "ar")},
        scores={task: {"before": {"de": score, "ar": score}, "after": {"de": better, "ar": better}}
                for task in ("retrieval", "words", "bli")},
        statistics={"de": {"read": 10, "kept": 8, "dropped: duplicate": 2, "tokens": 80, "types": 40}},
        curves={"pretrain": [{"step": s, "values": {"loss/mlm": 9.0 - s, "loss/total": 1.0}} for s in (1, 2)]},
        manifests={"corpus": manifest, "evaluate": manifest},
    )  # fmt: skip


class Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.addresses: list[str] = []
        self.pictures: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.addresses += [v for k, v in values.items() if k in ("href", "src") and v and not v.startswith("#")]
        if tag == "svg":
            self.pictures.append(values.get("aria-label") or "")

    def handle_data(self, text: str) -> None:
        self.text.append(text)


def test_the_page_shows_the_figures_and_needs_no_network() -> None:
    page = Page(render(data()))
    text = " ".join(page.text)
    assert page.addresses == []
    assert "75.0 %" in text and "25.0 % before (+50.0)" in text
    assert "العربية" in text and "Deutsch" in text
    assert len(page.pictures) == 4 and all(page.pictures), "each with a text alternative"
    assert "de 25.0 to 75.0" in page.pictures[0]


def test_the_matrix_of_all_languages_is_a_heat_map() -> None:
    rows = {"en": {"de": 0.25}, "de": {"en": 0.75, "ar": 0.5}, "ar": {}}
    page = Page(render(replace(data(), matrix={"before": {code: {} for code in rows}, "after": rows})))
    assert "Word translation between all languages" in " ".join(page.text)
    assert any("before: mean 0.0; after: mean 50.0" in picture for picture in page.pictures)
    many = {a: {b: 0.5 for b in LANGUAGES if a != b} for a in LANGUAGES}
    assert "mean 50.0" in render(replace(data(), matrix={"after": many}))


def test_layers_and_the_language_model_have_their_sections() -> None:
    layers = {"before": {"de": {"0": 0.5, "1": 0.25}}, "after": {"de": {"0": 0.25, "1": 0.75}}}
    model = {"mlm": 5.0, "pseudo_perplexity": 123.4, "bits_per_character": 3.21, "sentences": 20}
    scores = {**data().scores, "layers": layers, "perplexity": {"before": {"de": model}, "after": {"de": model}}}
    page = Page(render(replace(data(), scores=scores)))
    text = " ".join(page.text)
    assert "Best: before 0, after 1" in text and "123.40" in text and "3.21" in text
    assert any("after: 25.0, 75.0" in picture for picture in page.pictures)


def test_word_similarity_across_languages_has_a_row_of_its_own() -> None:
    scores = {"similarity": {when: {"de-ar": {"harmonic": 0.5, "pairs": 7}} for when in ("before", "after")}}
    text = " ".join(Page(render(replace(data(), scores=scores))).text)
    assert "Word similarity" in text and "de-ar" in text


def test_names_cannot_inject_html() -> None:
    page = render(data("<script>alert(1)</script>"))
    assert "<script>alert" not in page and "&lt;b&gt;" in page


def test_the_same_data_give_the_same_page() -> None:
    assert render(data()) == render(data())
