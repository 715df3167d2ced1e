"""Sorting networks compiled to machine code, for large matrices: one pass over the matrix, at the speed of memory.

Every comparator is a minimum and a maximum of two vector registers, each of which holds several columns of one row.
Numba keeps the code that it compiled on disk. Importing this module imports numba, which takes a while.
"""

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from fflbench.arrays.sorting_networks import needed_comparators

ROWS = 128
"""Most rows that a network is compiled for, which takes longer the more there are."""

TILE = 256
"""Columns that are sorted at a time: those of a few dozen rows fit into the first-level cache."""

LANES = 16
"""Columns in a vector register; on processors with smaller ones the compiler uses several."""

Selection = Callable[[npt.NDArray[np.float32], int, npt.NDArray[Any]], None]
"""Select ranks of as many columns as the third argument has, from the given one on, and write them there."""


@functools.cache
def compiled_selection(n: int, first: int, last: int, dtype: str, *, ordered: bool) -> Selection | None:
    """Return compiled code that selects ranks `first` to `last` - 1 of n rows, or None where it cannot be compiled.

    They are written to an array of the given type: `ordered`, one column after the other, or in any order, by rows.
    """
    if n > ROWS:
        return None
    updates = numba.types.Array(numba.float32, 2, "C")
    ranked = numba.types.Array(getattr(numba, dtype), 2, "F" if ordered else "C")
    network = (n, first, last, ordered)
    signature = (updates, numba.int64, ranked, *(numba.types.literal(value) for value in network))
    # Code cannot be kept where no folder is writable, or no space left; it is compiled for this process then.
    for cache in (True, False):
        try:
            function = numba.njit(_select_ranks, nogil=True, cache=cache)
            function.compile(signature)
        except (NumbaError, OSError, RuntimeError):
            continue
        run = function.overloads[signature].entry_point
        return lambda updates, start, ranked: run(updates, start, ranked, *network)
    return None


def _select_ranks(
    updates: npt.NDArray[np.float32],
    start: int,
    ranked: npt.NDArray[np.float32],
    n: int,
    first: int,
    last: int,
    ordered: bool,
) -> None:
    tile = np.empty(n * TILE, np.float32)
    for begin in range(0, ranked.shape[1], TILE):
        width = min(TILE, ranked.shape[1] - begin)
        # Copied row by row, as memory is read ahead; the network would read all rows at once.
        for row in range(n):
            source = updates[row, start + begin : start + begin + width]
            for column in range(width):
                tile[row * TILE + column] = source[column]
        _run_network(tile, n, first, last, ordered)
        for rank in range(first, last):
            target = ranked[rank - first, begin : begin + width]
            for column in range(width):
                target[column] = tile[rank * TILE + column]


def _emit_network(context: Any, tile: Any, n: Any, first: Any, last: Any, ordered: Any) -> Any:
    """Define what numba compiles for `_run_network`: the network as a list of instructions of LLVM."""
    rows, ranks, sort = n.literal_value, (first.literal_value, last.literal_value), ordered.literal_value

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        data = context.make_array(tile)(context, builder, arguments[0]).data
        start, stop, step = (context.get_constant(numba.intp, value) for value in (0, TILE, LANES))
        with cgutils.for_range_slice(builder, start, stop, step, inc=True) as (column, _):
            places = [
                builder.bitcast(
                    builder.gep(data, [builder.add(column, context.get_constant(numba.intp, row * TILE))]),
                    ir.VectorType(ir.FloatType(), LANES).as_pointer(),
                )
                for row in range(rows)
            ]
            wires = [builder.load(place, align=4) for place in places]
            for pair, outputs in needed_comparators(rows, *ranks, ordered=sort):
                one, other = (wires[wire] for wire in pair)
                for wire, take in outputs:
                    taken = builder.fcmp_ordered("<" if take is np.minimum else ">", one, other)
                    wires[wire] = builder.select(taken, one, other)
            for rank in range(*ranks):
                builder.store(wires[rank], places[rank], align=4)
        return context.get_dummy_value()

    return numba.void(tile, n, first, last, ordered), emit


_run_network = intrinsic(prefer_literal=True)(_emit_network)
