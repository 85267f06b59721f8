import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor
from torch.nn.functional import normalize

from babelray.errors import DataError
from babelray.vectors.projection import project

DOUBLE = torch.float64


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def test_it_is_one_pca_of_all_languages_at_unit_length() -> None:
    vectors = {"en": normal(30, 8), "de": normal(20, 8, seed=1) + 2}
    oracle = PCA(2).fit_transform(normalize(torch.cat(list(vectors.values()))).numpy())
    points = project(vectors)
    assert {code: y_N2.shape for code, y_N2 in points.items()} == {"en": (30, 2), "de": (20, 2)}
    y_M2 = torch.cat(list(points.values())).double()
    for axis in range(2):
        sign = torch.sign(y_M2[0, axis] * float(oracle[0, axis]))
        torch.testing.assert_close(y_M2[:, axis], sign * torch.tensor(oracle[:, axis]), atol=1e-5, rtol=0)


def test_languages_that_lie_apart_lie_apart_and_aligned_ones_coincide() -> None:
    meaning, tongue = normal(40, 16), 4 * normal(16, seed=2)
    apart = project({"en": meaning, "de": meaning + tongue})
    low, high = sorted((side[:, 0] for side in apart.values()), key=lambda x_N: float(x_N.mean()))
    assert low.max() < high.min(), "the language is what differs most, and no mean of its own hides it"
    together = project({"en": meaning, "de": meaning.clone()})
    torch.testing.assert_close(together["en"], together["de"])


def test_length_rotation_and_order_do_not_change_the_picture() -> None:
    vectors = {"en": normal(12, 6), "de": normal(12, 6, seed=1)}
    points = project(vectors)
    longer = project({code: x_ND * 5 for code, x_ND in vectors.items()})
    turned = torch.linalg.qr(normal(6, 6, seed=3)).Q
    rotated = project({code: x_ND @ turned for code, x_ND in vectors.items()})
    swapped = project({code: vectors[code] for code in ("de", "en")})
    for code in vectors:
        torch.testing.assert_close(longer[code], points[code])
        torch.testing.assert_close(swapped[code], points[code])
        torch.testing.assert_close(rotated[code].abs(), points[code].abs(), atol=1e-5, rtol=1e-4)


def test_the_sign_is_that_of_the_largest_entry_of_a_direction() -> None:
    x_ND = torch.eye(3, dtype=DOUBLE)[[0, 0, 0, 1, 1, 2]]  # differs most between the first axis and the others
    for sign in (1, -1):
        y_N2 = project({"en": sign * x_ND})["en"]
        first = sign * y_N2[0, 0]
        assert first > 0, "words on the first axis go where that axis points"


@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        ({}, "cannot be projected"),
        ({"en": torch.ones(1, 5)}, "cannot be projected"),
        ({"en": torch.ones(5, 1)}, "cannot be projected"),
        ({"en": torch.ones(5, 4), "de": torch.ones(5, 3)}, "en 4, de 3"),
        ({"en": torch.tensor([[1.0, float("nan")], [0.0, 1.0]])}, "not finite"),
    ],
)
def test_what_cannot_be_drawn_is_said(vectors: dict[str, Tensor], words: str) -> None:
    with pytest.raises(DataError, match=words):
        project(vectors)
