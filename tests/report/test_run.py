import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from babelray.languages import LANGUAGES
from babelray.metrics.closeness import closeness
from babelray.pipeline.stage import Job
from babelray.report import plots
from babelray.report.benchmarks import benchmark_section, benchmark_sections, overview, published_table
from babelray.report.run import ReportData, report_page, training_cost
from babelray.report.word_map import Box, spread_out, word_map
from babelray.stages.report import ReportSettings, ReportStage
from babelray.storage import Location
from babelray.storage.artifact import Artifact
from babelray.storage.results import BenchmarkResults
from support.report_data import about, full_data
from support.toy_benchmark import toy_benchmark

WHEN = ("before", "after")


def same(benchmark: str, values: dict[str, dict[str, float]], **changes: Any) -> BenchmarkResults:
    """The results of a benchmark with the same scores before and after."""
    return BenchmarkResults(benchmark, about(benchmark, **changes), dict.fromkeys(WHEN, values))


def data(name: str = "demo") -> ReportData:
    score = {"mean": 0.25, "p1": 0.5, "sentences": 48, "words": 80}
    better = score | {"mean": 0.75, "p1": 0.25}
    scores = {"before": {"de": score, "ar": score}, "after": {"de": better, "ar": better}}
    manifest = {
        "fingerprint": "abc", "code": "def", "created": "2026-01-01T00:00:00+00:00", "seconds": 1.5, "commit": None,
        "babelray": "0", "python": "3", "packages": {"torch": "2"}, "settings": {"a": "<b>", "hub": "en"},
    }  # fmt: skip
    return ReportData(
        name=name,
        hub="en",
        languages={code: LANGUAGES[code] for code in ("en", "de", "ar")},
        results={label: BenchmarkResults(label, about(label), scores) for label in ("retrieval", "words", "bli")},
        statistics={code: {"read": 10, "kept": 8, "dropped: duplicate": 2, "tokens": 80, "types": 40}
                    for code in ("de", "ar")},
        curves={"pretrain": [{"step": s, "values": {"loss/mlm": 9.0 - s, "loss/total": 1.0}} for s in (1, 2)]},
        manifests={"corpus": manifest, "evaluate": manifest},
    )  # fmt: skip


def with_results(**results: BenchmarkResults) -> ReportData:
    return replace(data(), results={**data().results, **results})


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
    page = Page(report_page(data()))
    text = " ".join(page.text)
    assert page.addresses == []
    assert "75.0 %" in text and "25.0 % before (+50.0)" in text
    assert "العربية" in text and "Deutsch" in text
    assert len(page.pictures) == 4 and all(page.pictures), "each with a text alternative"
    assert "de 25.0 to 75.0" in page.pictures[0]


def test_the_matrix_of_all_languages_is_a_heat_map() -> None:
    rows = {"en": {"de": 0.25}, "de": {"en": 0.75, "ar": 0.5}, "ar": {}}
    figures = {"before": {"matrix": {code: {} for code in rows}}, "after": {"matrix": rows}}
    bli = data().results["bli"]
    page = Page(report_page(with_results(bli=replace(bli, figures=figures))))
    assert "Word translation between all languages" in " ".join(page.text)
    assert any("before: mean 0.0; after: mean 50.0" in picture for picture in page.pictures)
    many = {a: {b: 0.5 for b in LANGUAGES if a != b} for a in LANGUAGES}
    assert "mean 50.0" in report_page(with_results(bli=replace(bli, figures={"after": {"matrix": many}})))


def test_layers_and_the_language_model_have_their_sections() -> None:
    layers = {"before": {"de": {"0": 0.5, "1": 0.25}}, "after": {"de": {"0": 0.25, "1": 0.75}}}
    profile = same("layers", {"de": {"best": 0.5, "best_layer": 1}})
    profile = replace(profile, figures={when: {"layers": own} for when, own in layers.items()})
    model = {"mlm": 5.0, "pseudo_perplexity": 123.4, "bits_per_character": 3.21, "sentences": 20}
    page = Page(report_page(with_results(layers=profile, perplexity=same("perplexity", {"de": model}))))
    text = " ".join(page.text)
    assert "Best: before 0, after 1" in text and "123.40" in text and "3.21" in text
    assert any("after: 25.0, 75.0" in picture for picture in page.pictures)


