"""DnC, three sigma and Auror against their references, and those against something else."""

import math
from itertools import combinations
from statistics import fmean, stdev

import numpy as np
import pytest
from fflbench.defenses.rules.auror import ends_of_lower_clusters
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from fflbench import Aggregator, aggregate
from fflbench.errors import ParameterError
from fflbench.federation import Columns, View, chain
from fflbench.federation.transport import ServerSetting
from fflbench.references.coordinatewise import mean
from fflbench.references.krum import lowest
from fflbench.references.outlier_rules import auror, dnc, outlier_scores, three_sigma
from tests.defenses.test_rules import assert_among, ties
from tests.strategies import normal_matrices


def normal(n=9, d=30, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def begun(name, columns, **parameters):
    rule = chain.defense(name, **parameters).rule
    rule.begin(ServerSetting(12, 6, columns))
    return rule


# DnC


@given(normal_matrices(st.integers(2, 10), st.integers(1, 12)), st.data())
def test_dnc_is_its_reference(updates, data):
    f = data.draw(st.integers(0, (len(updates) - 1) // 2))
    c = data.draw(st.sampled_from([0.5, 1.0, 1.5]))
    allowed = list(dnc(updates.tolist(), f, c))
    if allowed:
        assert_among(aggregate("dnc", updates, f=f, c=c), allowed, updates)


@given(normal_matrices(st.integers(3, 7), st.integers(3, 5)), st.integers(0, 9))
@settings(max_examples=30)
def test_dnc_scores_by_the_coordinates_that_it_draws_and_averages_all(updates, seed):
    rows, allowed = updates.astype(np.float64), []
    for drawn in combinations(range(rows.shape[1]), 2):
        part = rows[:, drawn]
        scores = outlier_scores((part - part.mean(0)).tolist())
        allowed += [mean(rows[list(chosen)].tolist()) for chosen in lowest(scores, len(rows) - 1)]
    aggregator = Aggregator("dnc", f=1, coordinates=2, seed=seed)
    assert_among(aggregator(updates), allowed, updates)


def test_dnc_by_hand():
    """The mean is (2, 0), most spread is along (1, 0): scores 4, 1, 0 and 9 drop the last row, then the first."""
    rows = [[0.0, 0.1], [1.0, -0.1], [2.0, 0.1], [5.0, -0.1]]
    updates = np.array(rows, np.float32)
    assert outlier_scores([[-2.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [3.0, 0.0]]) == pytest.approx([4, 1, 0, 9])
    np.testing.assert_allclose(aggregate("dnc", updates, f=1), [1, 0.1 / 3], atol=1e-6)
    np.testing.assert_allclose(aggregate("dnc", updates, f=2), [1.5, 0], atol=1e-6)
    np.testing.assert_allclose(aggregate("dnc", updates, f=1, c=2.0), [1.5, 0], atol=1e-6)


def test_dnc_keeps_the_model_where_no_update_is_good_in_all_iterations():
    """By the first column the middle row is the best, by the second the last."""
    updates = np.array([[0, 0], [0.1, 5], [5, 0.1]], np.float32)
    with pytest.raises(ParameterError, match="has no answer: no update was kept in all iterations"):
        aggregate("dnc", updates, f=2, coordinates=1, iterations=30)
    with pytest.raises(ParameterError, match="has no answer: c f = 4 leaves none of 3 updates"):
        aggregate("dnc", updates, f=2, c=2.0)
    with pytest.raises(ParameterError, match="needs f <= n - 1"):
        aggregate("dnc", updates, f=3)


def test_dnc_intersects_the_good_sets_of_its_iterations():
    updates = normal(20)
    once, often = (
        np.array([each != 0 for each in weights_of("dnc", updates, f=4, coordinates=3, iterations=count)])
        for count in (1, 6)
    )
    assert once.sum() == 16
    assert often.sum() < 16


def weights_of(name, updates, **parameters):
    """Weights of rows that a rule without memory reports."""
    n, d = updates.shape
    rule = begun(name, Columns.of_length(d), **parameters)
    view = View(0, np.zeros(d), updates, np.ones(n), Columns.of_length(d), n, np.arange(n))
    rule.aggregate(view, np.random.default_rng(0))
    return list(rule.report()["row_weights"].values())


# Three sigma


@given(normal_matrices(st.integers(1, 10), st.integers(1, 8)), st.sampled_from([0.0, 0.5, 1.0, 3.0]))
def test_three_sigma_is_its_reference(updates, bound):
    assert_among(aggregate("three-sigma", updates, bound=bound), three_sigma(updates.tolist(), bound), updates)


def test_three_sigma_by_hand():
    """The centre is the mean of 1 and 2; distances 1.5, 0.5, 0.5, 1.5 and 18.5 have mean 4.5 and deviation 7.84."""
    # Krum scores with two neighbours are 1 + 4, 1 + 1, 1 + 1, 1 + 4 and 289 + 324.
    rows = [[0.0], [1.0], [2.0], [3.0], [20.0]]
    assert list(three_sigma(rows, 1.0)) == list(three_sigma(rows, 1.7)) == [[1.5]]
    assert list(three_sigma(rows, 1.8)) == [[5.2]]
    updates = np.array(rows, np.float32)
    np.testing.assert_allclose(aggregate("three-sigma", updates), 1.5)
    np.testing.assert_allclose(aggregate("three-sigma", updates, bound=1.8), 5.2, rtol=1e-6)


@pytest.mark.parametrize("n", [10, 11])
def test_three_deviations_are_reached_by_eleven_updates_and_not_by_ten(n):
    updates = np.zeros((n, 1), np.float32)
    updates[-1] = 1e6
    kept = aggregate("three-sigma", updates, bound=3.0)[0] > 0
    assert kept == (n == 10)


def test_three_sigma_compares_last_layers_of_models_with_the_average_of_the_last_round():
    columns, rng = Columns({}, {}, slice(0, 5), slice(2, 5), 6), np.random.default_rng(0)
    rule, centre = begun("three-sigma", columns), None
    for number in range(4):
        model = rng.normal(size=6).astype(np.float32)
        rows = rng.normal(size=(6, 6)).astype(np.float32)
        sizes = rng.integers(1, 9, 6)
        models = (model + rows.astype(np.float64))[:, 2:5].tolist()
        if centre is None:
            (centre,) = ([fmean(column) for column in zip(*half, strict=True)] for half in [lowest_half(models)])
        scores = [math.dist(each, centre) for each in models]
        kept = [k for k in range(6) if scores[k] <= fmean(scores) + stdev(scores)]
        centre = mean([models[k] for k in kept])
        wanted = np.average(rows[kept].astype(np.float64), axis=0, weights=sizes[kept])
        found = rule.aggregate(View(number, model, rows, sizes, columns, 6, np.arange(6)), rng)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(rule.memory["centre"], centre, rtol=1e-6)
        assert [int(who) for who, weight in rule.report()["row_weights"].items() if weight] == kept


def lowest_half(models):
    """The two of six models that are nearest to their two nearest others."""
    scores = []
    for each in models:
        near = sorted(sum((a - b) ** 2 for a, b in zip(each, other, strict=True)) for other in models)
        scores.append(near[1] + near[2])
    return [models[k] for k in sorted(range(6), key=scores.__getitem__)[:2]]


def test_three_sigma_keeps_its_centre_in_a_simulation():
    columns, rng = Columns.of_length(4), np.random.default_rng(0)
    rule = begun("three-sigma", columns)
    views = [View(k, np.zeros(4), normal(6, 4, k), np.ones(6), columns, 6) for k in range(2)]
    rule.aggregate(views[0], rng)
    before = rule.memory["centre"].copy()
    simulated = rule.simulation_copy().aggregate(views[1], rng)
    np.testing.assert_array_equal(rule.memory["centre"], before)
    np.testing.assert_array_equal(rule.aggregate(views[1], rng), simulated)


def test_updates_without_examples_are_no_answer_of_three_sigma():
    updates = np.array([[0], [0], [0], [9]], np.float32)
    with pytest.raises(ParameterError, match="no update with examples was kept"):
        aggregate("three-sigma", updates, weights=[0, 0, 0, 1])


# Auror


@given(
    normal_matrices(st.integers(1, 9), st.integers(1, 9)) | ties(st.integers(1, 7), st.integers(1, 4)),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_auror_is_its_reference(updates, alpha):
    assert_among(aggregate("auror", updates, alpha=alpha), auror(updates.tolist(), alpha), updates)


@given(normal_matrices(st.integers(3, 9), st.integers(1, 3)))
@settings(max_examples=15)
def test_clusters_of_auror_are_those_of_scikit_learn(updates):
    ends = ends_of_lower_clusters(np.sort(updates, axis=0), 0.0)
    for column, end in zip(updates.T.astype(np.float64), ends, strict=True):
        found = [column[column <= end], column[column > end]]
        error = sum(((each - each.mean()) ** 2).sum() for each in found)
        wanted = KMeans(2, n_init=8, random_state=0).fit(column[:, None]).inertia_
        assert error <= wanted * (1 + 1e-6) + 1e-12


def test_auror_by_hand():
    """Columns 0 and 1 are indicative; the last row is alone in both, the second in one, which is not more than half."""
    rows = [[0.0, 0.0, 1.0], [0.1, 9.0, 1.1], [0.2, 0.1, 1.2], [8.0, 9.1, 1.3], [0.1, 0.2, 1.1]]
    wanted = np.mean([rows[0], rows[1], rows[2], rows[4]], axis=0)
    assert [pytest.approx(wanted.tolist())] == list(auror(rows, 1.0))
    np.testing.assert_allclose(aggregate("auror", np.array(rows, np.float32), alpha=1.0), wanted, rtol=1e-5)
    # No column is indicative, so that nobody is suspected.
    np.testing.assert_allclose(
        aggregate("auror", np.array(rows, np.float32), alpha=99.0), np.mean(rows, axis=0), rtol=1e-5
    )


def test_auror_excludes_a_minority_on_many_blocks_of_columns():
    updates = normal(7, 400_000) * np.float32(0.01)
    updates[[2, 5]] += 1
    assert weights_of("auror", updates, alpha=0.5) == [1, 1, 0, 1, 1, 0, 1]
    np.testing.assert_allclose(aggregate("auror", updates, alpha=0.5), updates[[0, 1, 3, 4, 6]].mean(0), atol=1e-5)


def test_equal_halves_make_nobody_suspicious():
    updates = np.array([[0, 0], [0, 0], [9, 9], [9, 9]], np.float32)
    assert weights_of("auror", updates) == [1, 1, 1, 1]


def test_buffers_count_for_no_outlier():
    columns, rng = Columns({}, {}, slice(0, 5), slice(3, 5), 8), np.random.default_rng(0)
    rows = normal(9, 8)
    for name in ("dnc", "three-sigma", "auror"):
        kept = []
        for factor in (1, 1000):
            rows[:, 5:] *= factor
            rule = begun(name, columns)
            rule.aggregate(View(0, np.zeros(8), rows, np.ones(9), columns, 9, np.arange(9)), rng)
            kept.append([weight > 0 for weight in rule.report()["row_weights"].values()])
        assert kept[0] == kept[1]
