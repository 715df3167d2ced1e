"""SPEAR: batches that come back exactly from a layer with ReLU, and conditions without which nothing does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from fflbench.attacks.privacy import spear
from scipy.optimize import linear_sum_assignment
from torch import nn

from fflbench.errors import ParameterError
from fflbench.privacy import ObservedGradients
from tests.privacy.test_attacks import create_attack, observe_victims


def network(inputs=64, outputs=160, activation=nn.ReLU):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs), activation(), nn.Linear(outputs, 10))


def observe_batch(model, x, y, seed=0):
    """The gradient of one batch of vectors, as a server sees it."""
    gradients = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), list(model.parameters()))
    return ObservedGradients(
        model=model,
        gradients=tuple(each[None] for each in gradients),
        count=len(x),
        shape=x.shape[1:],
        classes=10,
        loss="cross-entropy",
        low=torch.full(x.shape[1:], -10.0),
        high=torch.full(x.shape[1:], 10.0),
        generator=torch.Generator().manual_seed(seed),
    )


def random_batch(count, seed, inputs=64):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(count, inputs, generator=rng), torch.randint(10, (count,), generator=rng)


def largest_errors(x, found):
    """Of each example, beside the reconstruction that an assignment gives it."""
    true, guess = (np.reshape(part, (len(x), -1)) for part in (x, found))
    errors = np.abs(true[:, None] - guess[None]).max(2)
    return errors[linear_sum_assignment(errors)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 10])
def test_whole_batches_come_back(count, seed):
    # Of fixed seeds, since sampling has no guarantee: now and then an example of a batch stays hidden.
    torch.manual_seed(seed)
    model, (x, y) = network(), random_batch(count, seed)
    found = create_attack("spear").reconstruct(observe_batch(model, x, y)).x[0]
    assert largest_errors(x.numpy(), found.numpy()).max() < 1e-3


@pytest.mark.parametrize("batch", [2, 6])
def test_digits_come_back_from_a_local_step_in_single_precision(batch):
    torch.manual_seed(0)
    seen, group = observe_victims("digits-mlp", victims=3, batch=batch, model=network(outputs=200))
    found = create_attack("spear").reconstruct(seen)
    errors = [largest_errors(x, guess).max() for x, guess in zip(group.x, found.x.numpy(), strict=True)]
    assert max(errors) < 1e-3


def test_examples_without_a_gradient_leave_the_others_intact():
    torch.manual_seed(1)
    model, (x, y) = network(), random_batch(4, 1)
    with torch.no_grad():
        # Along the first input, one example is far below zero at every output.
        model[1].weight[:, 0] = 1
        x[:, 0], x[2] = 0, 0
        x[2, 0] = -9
    found = create_attack("spear").reconstruct(observe_batch(model, x, y)).x[0]
    errors = np.abs(x.numpy()[:, None] - found.numpy()[None]).max(2).min(1)
    assert errors[[0, 1, 3]].max() < 1e-3
    assert errors[2] > 1


def median_error_at_chance(x, seed=9):
    return np.median(largest_errors(x.numpy(), random_batch(len(x), seed)[0].numpy()))


def test_of_signs_of_a_coin_nothing_comes_back():
    torch.manual_seed(0)
    model, (x, y) = network(), random_batch(5, 0)
    seen, rng = observe_batch(model, x, y), torch.Generator().manual_seed(5)
    blank = tuple(part.abs() * (torch.randint(0, 2, part.shape, generator=rng) * 2 - 1) for part in seen.gradients)
    found = create_attack("spear", steps=4).reconstruct(replace(seen, gradients=blank)).x[0]
    assert largest_errors(x.numpy(), found.numpy()).min() > 0.5 * median_error_at_chance(x)


def test_without_relu_nothing_comes_back(monkeypatch):
    torch.manual_seed(0)
    model, (x, y) = network(activation=nn.Tanh), random_batch(5, 0)
    monkeypatch.setattr(spear, "_relu_follows", lambda observed, layer: True)
    found = create_attack("spear", steps=4).reconstruct(observe_batch(model, x, y)).x[0]
    assert largest_errors(x.numpy(), found.numpy()).min() > 0.5 * median_error_at_chance(x)


@pytest.mark.parametrize(
    ("model", "count", "sentence"),
    [
        (network(activation=nn.Tanh), 2, "needs a ReLU after the first linear layer"),
        (network(outputs=16), 16, "16 are not fewer than 16"),
        (network(inputs=64), 64, "64 are not fewer than 64"),
        (nn.Sequential(nn.Linear(64, 32, bias=False), nn.ReLU(), nn.Linear(32, 10)), 2, "biased linear layer"),
    ],
)
def test_conditions_that_fail_are_named(model, count, sentence):
    with pytest.raises(ParameterError, match=sentence):
        create_attack("spear").reconstruct(observe_batch(model, *random_batch(count, 0)))


def test_a_functional_relu_is_recognised():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(64, 160), nn.Linear(160, 10)

        def forward(self, x):
            return self.last(nn.functional.relu(self.first(x)))

    torch.manual_seed(0)
    x, y = random_batch(3, 0)
    found = create_attack("spear").reconstruct(observe_batch(Functional(), x, y)).x[0]
    assert largest_errors(x.numpy(), found.numpy()).max() < 1e-3


def test_a_mean_that_two_victims_share_is_divided_among_them():
    torch.manual_seed(0)
    model, (x, y) = network(), random_batch(4, 0)
    seen = observe_batch(model, x, y)
    shared = replace(
        seen,
        gradients=tuple(each.expand(2, *each.shape[1:]) for each in seen.gradients),
        count=2,
        matched=(False,) * 4,
        sharing=2,
    )
    found = create_attack("spear").reconstruct(shared).x
    assert found.shape == (2, 2, 64)
    assert largest_errors(x.numpy(), found.numpy()).max() < 1e-3


@pytest.mark.parametrize(("entries", "probability"), [(10, 0.2), (32, 1e-5), (200, 1e-5), (7, 0.5)])
def test_the_threshold_of_zeros_is_a_quantile_of_coin_flips(entries, probability):
    from math import comb

    chances = [comb(entries, zeros) / 2**entries for zeros in range(entries + 1)]
    expected = max(zeros for zeros in range(entries + 1) if sum(chances[:zeros]) <= probability)
    assert spear._least_likely_zeros(entries, probability) == expected
