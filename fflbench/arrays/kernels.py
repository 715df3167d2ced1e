"""Fast array operations that rules share, without loops over coordinates or a second matrix."""

import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from fflbench.arrays import sorting_networks
from fflbench.errors import NotFiniteError
from fflbench.types import Coefficients, Matrix, Vector

if TYPE_CHECKING:
    from fflbench.arrays.compiled_networks import Selection
    from fflbench.arrays.compiled_products import Products

BLOCK = 1 << 18
"""Values in a block of columns: a megabyte of float32, which fits into a core's cache; products use a quarter."""

NETWORK = 24
"""Most rows for which a sorting network on one core is faster than sorting columns on two."""

STRETCH = 1 << 15
"""Columns per pass of a sorting network: more than fit into the second-level cache, for fewer calls."""

DISTANCES = 1 << 13
"""Columns per pass of distances from a centre, which stays in the cache from row to row."""

COMPILED = 1 << 23
"""Values of a matrix from which on compiled code is faster, with the time to load it."""

FEW = 32
"""Number of rows below which a Gram matrix uses BLAS's general product."""

TOGETHER = 16
"""Most blocks per task; fewer where every thread would not have at least two tasks."""

R = TypeVar("R")

_threads: ContextVar[int] = ContextVar("threads", default=os.cpu_count() or 1)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set the number of threads of kernels and numpy's BLAS; inside a cell it is one, since cells run in parallel."""
    token = _threads.set(count)
    try:
        with _controller().limit(limits=count):
            yield
    finally:
        _threads.reset(token)


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def _one_blas_thread() -> AbstractContextManager[Any]:
    # Each thread works on its own block, which is too small for BLAS to split among threads.
    return _controller().limit(limits=1) if _threads.get() > 1 else nullcontext()


