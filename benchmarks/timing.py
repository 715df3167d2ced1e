"""Timing that bears a noisy machine: the sides take turns, the best of several runs counts, and ratios are kept."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from fflbench.progress import track

ALTERNATIONS = 5
"""Turns of each side, of which the best counts."""

Side = Callable[[], float | object]
"""Work to be timed; one that returns a float has timed itself."""


@dataclass(frozen=True)
class Ratio:
    """How many times less of something, mostly time, we take than somebody else, measured in one run."""

    what: str
    against: str
    theirs: float
    ours: float
    at_least: float | None = None
    """What we mean to reach."""
    load: float = 0.0
    """Of the machine when the measurement began."""
    unit: str = "s"

    @property
    def ratio(self) -> float:
        """Theirs in times of ours."""
        return self.theirs / self.ours

    @property
    def name(self) -> str:
        """What it is known by."""
        return f"{self.what} | {self.against}"


def race(what: str, ours: Side, others: dict[str, tuple[Side, float | None]], *, warm_up: bool = True) -> list[Ratio]:
    """Our side against others, each with the ratio to reach."""
    load = os.getloadavg()[0]
    sides = {"ours": ours, **{name: side for name, (side, _) in others.items()}}
    best = dict.fromkeys(sides, float("inf"))
    turns = [name for _ in range(ALTERNATIONS + warm_up) for name in sides]
    for place, name in enumerate(track(turns, what)):
        start = time.perf_counter()
        told = sides[name]()
        seconds = told if isinstance(told, float) else time.perf_counter() - start
        # The first turn of each side warms caches up.
        if place >= len(sides) * warm_up:
            best[name] = min(best[name], seconds)
    return [Ratio(what, name, best[name], best["ours"], wanted, load) for name, (_, wanted) in others.items()]
