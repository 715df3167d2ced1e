"""Timing that bears a noisy machine: the sides take turns, and the best of several runs counts."""

import os
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from fflbench.progress import track


def take_turns(what: str, sides: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """The least seconds that each side took."""
    best = dict.fromkeys(sides, float("inf"))
    turns = [name for _ in range(repeats + 1) for name in sides]
    for place, name in enumerate(track(turns, what)):
        start = time.perf_counter()
        sides[name]()
        # The first turn of each side warms caches up.
        if place >= len(sides):
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def show(title: str, baseline: str, rows: dict[str, dict[str, float]]) -> None:
    """Seconds of every side, and how many times faster than the baseline it is."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    table = Table(title=f"{title} (seconds; times faster than: {baseline}; load {os.getloadavg()[0]:.1f})")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for label, row in rows.items():
        cells = (f"{row[name]:.4f} ({row[baseline] / row[name]:.1f}x)" if name in row else "" for name in names)
        table.add_row(label, *cells)
    Console(width=200).print(table)
