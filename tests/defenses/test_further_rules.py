"""Rules of n - f rows, medians and filters against their references, and against other facts."""

import itertools
import math

import numpy as np
import pytest
from fflbench.defenses.rules import mda as mda_module
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fflbench import aggregate, registry
from fflbench.errors import ParameterError
from fflbench.federation import Columns, View, chain
from fflbench.references.around_centre import meamed, nearest_means, phocas
from fflbench.references.bulyan import bulyan, iterated
from fflbench.references.caf import caf
from fflbench.references.chosen_rows import cge, mda, monna, smea
from fflbench.references.coordinatewise import median, trimmed_mean
from fflbench.references.geometric_median import geometric_median, rfa
from fflbench.registry import Kind
from tests.defenses.test_rules import assert_among, close, random_updates, ties
from tests.strategies import matrices, normal_matrices

NEW = ("bulyan", "geometric-median", "rfa", "meamed", "phocas", "mda", "smea", "cge", "monna", "caf")
CHOOSING = {"cge": cge, "mda": mda, "monna": monna, "smea": smea}
"""Rules that average n - f rows, and their references."""


def objective(point, updates):
    return np.linalg.norm(updates.astype(np.float64) - point, axis=1).sum()


def some_f(data, n):
    return data.draw(st.integers(0, (n - 1) // 2))


# Each rule against its reference


@settings(max_examples=60)
@given(
    matrices(n=st.integers(1, 12), d=st.integers(0, 6)) | ties(st.integers(1, 12), st.integers(1, 6)),
    st.sampled_from(["meamed", "phocas"]),
    st.data(),
)
def test_meamed_and_phocas_are_their_references_in_every_coordinate(updates, rule, data):
    n, rows = len(updates), updates.tolist()
    f = some_f(data, n)
    found = aggregate(rule, updates, f=f)
    centres = median(rows)[0] if rule == "meamed" else trimmed_mean(rows, f)[0]
    for value, column, centre in zip(found, updates.T.tolist(), centres, strict=True):
        allowed = nearest_means(column, centre, n - f)
        assert min(abs(value - each) for each in allowed) <= 1e-5 * max(map(abs, column), default=0) + 1e-30


@settings(max_examples=30, deadline=None)
@given(normal_matrices(st.integers(1, 13), st.integers(1, 8)) | ties(st.integers(3, 8), st.integers(1, 2)), st.data())
def test_bulyan_is_its_reference(updates, data):
    f = data.draw(st.integers(0, (len(updates) - 1) // 4))
    allowed = list(itertools.islice(bulyan(updates.tolist(), f), 3000))
    assert_among(aggregate("bulyan", updates, f=f), allowed, updates)


@settings(max_examples=60)
@given(normal_matrices(st.integers(1, 10), st.integers(1, 9)) | ties(st.integers(1, 9), st.integers(1, 3)))
def test_the_geometric_median_is_its_reference_or_as_good(updates):
    found = aggregate("geometric-median", updates)
    best = min(objective(row, updates) for row in updates)
    for wanted in geometric_median(updates.tolist()):
        best = min(best, objective(np.array(wanted), updates))
        np.testing.assert_allclose(found, wanted, atol=2e-4 * np.abs(updates).max(initial=1))
    assert objective(found, updates) <= best * (1 + 1e-6)


@settings(max_examples=40)
@given(normal_matrices(st.integers(1, 10), st.integers(1, 9)) | ties(st.integers(1, 9), st.integers(1, 3)), st.data())
def test_rfa_is_its_reference(updates, data):
    weights = data.draw(st.lists(st.integers(1, 99), min_size=len(updates), max_size=len(updates)))
    given = {"iterations": data.draw(st.integers(1, 5)), "nu": data.draw(st.sampled_from([1e-6, 1e-5, 0.1, 2.0]))}
    (wanted,) = rfa(updates.tolist(), weights, **given)
    close(aggregate("rfa", updates, weights=weights, **given), wanted, updates)


@pytest.mark.parametrize("rule", CHOOSING)
@settings(max_examples=30)
@given(normal_matrices(st.integers(1, 9), st.integers(1, 9)) | ties(st.integers(1, 7), st.integers(1, 3)), st.data())
def test_rules_that_average_some_rows_are_their_references(rule, updates, data):
    given = {"f": some_f(data, len(updates))}
    if rule == "monna":
        given["trusted"] = data.draw(st.integers(0, len(updates) - 1))
    assert_among(aggregate(rule, updates, **given), list(CHOOSING[rule](updates.tolist(), **given)), updates)


@settings(max_examples=40)
@given(normal_matrices(st.integers(1, 10), st.integers(1, 9)) | ties(st.integers(1, 7), st.integers(1, 3)), st.data())
def test_caf_is_its_reference_where_eigenvectors_are_not_open(updates, data):
    f = some_f(data, len(updates))
    if allowed := caf(updates.tolist(), f):
        assert_among(aggregate("caf", updates, f=f), allowed, updates, rtol=1e-4)


# Work by hand, and other facts


def test_meamed_and_phocas_by_hand():
    """The median 0 is nearer to -9.5 than to 9.6, the trimmed mean (0 + 0 + 8.5) / 3 is nearer to 9.6."""
    rows = [[-9.5], [0.0], [0.0], [8.5], [9.6]]
    assert list(meamed(rows, 1)) == [[pytest.approx((-9.5 + 0 + 0 + 8.5) / 4)]]
    assert list(phocas(rows, 1)) == [[pytest.approx((0 + 0 + 8.5 + 9.6) / 4)]]
    updates = np.array(rows, np.float32)
    assert aggregate("meamed", updates, f=1)[0] == pytest.approx(-0.25)
    assert aggregate("phocas", updates, f=1)[0] == pytest.approx(4.525)


def test_of_two_values_as_near_the_lower_is_taken():
    updates = np.array([[-1], [0], [1]], np.float32)
    assert aggregate("meamed", updates, f=1).tolist() == aggregate("phocas", updates, f=1).tolist() == [-0.5]
    assert aggregate("meamed", -updates, f=1).tolist() == [-0.5]


def test_without_attackers_they_average_everything():
    updates = random_updates(9, 40)
    for rule in ("bulyan", "meamed", "phocas", "mda", "smea", "cge", "monna", "caf"):
        close(aggregate(rule, updates, f=0), updates.astype(np.float64).mean(0), updates)


def test_bulyan_by_hand():
    """Krum takes 2, 3 and 1, by 4, 3 and 2 neighbours; with one, 0 and 4.5 have equal scores, and so have the next."""
    rows = [[0.0], [1.0], [2.0], [3.0], [4.5], [20.0], [-30.0]]
    assert set(iterated(rows, 1)) == {(0, 1, 2, 3, 4), (0, 1, 2, 3, 5), (1, 2, 3, 4, 5)}
    # The three nearest to the median 2, or to the median 3 of 1, 2, 3, 4.5, 20.
    assert {tuple(each) for each in bulyan(rows, 1)} == {(2.0,), ((2 + 3 + 4.5) / 3,)}
    # 0 and then 4.5 are nearer to all that are left.
    assert aggregate("bulyan", np.array(rows, np.float32), f=1).tolist() == [2]


@pytest.mark.parametrize("n", [11, 12, 15])
def test_bulyan_stays_among_honest_values_whatever_f_rows_hold(n):
    """Lemma of the paper: in every coordinate the result is within the honest values' range."""
    updates, f = random_updates(n, 60), (n - 3) // 4
    for value in (50.0, -1e30, 3.0):
        updates[:f] = value
        found = aggregate("bulyan", updates, f=f)
        assert (found <= updates[f:].max(0)).all()
        assert (found >= updates[f:].min(0)).all()


def test_the_geometric_median_is_the_fermat_point_of_a_triangle():
    """Of a right triangle with legs of 1, all angles at it 120 degrees: (3 - sqrt 3) / 6 from both legs."""
    found = aggregate("geometric-median", np.array([[0, 0], [1, 0], [0, 1]], np.float64))
    np.testing.assert_allclose(found, [(3 - math.sqrt(3)) / 6] * 2, rtol=1e-7)
    # An angle of more than 120 degrees is the median itself.
    obtuse = np.array([[0, 0], [1, 0.1], [-1, 0.1]], np.float32)
    assert aggregate("geometric-median", obtuse).tolist() == [0, 0]
    # Of a convex quadrilateral it is where the diagonals meet, of four points around none it is the inner one.
    np.testing.assert_allclose(
        aggregate("geometric-median", np.array([[0, 0], [4, 0], [5, 5], [0, 4]], np.float64)), [2, 2], rtol=1e-7
    )
    inner = np.array([[0, 0], [9, 0], [0, 9], [2, 2]], np.float32)
    assert aggregate("geometric-median", inner).tolist() == [2, 2]


@pytest.mark.parametrize("seed", range(5))
def test_the_geometric_median_is_as_good_as_scipys_minimum(seed):
    updates = np.random.default_rng(seed).normal(size=(7, 4)) * [[1], [1], [0.1], [3], [1], [1], [20]]
    best = minimize(
        objective,
        updates.mean(0),
        args=(updates,),
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-13, "maxfev": 20000},
    )
    assert objective(aggregate("geometric-median", updates), updates) <= best.fun * (1 + 1e-9)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 2**32), st.floats(-5, -0.5), st.integers(3, 11), st.integers(2, 5))
def test_the_geometric_median_of_rows_nearly_on_a_line_is_as_good_as_scipys_minimum(seed, exponent, n, d):
    rng = np.random.default_rng(seed)
    updates = np.outer(rng.normal(size=n), rng.normal(size=d)) + 10**exponent * rng.normal(size=(n, d))
    found = aggregate("geometric-median", updates)
    nearest = min(updates, key=lambda row: objective(row, updates))
    best = min(
        minimize(objective, start, args=(updates,), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-11}).fun
        for start in (nearest, updates.mean(0), found)
    )
    assert objective(found, updates) <= best * (1 + 1e-6)


