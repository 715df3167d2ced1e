"""Timing on a noisy machine: both sides run alternately, the best of several runs counts, and ratios are kept."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from fflbench.progress import track_progress

RUNS = 5
"""Number of runs of each side, of which the best counts."""

Side = Callable[[], float | object]
"""Work to time; a returned float is its time as it measured it itself."""


@dataclass(frozen=True)
class Ratio:
    """Ratio of another library's time (or memory) to ours, measured in one run."""

    what: str
    against: str
    theirs: float
    ours: float
    at_least: float | None = None
    """Target of the ratio."""
    load: float = 0.0
    """Load of the machine at the start of the measurement."""
    unit: str = "s"

    @property
    def ratio(self) -> float:
        """Theirs divided by ours."""
        return self.theirs / self.ours

    @property
    def name(self) -> str:
        """Name in the file of committed ratios."""
        return f"{self.what} | {self.against}"


def compare(
    what: str, ours: Side, others: dict[str, tuple[Side, float | None]], *, warm_up: bool = True
) -> list[Ratio]:
    """Time our side and others, each given with the target of its ratio."""
    load = os.getloadavg()[0]
    sides = {"ours": ours, **{name: side for name, (side, _) in others.items()}}
    best = dict.fromkeys(sides, float("inf"))
    runs = [name for _ in range(RUNS + warm_up) for name in sides]
    for place, name in enumerate(track_progress(runs, what)):
        start = time.perf_counter()
        result = sides[name]()
        seconds = result if isinstance(result, float) else time.perf_counter() - start
        # The first run of each side warms up caches.
        if place >= len(sides) * warm_up:
            best[name] = min(best[name], seconds)
    return [Ratio(what, name, best[name], best["ours"], target, load) for name, (_, target) in others.items()]
