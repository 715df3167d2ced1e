"""Attacks that know only the global model, against their definitions and against a second fact each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, kstest

from fflbench import poison, registry
from fflbench.conformance.small_federation import small_federation
from fflbench.registry import Kind
from tests.attacks import definitions
from tests.attacks.attack_rounds import Rounds, close
from tests.strategies import normal_matrices

D = st.integers(1, 8)
few = settings(max_examples=40)


@few
@given(normal_matrices(st.just(9), st.integers(3, 8)), st.integers(0, 99), st.sampled_from([2, 3]))
def test_poisonedfl_sends_the_rows_of_its_definition(models, seed, window):
    d = models.shape[1]
    rounds = Rounds("poisonedfl", d, seed, window=window)
    signs, quantile = rounds.attack.memory["signs"].tolist(), binom.ppf(0.99, d, 0.5)
    wanted = definitions.poisonedfl(models.astype(float).tolist(), signs, 8.0, window, quantile)
    for model, row in zip(models, wanted, strict=True):
        close(rounds.send(np.zeros((3, d)), model), [row] * 2, wanted, rtol=1e-3)


def test_poisonedfl_tests_with_the_quantiles_of_its_authors():
    from fflbench.attacks.poisoning.poisonedfl import significant_count

    published = {1204682: 603618, 139960: 70415, 717924: 359948, 145212: 73049}
    assert {d: significant_count(d) for d in published} == published


def test_poisonedfl_keeps_its_signs_and_shrinks_where_the_model_resists():
    rng, d = np.random.default_rng(0), 400
    factors = {}
    for follows in (True, False):
        rounds, model, last = Rounds("poisonedfl", d, window=5), np.zeros(d), np.zeros(d)
        signs = rounds.attack.memory["signs"]
        for number in range(26):
            sent = rounds.send(np.zeros((3, d)), model)[0]
            assert (sent * signs >= 0).all()
            if number:
                factor = float(rounds.attack.memory["factor"])
                assert np.linalg.norm(sent) == pytest.approx(factor * np.linalg.norm(model - last), rel=1e-3)
            last, model = model, model + rng.normal(size=d) + (3 * signs if follows else 0)
        factors[follows] = factor
    assert factors[True] == 8
    # Five tests.
    assert factors[False] == pytest.approx(8 * 0.7**5)


@few
@given(normal_matrices(st.just(3), D), st.floats(0.1, 1e6))
def test_mpaf_drags_every_model_towards_the_same_base_model(models, scale):
    rounds = Rounds("mpaf", models.shape[1], scale=scale)
    base = rounds.attack.memory["base_model"].tolist()
    for model in models:
        wanted = [scale * (towards - now) for towards, now in zip(base, model.tolist(), strict=True)]
        close(rounds.send(np.zeros((2, models.shape[1])), model), [wanted] * 2, wanted)


def test_the_base_model_is_a_new_one_of_the_task():
    federation = small_federation(registry.get(Kind.ATTACK, "mpaf"))
    base, columns = federation.attack.memory["base_model"], federation.model.columns
    first = columns.spans["1.weight"]
    assert np.abs(base[first]).max() <= 1 / 8
    assert base[first].std() == pytest.approx(1 / 8 / np.sqrt(3), rel=0.1)
    assert not np.array_equal(base[first], federation.weights[first])
    assert (base[columns.spans["2.weight"]] == 1).all()


def test_random_models_are_sent_of_both_distributions():
    honest, model = np.zeros((2, 1)), np.array([7.0])
    uniform = poison("random-weights", honest, attackers=3000, model=model) + 7
    gaussian = poison("random-weights", honest, attackers=3000, model=model, distribution="gaussian", scale=3.0) + 7
    assert kstest(uniform[:, 0], "uniform", (-1, 2)).pvalue > 1e-3
    assert kstest(gaussian[:, 0], "norm", (0, 3)).pvalue > 1e-3


def test_the_same_value_is_sent_in_every_coordinate():
    assert poison("same-value", np.zeros((2, 3)), attackers=2).tolist() == [[100] * 3] * 2
    assert poison("same-value", np.zeros((2, 3)), attackers=1, value=-0.5).tolist() == [[-0.5] * 3]


@few
@given(normal_matrices(st.just(4), D))
def test_free_riders_send_the_last_change_of_the_global_model(models):
    rounds, d = Rounds("free-rider", models.shape[1], sigma=0.0), models.shape[1]
    last = models[0].tolist()
    for model in models.tolist():
        wanted = [now - before for now, before in zip(model, last, strict=True)]
        close(rounds.send(np.ones((2, d)), model), [wanted] * 2, models)
        last = model


def test_free_riders_hide_behind_noise_of_their_own():
    for sends, centre in (("zeros", 0.0), ("last change", 2.0)):
        rounds = Rounds("free-rider", 3000, sends=sends, sigma=0.1)
        rounds.send(np.ones((2, 3000)), np.zeros(3000))
        first, second = rounds.send(np.ones((2, 3000)), np.full(3000, 2.0))
        assert kstest(first, "norm", (centre, 0.1)).pvalue > 1e-3
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.1
