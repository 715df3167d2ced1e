"""Attacks made to pass the filters of one defense."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fflbench import Aggregator, poison
from tests.attacks.attack_rounds import close
from tests.strategies import matrices, normal_matrices


def shares_of_signs(row):
    return [np.count_nonzero(np.sign(row) == sign) for sign in (-1, 0, 1)]


# Means of two or four small whole numbers are exact.
@given(matrices(n=st.sampled_from([1, 2, 4]), d=st.integers(1, 40), elements=st.integers(-3, 3)), st.integers(1, 4))
def test_random_values_have_the_signs_and_the_norm_of_honest_updates(honest, attackers):
    rows = poison("signguard-evasion", honest, attackers=attackers)
    total = honest.astype(np.int64).sum(0)
    for row in rows:
        norm = np.median(np.linalg.norm(honest.astype(np.float64), axis=1))
        if total.any() and norm:
            assert shares_of_signs(row) == shares_of_signs(total)
            np.testing.assert_allclose(np.linalg.norm(row.astype(np.float64)), norm, rtol=1e-5)
        else:
            assert not row.any()
        np.testing.assert_array_equal(row, rows[0])


def kept_by_signguard(name, seed):
    """Return whether SignGuard keeps an attacker's update beside honest ones that differ little."""
    rng = np.random.default_rng(seed)
    # Where updates differ much, their mean has more values of the usual sign than each of them, and stands out.
    honest = (0.3 + rng.normal(size=2000) + 0.1 * rng.normal(size=(12, 2000))).astype(np.float32)
    defense = Aggregator("signguard", share=1.0)
    defense(np.vstack([honest, poison(name, honest, attackers=2, seed=seed)]))
    return defense._chain.rule.report()["row_weights"]["12"] > 0


def test_signguard_keeps_random_values_with_usual_signs_and_drops_others():
    assert sum(kept_by_signguard("signguard-evasion", seed) for seed in range(12)) >= 9
    assert not any(kept_by_signguard("sign-flipping-mean", seed) for seed in range(12))


# ClippedClustering


def cosine_distances(rows):
    rows = rows.astype(np.float64)
    directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return 1 - directions @ directions.T


def two_clusters(distances):
    """Return the larger and the smaller cluster by single linkage: a minimum spanning tree without its longest edge."""
    tree = nx.minimum_spanning_tree(nx.from_numpy_array(distances + 1))
    tree.remove_edge(*max(tree.edges, key=lambda edge: tree.edges[edge]["weight"]))
    smaller, larger = sorted(map(sorted, nx.connected_components(tree)), key=len)
    return larger, smaller


def chain_of_updates(honest, attackers, margin=0.1):
    """Return the attackers' updates, each turned away from the mean from the one before."""
    rows, distances = honest.astype(np.float64), cosine_distances(honest)
    larger, smaller = two_clusters(distances)
    turn = max(np.arccos(1 - min(distances[i, j] for i in larger for j in smaller)) - margin, 0)
    u = rows.mean(0) / np.linalg.norm(rows.mean(0))
    nearness = {i: rows[i] @ u / np.linalg.norm(rows[i]) for i in larger}
    first = min(nearness, key=nearness.get)
    x, theta, sent = rows[first] / np.linalg.norm(rows[first]), np.arccos(nearness[first]), []
    for _ in range(attackers):
        if theta + turn >= np.pi:
            x, theta = -u, np.pi
        else:
            onwards = theta + turn
            a = np.cos(onwards) - np.sin(onwards) / np.tan(theta)
            b = np.cos(turn) + np.sin(turn) / np.tan(theta)
            x, theta = a * u + b * x, onwards
        sent.append(np.median(np.linalg.norm(rows, axis=1)) * x)
        if theta == np.pi:
            turn = 0
    return np.array(sent)


@given(normal_matrices(n=st.integers(3, 8), d=st.integers(3, 20)).filter(lambda rows: len(rows) % 2), st.integers(1, 4))
def test_the_chain_turns_away_from_the_mean(honest, attackers):
    close(
        poison("clipped-clustering-evasion", honest, attackers=attackers), chain_of_updates(honest, attackers), honest
    )


@pytest.mark.parametrize("seed", range(3))
def test_links_are_nearer_to_each_other_than_the_clusters_and_turn_around(seed):
    honest = np.random.default_rng(seed).normal(size=(9, 50)).astype(np.float32) + 0.2
    larger, smaller = two_clusters(cosine_distances(honest))
    gap = cosine_distances(honest)[np.ix_(larger, smaller)].min()
    rows = poison("clipped-clustering-evasion", honest, attackers=3)
    links = cosine_distances(rows)
    assert max(links[0, 1], links[1, 2]) < gap
    mean = honest.mean(0)
    assert (rows[-1] @ mean) / np.linalg.norm(rows[-1]) < -0.9 * np.linalg.norm(mean)


def test_clipped_clustering_averages_the_chain():
    rng = np.random.default_rng(1)
    centres = np.repeat(np.eye(30)[:2], [7, 2], axis=0)
    honest = (centres + 0.03 * rng.normal(size=(9, 30))).astype(np.float32)
    defense = Aggregator("clipped-clustering")
    rows = poison("clipped-clustering-evasion", honest, attackers=2, margin=0.8)
    defense(np.vstack([honest, rows]))
    weights = defense._chain.rule.report()["row_weights"]
    assert [weights[str(place)] > 0 for place in range(10)] == [True] * 7 + [False] * 2 + [True]
    # As far from the mean as no honest update of the cluster.
    assert rows[0, 0] / np.linalg.norm(rows[0]) < 0.8 < honest[:7, 0].min()
