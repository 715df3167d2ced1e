import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fflbench.arrays import kernels
from fflbench.errors import NotFiniteError
from fflbench.federation.rule import Geometry
from tests.strategies import matrices


@given(matrices(n=st.integers(1, 20), d=st.integers(0, 60)), st.sampled_from([1, 7, 64]), st.integers(1, 3))
def test_columns_are_sorted_whatever_the_blocks_and_threads(updates, block, threads):
    wanted = np.sort(updates, axis=0)
    for row in range(len(updates)):
        with pytest.MonkeyPatch.context() as patch, kernels.threads(threads):
            patch.setattr(kernels, "BLOCK", block)
            found = kernels.over_sorted_columns(updates, lambda sorted_block, row=row: sorted_block[row])
        np.testing.assert_array_equal(found, wanted[row])


def test_many_threads_give_the_same_bits():
    updates = np.random.default_rng(0).normal(size=(50, 100_003)).astype(np.float32)
    results = []
    for count in (1, 4):
        with kernels.threads(count):
            results.append(kernels.over_sorted_columns(updates, lambda block: block[5:45].mean(0)))
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 25])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_columns_with_values_that_are_not_finite_are_refused(n, value, compiled, monkeypatch):
    monkeypatch.setattr(kernels, "COMPILED", 0 if compiled else np.inf)
    # Several tiles of compiled code and several blocks.
    d, rng = 2 * kernels.STRETCH + 300, np.random.default_rng(n)
    updates = rng.normal(size=(n, d)).astype(np.float32)
    for ranks in (None, slice(0, n), slice(n // 2, n // 2 + 1)):
        kernels.over_sorted_columns(updates, lambda block: block[0], ranks)
        for row, column in ((0, 0), (n - 1, d - 1), (n // 2, int(rng.integers(d)))):
            hostile = updates.copy()
            hostile[row, column] = value
            with pytest.raises(NotFiniteError):
                kernels.over_sorted_columns(hostile, lambda block: block[0], ranks)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_centre_of_another_length_is_refused(compiled, monkeypatch):
    monkeypatch.setattr(kernels, "COMPILED", 0 if compiled else np.inf)
    for length in (1, 9, 11):
        with pytest.raises(ValueError, match="does not fit 10 columns"):
            kernels.distances_from(np.zeros(length), np.zeros((3, 10), np.float32))


def test_columns_whose_sum_overflows_are_sorted():
    updates = np.full((3, 5), np.finfo(np.float32).max, np.float32)
    np.testing.assert_array_equal(kernels.over_sorted_columns(updates, lambda block: block[1]), updates[0])


@given(matrices(n=st.integers(1, 7), d=st.integers(0, 40)), st.sampled_from([1, 7, 64]), st.booleans())
def test_distances_from_a_centre_are_those_of_the_definition(updates, width, compiled):
    centre = updates[0] / 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "DISTANCES", width)
        patch.setattr(kernels, "COMPILED", 0 if compiled else np.inf)
        found = kernels.distances_from(centre, updates)
    wanted = np.sqrt(((updates.astype(np.float64) - centre.astype(np.float64)) ** 2).sum(1))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@given(matrices(n=st.integers(1, 9), d=st.integers(0, 30)), st.randoms(use_true_random=False))
def test_means_of_pairs_are_those_of_the_definition(updates, random):
    n, wanted = len(updates), updates.astype(np.float64)
    pairs = [(random.randrange(n), random.randrange(n)) for _ in range(random.randint(1, n + 2))]
    coefficients = np.zeros((len(pairs), n))
    for row, pair in zip(coefficients, pairs, strict=True):
        for each in pair:
            row[each] += 0.5
    expected = [(wanted[one] + wanted[other]) / 2 for one, other in pairs]
    np.testing.assert_allclose(kernels.combine(updates, coefficients), expected, rtol=1e-6, atol=1e-40)


@given(matrices(n=st.integers(1, 8), d=st.integers(0, 30)), st.sampled_from([1, 16, 1 << 17]))
def test_distances_are_those_of_the_definition(updates, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "BLOCK", block)
        found = kernels.squared_distances(updates)
    rows = updates.astype(np.float64)
    wanted = ((rows[:, None] - rows[None]) ** 2).sum(2)
    largest = max(1.0, (rows**2).sum(1).max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12 * largest)


@pytest.mark.parametrize("n", [3, 31, 32, 60])
def test_products_are_the_same_bits_whatever_the_threads(n):
    updates = np.random.default_rng(n).normal(size=(n, 300_001)).astype(np.float32)
    found = []
    for count in (1, 3):
        with kernels.threads(count):
            found.append(kernels.gram(updates))
    assert found[0].tobytes() == found[1].tobytes()
    rows = updates.astype(np.float64)
    np.testing.assert_allclose(found[0], rows @ rows.T, rtol=1e-9, atol=1e-6)


def test_close_rows_far_from_zero_keep_their_distances():
    """In single precision a Gram matrix loses these altogether: the distance is 1e-10 of the squared norm."""
    rng = np.random.default_rng(0)
    updates = (1000 + rng.normal(size=(5, 10_000)) * 1e-2).astype(np.float32)
    rows = updates.astype(np.float64)
    wanted = ((rows[:, None] - rows[None]) ** 2).sum(2)
    np.testing.assert_allclose(kernels.squared_distances(updates), wanted, rtol=1e-4)


def test_one_huge_row_does_not_disturb_the_distances_of_the_others():
    updates = np.random.default_rng(0).normal(size=(6, 1000)).astype(np.float32)
    alone = kernels.squared_distances(updates[1:])
    updates[0] = 1e38
    np.testing.assert_allclose(kernels.squared_distances(updates)[1:, 1:], alone, rtol=1e-12)
    assert np.isfinite(kernels.squared_distances(updates)).all()


def test_rows_that_are_not_finite_are_found_and_huge_ones_spared():
    updates = np.zeros((6, 1000), np.float32)
    updates[1, 3], updates[2, 4], updates[4] = np.nan, np.inf, 3e38
    updates[5, :2] = np.inf, -np.inf
    assert kernels.finite_rows(updates).tolist() == [True, False, False, True, True, False]


@given(matrices(n=st.integers(1, 8), d=st.integers(0, 20)), st.data())
def test_the_weighted_mean_is_the_mean_by_weight(updates, data):
    weights = data.draw(st.lists(st.integers(1, 1000), min_size=len(updates), max_size=len(updates)))
    wanted = np.average(updates.astype(np.float64), axis=0, weights=weights)
    scale = np.abs(updates).max(initial=1)
    np.testing.assert_allclose(kernels.weighted_mean(updates, weights), wanted, rtol=1e-5, atol=1e-6 * scale)


@st.composite
def combinations(draw):
    """Rows of either precision, and coefficients for as many, fewer or more of them; some are diagonal."""
    n, m, d = draw(st.integers(1, 8)), draw(st.integers(1, 10)), draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    coefficients = rng.choice([0.0, 1.0, 0.5, -2.0, 1 / 3], (m, n))
    if draw(st.booleans()):
        coefficients = np.diag(rng.choice([0.0, 1.0, 1e-3, 3.0], n))
    return rng.normal(size=(n, d)).astype(draw(st.sampled_from([np.float32, np.float64]))), coefficients


@given(combinations(), st.sampled_from([1, 7, 64, 1 << 18]), st.integers(1, 3))
def test_rows_are_combined_by_their_coefficients_whatever_the_blocks_and_threads(given, block, threads):
    rows, coefficients = given
    wanted, before = coefficients @ rows.astype(np.float64), rows.copy()
    with pytest.MonkeyPatch.context() as patch, kernels.threads(threads):
        patch.setattr(kernels, "BLOCK", block)
        found = kernels.combine(rows, coefficients)
    assert found.dtype == rows.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 if rows.dtype == np.float32 else 1e-14)
    if len(coefficients) > len(rows):
        np.testing.assert_array_equal(rows, before)
    elif found.size:
        assert np.shares_memory(found, rows)


@pytest.mark.parametrize("m", [1, 30, 60])
def test_combined_rows_are_the_same_bits_whatever_the_threads(m):
    coefficients = np.random.default_rng(1).random((m, 60))
    found = []
    for count in (1, 3):
        with kernels.threads(count):
            rows = np.random.default_rng(0).normal(size=(60, 200_001)).astype(np.float32)
            found.append(kernels.combine(rows, coefficients).tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("coefficients", [np.full((40, 40), 1 / 40), np.eye(40) / 3, np.full((3, 40), 0.025)])
def test_rows_are_combined_without_a_second_matrix(coefficients):
    rows = np.ones((40, 250_000), np.float32)
    kernels.combine(rows[:, :10], coefficients)
    tracemalloc.start()
    try:
        with kernels.threads(2):
            kernels.combine(rows, coefficients)
        assert tracemalloc.get_traced_memory()[1] < 0.06 * rows.nbytes
    finally:
        tracemalloc.stop()


def test_means_of_the_largest_numbers_are_finite():
    top = np.finfo(np.float32).max
    for n in range(2, 12):
        rows = np.full((n, 3), top)
        found = kernels.combine(rows, np.full((n, n), 1 / n))
        np.testing.assert_allclose(found, np.float64(top), rtol=1e-6)


def test_a_factor_too_small_for_single_precision_keeps_its_digits():
    rows = np.full((2, 5), 3e38, np.float32)
    found = kernels.combine(rows, np.diag([1.2345678e-41, 1.0]))
    np.testing.assert_allclose(found[0], 3e38 * 1.2345678e-41, rtol=1e-6)


@given(combinations())
def test_geometry_carries_norms_and_distances_through_a_combination(given):
    rows, coefficients = given
    geometry = Geometry(rows)
    assert geometry.products.shape == (len(rows), len(rows))
    largest = max(
        1.0, float((rows.astype(np.float64) ** 2).sum(1).max()) * float(np.abs(coefficients).sum(1).max()) ** 2
    )
    carried = geometry.combined(coefficients, rows)
    made = coefficients @ rows.astype(np.float64)
    np.testing.assert_allclose(carried.norms**2, (made**2).sum(1), rtol=1e-9, atol=1e-12 * largest)
    wanted = ((made[:, None] - made[None]) ** 2).sum(2)
    np.testing.assert_allclose(carried.distances, wanted, rtol=1e-9, atol=1e-12 * largest)


def test_kept_rows_move_up_in_place():
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    kept = kernels.compact(rows, np.array([False, True, False, True]))
    assert kept.tolist() == [[3, 4, 5], [9, 10, 11]]
    assert np.shares_memory(kept, rows)
