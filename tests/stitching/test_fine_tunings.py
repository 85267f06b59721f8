"""Which systems share a fine-tuning."""

from babelray.stitching.fine_tunings import FineTuning, plan_fine_tunings
from babelray.stitching.least_squares import LeastSquares
from babelray.stitching.logistic_regression import LogisticRegression
from babelray.stitching.method import Start
from babelray.stitching.relative import Relative
from babelray.stitching.wechsel import Wechsel
from babelray.stitching.zero_shot import ZeroShot


def test_systems_with_the_same_start_share_a_fine_tuning() -> None:
    relative = Relative(k=8)
    systems = {
        "logistic": LogisticRegression(),
        "zero-shot": ZeroShot(),
        "other": ZeroShot(encoder="other"),
        "squares": LeastSquares(freeze_embeddings=True),
        "relative": relative,
        "same": Relative(k=8, temperature=0.1),
        "kept": Relative(k=1, keep_source=True, freeze_embeddings=True),
        "wechsel": Wechsel(k=1, freeze_embeddings=True),
    }
    assert plan_fine_tunings(systems, ["de", "fr"]) == [
        FineTuning(Start(), None, (("zero-shot", "de"), ("zero-shot", "fr"))),
        FineTuning(Start(encoder="other"), None, (("other", "de"), ("other", "fr"))),
        FineTuning(
            Start(freeze_embeddings=True),
            None,
            tuple((name, code) for name in ("squares", "kept", "wechsel") for code in ("de", "fr")),
        ),
        FineTuning(Start(source=relative), "de", (("relative", "de"), ("same", "de"))),
        FineTuning(Start(source=relative), "fr", (("relative", "fr"), ("same", "fr"))),
    ]
    assert [run.name for run in plan_fine_tunings(systems, ["de"])][::3] == ["zero-shot, all languages", "relative, de"]