def test_word_similarity_across_languages_has_a_row_of_its_own() -> None:
    meta = about("tatoeba", title="Word similarity", main_metric="harmonic", columns={"harmonic": "%"})
    values = {when: {"de-ar": {"harmonic": 0.5, "pairs": 7}} for when in WHEN}
    text = " ".join(Page(report_page(with_results(similarity=BenchmarkResults("tatoeba", meta, values)))).text)
    assert "Word similarity" in text and "de-ar" in text


def test_a_benchmark_without_scores_is_left_out() -> None:
    empty = BenchmarkResults("word-map", about("word-map"), {"before": {}, "after": {}})
    assert "Words on a map" not in report_page(with_results(**{"word-map": empty}))


def test_names_cannot_inject_html() -> None:
    page = report_page(data("<script>alert(1)</script>"))
    assert "<script>alert" not in page and "&lt;b&gt;" in page


def test_the_same_data_give_the_same_page() -> None:
    assert report_page(data()) == report_page(data())


def cells(html: str) -> list[list[str]]:
    """The text of a table's rows, the bold parts between stars."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", html.replace("<b>", "*").replace("</b>", "*"), re.DOTALL)
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[unescape(re.sub(r"<[^>]+>", "", cell)) for cell in row] for row in found]


SCORES = {
    "before": {
        "de": {"sentences": 1000, "mean": 0.5, "mean_margin": 0.1},
        "ar": {"sentences": 900, "mean": 0.25, "mean_margin": 0.2},
    },
    "after": {
        "de": {"sentences": 1000, "mean": 0.75, "mean_margin": 0.3},
        "ar": {"sentences": 900, "mean": 0.2, "mean_margin": 0.2},
        "th": {"sentences": 548, "mean": 0.9},
    },
}
"""Three languages, one of which was not measured before."""
COLUMNS = {"sentences": ",.0f", "mean": "%", "mean_margin": ".3f"}


def result(
    benchmark: str = "tatoeba", label: str | None = None, scores: Any = None, p: Any = None, **meta: Any
) -> BenchmarkResults:
    meta = about(benchmark, label) | {"columns": COLUMNS} | meta
    p = {"": 0.2, "de": 0.0004, "ar": 0.05} if p is None else p
    return BenchmarkResults(label or benchmark, meta, scores or SCORES, p=p)


def test_a_benchmark_has_its_scores_before_and_after_with_significant_changes_in_bold() -> None:
    section = benchmark_section(result(), {})
    own = section.body.split("<details")[0]
    assert cells(own) == [
        ["", "both directions, %", "margin", ""],
        ["code", "language", "before", "after", "change", "p", "before", "after", "sentences"],
        ["de", "German", "50.0", "75.0", "*+25.0*", "*< 0.001*", "0.100", "0.300", "1,000"],
        ["ar", "Arabic", "25.0", "20.0", "−5.0", "0.050", "0.200", "0.200", "900"],
        ["th", "Thai", "", "90.0", "", "", "", "", "548"],
        ["", "mean", "37.5", "47.5", "+10.0", "0.200", "0.150", "0.250", ""],
    ], "the mean is that of languages measured both times"
    assert "Artetxe and Schwenk" in own and "p &lt; 0.05" in own
    assert "de 50.0 to 75.0; ar 25.0 to 20.0; th 90.0 after" in own


def test_confidence_intervals_stand_beside_the_change() -> None:
    given = replace(result(), intervals={"after": {"": (0.4, 0.55), "de": (0.7, 0.8), "ar": (0.1, 0.3)}})
    table = cells(benchmark_section(given, {}).body.split("<details")[0])
    assert [row[6] for row in table[1:]] == ["after, 95 %", "70.0–80.0", "10.0–30.0", "", "40.0–55.0"]
    assert "95 %" not in benchmark_section(result(), {}).body.split("<details")[0]
    summed = cells(overview({"tatoeba": given, "bible": result(label="bible")}).body)
    assert [row[5] for row in summed] == ["after, 95 %", "40.0–55.0", ""]


def test_labels_of_many_languages_are_turned() -> None:
    few, many = ({f"a{i}-en": 0.5 for i in range(count)} for count in (3, 30))
    assert plots._overlap([*many], 8.6, 9) and not plots._overlap([*few], 8.6, 9)


def test_a_benchmark_that_is_no_share_has_no_bars_and_without_tests_there_is_no_legend() -> None:
    values = {"de-en": {"segments": 560, "pearson": 0.4}, "enfr": {"segments": 560, "pearson": -0.25}}
    columns = {"segments": ",.0f", "pearson": ".3f"}
    given = result("mt-quality", "wmt", dict.fromkeys(WHEN, values), {}, columns=columns)
    body = benchmark_section(given, {}).body
    own = body.split("<details")[0]
    assert cells(own)[1:4] == [
        ["code", "language", "before", "after", "change", "segments"],
        ["de-en", "German – English", "0.400", "0.400", "+0.000", "560"],
        ["enfr", "English – French", "-0.250", "-0.250", "+0.000", "560"],
    ]
    assert "<svg" not in own and "Bold" not in own


def test_spreads_over_seeds_stand_beside_their_metric() -> None:
    values = {"en": {"accuracy": 0.5, "accuracy_spread": 0.0125}}
    columns = {"accuracy": "%", "accuracy_spread": "%"}
    given = result("classification", "sib200", dict.fromkeys(WHEN, values), {}, columns=columns)
    section = benchmark_section(given, {})
    assert cells(section.body.split("<details")[0])[1:] == [
        ["code", "language", "before", "after", "change"],
        ["en", "English", "50.0 ± 1.2", "50.0 ± 1.2", "+0.0"],
    ], "and of one language there is no mean"
    assert section.title == "Text classification: sib200" and "standard deviation over seeds" in section.body


def test_what_is_no_number_counts_as_not_measured() -> None:
    values = {"de": {"mean": float("nan")}, "ar": {"mean": 0.5}}
    given = result(scores=dict.fromkeys(WHEN, values), p={}, columns={"mean": "%"})
    assert cells(benchmark_section(given, {}).body.split("<details")[0])[2:] == [
        ["de", "German", "", "", ""],
        ["ar", "Arabic", "50.0", "50.0", "+0.0"],
        ["", "mean", "50.0", "50.0", "+0.0"],
    ]
    nothing = result(scores={"before": {}, "after": {"de": {"mean": float("nan")}}}, p={}, columns={"mean": "%"})
    assert "<svg" not in benchmark_section(nothing, {}).body


def test_all_benchmarks_are_summed_up_and_linked() -> None:
    results = {"tatoeba": result(), "bible": result(label="bible", p={"": 0.01})}
    section = overview(results)
    assert cells(section.body)[1:] == [
        ["Sentence retrieval with the hub", "37.5", "47.5", "+10.0", "0.200", "both directions, %", "2"],
        ["Sentence retrieval with the hub: bible", "37.5", "47.5", "*+10.0*", "*0.010*", "both directions, %", "2"],
    ]
    anchors = re.findall(r'href="#([^"]+)"', section.body)
    assert anchors == [benchmark_section(own, {}).anchor for own in results.values()]


def test_published_figures_are_headed_as_such_and_say_with_what_they_were_measured() -> None:
    table = published_table("tatoeba")
    assert table.index("not of this run") < table.index("50.35")
    rows = cells(table)
    row = ["+ MLM and DCCA with X2S-MA", "XLM-R base", "Tatoeba", "36 with en", "accuracy", "68.06"]
    assert [*row, "Hämmerl et al. (2022), Table 3"] in rows
    assert "million sentences of CC100" in table
    several = [row for row in cells(published_table("classification")) if row[0] == "least squares"]
    assert [(row[2], row[3], row[5]) for row in several] == [
        ("Amazon reviews", "de, es, zh", "0.46 / 0.46 / 0.30"),
        ("Taxi1500", "de, es, zh", "0.14 / 0.26 / 0.24"),
    ]
    assert published_table("geometry") == ""


def test_published_figures_stand_below_the_first_result_of_a_benchmark() -> None:
    few = {"a": result(), "b": result(), "c": result("word-alignment", columns={"f1": "%"}, main_metric="mean")}
    with_papers = ["not of this run" in section.body for section in benchmark_sections(few, {})]
    assert with_papers == [True, False, True]


def test_tokens_are_rate_times_time_between_the_notes() -> None:
    def row(step: int, seconds: float, rate: float, waiting: float) -> dict[str, Any]:
        names = ("speed/seconds_per_step", "speed/tokens_per_second", "speed/waiting_for_data")
        return {"step": step, "values": dict(zip(names, (seconds, rate, waiting), strict=True))}

    rows = [row(10, 2.0, 100.0, 0.5), {"step": 15, "values": {"validation/mlm": 1.0}}, row(30, 1.0, 400.0, 0.0)]
    # 10 steps of 2 s at 100 tokens a second, then 20 of 1 s at 400
    assert training_cost(rows) == {"tokens": 10_000.0, "tokens per second": 250.0, "waiting for data, %": 25.0}
    assert training_cost([{"step": 1, "values": {"loss/mlm": 1.0}}]) == {}


def test_cost_shows_memory_only_where_a_manifest_knows_it() -> None:
    few = replace(data(), results={}, curves={})
    assert "peak memory" not in report_page(few)
    known = {**few.manifests["corpus"], "metrics": {"peak_memory_bytes": 3 * 2**30}, "seconds": 3725.0}
    rows = cells(report_page(replace(few, manifests={"corpus": known, "evaluate": few.manifests["evaluate"]})))
    assert ["corpus", "1 h 02 min", "3.00"] in rows and ["evaluate", "1.5 s", ""] in rows
    assert ["all", "1 h 02 min", ""] in rows


def test_a_report_says_how_to_load_the_encoder() -> None:
    page = report_page(full_data())
    key = full_data().manifests["pretrain"]["fingerprint"]
    assert f"SentenceTransformer(&quot;runs/pretrain/{key}/encoder&quot;)" in page
    assert "How to load the encoder" not in report_page(data())


def test_curves_without_losses_are_no_picture() -> None:
    rows = [{"step": step, "values": {"gradient_norm": 1.0}} for step in (1, 2)]
    assert plots.curves(rows, "x") == ""
    assert "<h2>Training</h2>" not in report_page(replace(data(), results={}, curves={"pretrain": rows}))


def point(language: str, concept: int, x: float, y: float, word: str = "w") -> dict[str, Any]:
    return {"language": language, "concept": concept, "word": word, "x": x, "y": y}


def test_the_map_joins_translations_and_tells_how_close_they_are() -> None:
    points = [point("en", 0, 0, 0, "dog"), point("en", 1, 3, 4, "cat"), point("de", 0, 0, 1), point("de", 1, 3, 5)]
    apart = 1 + 1 + 34**0.5 + 18**0.5  # 0-0, 1-1, across: (0, 0)-(3, 5), (3, 4)-(0, 1)
    assert closeness(points) == pytest.approx(1 / (apart / 4))
    svg = word_map(points, {"en": "English", "de": "German"}, [0], "Map")
    assert svg.count("<title>") == 4 and "<title>dog (English)</title>" in svg
    assert len(re.findall(r'<path d="M\S+ \S+L\S+ \S+"', svg)) == 2, "a line for each translation"
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert "dog" in labels and "cat" not in labels and {"English", "German"} <= set(labels)
    locations = [tuple(map(float, found)) for found in re.findall(r"translate\((\S+) (\S+)\)", svg)][:4]
    (x0, y0), (x1, y1) = locations[:2]
    assert (x1 - x0) / (y0 - y1) == pytest.approx(3 / 4, abs=0.01), "one scale for both directions, y upwards"


def test_the_map_of_one_place_is_drawn() -> None:
    points = [point("en", 0, 1, 1), point("de", 0, 1, 1)]
    assert "nan" not in word_map(points, {"en": "English", "de": "German"}, [0], "Map")


def test_colour_and_marker_tell_every_language_apart() -> None:
    names = {f"l{i}": f"Language {i}" for i in range(20)}
    svg = word_map([point(code, 0, i, i) for i, code in enumerate(names)], names, [], "Map")
    marks = re.findall(r'<path d="([^"]+)" transform="[^"]+" fill="([^"]+)"><title>', svg)
    assert len(marks) == len(set(marks)) == 20


def test_labelled_concepts_lie_far_apart() -> None:
    points = [point("en", i, x, 0) for i, x in enumerate([0.0, 0.1, 0.2, 5.0, -5.0])]
    assert sorted(spread_out(points, 3)) == [0, 3, 4] and len(spread_out(points, 9)) == 5


def test_labels_do_not_lie_on_each_other() -> None:
    assert Box(0, 0, 10).meets(Box(9, 11, 5)) and not Box(0, 0, 10).meets(Box(10, 0, 5))
    words = [point("en", i, i / 100, 0, "a long word") for i in range(30)]
    svg = word_map([*words, point("en", 99, 3, 3)], {"en": "English"}, list(range(30)), "Map")
    boxes = [Box(float(x), float(y), 11 * 6.2) for x, y in re.findall(r'<text x="([\d.]+)" y="([\d.]+)">a long', svg)]
    assert 1 < len(boxes) < 30
    assert not any(a.meets(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.fixture(scope="module")
def full() -> Page:
    return Page(report_page(full_data("a <b> & c")))


def test_a_run_with_everything_has_every_section_and_needs_no_network(full: Page) -> None:
    text = " ".join(full.text)
    for title in (
        "All benchmarks",
        "Words on a map",
        "Sentence retrieval between all languages",
        "Cost",
        "Word alignment",
    ):
        assert title in text
    assert full.addresses == [] and all(full.pictures)
    assert sum("Words in two dimensions" in picture for picture in full.pictures) == 2
    assert any("between all languages, per cent" in picture for picture in full.pictures)
    assert "2,000,000" in text, "tokens: 1,000 steps of half a second, 4,000 a second"
    assert "Hund" in text and "a <b> & c" in text


def test_words_and_labels_cannot_inject_html() -> None:
    bad = "<script>alert(1)</script>"
    given = replace(result(title=bad, description=bad), label=bad)
    html = benchmark_section(given, {}).html() + overview({bad: given}).html()
    html += word_map([point("en", 0, 0, 0, bad)], {"en": bad}, [0], bad)
    assert "<script>" not in html and "&lt;script&gt;" in html


def write_artifacts(folder: Path, results: dict[str, BenchmarkResults]) -> dict[str, Artifact]:
    """The artifacts of a run with the smallest data, and these results."""
    few = data()
    index = {label: {"systems": list(own.scores), "p": dict(own.p)} for label, own in results.items()}
    files: dict[str, Any] = {"evaluate/benchmarks.json": index, "corpus/statistics.json": {"text": few.statistics}}
    for label, own in results.items():
        for when, scores in own.scores.items():
            figures = own.figures.get(when, {})
            files[f"evaluate/results/{label}-{when}.json"] = {"meta": own.meta, "scores": scores, "figures": figures}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    manifest = dict(few.manifests["corpus"])
    stages = ("corpus", "encoder", "extract", "align", "pretrain", "evaluate")
    return {stage: Artifact(Location.parse(folder / stage), manifest) for stage in stages}


def run_stage(folder: Path, results: dict[str, BenchmarkResults]) -> str:
    """The page that the stage writes."""
    settings = ReportSettings(name="run", languages=dict(data().languages))
    progress = SimpleNamespace(update=lambda *about: None)
    inputs = write_artifacts(folder, results)
    job = Job(settings, inputs, Location.parse(folder / "out"), progress, lambda *about: None, print)
    metrics = ReportStage().run(job)
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert metrics == {"pages": 1, "bytes": len(page.encode())}
    return page


def test_the_stage_shows_what_was_evaluated_and_does_without_the_rest(tmp_path: Path) -> None:
    points = [point(code, i, i, 0) for code in ("en", "de") for i in range(3)]
    matrix = {"en": {"de": 0.5}, "de": {"en": 0.25}}
    few = {"retrieval": data().results["retrieval"]}
    words = replace(same("word-map", {"de": {"distance": 0.5}}), figures={when: {"points": points} for when in WHEN})
    retrieval = replace(few["retrieval"], figures={when: {"matrix": matrix} for when in WHEN})
    whole = run_stage(tmp_path / "whole", {"tatoeba": result(), "retrieval": retrieval, "word-map": words})
    bare = run_stage(tmp_path / "bare", few)
    for title in ("Sentence retrieval with the hub", "Sentence retrieval between", "Words on a map"):
        assert title in whole and title not in bare


def test_a_benchmark_of_one_class_is_used_by_a_recipe_and_shown_in_the_report(tmp_path: Path) -> None:
    from babelray.evaluation.benchmark import BENCHMARKS, System
    from babelray.recipe.evaluate import EvaluateConfig

    with toy_benchmark():
        (toy,) = EvaluateConfig.model_validate({"benchmarks": [{"benchmark": "toy", "bonus": 0.1}]}).completed()
        systems = {"before": "encoder/encoder", "after": "pretrain/encoder"}
        scores = {when: toy.score(System(path, languages=["en", "de", "ar"])).scores for when, path in systems.items()}
        page = run_stage(tmp_path, {"toy": BenchmarkResults("toy", toy.about(), scores)})
    assert "A toy" in page and "toys found, %" in page and "Share of toys that are found." in page
    assert ["de", "German", "60.0", "85.0", "+25.0", "4"] in cells(page)
    assert "toy" not in BENCHMARKS
    with pytest.raises(ValueError, match="there is no benchmark 'toy'"):
        EvaluateConfig.model_validate({"benchmarks": ["toy"]})


def test_a_change_of_a_page_changes_the_code_version_of_the_report_stage_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from babelray.pipeline import code_version as module
    from babelray.stages.evaluate import EvaluationSettings
    from support.report_data import every_benchmark

    folder = Path(plots.__file__).parent
    stages = sorted(file.stem for file in (folder.parent / "stages").glob("*.py") if file.stem != "__init__")
    settings = EvaluationSettings(languages=["en"], hub="en", seed=1, benchmarks=every_benchmark())

    def versions() -> dict[str, str]:
        return {stage: module.code_version(f"babelray.stages.{stage}", settings) for stage in stages}

    before, content = versions(), module._content
    for page in folder.glob("*.py"):
        if page.stem != "__init__":
            monkeypatch.setattr(module, "_content", lambda file, page=page: content(file) + "x" * (file == page))
            after = versions()
            assert {stage for stage in stages if after[stage] != before[stage]} == {"report"}, page


def test_style_and_published_figures_are_sources_of_the_report_stage() -> None:
    settings = ReportSettings(name="run", languages={})
    names = {location.name for location in ReportStage().sources(settings)}
    files = {file.name for file in Path(plots.__file__).parent.iterdir() if file.suffix in (".css", ".js", ".yaml")}
    assert names == files