def over_columns(updates: Matrix, reduce: Callable[[Matrix], npt.NDArray[Any]]) -> Vector:
    """Reduce every column to one value, block by block: `reduce` is handed all values of some columns."""
    n, d = updates.shape
    result, width = np.empty(d, updates.dtype), max(1, min(d, BLOCK // n))

    def work(start: int, space: npt.NDArray[Any]) -> None:
        reduced = result[start : start + width]
        reduced[:] = reduce(updates[:, start : start + width])
        # Adding 0 makes 0 of -0, as in `over_sorted_columns`.
        reduced += 0

    for _ in _run_blocks(work, range(0, d, width), lambda: np.empty(0)):
        pass
    return result


def over_sorted_columns(
    updates: Matrix, reduce: Callable[[Matrix], npt.NDArray[Any]], ranks: slice | None = None
) -> Vector:
    """Sort every column and reduce it to one value, block by block.

    `reduce` is handed a block with the participants' values of each coordinate in ascending order along axis 0; where
    `ranks` are named, it is handed those alone, in any order, which takes less time. It must not change the block.
    Compiled code, for large matrices, passes the same values to `reduce` in the same order. Columns with NaN or
    infinity raise a `NotFiniteError`.
    """
    n, d = updates.shape
    result = np.empty(d, updates.dtype)
    first, last, _ = (ranks or slice(None)).indices(n)
    chosen = last - first
    if ranks is not None and chosen == n:
        # In any order: nothing is sorted.
        return over_columns(updates, lambda block: reduce(_require_finite(block)))
    by_rows = ranks is not None and n <= NETWORK
    compiled = _compiled_selection(updates, first, last, ordered=not by_rows)
    network = sorting_networks.selection_network(n, first, last) if by_rows and not compiled else None
    width = max(1, min(d, STRETCH if by_rows else BLOCK // n))

    def select(start: int, space: npt.NDArray[Any]) -> Matrix:
        block = updates[:, start : start + width]
        columns = block.shape[1]
        if not compiled:
            _require_finite(block)
        if network:
            return sorting_networks.run_network(network, block, space.reshape(-1, width)[:, :columns])[:chosen]
        if compiled:
            ranked = space[: chosen * columns]
            ranked = ranked.reshape(chosen, columns) if by_rows else ranked.reshape(columns, chosen).T
            if not compiled(updates, start, ranked):
                _require_finite(block)
            return ranked
        ranked = space[: n * columns].reshape(columns, n).T
        ranked[:] = block
        ranked.sort(axis=0)
        return ranked[first:last]

    def work(start: int, space: npt.NDArray[Any]) -> None:
        reduced = result[start : start + width]
        reduced[:] = reduce(select(start, space))
        # Which of 0 and -0 is the lower depends on how columns are sorted; adding 0 makes both 0.
        reduced += 0

    # The steps of a network are too short for threads, which would contend for the interpreter lock.
    rows, count = (network.rows, 1) if network else (n, None)
    with _one_blas_thread() if compiled else nullcontext():
        for _ in _run_blocks(work, range(0, d, width), lambda: np.empty(rows * width, updates.dtype), count):
            pass
    return result


def _require_finite(block: Matrix) -> Matrix:
    """Return the block, or raise an error for values that are not finite, which have no order."""
    # A sum is finite where all values are, unless it overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(block.sum()) and not np.isfinite(block).all():
            raise NotFiniteError("values that are not finite cannot be sorted")
    return block


def _compiled_selection(updates: Matrix, first: int, last: int, *, ordered: bool) -> "Selection | None":
    """Return compiled code that selects ranks, or None where the matrix is too small for it or it is not available."""
    if not _is_large(updates) or not updates.flags.c_contiguous:
        return None
    try:
        from fflbench.arrays.compiled_networks import compiled_selection
    except ImportError:
        return None
    return compiled_selection(len(updates), first, last, ordered=ordered)


def _compiled(name: str, updates: npt.NDArray[Any]) -> Any:
    """Return compiled code for products or squares of rows, or None, likewise."""
    if not _is_large(updates):
        return None
    try:
        from fflbench.arrays import compiled_products
    except ImportError:
        return None
    return getattr(compiled_products, f"compiled_{name}")()


def _is_large(updates: npt.NDArray[Any]) -> bool:
    return updates.size >= COMPILED and updates.dtype == np.float32


def finite_rows(updates: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which rows hold neither NaN nor infinity."""
    # A row's sum is finite where all of it is, unless it overflows: only those rows are checked value by value.
    width = max(STRETCH, BLOCK // max(1, len(updates)))

    def work(start: int, space: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        # Each thread has settings of its own.
        with np.errstate(over="ignore", invalid="ignore"):
            found: npt.NDArray[np.bool_] = np.isfinite(updates[:, start : start + width].sum(1))
        return found

    finite = np.ones(len(updates), bool)
    for found in _run_blocks(work, range(0, updates.shape[1], width), lambda: np.empty(0)):
        finite &= found
    for row in np.flatnonzero(~finite):
        finite[row] = np.isfinite(updates[row]).all()
    return finite


def compact(rows: Matrix, kept: npt.NDArray[np.bool_]) -> Matrix:
    """Move the kept rows to the top, in place, and return them, since a second matrix may not fit into memory.

    The others are erased, since a view of an array gives access to the whole of it.
    """
    places = np.flatnonzero(kept)
    for place, origin in enumerate(places):
        if place != origin:
            rows[place] = rows[origin]
    rows[len(places) :] = 0
    return rows[: len(places)]


def combine(rows: Matrix, coefficients: Coefficients) -> Matrix:
    """Replace rows by linear combinations of them, in place, and return the new ones.

    More rows than there were need a new matrix.
    """
    m, n = coefficients.shape
    if m == n and not np.any(coefficients[~np.eye(n, dtype=bool)]):
        return _scale(rows, coefficients.diagonal())
    rounded, pairs = coefficients.astype(rows.dtype), _pairs(coefficients)
    # Sums of two rows are many short operations, of which longer blocks need fewer.
    width = STRETCH if pairs else max(1, BLOCK // max(m, n))
    result = rows[:m] if m <= n else np.empty((m, rows.shape[1]), rows.dtype)

    def work(start: int, space: npt.NDArray[Any]) -> None:
        block = rows[:, start : start + width]
        made = space[: m * block.shape[1]].reshape(m, block.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            if pairs:
                for new, (one, other) in zip(made, pairs, strict=True):
                    np.add(block[one], block[other], out=new)
                made *= rows.dtype.type(0.5)
            else:
                # Unlike `dot`, `matmul` takes columns of a matrix as they are, without a copy.
                np.matmul(rounded, block, out=made)
            # Rounded coefficients of a mean may add up to more than 1, as in `weighted_mean`.
            if not np.isfinite(made.sum()):
                made[:] = coefficients @ block.astype(np.float64)
        result[:, start : start + width] = made

    with _one_blas_thread():
        for _ in _run_blocks(work, range(0, rows.shape[1], width), lambda: np.empty(m * width, rows.dtype)):
            pass
    return result


def _pairs(coefficients: Coefficients) -> list[tuple[int, int]] | None:
    """Return the two rows that each new row is the mean of, or one twice, as bucketing has them; None for all others.

    Adding two rows is faster than a product with a matrix that consists of zeros, and exact in the same way.
    """
    if not np.isin(coefficients, (0, 0.5, 1)).all() or not (coefficients.sum(1) == 1).all():
        return None
    used = coefficients > 0
    first, last = used.argmax(1), used.shape[1] - 1 - used[:, ::-1].argmax(1)
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _scale(rows: Matrix, factors: npt.NDArray[np.float64]) -> Matrix:
    """Multiply each row by its factor, in place."""
    for row, factor in zip(rows, factors, strict=True):
        if factor != 1:
            # A factor near zero, for a huge row, has few digits in single precision.
            small = 0 < abs(factor) < np.finfo(rows.dtype).tiny
            with np.errstate(over="ignore"):
                np.multiply(row, factor if small else rows.dtype.type(factor), out=row, casting="same_kind")
    return rows


def weighted_mean(updates: Matrix, weights: npt.ArrayLike) -> Vector:
    """Return the weighted mean of the rows."""
    shares = np.asarray(weights, np.float64)
    shares = shares / shares.sum()
    with np.errstate(over="ignore", invalid="ignore"):
        mean: Vector = shares.astype(updates.dtype) @ updates
        if finite_rows(mean[None])[0]:
            return mean
        # Rounded shares may add up to more than 1, so that the largest numbers of single precision overflow.
        overflown, width = np.flatnonzero(~np.isfinite(mean)), max(1, BLOCK // len(updates))
        for start in range(0, len(overflown), width):
            columns = overflown[start : start + width]
            mean[columns] = shares @ updates[:, columns].astype(np.float64)
    return mean


def row_norms(updates: Matrix) -> npt.NDArray[np.float64]:
    """Return the Euclidean norm of every row."""
    with np.errstate(over="ignore"):
        squares = np.array([np.dot(row, row) for row in updates], np.float64)
    for row in np.flatnonzero(~np.isfinite(squares)):
        squares[row] = gram(updates[[row]])[0, 0]
    lengths: npt.NDArray[np.float64] = np.sqrt(squares)
    return lengths


def distances_from(centre: npt.NDArray[Any], updates: Matrix) -> npt.NDArray[np.float64]:
    """Return the Euclidean distance of every row from a centre, in double precision."""
    n, d = updates.shape
    if centre.shape != (d,):
        raise ValueError(f"a centre of shape {centre.shape} does not fit {d} columns")
    compiled, doubled = _compiled("squares", updates), centre.astype(np.float64)

    def work(start: int, space: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        squares = np.empty(n)
        compiled(updates, start, doubled[start : start + DISTANCES], squares)
        return squares

    if compiled and updates.flags.c_contiguous:
        blocks = _run_blocks(work, range(0, d, DISTANCES), lambda: np.empty(0))
        return np.asarray(np.sqrt(sum(blocks, np.zeros(n))))
    return np.array([np.linalg.norm(row - doubled) for row in updates], np.float64)


def clipping_factors(norms: npt.NDArray[np.float64], bound: float) -> npt.NDArray[np.float64]:
    """Return the factor of each row that leaves no norm above the bound."""
    return np.divide(bound, norms, out=np.ones_like(norms), where=norms > bound)


def gram(updates: npt.NDArray[np.float32 | np.float64]) -> npt.NDArray[np.float64]:
    """Return all inner products of rows, in double precision so that distances of close or huge rows are accurate."""
    n, d = updates.shape
    width = max(1, BLOCK // 4 // n)
    if compiled := _compiled("products", updates):
        return _gram_by_compiled_code(updates, compiled)

    # Numpy uses BLAS's routine for a matrix times its own transpose where it recognises one. For few rows that is
    # slower than the general product; an additional empty row on one side keeps numpy from recognising it.
    more = n < FEW

    def work(start: int, space: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        doubled = space[:, : min(width, d - start)]
        doubled[:n] = updates[:, start : start + width]
        # `dot` lets other threads run meanwhile, `@` does not.
        products: npt.NDArray[np.float64] = np.dot(doubled[:n], doubled.T)
        return products[:, :n]

    with _one_blas_thread():
        partial = _run_blocks(work, range(0, d, width), lambda: np.zeros((n + more, min(width, d))))
        return sum(partial, np.zeros((n, n)))


def _gram_by_compiled_code(updates: npt.NDArray[Any], add_products: "Products") -> npt.NDArray[np.float64]:
    n, d = updates.shape
    size = n + -n % 4

    def work(start: int, space: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        products = np.zeros((size, size))
        add_products(updates[:, start : start + STRETCH], products)
        return products

    products = sum(_run_blocks(work, range(0, d, STRETCH), lambda: np.empty(0)), np.zeros((size, size)))
    below = np.tril(products[:n, :n])
    whole: npt.NDArray[np.float64] = below + np.tril(below, -1).T
    return whole


def squared_distances(updates: Matrix) -> npt.NDArray[np.float64]:
    """Return the squared Euclidean distances between all rows."""
    return distances_from_gram(gram(updates))


def distances_from_gram(products: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the squared Euclidean distances between rows, given their inner products."""
    norms = products.diagonal()
    distances = np.maximum(norms[:, None] + norms[None, :] - 2 * products, 0)
    np.fill_diagonal(distances, 0)
    return distances


def _run_blocks(
    work: Callable[[int, npt.NDArray[Any]], R],
    blocks: range,
    new_space: Callable[[], npt.NDArray[Any]],
    count: int | None = None,
) -> Iterator[R]:
    """Yield the result of every block, in order, for any number of threads, each with its own work space."""
    own = threading.local()

    def task(first: int) -> list[R]:
        if not hasattr(own, "space"):
            # Once: fresh memory for every block would cost more than the work on it.
            own.space = new_space()
        return [work(start, own.space) for start in blocks[first : first + together]]

    # A thread is worth its start from a few blocks on.
    count = min(count or _threads.get(), max(1, len(blocks) // 4))
    together = max(1, min(TOGETHER, len(blocks) // (2 * count)))
    tasks = range(0, len(blocks), together)
    if count <= 1:
        for first in tasks:
            yield from task(first)
        return
    with ThreadPoolExecutor(count) as pool:
        # Numpy releases the interpreter lock while it copies, sorts and multiplies.
        for done in pool.map(task, tasks):
            yield from done