def test_the_geometric_median_on_a_line_is_a_median():
    for values in ([3.0], [1, 2], [5, 1, 2], [4, 1, 2, 9], [0, 0, 0, 7], [1, 1, 5, 5]):
        line = np.outer(values, [1, -2, 0.5]).astype(np.float32)
        (found,) = set((aggregate("geometric-median", line) / np.float32([1, -2, 0.5])).round(4))
        low, high = sorted(values)[(len(values) - 1) // 2], sorted(values)[len(values) // 2]
        assert low <= found <= high


@pytest.mark.parametrize("far", [1e6, 1e12, 1e30, 3e38])
def test_a_row_far_away_pulls_the_geometric_median_no_more_than_a_near_one(far):
    updates = random_updates(8, 6).astype(np.float64).astype(np.float32)
    direction = np.float32([1, 0, 0, 0, 0, 0])
    updates[0] = direction * np.float32(1e4)
    near = aggregate("geometric-median", updates)
    updates[0] = direction * np.float32(far)
    np.testing.assert_allclose(aggregate("geometric-median", updates), near, atol=2e-4)


def test_the_geometric_median_among_equal_rows_weighs_their_buffers_alike():
    updates = np.array([[1, 0], [1, 3], [1, 6], [5, 100]], np.float32)
    columns = Columns({}, {}, slice(0, 1), slice(0, 1), 2)
    view = View(0, np.zeros(2), updates, np.ones(4), columns, 4)
    found = chain.defense("geometric-median").rule.aggregate(view, np.random.default_rng(0))
    np.testing.assert_allclose(found, [1, 3], rtol=1e-6)


def test_rfa_comes_to_the_geometric_median_with_many_steps():
    updates = random_updates(9, 30)
    np.testing.assert_allclose(
        aggregate("rfa", updates, iterations=200), aggregate("geometric-median", updates), atol=1e-5
    )


def test_mda_by_hand():
    """Of 0, 1, 2, 9 and 3.5 the four of least diameter, 3.5, are all but 9."""
    updates = np.array([[0], [1], [2], [9], [3.5]], np.float32)
    assert aggregate("mda", updates, f=1).tolist() == [1.625]
    # Diameters are tied: the first rows are taken.
    assert aggregate("mda", np.array([[0], [1], [2], [3]], np.float32), f=1).tolist() == [1]


@pytest.mark.parametrize(("n", "f"), [(30, 9), (60, 20)])
def test_mda_finds_the_honest_rows_of_many(n, f):
    updates = random_updates(n, 200)
    updates[3 : 3 + f] += 30
    close(aggregate("mda", updates, f=f), np.delete(updates, slice(3, 3 + f), 0).astype(np.float64).mean(0), updates)


def test_what_would_take_too_long_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr(mda_module, "MOST_STEPS", 20)
    with pytest.raises(
        ParameterError,
        match="the search for the 32 of 40 updates with the smallest diameter takes more than 20 steps; a smaller f",
    ):
        aggregate("mda", random_updates(40, 50), f=8)
    with pytest.raises(ParameterError, match=r"SMEA tries every subset .* for n = 40 and f = 8 there are 76,904,685"):
        aggregate("smea", random_updates(40, 50), f=8)
    # Few subsets, of which each takes long.
    with pytest.raises(ParameterError, match=r"n = 200 and f = 2 there are 19,900; times \(n - f\)\^3"):
        aggregate("smea", random_updates(200, 5), f=2)


def test_smea_answers_for_a_quarter_of_twenty():
    updates = random_updates(20, 30)
    updates[3:8] += 30
    close(aggregate("smea", updates, f=5), np.delete(updates, slice(3, 8), 0).astype(np.float64).mean(0), updates)


def test_smea_leaves_out_the_row_along_the_widest_direction():
    """Norms and distances are alike: only the direction of two rows, opposite to each other, is shared."""
    updates = 3 * np.eye(6, 8, dtype=np.float32)
    updates[4], updates[5] = 3 * np.eye(8)[7], -3 * np.eye(8)[7]
    subsets = itertools.combinations(range(6), 5)
    covariances = {s: np.linalg.eigvalsh(np.cov(updates[list(s)].T.astype(float)))[-1] for s in subsets}
    chosen = list(min(covariances, key=covariances.__getitem__))
    assert chosen in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 5])
    assert_among(
        aggregate("smea", updates, f=1), [updates[[0, 1, 2, 3, k]].astype(float).mean(0) for k in (4, 5)], updates
    )


