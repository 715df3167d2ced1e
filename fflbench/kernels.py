"""Fast array work that rules share. Nothing here loops over coordinates or makes a second matrix."""

import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from fflbench import networks
from fflbench.types import Coefficients, Matrix, Vector

BLOCK = 1 << 18
"""Values in a block of columns: a megabyte of float32, which stays near a core; products take a quarter."""

NETWORK = 24
"""Up to so many rows a sorting network on one core beats sorting column by column on two."""

STRETCH = 1 << 15
"""Columns that go through a network at a time: more than fit the second-level cache, for fewer calls."""

FEW = 32
"""Rows below which a Gram matrix takes BLAS's common product."""

TOGETHER = 16
"""Blocks that a thread takes at a time."""

R = TypeVar("R")

_threads: ContextVar[int] = ContextVar("threads", default=os.cpu_count() or 1)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let kernels and numpy's BLAS use so many threads; inside a cell it is one, since cells run side by side."""
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
    # Our threads take a block each; BLAS would split one block, which is too small for that.
    return _controller().limit(limits=1) if _threads.get() > 1 else nullcontext()


def over_sorted_columns(
    updates: Matrix, reduce: Callable[[Matrix], npt.NDArray[Any]], ranks: slice | None = None
) -> Vector:
    """Sort every column and reduce it to one value, block by block.

    `reduce` is handed a block with the participants' values of each coordinate in ascending order along axis 0; where
    `ranks` are named, it is handed those alone, in any order, which takes less time. It must not change the block.
    """
    n, d = updates.shape
    result = np.empty(d, updates.dtype)
    first, last, _ = (ranks or slice(None)).indices(n)
    every_rank = ranks is not None and (first, last) == (0, n)
    network = networks.network(n, first, last) if ranks is not None and n <= NETWORK and not every_rank else None

    # The steps of a network are too short for threads to take turns at the interpreter.
    width, rows, count = (STRETCH, network.rows, 1) if network else (max(1, BLOCK // n), n, None)

    def work(start: int, space: npt.NDArray[Any]) -> None:
        block = updates[:, start : start + width]
        if network:
            ranked = networks.run(network, block, space[:, : block.shape[1]])[: last - first]
        elif every_rank:
            ranked = block
        else:
            ranked = space.reshape(-1, n)[: block.shape[1]].T
            ranked[:] = block
            ranked.sort(axis=0)
            ranked = ranked[first:last]
        result[start : start + width] = reduce(ranked)

    for _ in _spread(work, range(0, d, width), lambda: np.empty((rows, min(width, d)), updates.dtype), count):
        pass
    return result


def finite_rows(updates: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which rows hold neither NaN nor infinity."""
    # A row's sum is finite where all of it is, unless it overflows: only those rows are looked at value by value.
    with np.errstate(over="ignore", invalid="ignore"):
        finite: npt.NDArray[np.bool_] = np.isfinite(updates.sum(1))
    for row in np.flatnonzero(~finite):
        finite[row] = np.isfinite(updates[row]).all()
    return finite


def compact(rows: Matrix, kept: npt.NDArray[np.bool_]) -> Matrix:
    """Move the rows that are kept up, in place, and return them: a second matrix may not fit.

    The others are erased, since whoever holds a window on an array can reach the whole of it.
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
    rounded, width = coefficients.astype(rows.dtype), max(1, BLOCK // max(m, n))
    result = rows[:m] if m <= n else np.empty((m, rows.shape[1]), rows.dtype)

    def work(start: int, space: npt.NDArray[Any]) -> None:
        block = rows[:, start : start + width]
        made = space[: m * block.shape[1]].reshape(m, block.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            # Unlike `dot`, `matmul` takes columns of a matrix as they are, without a copy.
            np.matmul(rounded, block, out=made)
            # Rounded coefficients of a mean may add up to more than 1, as in `weighted_mean`.
            if not np.isfinite(made.sum()):
                made[:] = coefficients @ block.astype(np.float64)
        result[:, start : start + width] = made

    with _one_blas_thread():
        for _ in _spread(work, range(0, rows.shape[1], width), lambda: np.empty(m * width, rows.dtype)):
            pass
    return result


def _scale(rows: Matrix, factors: npt.NDArray[np.float64]) -> Matrix:
    """Multiply each row by its factor, in place."""
    for row, factor in zip(rows, factors, strict=True):
        if factor != 1:
            # A factor near zero, for a huge row, has few digits in single precision.
            small = 0 < abs(factor) < np.finfo(rows.dtype).tiny
            np.multiply(row, factor if small else rows.dtype.type(factor), out=row, casting="same_kind")
    return rows


def weighted_mean(updates: Matrix, weights: npt.ArrayLike) -> Vector:
    """The mean of the rows by weight."""
    shares = np.asarray(weights, np.float64)
    shares = shares / shares.sum()
    with np.errstate(over="ignore", invalid="ignore"):
        mean: Vector = shares.astype(updates.dtype) @ updates
        if finite_rows(mean[None])[0]:
            return mean
        # Rounded shares may add up to more than 1, which the largest numbers of single precision cannot bear.
        overflown, width = np.flatnonzero(~np.isfinite(mean)), max(1, BLOCK // len(updates))
        for start in range(0, len(overflown), width):
            columns = overflown[start : start + width]
            mean[columns] = shares @ updates[:, columns].astype(np.float64)
    return mean


def row_norms(updates: Matrix) -> npt.NDArray[np.float64]:
    """The Euclidean length of every row."""
    with np.errstate(over="ignore"):
        squares = np.array([np.dot(row, row) for row in updates], np.float64)
    for row in np.flatnonzero(~np.isfinite(squares)):
        squares[row] = gram(updates[[row]])[0, 0]
    lengths: npt.NDArray[np.float64] = np.sqrt(squares)
    return lengths


def gram(updates: npt.NDArray[np.float32 | np.float64]) -> npt.NDArray[np.float64]:
    """All inner products of rows, summed in double precision so that close rows and huge ones keep their distances."""
    n, d = updates.shape
    width = max(1, BLOCK // 4 // n)

    # BLAS has a routine for a matrix times its own transpose, which numpy takes where it sees one. On few rows it is
    # slower than the common one; an empty row more on one side hides that from numpy.
    more = n < FEW

    def work(start: int, space: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        doubled = space[:, : min(width, d - start)]
        doubled[:n] = updates[:, start : start + width]
        # `dot` lets other threads run meanwhile, `@` does not.
        products: npt.NDArray[np.float64] = np.dot(doubled[:n], doubled.T)
        return products[:, :n]

    with _one_blas_thread():
        partial = _spread(work, range(0, d, width), lambda: np.zeros((n + more, min(width, d))))
        return sum(partial, np.zeros((n, n)))


def squared_distances(updates: Matrix) -> npt.NDArray[np.float64]:
    """Squared Euclidean distances between all rows."""
    return distances_of(gram(updates))


def distances_of(products: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Squared Euclidean distances between rows whose inner products are known."""
    norms = products.diagonal()
    distances = np.maximum(norms[:, None] + norms[None, :] - 2 * products, 0)
    np.fill_diagonal(distances, 0)
    return distances


def _spread(
    work: Callable[[int, npt.NDArray[Any]], R],
    blocks: range,
    new_space: Callable[[], npt.NDArray[Any]],
    count: int | None = None,
) -> Iterator[R]:
    """What comes of every block, in their order, whatever the threads; each thread works in a space of its own."""
    own = threading.local()

    def task(first: int) -> list[R]:
        if not hasattr(own, "space"):
            # Once: fresh memory for every block would cost more than the work on it.
            own.space = new_space()
        return [work(start, own.space) for start in blocks[first : first + TOGETHER]]

    tasks = range(0, len(blocks), TOGETHER)
    count = min(count or _threads.get(), len(tasks))
    if count <= 1:
        for first in tasks:
            yield from task(first)
        return
    with ThreadPoolExecutor(count) as pool:
        # Numpy lets go of the interpreter while it copies, sorts and multiplies.
        for done in pool.map(task, tasks):
            yield from done
