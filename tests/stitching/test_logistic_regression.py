"""Logistic regression against scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from babelray.stitching.logistic_regression import fit_logistic

GENERATOR = torch.Generator().manual_seed(3)


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
