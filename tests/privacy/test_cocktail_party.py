"""The cocktail party attack: its objective, digits that it separates, and mixtures that hold none."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from torch import nn

from fflbench.errors import ParameterError
from tests.privacy.test_attacks import create_attack, observe_victims

SWEPT = {"rate": 0.01, "decorrelation": 0.01, "temperature": 5.0, "smoothness": 1.0, "non_negativity": 3.0}
"""Weights that suit digits, found on other batches of them."""


def observe_wide_layer(batch, victims=2, outputs=256, seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, outputs), nn.ReLU(), nn.Linear(outputs, 10))
    return observe_victims("digits-mlp", victims=victims, batch=batch, model=model, seed=seed)


def mean_correlation(x, found):
    """Of examples and reconstructions, after an assignment, averaged over victims."""
    values = []
    for true, guess in zip(x, found, strict=True):
        rows = np.corrcoef(true.reshape(len(true), -1), guess.reshape(len(guess), -1))[: len(true), len(true) :]
        values.append(rows[linear_sum_assignment(-rows)].mean())
    return np.mean(values)


@pytest.mark.parametrize(("batch", "level"), [(4, 0.9), (8, 0.8), (16, 0.7)])
def test_digits_are_separated(batch, level):
    seen, group = observe_wide_layer(batch)
    found = create_attack("cocktail-party", steps=600, **SWEPT).reconstruct(seen)
    assert mean_correlation(group.x, found.x.numpy()) > level


@pytest.mark.parametrize("batch", [4, 8, 16])
def test_in_shuffled_gradients_no_digits_are_found(batch):
    seen, group = observe_wide_layer(batch)
    order = torch.randperm(seen.gradients[0][0].numel(), generator=torch.Generator().manual_seed(1))
    shuffled = seen.gradients[0].flatten(1)[:, order].view_as(seen.gradients[0])
    blank = replace(seen, gradients=(shuffled, *seen.gradients[1:]))
    found = create_attack("cocktail-party", steps=300, **SWEPT).reconstruct(blank)
    noise = np.random.default_rng(0).random(group.x.shape)
    assert mean_correlation(group.x, found.x.numpy()) < mean_correlation(group.x, noise) + 0.1


def test_the_bias_sets_the_scale_of_single_examples_exactly():
    seen, group = observe_wide_layer(1, victims=3)
    found = create_attack("cocktail-party", steps=1, scale="bias").reconstruct(seen)
    np.testing.assert_allclose(found.x.numpy(), group.x, atol=1e-4)


@given(seed=st.integers(0, 2**16), count=st.integers(1, 5), images=st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_objective_is_the_published_one(seed, count, images):
    rng = np.random.default_rng(seed)
    attack = create_attack("cocktail-party", negentropy=0.7, decorrelation=0.3, temperature=1.5, non_negativity=0.4)
    shape, white, mean = ((2, 3, 4) if images else (24,)), rng.normal(size=(count, 24)), rng.normal(size=(count, 1))
    unmixing = rng.normal(size=(count, count))
    unmixing /= np.linalg.norm(unmixing, axis=1, keepdims=True)
    expected = 0.0
    for row in unmixing:
        component = row @ white
        source = component + (row @ mean).item()
        expected -= 0.7 / count * np.mean(np.log(np.cosh(component))) ** 2
        halves = [np.sqrt(sum(min(value, 0) ** 2 for value in sign * source)) for sign in (1, -1)]
        expected += 0.4 / count * min(halves)
        expected += 0.3 / count**2 * sum(np.exp(1.5 * abs(row @ other)) - 1 for other in unmixing)
        if images:
            picture = source.reshape(shape)
            across, down = np.abs(np.diff(picture, axis=2)).mean(), np.abs(np.diff(picture, axis=1)).mean()
            expected += 3.1 / count * (across + down)
    given_tensors = (torch.from_numpy(part)[None] for part in (unmixing, white, mean))
    assert float(attack._loss(*given_tensors, shape)) == pytest.approx(expected, rel=1e-6)


def test_examples_must_be_no_more_than_inputs_and_outputs():
    seen, _ = observe_wide_layer(9, victims=1, outputs=8)
    with pytest.raises(ParameterError, match="9 are more than 8"):
        create_attack("cocktail-party").reconstruct(seen)
    seen, _ = observe_victims("digits-cnn", victims=1)
    with pytest.raises(ParameterError, match="begins with a biased linear layer"):
        create_attack("cocktail-party").reconstruct(seen)
