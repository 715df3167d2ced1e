"""Norm clipping, centered clipping and ClippedClustering against their references, and those against something else."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, linkage

from fflbench import Aggregator, aggregate
from fflbench.federation import Columns, View, chain
from fflbench.federation.transport import ServerSetting
from fflbench.references.clipping_rules import centered_clipping, clipped_clustering, larger_clusters, norm_clipping
from tests.defenses.test_rules import assert_among, close, ties
from tests.strategies import matrices, normal_matrices

BUFFERS = Columns({}, {}, slice(0, 4), slice(2, 4), 6)
"""Four parameters and two buffers."""


def rounds(n=6, d=5, count=4, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(n, d)) + 0.5).astype(np.float32) for _ in range(count)]


def begun(name, columns=BUFFERS, **parameters):
    rule = chain.defense(name, **parameters).rule
    rule.begin(ServerSetting(6, 6, columns))
    return rule


def view_of(rows, columns=BUFFERS, round=0):
    return View(round, np.zeros(columns.count, np.float32), rows, np.ones(len(rows)), columns, len(rows))


# Norm clipping


@given(matrices(n=st.integers(1, 9), d=st.integers(0, 20)), st.sampled_from([0.5, 3.0, 1e4]))
def test_norm_clipping_is_its_reference(updates, bound):
    close(aggregate("norm-clipping", updates, bound=bound), norm_clipping(updates.tolist(), bound)[0], updates)


def test_norm_clipping_by_hand():
    """A norm of 5 becomes 1, one of 1/2 stays."""
    np.testing.assert_allclose(norm_clipping([[3.0, 4.0], [0.0, 0.5]], 1.0)[0], [0.3, 0.65])


def test_norm_clipping_is_the_mean_after_the_pre_aggregation():
    (updates,) = rounds(count=1)
    np.testing.assert_allclose(
        aggregate("norm-clipping", updates, bound=0.7), aggregate("clipping + fedavg", updates, bound=0.7), rtol=1e-5
    )


def test_noise_is_added_once_to_the_parameters_of_the_aggregate():
    columns = Columns({}, {}, slice(0, 40_000), slice(0, 9), 50_000)
    rows = np.zeros((3, 50_000), np.float32)
    plain, noisy = begun("norm-clipping", columns), begun("norm-clipping", columns, noise=0.025)
    assert not plain.aggregate(view_of(rows, columns), np.random.default_rng(0)).any()
    change = noisy.aggregate(view_of(rows, columns), np.random.default_rng(0))
    assert change.dtype == np.float32
    assert change[:40_000].std() == pytest.approx(0.025, rel=0.02)
    assert not change[40_000:].any()
    again = noisy.aggregate(view_of(rows, columns), np.random.default_rng(0))
    np.testing.assert_array_equal(change, again)


# Centered clipping


@given(
    normal_matrices(st.integers(1, 9), st.integers(1, 12)), st.sampled_from([0.1, 1.0, 100.0]), st.sampled_from([1, 3])
)
def test_centered_clipping_is_its_reference(updates, tau, iterations):
    found = aggregate("centered-clipping", updates, tau=tau, iterations=iterations)
    close(found, centered_clipping(updates.tolist(), tau, iterations)[0], updates)


def test_centered_clipping_by_hand():
    """From 0, 3 and 30 are clipped to 2; from 2, the differences 1 and 28 become 1 and 2."""
    assert centered_clipping([[3.0], [30.0]], 2.0)[0] == [2]
    assert centered_clipping([[3.0], [30.0]], 2.0, 2)[0] == [3.5]
    updates = np.array([[3], [30]], np.float32)
    assert aggregate("centered-clipping", updates, tau=2.0, iterations=2).tolist() == [3.5]
    assert aggregate("centered-clipping", updates, tau=100.0).tolist() == [16.5]


def test_centered_clipping_starts_from_its_last_aggregate():
    aggregator, start = Aggregator("centered-clipping", tau=1.0, iterations=2), None
    for updates in rounds():
        (start,) = centered_clipping(updates.tolist(), 1.0, 2, start)
        np.testing.assert_allclose(aggregator.simulate(updates), start, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(aggregator(updates), start, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(aggregator.memory["aggregate"].astype(np.float32), aggregator.memory["aggregate"])


def test_buffers_do_not_count_for_distances_and_are_combined_alike():
    rows = np.array([[3, 4, 0, 0, 100, 7], [0, 0, 0, 0, 1, 1]], np.float32)
    found = begun("centered-clipping", tau=1.0).aggregate(view_of(rows), np.random.default_rng(0))
    np.testing.assert_allclose(found, [0.3, 0.4, 0, 0, (20 + 1) / 2, (7 / 5 + 1) / 2], rtol=1e-6)


def test_a_copy_for_simulation_has_the_same_memory_and_leaves_the_real_one_alone():
    for name in ("centered-clipping", "clipped-clustering"):
        rule, rng = begun(name, Columns.of_length(5)), np.random.default_rng(0)
        first, second, *_ = (view_of(each, Columns.of_length(5)) for each in rounds())
        rule.aggregate(first, rng)
        kept = {key: value.copy() for key, value in rule.memory.items()}
        simulated = rule.simulation_copy().aggregate(second, rng)
        for key, value in kept.items():
            np.testing.assert_array_equal(rule.memory[key], value)
        np.testing.assert_array_equal(rule.aggregate(second, rng), simulated)


# ClippedClustering


@given(normal_matrices(st.integers(2, 9), st.integers(1, 8)) | ties(st.integers(2, 6), st.integers(1, 3)))
def test_clipped_clustering_is_its_reference(updates):
    assert_among(aggregate("clipped-clustering", updates), clipped_clustering(updates.tolist()), updates)


@given(normal_matrices(st.integers(2, 9), st.integers(2, 8)))
def test_clusters_of_the_reference_are_those_of_scipy(updates):
    labels = cut_tree(linkage(updates.astype(np.float64), "average", "cosine"), 2)[:, 0]
    clusters = [np.flatnonzero(labels == label).tolist() for label in (0, 1)]
    wanted = [each for each in clusters if len(each) == max(map(len, clusters))]
    assert larger_clusters(updates.tolist()) == sorted(wanted)


def test_clipped_clustering_by_hand():
    """Norms 5, 1, 2 and 10 have the median 3.5; the last row points the other way."""
    rows = np.array([[3, 4], [0.6, 0.8], [1.2, 1.6], [-6, -8]], np.float32)
    np.testing.assert_allclose(
        aggregate("clipped-clustering", rows), np.array([0.6, 0.8]) * (3.5 + 1 + 2) / 3, rtol=1e-6
    )


def test_of_two_clusters_of_equal_size_the_denser_one_is_averaged():
    rows = np.array([[1, 0.5], [1, -0.5], [-1, 0.01], [-1, -0.01]], np.float32)
    assert aggregate("clipped-clustering", rows)[0] < 0
    assert aggregate("clipped-clustering", rows[::-1])[0] < 0


def test_clipped_clustering_clips_to_the_median_norm_of_all_rounds():
    aggregator, norms = Aggregator("clipped-clustering"), []
    for number, updates in enumerate(rounds()):
        updates = updates * np.float32(10.0**-number)
        wanted = list(clipped_clustering(updates.tolist(), norms))
        assert aggregator.simulate(updates) is not None
        assert_among(aggregator(updates), wanted, np.zeros(0), rtol=1e-6)
        norms += [math.hypot(*row) for row in updates.tolist()]
        np.testing.assert_allclose(aggregator.memory["norms"], norms, rtol=1e-6)


def test_clipped_clustering_reports_the_weights_of_senders():
    aggregator = chain.defense("clipped-clustering").rule
    aggregator.begin(ServerSetting(9, 4, Columns.of_length(2)))
    rows = np.array([[3, 4], [0.6, 0.8], [1.2, 1.6], [-6, -8]], np.float32)
    view = View(0, np.zeros(2), rows, np.ones(4), Columns.of_length(2), 4, np.array([1, 3, 5, 7]))
    aggregator.aggregate(view, np.random.default_rng(0))
    assert aggregator.report()["row_weights"] == pytest.approx({"1": 0.7, "3": 1, "5": 1, "7": 0})
