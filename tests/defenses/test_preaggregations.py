"""Each pre-aggregation against its reference, each reference against something else, and chains against hand work."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from fflbench import Aggregator, aggregate, registry
from fflbench.arrays.columns import Columns
from fflbench.arrays.kernels import gram, squared_distances
from fflbench.errors import ParameterError
from fflbench.federation import Setting, View, chain
from fflbench.plugin import preaggregation, rule
from fflbench.references.preaggregations import arc, bucketing, clipping, nnm, nnm_choices
from fflbench.registry import Kind
from tests.strategies import matrices, normal_matrices

THREE = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)
"""The example in ByzFL's documentation, whose results stand below to eight digits."""


def view_of(updates, weights=None, columns=None):
    n, d = updates.shape
    sizes = np.ones(n) if weights is None else np.asarray(weights, float)
    return View(0, np.zeros(d), updates.copy(), sizes, columns or Columns.of_length(d), n, np.arange(n), sizes)


def after(text, updates, weights=None, columns=None, seed=0, **parameters):
    """Return the view that the rule of a chain is given."""
    seen = []

    class Spy(chain.Rule):
        def aggregate(self, view, rng):
            seen.append(view)
            return view.rows[0]

    steps = chain.defense(f"{text} + fedavg", **parameters).server.preaggregations
    server = chain.Server(steps, Spy())
    server.aggregate(view_of(updates, weights, columns).read_only(), np.random.default_rng(seed))
    return seen[0]


def close(found, wanted, updates):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * np.abs(updates).max(initial=1))


def small_integers(n, d):
    """Updates with ties and zero rows, whose distances are exact."""
    return matrices(n, d, st.integers(-2, 2).map(float))


# Nearest neighbours


