"""Sorting networks over whole rows: fixed lists of minima and maxima that select ranks of every column.

For few participants this is several times faster than sorting each column: a comparison of two rows runs at the speed
of the cache, for any values. Comparators come from merge exchange (Batcher, 1968; Knuth, The art of computer
programming, volume 3, algorithm 5.2.2M); those that no wanted value depends on are left out.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fflbench.types import Matrix


class Step(NamedTuple):
    """Minimum or maximum of two rows, by their numbers: those of the matrix first, then those of the work space."""

    take: np.ufunc
    one: int
    other: int
    into: int


class SortingNetwork(NamedTuple):
    """List of steps and the rows of work space that it needs; the selected ranks end up in the first of them."""

    steps: tuple[Step, ...]
    rows: int


@functools.cache
def selection_network(n: int, first: int, last: int) -> SortingNetwork:
    """Return the network that selects ranks `first` to `last` - 1 among n, in any order; not for all ranks."""
    comparators = needed_comparators(n, first, last)
    # Each wanted wire's final value is put where it is wanted; everything before goes wherever there is room.
    final = {wire: place for place, (_, outputs) in enumerate(comparators) for wire, _ in outputs}
    wires, rows, free, steps = list(range(n)), n + last - first, list[int](), []
    for place, (pair, outputs) in enumerate(comparators):
        one, other = (wires[wire] for wire in pair)
        for wire, take in outputs:
            if first <= wire < last and final[wire] == place:
                wires[wire] = n + wire - first
            else:
                if not free:
                    free, rows = [rows], rows + 1
                wires[wire] = free.pop()
            steps.append(Step(take, one, other, wires[wire]))
        free += [row for row in (one, other) if row >= n + last - first]
    return SortingNetwork(tuple(steps), rows - n)


def run_network(network: SortingNetwork, updates: Matrix, space: Matrix) -> Matrix:
    """Run the steps in a work space of as many rows as the network needs; `updates` is not changed."""
    rows = [*updates, *space]
    for take, one, other, into in network.steps:
        take(rows[one], rows[other], out=rows[into])
    return space


def needed_comparators(
    n: int, first: int, last: int, *, ordered: bool = False
) -> list[tuple[tuple[int, int], list[tuple[int, np.ufunc]]]]:
    """Return the comparators that the selected ranks depend on, and which of their outputs matter.

    Unless they must be `ordered`, those that only sort selected ranks are left out.
    """
    # Going backwards: whose value is wanted, and which of those only as a member of the set that comes out.
    wanted = set(range(first, last))
    loose = set() if ordered else set(wanted)
    kept = []
    for a, b in reversed(list(_merge_exchange(n))):
        if {a, b} <= loose or not wanted & {a, b}:
            continue
        outputs: list[tuple[int, np.ufunc]] = [(a, np.minimum), (b, np.maximum)]
        kept.append(((a, b), [output for output in outputs if output[0] in wanted]))
        wanted |= {a, b}
        loose -= {a, b}
    return kept[::-1]


def _merge_exchange(n: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of wires to compare, in order; the minimum goes to the first."""
    top = 1 << ((n - 1).bit_length() - 1) if n > 1 else 0
    p = top
    while p:
        q, r, d = top, 0, p
        while True:
            yield from ((wire, wire + d) for wire in range(n - d) if wire & p == r)
            if q == p:
                break
            q, r, d = q >> 1, p, q - p
        p >>= 1
