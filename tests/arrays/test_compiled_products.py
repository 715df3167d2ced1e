import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fflbench.arrays import kernels
from tests.strategies import matrices


@pytest.fixture(autouse=True, scope="module")
def compiled():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "COMPILED", 0)
        yield patch


@settings(deadline=None)
@given(matrices(n=st.integers(1, 13), d=st.integers(0, 300), elements=st.integers(-1000, 1000)))
def test_products_of_whole_numbers_are_exact(updates):
    rows = updates.astype(np.int64)
    np.testing.assert_array_equal(kernels.gram(updates), rows @ rows.T)


@settings(deadline=None)
@given(
    matrices(n=st.integers(2, 9), d=st.integers(1, 300), elements=st.floats(-(2.0**127), 2.0**127, width=32)),
    st.integers(0, 99),
)
def test_products_agree_with_long_precision_and_equal_rows_have_no_distance(updates, row):
    updates[row % len(updates)] = updates[-1]
    rows = updates.astype(np.longdouble)
    bound = 1e-14 * (np.abs(rows) @ np.abs(rows).T)
    found = kernels.gram(updates)
    assert (np.abs(found - rows @ rows.T) <= bound).all()
    np.testing.assert_array_equal(found, found.T)
    assert kernels.distances_from_gram(found)[row % len(updates), -1] == 0


@pytest.mark.parametrize("n", [3, 50])
def test_threads_and_views_give_the_same_bits(n):
    wide = np.random.default_rng(n).normal(size=(n, 100_003)).astype(np.float32)
    found = []
    for count, updates in ((1, wide[:, :-1]), (3, np.ascontiguousarray(wide[:, :-1]))):
        with kernels.threads(count):
            found.append(kernels.gram(updates).tobytes())
    assert found[0] == found[1]


def test_numpy_takes_over_where_numba_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "fflbench.arrays.compiled_products", None)
    np.testing.assert_array_equal(kernels.gram(np.eye(3, dtype=np.float32)), np.eye(3))
