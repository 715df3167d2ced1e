"""Numbers of shares, against exhaustive counts of coalitions and against published figures."""

import itertools
import math

import numpy as np
import pytest
from fflbench.defenses.transports.split_and_mix.share_counts import (
    log2_of_exposure,
    shares_in_shuffle,
    shares_of_sums,
)


def functionals_learned(n, colluders, shares, kept=True):
    """How many independent linear combinations of honest inputs a coalition knows, by ranks of its equations.

    Honest inputs and honest sums are linear in the shares between honest participants; what is in the span of both is
    known. `kept`: whether participants keep a share, or give all away.
    """
    honest = [who for who in range(n) if who not in colluders]
    reach = range(shares) if kept else range(1, shares + 1)
    links = [(i, (i + step) % n) for i in honest for step in reach if (i + step) % n in honest]
    inputs = np.array([[i == sender for sender, _ in links] for i in honest], float)
    sums = np.array([[j == receiver for _, receiver in links] for j in honest], float)
    if not links:
        return len(honest)
    rank = np.linalg.matrix_rank
    return len(honest) + rank(sums) - rank(np.concatenate([inputs, sums]))


def exposed_share(n, count, shares):
    """Share of coalitions of so many participants that learn more than the sum of the others."""
    coalitions = list(itertools.combinations(range(n), count))
    return np.mean([functionals_learned(n, coalition, shares) > 1 for coalition in coalitions])


CASES = [(n, count, m) for n in range(2, 9) for count in range(n) for m in range(2, n + 1)]


def test_the_bound_is_never_below_the_share_of_coalitions_that_learn_more():
    for n, count, m in CASES:
        exact, bound = exposed_share(n, count, m), log2_of_exposure(n, count, m)
        assert exact <= 2**bound * (1 + 1e-9), (n, count, m)
        # Where the bound is not 0, there is a coalition that learns more.
        assert (exact > 0) == (bound > -math.inf), (n, count, m)


def test_the_server_alone_learns_the_sum_only_with_two_shares():
    assert all(functionals_learned(n, (), 2) == 1 for n in range(2, 12))
    assert [shares_of_sums(n, 0, 40) for n in (1, 2, 10, 1000)] == [1, 2, 2, 2]


def test_who_keeps_no_share_is_exposed_where_two_are_honest():
    assert functionals_learned(2, (), 1, kept=False) == 2
    assert functionals_learned(4, (1, 3), 3, kept=False) == 2
    assert functionals_learned(4, (1, 3), 3) == 1


def test_one_share_less_than_needed_is_too_few():
    for n, count in [(10, 5), (20, 10), (50, 25), (100, 33), (100, 50), (1000, 500)]:
        m = shares_of_sums(n, count, 40)
        assert log2_of_exposure(n, count, m) <= -40
        assert m == 2 or log2_of_exposure(n, count, m - 1) > -40


def test_half_of_the_participants_colluding_needs_these_numbers_of_shares():
    assert [shares_of_sums(n, n // 2, 40) for n in (10, 20, 50, 100, 1000)] == [4, 7, 14, 19, 29]


@pytest.mark.parametrize(("n", "messages"), [(50, 29), (100, 24), (1_000, 16)])
def test_a_shuffle_of_single_numbers_needs_as_many_shares_as_balle_et_al_ask_for(n, messages):
    assert shares_in_shuffle(n, sigma=40, bits=32) == messages


def test_the_example_of_the_published_abstract_is_met():
    """Balle et al., Improved summation from shuffling, arXiv:1909.11225: 12 messages of 32 bits at n = 10,000."""
    assert shares_in_shuffle(10_000, sigma=40, bits=32) == 12


def shuffled_vectors(people, shares, columns, by_coordinate, seed=0):
    """Encoded updates, and all their shares in random order: whole vectors, or every coordinate on its own."""
    rng = np.random.default_rng(seed)
    updates = rng.integers(2**32, size=(people, columns), dtype=np.uint32)
    split = rng.integers(2**32, size=(people, shares, columns), dtype=np.uint32)
    split[:, -1] = updates - split[:, :-1].sum(1, dtype=np.uint32)
    view = split.reshape(-1, columns)
    return updates, rng.permuted(view, axis=0) if by_coordinate else rng.permutation(view)


def subset_with_sum(view, target):
    """Solve for the shares of a candidate update by its lowest bits, where sums are linear over two elements."""
    count = len(view)
    # Equations as whole numbers: one bit per share, and the right side on top.
    equations = [
        sum(int(bit) << place for place, bit in enumerate(column)) | (int(wanted) << count)
        for column, wanted in zip((view & 1).T, target & 1, strict=True)
    ]
    pivots = {}
    for equation in equations:
        for place, row in pivots.items():
            if equation >> place & 1:
                equation ^= row
        low = equation & -equation
        if not equation:
            continue
        place = low.bit_length() - 1
        if place == count:
            return None
        pivots = {other: row ^ equation if row >> place & 1 else row for other, row in pivots.items()}
        pivots[place] = equation
    chosen = np.array([place in pivots and bool(pivots[place] >> count & 1) for place in range(count)])
    return chosen if (view[chosen].sum(0, dtype=np.uint32) == target).all() else None


def test_shares_that_are_shuffled_as_whole_vectors_reveal_whether_a_candidate_was_sent():
    """Why sums are taken: at 29 shares of 50 senders, 1,450 coordinates identify whoever sent a guessed update."""
    updates, view = shuffled_vectors(people=6, shares=8, columns=100, by_coordinate=False)
    assert all(subset_with_sum(view, update).sum() == 8 for update in updates)
    assert subset_with_sum(view, updates[0] + np.uint32(1)) is None


def test_shares_that_are_shuffled_coordinate_by_coordinate_do_not():
    updates, view = shuffled_vectors(people=6, shares=8, columns=100, by_coordinate=True)
    assert all(subset_with_sum(view, update) is None for update in updates)