def test_cge_by_hand():
    updates = np.array([[3, 4], [0, 1], [-2, 0], [6, 8], [1, 1]], np.float32)
    assert aggregate("cge", updates, f=1).tolist() == [0.5, 1.5]
    assert aggregate("cge", np.array([[1], [-1], [1]], np.float32), f=1).tolist() == [0]


def test_monna_trusts_a_row_and_says_where_there_is_none():
    updates = np.array([[0], [1], [5], [6], [7]], np.float32)
    assert aggregate("monna", updates, f=2).tolist() == [2]
    assert aggregate("monna", updates, f=2, trusted=4).tolist() == [6]
    with pytest.raises(ParameterError, match="trusted = 5 counts from 0 and needs 6 updates, of 5"):
        aggregate("monna", updates, f=2, trusted=5)
    with pytest.raises(ParameterError, match="monna must know who sent each row, and behind bucketing rows have no"):
        aggregate("bucketing + monna", updates)


def test_monna_counts_the_trusted_row_before_rows_that_equal_it():
    """Rows are equal in their parameters and differ in their buffers."""
    updates = np.array([[1, 0], [1, 3], [1, 6]], np.float32)
    view = View(0, np.zeros(2), updates, np.ones(3), Columns({}, {}, slice(0, 1), slice(0, 1), 2), 3, np.arange(3))
    found = chain.defense("monna", f=1, trusted=2).rule.aggregate(view, np.random.default_rng(0))
    assert found.tolist() == [1, 3]


