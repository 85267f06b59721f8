"""An encoder that Babelray exports runs in mteb as it is, and scores there what it scores here."""

import socket
from typing import Any

import mteb
import pytest
from datasets import Dataset, DatasetDict
from mteb.abstasks import AbsTaskBitextMining
from mteb.abstasks.task_metadata import TaskMetadata
from sentence_transformers import SentenceTransformer

from babelray.encoder.load import SHIPPED
from babelray.encoder.text_encoder import TextEncoder
from babelray.metrics.retrieval import retrieval_accuracy
from babelray.storage.location import STARTER

pytestmark = pytest.mark.integration  # imports all of mteb

LANGUAGES = {"de": "deu-Latn", "el": "ell-Grek"}
ENGLISH = "eng-Latn"


def sentences(code: str) -> list[str]:
    lines = (STARTER / "text" / f"{code}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line][::2]


class StarterBitextMining(AbsTaskBitextMining):
    """The starter corpus, from each language into English and back."""

    metadata = TaskMetadata(
        name="StarterBitextMining",
        description="Find the translations of the sentences of the starter corpus.",
        dataset={"path": "starter", "revision": "1"},
        type="BitextMining",
        category="t2t",
        eval_langs={
            subset: [tag, ENGLISH] for code, tag in LANGUAGES.items() for subset in (f"{code}-en", f"en-{code}")
        },
        main_score="accuracy",
    )

    def load_data(self, num_proc: int | None = None, **_: Any) -> None:
        self.dataset = {}
        for subset in self.hf_subsets:
            source, target = map(sentences, subset.split("-"))
            columns = Dataset.from_dict({"sentence1": source, "sentence2": target})
            self.dataset[subset] = DatasetDict(test=columns)
        self.data_loaded = True


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Whom anyone tries to reach over the network; nobody gets through."""
    called: list[object] = []

    def refuse(_: socket.socket, address: object) -> None:
        called.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return called


def test_mteb_scores_an_exported_encoder_as_we_do(calls: list[object]) -> None:
    folder = str(SHIPPED["babelray-mini"])
    model, encoder = SentenceTransformer(folder, device="cpu"), TextEncoder.from_pretrained(folder)
    result = mteb.evaluate(model, StarterBitextMining(), cache=None, co2_tracker=False, show_progress_bar=False)
    scores = {row["hf_subset"]: row["main_score"] for row in result.task_results[0].scores["test"]}
    english = encoder.encode(sentences("en"), "all")
    for code in LANGUAGES:
        ours = retrieval_accuracy(encoder.encode(sentences(code), "all"), english)
        assert scores[f"{code}-en"] == pytest.approx(ours["to_hub"], abs=1e-3)
        assert scores[f"en-{code}"] == pytest.approx(ours["from_hub"], abs=1e-3)
    assert scores["de-en"] > scores["el-en"] > 0.1  # chance is 0.8 %
    assert not calls
