from types import SimpleNamespace

from babelray.evaluation.comparison import Scores, comparison_page, comparison_table, summary
from babelray.languages import LANGUAGES


def scored(de: float, zh: float) -> dict[str, dict[str, dict[str, float]]]:
    rows = {code: {"mean": v, "to_hub": v, "from_hub": v, "sentences": 9} for code, v in (("de", de), ("zh", zh))}
    return {"retrieval": rows, "words": {}}


SCORES = Scores(scored(0.0, 0.1), {"mlm": [scored(0.1, 0.2), scored(0.2, 0.3)], "transport": [scored(0.5, 0.5)] * 2})


def test_means_and_spreads_by_hand() -> None:
    table = comparison_table(SCORES)
    assert "| before training | 5.0 | 5.0 | 5.0 |" in table
    assert "| mlm | 20.0 ± 7.1 | 20.0 ± 7.1 | 20.0 ± 7.1 |" in table
    assert "| transport | 50.0 ± 0.0 |" in table
    assert "| zh | 10.0 | 25.0 ± 7.1 | 50.0 ± 0.0 |" in table
    assert "words P@1" not in table, "what was not measured is not shown"
    assert summary(SCORES)["retrieval/mlm"] == 0.2 and summary(SCORES)["retrieval/before"] == 0.05


def test_the_page_shows_every_variant_and_where_it_comes_from() -> None:
    inputs = {"mlm, seed 1": SimpleNamespace(manifest={"fingerprint": "0123456789abcdef"})}
    page = comparison_page("<objectives>", SCORES, LANGUAGES, inputs)
    assert "&lt;objectives&gt;" in page and "<svg" in page and "0123456789abcdef" in page
    assert "German" in page and "50.0 ± 0.0" in page
