import numpy as np
import pytest

from fflbench.arrays import sorting_networks
from fflbench.arrays.kernels import over_sorted_columns


def run(network, updates):
    return sorting_networks.run_network(network, updates, np.full((network.rows, updates.shape[1]), np.nan, np.float32))


@pytest.mark.parametrize("n", range(2, 11))
def test_every_range_of_ranks_comes_out(n):
    """By the zero-one principle, a network that is right for all columns of zeros and ones is right for all columns."""
    columns = ((np.arange(2**n) >> np.arange(n)[:, None]) & 1).astype(np.float32)
    untouched = columns.copy()
    wanted = np.sort(columns, axis=0)
    for first in range(n):
        for last in range(first + 1, n + (first > 0)):
            found = run(sorting_networks.selection_network(n, first, last), columns)[: last - first]
            np.testing.assert_array_equal(np.sort(found, axis=0), wanted[first:last])
    np.testing.assert_array_equal(columns, untouched)


@pytest.mark.parametrize("n", [11, 16, 20, 24])
def test_larger_networks_agree_with_sorting(n):
    updates = np.random.default_rng(n).integers(-5, 5, (n, 1000)).astype(np.float32)
    wanted = np.sort(updates, axis=0)
    for first in range(1, n // 2):
        found = run(sorting_networks.selection_network(n, first, n - first), updates)[: n - 2 * first]
        np.testing.assert_array_equal(np.sort(found, axis=0), wanted[first : n - first])


def test_steps_that_nothing_wanted_depends_on_are_left_out():
    whole = 2 * len(list(sorting_networks._merge_exchange(10)))
    assert (
        len(sorting_networks.selection_network(10, 4, 6).steps)
        < len(sorting_networks.selection_network(10, 2, 8).steps)
        < whole
    )
    assert len(sorting_networks.selection_network(10, 0, 1).steps) == 9


@pytest.mark.parametrize("n", [1, 2, 7, 24, 25, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_named_ranks_are_the_same_with_and_without_a_network(n, dtype):
    updates = np.random.default_rng(n).normal(size=(n, 70_001)).astype(dtype)
    f = (n - 1) // 3
    found = over_sorted_columns(updates, lambda block: block.max(0), slice(f, n - f))
    np.testing.assert_array_equal(found, np.sort(updates, axis=0)[n - f - 1])
    assert found.dtype == dtype
