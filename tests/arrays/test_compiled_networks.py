import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fflbench import aggregate
from fflbench.arrays import compilation, compiled_networks, kernels
from tests.strategies import matrices

# Few, since each number of rows is compiled once.
ROWS = st.sampled_from([2, 3, 5, 10, 11, 24, 25])
TOP = float(np.finfo(np.float32).max)
HOSTILE = st.sampled_from([0.0, -0.0, 1.0, -1.0, TOP, -TOP, 1e30, 1e-45]) | st.floats(-10, 10, width=32)


def on_both_paths(call):
    """Return the bits of a result of the compiled and of the numpy path."""
    with pytest.MonkeyPatch.context() as patch:
        results = []
        for least in (0, np.inf):
            patch.setattr(kernels, "COMPILED", least)
            results.append(call().tobytes())
    return results


@settings(deadline=None, max_examples=60)
@given(matrices(n=ROWS, d=st.integers(0, 700), elements=HOSTILE), st.data())
def test_both_paths_give_the_same_bits(updates, data):
    rule, parameters = data.draw(
        st.sampled_from([("median", {}), ("trimmed-mean", {"f": max(1, len(updates) // 5) if len(updates) > 2 else 0})])
    )
    compiled, plain = on_both_paths(lambda: aggregate(rule, updates, **parameters))
    assert compiled == plain


@pytest.mark.parametrize("n", [2, 10, 25, 60])
@pytest.mark.parametrize("reduce", [lambda block: block[1:].mean(0), lambda block: np.abs(block - block[0]).max(0)])
def test_sorted_columns_of_several_blocks_and_threads_are_the_same_bits(n, reduce):
    updates = np.random.default_rng(n).normal(size=(n, 100_003)).astype(np.float32)
    with kernels.threads(3):
        compiled, plain = on_both_paths(lambda: kernels.over_sorted_columns(updates, reduce))
    assert compiled == plain


@pytest.mark.parametrize("n", [2, 3, 7, 10])
@pytest.mark.parametrize("ordered", [False, True])
def test_compiled_networks_sort_all_columns_of_zeros_and_ones(n, ordered):
    columns = ((np.arange(2**n) >> np.arange(n)[:, None]) & 1).astype(np.float32)
    first, last = (0, n) if ordered else ((n - 1) // 2, n // 2 + 1)
    found = np.full((last - first, 2**n), np.nan, np.float32, order="F" if ordered else "C")
    compiled_networks.compiled_selection(n, first, last, ordered=ordered)(columns, 0, found)
    np.testing.assert_array_equal(found if ordered else np.sort(found, axis=0), np.sort(columns, axis=0)[first:last])


def test_views_and_many_rows_are_left_to_numpy(monkeypatch):
    monkeypatch.setattr(kernels, "COMPILED", 0)
    updates = np.random.default_rng(0).normal(size=(compiled_networks.ROWS + 1, 40)).astype(np.float32)
    for given_rows in (updates, updates[:9, ::2], updates[:9].astype(np.float64)):
        found = kernels.over_sorted_columns(given_rows, lambda block: block[1])
        np.testing.assert_array_equal(found, np.sort(given_rows, axis=0)[1])


def test_numpy_takes_over_where_numba_is_missing_or_cannot_compile(monkeypatch):
    monkeypatch.setattr(kernels, "COMPILED", 0)
    updates = np.random.default_rng(0).normal(size=(6, 40)).astype(np.float32)
    wanted = np.sort(updates, axis=0)[1]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "fflbench.arrays.compiled_networks", None)
        patch.delattr("fflbench.arrays.compiled_networks")
        np.testing.assert_array_equal(kernels.over_sorted_columns(updates, lambda block: block[1]), wanted)

    def refuse(*arguments, **options):
        raise OSError("no space left on device")

    compiled_networks.compiled_selection.cache_clear()
    monkeypatch.setattr(compilation.numba, "njit", refuse)
    np.testing.assert_array_equal(kernels.over_sorted_columns(updates, lambda block: block[1]), wanted)
    compiled_networks.compiled_selection.cache_clear()


@pytest.mark.parametrize("writable", [True, False])
def test_compiled_code_is_kept_on_disk_where_that_can_be_written(tmp_path, writable):
    folder = tmp_path / "cache"
    if not writable:
        folder.write_text("a file where the folder would be")
    program = (
        "import numpy as np; from fflbench.arrays.compiled_networks import compiled_selection as compiled;"
        "ranked = np.empty((1, 3), np.float32);"
        "compiled(3, 1, 2, ordered=False)(np.float32([[1, 2, 3], [3, 1, 2], [2, 3, 1]]), 0, ranked); print(ranked[0])"
    )
    settings = {"NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True)
    assert done.stdout == "[2. 2. 2.]\n", done.stderr
    assert bool(list(tmp_path.rglob("*.nbc"))) == writable


def test_small_matrices_do_not_load_numba():
    program = (
        "import sys, numpy as np; from fflbench import aggregate;"
        "aggregate('median', np.ones((10, 50_000), np.float32)); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
