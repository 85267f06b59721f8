"""Projection, WECHSEL, FOCUS and logistic regression against their definitions."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional

from babelray.errors import DataError
from babelray.stitching.focus import focus
from babelray.stitching.logistic import fit_logistic
from babelray.stitching.projection import project
from babelray.stitching.relative import sparsemax
from babelray.stitching.wechsel import wechsel
from stitching_language import turn

GENERATOR = torch.Generator().manual_seed(3)


def test_the_projection_is_that_of_least_squares() -> None:
    anchors_AE, embeddings_AD = torch.randn(40, 6, generator=GENERATOR), torch.randn(40, 4, generator=GENERATOR)
    words_NE = torch.randn(9, 6, generator=GENERATOR)
    wanted = words_NE.numpy() @ np.linalg.lstsq(anchors_AE.numpy(), embeddings_AD.numpy(), rcond=None)[0]
    assert np.allclose(project(words_NE, anchors_AE, embeddings_AD).numpy(), wanted, atol=1e-5)
    exact = project(anchors_AE[:3], anchors_AE[:3], embeddings_AD[:3])
    assert torch.allclose(exact, embeddings_AD[:3], atol=1e-4), "fewer anchors than dimensions"


def test_wechsel_finds_the_same_words_after_a_rotation() -> None:
    source_ME, embeddings_MD = torch.randn(50, 8, generator=GENERATOR), torch.randn(50, 5, generator=GENERATOR)
    pairs = torch.arange(20)
    found = wechsel(source_ME @ turn(8), source_ME, embeddings_MD, (pairs, pairs), k=3, temperature=0.1)
    unit = functional.normalize(source_ME)
    unit = functional.normalize(unit - unit.mean(0))
    near, at = (unit @ unit.T).topk(3)
    wanted = ((near / 0.1).softmax(1).unsqueeze(2) * embeddings_MD[at]).sum(1)
    assert torch.allclose(found, wanted, atol=1e-3)
    alone = wechsel(source_ME @ turn(8), source_ME, embeddings_MD, (pairs, pairs), k=1)
    assert torch.allclose(alone, embeddings_MD, atol=1e-5)


def test_wechsel_without_a_dictionary_or_with_other_widths() -> None:
    none = torch.tensor([], dtype=torch.long)
    with pytest.raises(DataError, match="no translation pair"):
        wechsel(torch.eye(3), torch.eye(3), torch.eye(3), (none, none))
    with pytest.raises(DataError, match="3 and 2 dimensions"):
        wechsel(torch.eye(3), torch.eye(2), torch.eye(2), (torch.tensor([0]), torch.tensor([0])))


def test_focus_copies_what_is_shared_and_makes_the_rest_of_it() -> None:
    words_NE, shared_S = torch.randn(12, 6, generator=GENERATOR), torch.tensor([1, 4, 7, 8])
    embeddings_SD = torch.randn(4, 5, generator=GENERATOR)
    found = focus(words_NE, shared_S, embeddings_SD)
    assert torch.equal(found[shared_S], embeddings_SD)
    cosine = functional.normalize(words_NE) @ functional.normalize(words_NE[shared_S]).T
    assert torch.allclose(found[[0, 2]], (sparsemax(cosine) @ embeddings_SD)[[0, 2]], atol=1e-5)
    with pytest.raises(DataError, match="no word in common"):
        focus(words_NE, torch.tensor([], dtype=torch.long), torch.empty(0, 5))


@pytest.mark.parametrize("ridge", [0.5, 10.0])
def test_logistic_regression_is_scikit_learns(ridge: float) -> None:
    texts = torch.randn(90, 7, generator=GENERATOR, dtype=torch.double) * torch.linspace(0.1, 9, 7)
    texts[:, 3] = 4.0  # a dimension that says nothing
    labels = (texts[:, 0] * 20 + texts[:, 1]).sign().long() + (texts[:, 2] > 1).long() + 1
    fitted = fit_logistic(texts, labels, 4, ridge)
    scaled = ((texts - texts.mean(0)) / texts.std(0, correction=0).clamp(min=1e-9)).numpy()
    oracle = LogisticRegression(C=1 / ridge, max_iter=5000, tol=1e-10).fit(scaled, labels.numpy())
    logits = fitted.logits(texts)
    wanted = oracle.predict_log_proba(scaled)
    assert np.allclose(logits.log_softmax(1)[:, oracle.classes_].numpy(), wanted, atol=1e-3)
