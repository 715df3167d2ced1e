"""SignGuard against its paper and the mean shift of scikit-learn, written slowly."""

import math
from statistics import fmean, median
from types import SimpleNamespace

import numpy as np
import pytest
from fflbench.defenses.rules.signguard import largest_cluster, sign_shares
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.cluster import estimate_bandwidth

from fflbench import aggregate
from fflbench.errors import ParameterError
from fflbench.federation.rule import NoAnswerError
from tests.defenses.test_rules import assert_among
from tests.strategies import normal_matrices


def bandwidth_of(points):
    """Mean distance of the points to the farthest of their nearest half, themselves included."""
    near = max(1, len(points) // 2)
    return fmean(sorted(math.dist(point, other) for other in points)[near - 1] for point in points)


def shifted(seed, points, bandwidth):
    """Where the mean of the points within the bandwidth ends up, and their number."""
    for _ in range(301):
        within = [point for point in points if math.dist(point, seed) <= bandwidth]
        if not within:
            return None
        seed, last = tuple(fmean(column) for column in zip(*within, strict=True)), seed
        if math.dist(seed, last) <= 1e-3 * bandwidth:
            break
    return len(within), seed


def clustered(points, bandwidth):
    """Members of the largest cluster of mean shift with a flat kernel and seeds on a grid; all of fewer than 4."""
    if len(points) < 4:
        return set(range(len(points)))
    if bandwidth == 0:
        same = [{k for k, other in enumerate(points) if other == each} for each in sorted(set(points))]
        return max(same, key=len)
    grid = {tuple(round(value / bandwidth) * bandwidth for value in point) for point in points}
    seeds = points if len(grid) == len(points) else grid
    centres = []
    for _, centre in sorted(filter(None, (shifted(seed, points, bandwidth) for seed in seeds)), reverse=True):
        if all(math.dist(centre, other) > bandwidth for other in centres):
            centres.append(centre)
    labels = [min(range(len(centres)), key=lambda label: math.dist(point, centres[label])) for point in points]
    members = [
        {k for k, point in enumerate(points) if labels[k] == label and math.dist(point, centre) <= bandwidth}
        for label, centre in enumerate(centres)
    ]
    return max(members, key=len)


def features_of(rows):
    """Shares of signs, each divided by its maximum."""
    shares = [
        [sum(value > 0 for value in row), sum(value == 0 for value in row), sum(value < 0 for value in row)]
        for row in rows
    ]
    most = [max(column) or 1 for column in zip(*shares, strict=True)]
    return [tuple(value / largest for value, largest in zip(share, most, strict=True)) for share in shares]


def signguard(rows, displaced=0):
    """Both filters, clipping and the mean; None where nothing passes. A seed above 0 changes features a little."""
    norms = [math.hypot(*row) for row in rows]
    middle = median(norms)
    rng, size = np.random.default_rng(displaced), 1e-6 if displaced else 0
    points = [tuple(point + size * rng.normal(size=3)) for point in features_of(rows)]
    kept = clustered(points, bandwidth_of(points) * (1 + 10 * size * (-1) ** displaced))
    kept = [k for k in sorted(kept) if 0.1 * middle < norms[k] < 3 * middle]
    clipped = [[value * min(1.0, middle / norms[k]) for value in rows[k]] for k in kept]
    return [fmean(column) for column in zip(*clipped, strict=True)] if kept else None


def decided(rows):
    """The answer, where it does not depend on ties: shares of signs have few values."""
    answers = [signguard(rows, displaced) for displaced in range(5)]
    assume(answers[0] is not None and answers.count(answers[0]) == len(answers))
    return answers[0]


@given(st.integers(0, 2**32), st.integers(4, 15))
def test_the_largest_cluster_is_that_of_mean_shift_written_slowly(seed, n):
    rng = np.random.default_rng(seed)
    points = rng.choice([0.3, 0.9], size=(n, 1), p=[0.3, 0.7]) + 0.1 * rng.normal(size=(n, 3))
    rows = [tuple(point) for point in points.tolist()]
    assert set(np.flatnonzero(largest_cluster(points))) == clustered(rows, bandwidth_of(rows))


# Shares of signs have few values, whose ties rounding decides: always the same examples, most of them without ties.
@given(normal_matrices(st.integers(2, 12), st.integers(5, 30)), st.sampled_from([1.0, 4.0]))
@settings(derandomize=True, max_examples=60)
def test_signguard_is_its_definition(updates, factor):
    updates[0] *= factor
    wanted = decided(updates.tolist())
    assert_among(aggregate("signguard", updates, share=1.0), [wanted], updates)


@given(normal_matrices(st.integers(1, 8), st.integers(1, 29)), st.integers(0, 9))
@settings(max_examples=30)
def test_signs_are_counted_in_a_window_of_a_share_of_the_coordinates(updates, seed):
    rows, d = updates.tolist(), updates.shape[1]
    width = max(1, d // 5)
    found = sign_shares(updates, 0.2, np.random.default_rng(seed))
    windows = [[row[start : start + width] for row in rows] for start in range(d - width + 1)]
    assert min(np.abs(found - np.array(features_of(each))).max() for each in windows) < 1e-12


@given(normal_matrices(st.integers(4, 20), st.integers(5, 30)))
@settings(max_examples=30)
def test_the_bandwidth_is_that_of_scikit_learn(updates):
    points = features_of(updates.tolist())
    assert bandwidth_of(points) == pytest.approx(estimate_bandwidth(np.array(points), quantile=0.5), abs=1e-6)


def test_reversed_and_long_updates_are_left_out_and_long_ones_clipped():
    rng = np.random.default_rng(0)
    honest = (rng.normal(size=(10, 500)) + 0.7).astype(np.float32)
    updates = np.vstack([honest, -honest[:2], honest[2:3] * 10, honest[3:4] * 0.01])
    norms = np.linalg.norm(honest, axis=1)
    middle = np.median(np.linalg.norm(updates, axis=1))
    wanted = (honest * np.minimum(1, middle / norms)[:, None]).mean(0)
    np.testing.assert_allclose(aggregate("signguard", updates), wanted, rtol=1e-4, atol=1e-5)


def test_the_largest_cluster_by_hand():
    """Distances to the nearest three are small among five points near (1, 0, 1), and two are far away."""
    points = [
        [1, 0, 0.9],
        [0.98, 0, 0.92],
        [0.97, 0, 0.93],
        [0.99, 0, 0.91],
        [0.96, 0, 0.94],
        [0.1, 0, 1],
        [0.1, 0, 0.98],
    ]
    assert largest_cluster(np.array(points)).tolist() == [True] * 5 + [False] * 2
    same = np.array([[1.0, 0, 0]] * 3 + [[0, 1.0, 0]] * 4)
    assert largest_cluster(same).tolist() == [False] * 3 + [True] * 4


@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_than_four_updates_are_one_cluster(n):
    updates = np.array([[1, 2, -2], [2, -1, 2], [-1, -2, -2]], np.float32)[:n]
    np.testing.assert_allclose(aggregate("signguard", updates, share=1.0), updates.mean(0), rtol=1e-6)


def test_where_no_update_is_in_a_cluster_there_is_no_answer(monkeypatch):
    nobody = SimpleNamespace(fit=lambda features: SimpleNamespace(labels_=np.full(len(features), -1)))
    monkeypatch.setattr("sklearn.cluster.MeanShift", lambda **options: nobody)
    with pytest.raises(NoAnswerError, match="mean shift assigned no update to a cluster"):
        largest_cluster(np.random.default_rng(0).random((5, 3)))


def test_updates_of_zeros_pass_no_filter():
    with pytest.raises(ParameterError, match="has no answer: no update passed both filters"):
        aggregate("signguard", np.zeros((4, 20), np.float32))
