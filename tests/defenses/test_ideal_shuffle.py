"""Ideal shuffle: what it keeps of the updates, that its permutations are uniform, and its place beside the exchange."""

import itertools
from collections import Counter

import numpy as np
import pytest
from fflbench.defenses.transports.ideal_shuffle import permute_columns
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from fflbench import aggregate, registry
from fflbench.errors import ParameterError
from fflbench.federation import Columns, Setting
from fflbench.federation.chain import defense
from fflbench.registry import Kind
from tests.privacy.observed_rounds import UPDATES, observe_round, transmit_watched_round

ALPHA = 1e-4
"""Chance that a test of randomness fails though all is right; seeds are fixed."""


def sent(updates, text="ideal-shuffle", sizes=None, seed=0, round=0, **parameters):
    """Return the chain after a round in which all participants send these updates, and its transcript."""
    n, d = updates.shape
    sizes = np.full(n, 7) if sizes is None else sizes
    chain = defense(text, **parameters)
    chain.begin(Setting(n, n, sizes, Columns.of_length(d)), seed)
    return chain, chain.transmit(round, np.zeros(d, np.float32), np.arange(n), updates.copy())


def numbered(n, d):
    """Return updates in which every value tells whose it is and of which column."""
    return (np.arange(n)[:, None] + 100 * np.arange(d)).astype(np.float32)


def origins(rows):
    """Return whose value stands in each place of numbered updates."""
    return (rows % 100).astype(int)


def groups_of(rows):
    """Return the groups that rows reveal by whose values they hold; with many columns, everybody's of the group."""
    return {frozenset(row) for row in origins(rows).tolist()}


@given(st.integers(2, 9), st.integers(1, 40), st.sampled_from([2, 3, 4, "all"]), st.integers(0, 99))
def test_every_coordinate_keeps_its_values_within_each_group(n, d, group, seed):
    if group != "all" and n < group:
        return
    updates = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)
    chain, transcript = sent(updates, group=group, seed=seed)
    rows, found = transcript.server.rows, chain.transport._groups(0, n)
    assert sorted(np.concatenate(found).tolist()) == list(range(n))
    for places in found:
        np.testing.assert_array_equal(np.sort(rows[places], 0), np.sort(updates[places], 0))


@pytest.mark.parametrize(
    ("n", "group", "sizes"),
    [(10, 2, [2] * 5), (10, 4, [5, 5]), (11, 3, [3, 4, 4]), (7, 4, [7]), (5, 2, [2, 3]), (6, "all", [6]), (6, 6, [6])],
)
def test_those_left_over_join_groups_so_that_none_is_smaller(n, group, sizes):
    found = groups_of(sent(numbered(n, 400), group=group)[1].server.rows)
    assert sorted(map(len, found)) == sizes
    assert sorted(itertools.chain(*found)) == list(range(n))


def test_groups_are_drawn_afresh_each_round_and_from_the_entropy_alone():
    def found(seed, round):
        return groups_of(sent(numbered(12, 300), group=3, seed=seed, round=round)[1].server.rows)

    assert found(0, 0) == found(0, 0)
    assert found(0, 0) != found(0, 1)
    assert found(0, 0) != found(1, 0)


def test_pairs_of_groups_of_two_are_uniform():
    counts = Counter(
        frozenset(groups_of(sent(numbered(4, 30), group=2, seed=seed)[1].server.rows)) for seed in range(600)
    )
    assert len(counts) == 3
    assert_uniform(counts, 3)


def assert_uniform(counts, outcomes):
    expected = counts.total() / outcomes
    statistic = sum((counts[each] - expected) ** 2 / expected for each in counts)
    statistic += expected * (outcomes - len(counts))
    assert statistic < chi2.isf(ALPHA, outcomes - 1)


def test_permutations_of_a_column_are_uniform_and_independent_of_the_next():
    rows = numbered(3, 60_000)
    permute_columns(rows, np.arange(3), np.random.default_rng(0))
    seen = [tuple(column) for column in origins(rows).T.tolist()]
    assert_uniform(Counter(seen), 6)
    assert_uniform(Counter(zip(seen[::2], seen[1::2], strict=True)), 36)


def test_only_the_rows_of_a_group_are_permuted():
    rows = numbered(5, 50)
    permute_columns(rows, np.array([1, 3]), np.random.default_rng(0))
    np.testing.assert_array_equal(rows[[0, 2, 4]], numbered(5, 50)[[0, 2, 4]])
    assert set(origins(rows)[1]) == {1, 3}


def test_a_group_of_two_is_an_exchange_of_fragments():
    """Each coordinate is swapped with probability one half, as the exchange does, by a row's share of its own."""
    d = 40_000
    for text, parameters in (("ideal-shuffle", {"group": 2}), ("fragment-exchange", {})):
        rows = sent(numbered(6, d), text, **parameters)[1].server.rows
        whose = origins(rows)
        own = (whose == np.arange(6)[:, None]).mean(1)
        assert all(len(set(row)) == 2 for row in whose.tolist())
        np.testing.assert_allclose(own, 0.5, atol=4 / (2 * d**0.5))
        swapped = whose[0] != 0
        np.testing.assert_allclose(np.mean(swapped[1:] == swapped[:-1]), 0.5, atol=4 / (2 * d**0.5))


