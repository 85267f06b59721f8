import numpy as np
import torch

from babelray.encoder.load import load_masked_lm
from babelray.objectives.static_dcca import StaticDcca, StaticDccaConfig, canonical_correlations, correlation_terms


def by_definition(x: np.ndarray, y: np.ndarray, shrinkage: float) -> np.ndarray:
    """Singular values of Σ₁₁^(−1/2) Σ₁₂ Σ₂₂^(−1/2), with symmetric inverse square roots."""
    x, y = x - x.mean(0), y - y.mean(0)
    n = len(x) - 1

    def inverse_root(view: np.ndarray) -> np.ndarray:
        covariance = view.T @ view / n
        shrunk = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / len(covariance) * np.eye(
            len(covariance)
        )
        values, vectors = np.linalg.eigh(shrunk)
        return vectors @ np.diag(values**-0.5) @ vectors.T

    return np.linalg.svd(inverse_root(x) @ (x.T @ y / n) @ inverse_root(y), compute_uv=False)


def test_same_as_the_definition_for_unequal_dimensions() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(100, 6).double(), torch.randn(100, 4).double()
    y[:, 0] += x[:, 1]
    for shrinkage in (1e-6, 0.1, 1.0):
        found = canonical_correlations(x, y, shrinkage).numpy()
        assert np.allclose(found, by_definition(x.numpy(), y.numpy(), shrinkage), atol=1e-8)


def test_a_linear_image_correlates_fully_and_means_do_not_matter() -> None:
    torch.manual_seed(0)
    x = torch.randn(200, 5).double()
    y = x @ torch.randn(5, 5).double() + 7
    assert torch.allclose(canonical_correlations(x, y, 1e-8), torch.ones(5).double(), atol=1e-4)


def test_gradient_is_right_even_with_equal_correlations() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(12, 3).double().requires_grad_(), torch.randn(12, 2).double()
    assert torch.autograd.gradcheck(lambda x: canonical_correlations(x, y, 0.1).sum(), x)
    z = torch.randn(50, 4).double()
    same = z.clone().requires_grad_()
    canonical_correlations(same, z, 0.1).sum().backward()
    assert torch.isfinite(same.grad).all()


def test_constant_vectors_do_not_break_it() -> None:
    found = canonical_correlations(torch.ones(10, 3), torch.randn(10, 3), 0.1)
    assert torch.allclose(found, torch.zeros(3).double())


def test_terms_average_to_the_total_correlation_with_its_gradient() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(40, 6).double().requires_grad_(), torch.randn(40, 4).double()
    total, loss_terms = canonical_correlations(x, y, 0.1).sum(), correlation_terms(x, y, 0.1)
    assert loss_terms.shape == (40,) and torch.allclose(loss_terms.mean(), total)
    expected, found = (torch.autograd.grad(value, x)[0] for value in (total, loss_terms.mean()))
    assert torch.allclose(found, expected, atol=1e-10)


def test_words_meet_their_own_vectors(training_data, tiny_encoder: str) -> None:
    """The loss of a step is that of all its words in one view against their static vectors, of any width."""
    training_data.width = 5
    objective = StaticDcca(StaticDccaConfig(batch_size=40), training_data)
    model = load_masked_lm(tiny_encoder).eval()
    parts = [objective.vectors(model, objective.batch(2, part, 4)) for part in range(4)]
    loss = objective.global_terms(torch.cat(parts), objective.global_context(2)).mean()
    words, static = zip(
        *((training_data.vectors(c)[0][i], training_data.vectors(c)[1][i]) for c, i in objective.examples(2)),
        strict=True,
    )
    alone = []
    for word in words:
        encoded = training_data.tokenizer(word, return_tensors="pt")
        alone.append(model.base_model(**encoded).last_hidden_state[0, 1:-1].mean(0))
    expected = -canonical_correlations(torch.stack(alone), torch.stack(static), 0.1).sum()
    assert abs(loss.item() - expected.item()) < 5e-5
