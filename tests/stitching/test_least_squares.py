"""The projection of least squares against its definition."""

import numpy as np
import torch

from babelray.stitching.least_squares import project

GENERATOR = torch.Generator().manual_seed(3)


def test_the_projection_is_that_of_least_squares() -> None:
    anchors_AE, embeddings_AD = torch.randn(40, 6, generator=GENERATOR), torch.randn(40, 4, generator=GENERATOR)
    words_NE = torch.randn(9, 6, generator=GENERATOR)
    wanted = words_NE.numpy() @ np.linalg.lstsq(anchors_AE.numpy(), embeddings_AD.numpy(), rcond=None)[0]
    assert np.allclose(project(words_NE, anchors_AE, embeddings_AD).numpy(), wanted, atol=1e-5)
    exact = project(anchors_AE[:3], anchors_AE[:3], embeddings_AD[:3])
    assert torch.allclose(exact, embeddings_AD[:3], atol=1e-4), "fewer anchors than dimensions"