@given(
    small_integers(st.integers(1, 9), st.integers(0, 5)) | normal_matrices(st.integers(1, 9), st.integers(1, 12)),
    st.data(),
)
def test_nnm_is_its_reference(updates, data):
    f = data.draw(st.integers(0, (len(updates) - 1) // 2))
    allowed = nnm_choices(updates.tolist(), len(updates) - f)
    for row, choices in zip(after("nnm", updates, f=f).rows, allowed, strict=True):
        assert min(np.abs(row - np.array(each)).max(initial=0) for each in choices) <= 1e-5


@given(normal_matrices(st.integers(2, 9), st.integers(1, 9)), st.data())
def test_the_reference_of_nnm_takes_the_neighbours_that_scikit_learn_finds(updates, data):
    count = data.draw(st.integers(1, len(updates)))
    rows = updates.astype(np.float64)
    near = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(rows).kneighbors(rows, return_distance=False)
    np.testing.assert_allclose([each[0] for each in nnm_choices(rows.tolist(), count)], rows[near].mean(1), atol=1e-9)


def test_nnm_takes_ties_in_the_order_of_rows():
    assert after("nnm", np.array([[0], [1], [-1]], np.float32), f=1).rows.tolist() == [[0.5], [0.5], [-0.5]]
    assert after("nnm", np.array([[0], [-1], [1]], np.float32), f=1).rows.tolist() == [[-0.5], [-0.5], [0.5]]
    assert list(nnm([[0.0], [1.0], [-1.0]], 1)) == [[[0.5], [0.5], [-0.5]], [[-0.5], [0.5], [-0.5]]]


@given(normal_matrices(st.integers(3, 10), st.integers(1, 8)), st.data())
def test_nnm_brings_honest_rows_as_near_to_their_mean_as_the_paper_proves(updates, data):
    """Allouah et al., lemma 5: variance and squared bias are at most 8 f / (n - f) of the variance before."""
    n = len(updates)
    f = data.draw(st.integers(0, (n - 1) // 2))
    updates[:f] *= data.draw(st.sampled_from([0.0, 1.0, -1.0, 30.0]))
    honest = updates[f:].astype(np.float64)
    made = after("nnm", updates, f=f).rows[f:].astype(np.float64)
    spread = ((honest - honest.mean(0)) ** 2).sum(1).mean()
    assert ((made - honest.mean(0)) ** 2).sum(1).mean() <= 8 * f / (n - f) * spread + 1e-9


def test_nnm_with_f_zero_makes_every_row_the_mean():
    updates = np.random.default_rng(0).normal(size=(7, 20)).astype(np.float32)
    close(after("nnm", updates, f=0).rows, np.tile(updates.mean(0), (7, 1)), updates)


def test_nnm_of_byzfls_example():
    wanted = [[2.5, 3.5, 4.5], [2.5, 3.5, 4.5], [5.5, 6.5, 7.5]]
    assert after("nnm", THREE, f=1).rows.tolist() == wanted


def test_a_row_counts_itself_before_rows_at_distance_zero():
    """Rows are equal in their parameters and differ in their buffers."""
    updates = np.array([[1, 0], [1, 3], [1, 6], [1, 9], [1, 12]], np.float32)
    columns = Columns({}, {}, slice(0, 1), slice(0, 1), 2)
    assert after("nnm", updates, columns=columns, f=2).rows[:, 1].tolist() == [3, 3, 3, 4, 5]


def test_nnm_leaves_a_huge_row_out_of_all_others():
    updates = np.random.default_rng(0).normal(size=(6, 30)).astype(np.float32)
    updates[2] = 1e38
    made = after("nnm", updates, f=1).rows
    assert np.abs(np.delete(made, 2, 0)).max() < 10


# Buckets


@given(small_integers(st.integers(1, 11), st.integers(0, 4)), st.integers(1, 12), st.integers(0, 2**32))
def test_bucketing_is_its_reference_for_the_permutation_that_is_drawn(updates, s, seed):
    n = len(updates)
    order = np.random.default_rng(seed).permutation(n)
    (wanted,) = bucketing(updates.tolist(), s, order.tolist())
    view = after("bucketing", updates, seed=seed, s=s)
    assert len(view.rows) == math.ceil(n / s)
    close(view.rows, wanted, updates)


def test_without_a_permutation_the_reference_of_bucketing_gives_all_of_them():
    """Five rows fall into two pairs and a single one in 5! / (2! 2!) ways, in their order."""
    rows = np.eye(5)
    found = {tuple(map(tuple, each)) for each in bucketing(rows.tolist())}
    shuffled = {
        tuple(map(tuple, [rows[[a, b]].mean(0), rows[[c, d]].mean(0), rows[e]]))
        for a, b, c, d, e in permutations(range(5))
    }
    assert found == shuffled
    assert len(found) == 30


@given(normal_matrices(st.integers(1, 6).map(lambda half: 2 * half), st.integers(1, 9)), st.integers(0, 9))
def test_buckets_keep_the_mean_where_s_divides_n(updates, seed):
    rows = after("bucketing", updates, seed=seed).rows
    assert len(rows) == len(updates) // 2
    close(rows.mean(0), updates.mean(0), updates)


def test_a_bucket_of_one_is_a_row_and_rows_of_buckets_have_no_sender():
    updates = np.eye(5, dtype=np.float32)
    view = after("bucketing", updates, s=1)
    np.testing.assert_array_equal(view.rows[np.argsort(view.rows.argmax(1))], updates)
    # In another order than their senders.
    assert (view.rows != updates).any()
    assert view.participants is None
    view = after("bucketing", updates)
    assert view.participants is None
    assert view.sizes is None
    assert view.selected == 5


def test_buckets_change_from_round_to_round_and_repeat_with_the_seed():
    updates = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    one, same, other = (after("bucketing", updates, seed=seed).rows for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


# Clipping


@given(
    small_integers(st.integers(1, 9), st.integers(0, 5)) | normal_matrices(st.integers(1, 9), st.integers(1, 9)),
    st.floats(0.01, 10),
)
def test_clipping_is_its_reference_and_leaves_short_rows(updates, bound):
    rows = after("clipping", updates, bound=bound).rows
    close(rows, clipping(updates.tolist(), bound)[0], updates)
    short = np.linalg.norm(updates.astype(np.float64), axis=1) < bound * (1 - 1e-6)
    np.testing.assert_array_equal(rows[short], updates[short])


@given(normal_matrices(st.integers(1, 9), st.integers(1, 30)), st.floats(0.01, 10))
def test_clipping_twice_is_clipping_once(updates, bound):
    once = after("clipping", updates, bound=bound).rows
    np.testing.assert_allclose(after("clipping", once, bound=bound).rows, once, rtol=1e-6)
    assert np.linalg.norm(once.astype(np.float64), axis=1).max() <= bound * (1 + 1e-6)


def test_clipping_of_byzfls_example_with_the_default_bound():
    wanted = [
        [0.53452248, 1.06904497, 1.60356745],
        [0.91168461, 1.13960576, 1.36752692],
        [1.00514142, 1.14873305, 1.29232469],
    ]
    np.testing.assert_allclose(after("clipping", THREE).rows, wanted, rtol=1e-6)


def test_clipping_keeps_the_direction_of_rows_whose_squares_overflow():
    updates = np.full((2, 400), np.finfo(np.float32).max, np.float32)
    updates[1, ::2] *= -0.5
    rows = after("clipping", updates, bound=1.0).rows.astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(rows[1, 1] / rows[1, 0], -2, rtol=1e-6)


@given(
    small_integers(st.integers(1, 11), st.integers(0, 5)) | normal_matrices(st.integers(1, 11), st.integers(1, 9)),
    st.data(),
)
def test_arc_is_its_reference(updates, data):
    f = data.draw(st.integers(0, (len(updates) - 1) // 2))
    close(after("arc", updates, f=f).rows, arc(updates.tolist(), f)[0], updates)


@given(normal_matrices(st.integers(1, 9), st.integers(1, 9)))
def test_arc_with_f_zero_leaves_every_row(updates):
    np.testing.assert_array_equal(after("arc", updates, f=0).rows, updates)


def test_arc_of_byzfls_example():
    wanted = [[1, 2, 3], [4, 5, 6], [4.41004009, 5.04004582, 5.67005155]]
    np.testing.assert_allclose(after("arc", THREE, f=1).rows, wanted, rtol=1e-6)


@pytest.mark.parametrize(("n", "f", "clipped"), [(13, 3, 4), (17, 4, 6), (10, 2, 3), (100, 30, 42), (242, 33, 57)])
def test_arc_clips_as_many_rows_as_its_formula_says(n, f, clipped):
    """2 (f/n) (n - f) in whole numbers: the last would be 56 in floating point."""
    updates = np.diag(np.arange(1, n + 1)).astype(np.float32)
    made = after("arc", updates, f=f).rows
    assert np.count_nonzero(made.diagonal() != updates.diagonal()) == clipped
    assert made.max() == pytest.approx(n - clipped)


# All of them


ALL = ("nnm", "bucketing", "clipping", "arc")


def test_these_are_all_that_are_registered():
    assert {entry.name for entry in registry.entries(Kind.PREAGGREGATION)} == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_norms_and_distances_see_parameters_only_and_whole_rows_are_combined(name):
    updates = np.random.default_rng(0).normal(size=(9, 20)).astype(np.float32)
    columns = Columns({}, {}, slice(0, 12), slice(8, 12), 20)
    with_buffers = after(name, updates, columns=columns).rows
    np.testing.assert_allclose(with_buffers[:, :12], after(name, updates[:, :12]).rows, rtol=1e-6)
    updates[:, 12:] *= 2
    np.testing.assert_allclose(after(name, updates, columns=columns).rows[:, 12:], 2 * with_buffers[:, 12:], rtol=1e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(1, 4), (9, 0), (5, 4)])
def test_one_row_no_column_and_zero_rows_are_as_good_as_others(name, shape):
    rows = after(name, np.zeros(shape, np.float32)).rows
    assert rows.shape[1] == shape[1]
    assert not rows.any()


@pytest.mark.parametrize("name", ["nnm", "arc"])
def test_an_f_of_half_the_rows_is_refused(name):
    with pytest.raises(ParameterError, match=f'preaggregation "{name}" needs f < n/2, but f = 5 and n = 10'):
        aggregate(f"{name} + fedavg", np.zeros((10, 3)), f=5)


# Chains


@pytest.fixture
def updates():
    return np.random.default_rng(3).normal(size=(10, 40)).astype(np.float32)


def test_nnm_and_trimmed_mean_share_their_f(updates):
    wanted = np.sort(next(nnm(updates.tolist(), 2)), axis=0)[2:8].mean(0)
    close(aggregate("nnm + trimmed-mean", updates, f=2), wanted, updates)


def test_clipping_and_fedavg_keep_the_weights(updates):
    weights = np.arange(1, 11)
    wanted = np.average(clipping(updates.tolist())[0], axis=0, weights=weights)
    close(aggregate("clipping + fedavg", updates, weights=weights), wanted, updates)


def test_krum_behind_buckets_assumes_the_attackers_among_all_participants(updates):
    view = after("bucketing", updates, seed=5)
    krum = chain.defense("bucketing + krum")
    krum.begin(Setting(10, 10, np.ones(10, np.int64), Columns.of_length(40)), 0)
    found, _ = krum.server.aggregate(view_of(updates), np.random.default_rng(5))
    distances = squared_distances(view.rows)
    # n = 5 buckets and f = 10 // 5: one neighbour.
    nearest = (distances + np.diag(np.full(5, np.inf))).min(1).argmin()
    np.testing.assert_array_equal(found, view.rows[nearest])


def test_an_f_that_too_few_buckets_cannot_tolerate_is_refused_before_anything_runs(updates):
    with pytest.raises(ParameterError, match=r'"krum" needs f <= n - 3, but f = 2 and n = 4'):
        chain.defense("bucketing + krum", s=3).validate(10)


def test_a_guarantee_that_buckets_lose_is_flagged():
    krum = chain.defense("bucketing + krum")
    krum.begin(Setting(10, 10, np.ones(10, np.int64), Columns.of_length(4)), 0)
    assert krum.flags() == ["f = 2 of 5 is beyond what krum guarantees (f < (n - 2)/2)"]


def test_pre_aggregations_are_applied_from_left_to_right(updates):
    rows = updates.tolist()
    clipped_first = np.median(next(nnm(clipping(rows, 5.0)[0], 2)), axis=0)
    clipped_last = np.median(clipping(next(nnm(rows, 2)), 5.0)[0], axis=0)
    assert np.abs(clipped_first - clipped_last).max() > 1e-3
    given = {"f": 2, "clipping.bound": 5.0}
    close(aggregate("clipping + nnm + median", updates, **given), clipped_first, updates)
    close(aggregate("nnm + clipping + median", updates, **given), clipped_last, updates)


def test_a_new_row_weighs_as_much_as_those_it_is_made_of_on_average(updates):
    weights = np.arange(1, 11)
    np.testing.assert_allclose(after("clipping", updates, weights).weights, weights)
    np.testing.assert_allclose(after("nnm", updates, weights, f=0).weights, np.full(10, 5.5))
    order = np.random.default_rng(0).permutation(10)
    np.testing.assert_allclose(after("bucketing", updates, weights).weights, weights[order].reshape(5, 2).mean(1))


def test_a_row_that_is_clipped_to_nothing_keeps_its_weight():
    updates = np.zeros((4, 3), np.float32)
    updates[3] = 1
    view = after("arc", updates, [1, 2, 3, 40], f=1)
    assert not view.rows.any()
    assert view.weights.tolist() == [1, 2, 3, 40]


@pytest.mark.parametrize("text", ["nnm + clipping", "nnm + arc", "bucketing + nnm", "clipping + nnm + bucketing"])
def test_norms_and_distances_behind_pre_aggregations_are_those_of_the_rows(own_registry, updates, text):
    seen = {}

    @rule("curious", title="Curious")
    def curious(updates, *, norms, distances):
        """Remembers what it is given."""
        seen.update(rows=updates.astype(np.float64), norms=norms, distances=distances)
        return updates[0]

    aggregate(f"{text} + curious", updates)
    rows = seen["rows"]
    np.testing.assert_allclose(seen["norms"], np.linalg.norm(rows, axis=1), rtol=1e-6)
    wanted = ((rows[:, None] - rows[None]) ** 2).sum(2)
    np.testing.assert_allclose(seen["distances"], wanted, rtol=1e-5, atol=1e-6 * wanted.max())


def test_inner_products_are_computed_once_for_a_whole_chain(updates):
    calls = []
    Aggregator("nnm + clipping + krum").simulate(updates, gram=lambda rows: calls.append(1) or gram(rows))
    assert len(calls) == 1


def test_coefficients_of_the_wrong_shape_are_refused(own_registry, updates):
    @preaggregation("fewer", title="Fewer")
    def fewer(updates):
        """Drops a row without saying so."""
        return np.eye(len(updates))[1:]

    @preaggregation("crooked", title="Crooked")
    def crooked(updates):
        """Has no coefficient for the last update."""
        return np.eye(len(updates))[:, 1:]

    with pytest.raises(ParameterError, match=r'"fewer" returned 9 rows for 10; register it with regroups=True'):
        aggregate("fewer + median", updates)
    with pytest.raises(ParameterError, match=r'"crooked" must return coefficients of 10 columns'):
        aggregate("crooked + median", updates)