def test_caf_by_hand():
    """On a line the farthest of 0, 1, 2, 9 from their mean 3 goes; of 0, 1, 2 by weights 3/4, 8/9, 35/36 it stops."""
    weights = np.array([1 - 9 / 36, 1 - 4 / 36, 1 - 1 / 36])
    wanted = weights @ [0, 1, 2] / weights.sum()
    found = aggregate("caf", np.array([[0], [1], [2], [9]], np.float32), f=1)
    assert found[0] == pytest.approx(wanted, rel=1e-6)


def test_caf_comes_near_to_honest_rows_that_the_mean_is_far_from():
    updates = random_updates(20, 500)
    updates[:4] += 2
    honest = updates[4:].mean(0)
    assert np.linalg.norm(aggregate("caf", updates, f=4) - honest) < 0.3 * np.linalg.norm(updates.mean(0) - honest)


# All of them


@pytest.mark.parametrize("rule", NEW)
class TestEveryNewRule:
    def test_leaves_its_input_alone_and_gives_back_its_type(self, rule):
        for dtype in (np.float32, np.float64):
            updates = random_updates(dtype=dtype)
            updates.flags.writeable = False
            result = aggregate(rule, updates)
            assert result.dtype == dtype
            assert not np.shares_memory(result, updates)

    def test_identical_rows_give_that_row(self, rule):
        updates = np.tile(random_updates(1), (7, 1))
        np.testing.assert_allclose(aggregate(rule, updates), updates[0], rtol=1e-6)

    def test_one_row_or_none_or_one_coordinate_is_enough(self, rule):
        np.testing.assert_allclose(aggregate(rule, random_updates(1)), random_updates(1)[0], rtol=1e-6)
        assert aggregate(rule, random_updates(9, 0)).shape == (0,)
        assert np.isfinite(aggregate(rule, random_updates(9, 1))).all()

    @pytest.mark.parametrize("value", [1e30, float(np.finfo(np.float32).max)])
    def test_huge_rows_leave_it_finite(self, rule, value):
        updates = random_updates()
        updates[4] = value
        result = aggregate(rule, updates)
        assert np.isfinite(result).all()
        if rule != "rfa":
            assert np.abs(result).max() < 10
        updates[:] = np.where(updates > 0, value, -value)
        assert np.isfinite(aggregate(rule, updates)).all()

    @pytest.mark.parametrize("before", ["nnm", "bucketing", "clipping", "arc"])
    def test_works_behind_every_pre_aggregation(self, rule, before):
        if (rule, before) == ("monna", "bucketing"):
            pytest.skip("a bucket has no sender that could be trusted")
        updates = random_updates(12, 30)
        parts = registry.get(Kind.PREAGGREGATION, before), registry.get(Kind.RULE, rule)
        takes_f = any(parameter.name == "f" for part in parts for parameter in part.parameters)
        assert np.isfinite(aggregate(f"{before} + {rule}", updates, **({"f": 1} if takes_f else {}))).all()