SURVIVING = [entry.name for entry in registry.entries(Kind.RULE) if entry.coordinatewise]


def test_the_rules_that_treat_each_coordinate_alone():
    assert set(SURVIVING) == {"fedavg", "median", "trimmed-mean", "meamed", "phocas", "robust-learning-rate"}


@pytest.mark.parametrize("rule", SURVIVING)
@given(n=st.integers(5, 12), d=st.integers(1, 30), seed=st.integers(0, 99))
def test_a_shuffle_of_all_keeps_every_coordinatewise_rule(rule, n, d, seed):
    updates = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)
    chain, transcript = sent(updates, f"ideal-shuffle + {rule}", seed=seed)
    found, wanted = chain.aggregate(transcript), aggregate(rule, updates)
    if rule == "median":
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_shuffle_changes_what_krum_selects():
    updates = np.random.default_rng(0).standard_normal((10, 50)).astype(np.float32)
    chain, transcript = sent(updates, "ideal-shuffle + krum", f=2)
    assert not (chain.aggregate(transcript) == updates).all(1).any()


@given(st.lists(st.integers(1, 400), min_size=2, max_size=8), st.sampled_from([2, "all"]), st.integers(0, 99))
def test_with_equal_trust_the_aggregate_is_that_of_federated_averaging(sizes, group, seed):
    updates = np.random.default_rng(seed).standard_normal((len(sizes), 20)).astype(np.float32)
    chain, transcript = sent(updates, sizes=np.array(sizes), group=group, seed=seed)
    wanted = np.average(updates.astype(np.float64), axis=0, weights=sizes)
    np.testing.assert_allclose(chain.aggregate(transcript), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("group", [2, "all"])
def test_a_colluding_participant_takes_only_itself_out_of_the_sum(group):
    sizes = np.array([3, 5, 2, 7])
    (found,) = observe_round(
        "colluding-participant", *transmit_watched_round("ideal-shuffle", sizes=sizes, group=group)
    )
    assert found.participants == (1, 2, 3)
    wanted = np.average(UPDATES[1:], axis=0, weights=sizes[1:])
    np.testing.assert_allclose(found.updates[0], wanted, rtol=1e-4, atol=1e-5)


def test_a_value_that_is_not_finite_ruins_the_row_it_ends_up_in_and_no_other():
    updates = numbered(6, 200)
    updates[2, 5] = np.nan
    view = sent(updates)[1].server
    assert len(view.rows) == 5
    assert np.isfinite(view.rows).all()
    assert view.scale == 1.0


def test_one_participant_alone_abstains():
    chain = defense("ideal-shuffle")
    chain.begin(Setting(4, 2, np.full(4, 7), Columns.of_length(3)), 0)
    rows = np.ones((1, 3), np.float32)
    view = chain.transmit(0, np.zeros(3, np.float32), np.array([2]), rows).server
    assert view.rows.shape == (0, 3)
    assert not rows.any()


@pytest.mark.parametrize("group", [1, 0, "none", 2.5])
def test_a_group_that_hides_nobody_is_refused(group):
    with pytest.raises(ParameterError, match="group"):
        defense("ideal-shuffle", group=group)


def test_more_to_a_group_than_to_a_round_is_refused():
    with pytest.raises(ParameterError, match="a shuffle among 6 needs as many participants, and per_round = 5"):
        defense("ideal-shuffle", group=6).validate(5)


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("ideal-shuffle + reputation", "and its rule judges their senders by them"),
        ("ideal-shuffle + krum", "so that f attackers can reach more than f of them"),
        ("ideal-shuffle + nnm + median", "so that f attackers can reach more than f of them"),
        ("ideal-shuffle + geometric-median", "and what follows judges them whole"),
        ("ideal-shuffle + clipping + median", "and what follows judges them whole"),
        ("ideal-shuffle + trimmed-mean", ""),
        ("ideal-shuffle + median", ""),
        ("ideal-shuffle", ""),
        ("fragment-exchange + trimmed-mean", "so that f attackers can reach more than f of them"),
    ],
)
def test_parts_that_judge_whole_rows_are_flagged_and_coordinatewise_rules_are_not(text, flag):
    chain, _ = sent(numbered(10, 4), text)
    about = [each for each in chain.flags() if "mixtures" in each]
    assert about == ([f"rows are mixtures of several participants' updates, {flag}"] if flag else [])


def test_rows_are_permuted_in_place():
    """No second matrix: the rows that the server sees are those that were handed in."""
    updates = numbered(4, 6)
    chain = defense("ideal-shuffle")
    chain.begin(Setting(4, 4, np.full(4, 7), Columns.of_length(6)), 0)
    view = chain.transmit(0, np.zeros(6, np.float32), np.arange(4), updates).server
    assert np.shares_memory(view.rows, updates)
