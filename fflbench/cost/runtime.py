"""How long a round takes at the server and at a participant, and how that grows.

Jebreel et al., Enhanced security and privacy via fragmented federated learning, IEEE TNNLS 2022, table "CPU runtime".
"""

import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge

from fflbench import kernels
from fflbench.cost.play import aggregated, begun, require_real
from fflbench.federation import Defense, Sent
from fflbench.measures import PROCESS_BYTES, Measure, Outcome, columns_of, mean_and_spread
from fflbench.registry import measure
from fflbench.tasks import Task
from fflbench.types import Matrix

SCALING = (1_000_000, 3_162_278)
"""Shorter updates that large models are also measured with, to see how the time grows with their length."""

PARTS = ("decryption", "aggregation", "mixing")

TEMPORARIES = 24
"""Vectors of a model's length that two partners and the server may hold besides the matrix of updates."""


@measure("runtime", title="Runtime")
class Runtime(Measure):
    """Time a round's work: the server's decryption, its reputation and aggregation, and one participant's mixing."""

    alone = True
    needs_data = False
    metrics = ("seconds", "peak_bytes", *(f"{part}_{what}" for part in PARTS for what in ("seconds", "spread")))

    updates: Annotated[int, Ge(2), "updates that reach the server in a round"] = 10
    repeats: Annotated[int, Ge(1), "timed runs, after one to warm up"] = 5
    patience: Annotated[float, Ge(0), "seconds after which no more runs begin, once two are timed"] = 20.0
    threads: Annotated[int, Ge(1), "threads the server may use"] = 1

    def check(self, task: Task, defense: Defense) -> None:
        require_real(defense, self.updates)

    def steps(self) -> int:
        return 1 + self.repeats

    def memory(self, task: Task) -> int:
        return PROCESS_BYTES + 4 * columns_of(task).count * (self.updates * 11 // 10 + TEMPORARIES)

    def estimate(self, task: Task, defense: Defense, attack: Any = None) -> float:
        values = self.updates * columns_of(task).count
        once = values * (3e-8 if defense.exchanges else 3e-9)
        # Two shorter lengths add about a third.
        return 1 + values * 8e-9 + 1.3 * once * (1 + min(self.repeats, 2 + self.patience / once))

    def play(
        self,
        task: Task,
        defense: Defense,
        seed: int,
        tell: Callable[[int], None],
        attack: Any = None,
        device: str = "cpu",
    ) -> Outcome:
        columns = columns_of(task)
        load = os.getloadavg()[0]
        with kernels.threads(self.threads):
            tracemalloc.start()
            try:
                updates = np.random.default_rng(seed).standard_normal((self.updates, columns.count), dtype=np.float32)
                played = rounds(begun(defense, self.updates, columns, seed), updates)
                next(played)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            tell(1)
            whole = list(self._timed(played, columns.count, tell))
            history = list(whole)
            for count in (count for count in SCALING if count < columns.count / 2):
                shorter = begun(defense, self.updates, columns.shortened(count), seed)
                played = rounds(shorter, updates.reshape(-1)[: self.updates * count].reshape(self.updates, count))
                next(played)
                history += self._timed(played, count, lambda _: None)
        metrics = {"seconds": fmean(told["decryption"] + told["aggregation"] for told in whole), "peak_bytes": peak}
        for part in PARTS:
            mean, spread = mean_and_spread([told[part] for told in whole])
            metrics |= {f"{part}_seconds": mean, f"{part}_spread": spread}
        return Outcome(
            metrics=metrics,
            history=history,
            facts={
                "columns": columns.count,
                "updates_bytes": updates.nbytes,
                "timed_runs": len(whole),
                "load_at_start": load,
            },
        )

    def _timed(
        self, played: Iterator[dict[str, float]], columns: int, tell: Callable[[int], None]
    ) -> Iterator[dict[str, Any]]:
        """Runs of so many columns; fewer than asked for where they take long."""
        start = time.monotonic()
        for repeat in range(self.repeats):
            if repeat >= 2 and time.monotonic() - start > self.patience:
                return
            yield {"columns": columns, **next(played)}
            tell(2 + repeat)


def rounds(defense: Defense, updates: Matrix) -> Iterator[dict[str, float]]:
    """Round after round from the same start, each as seconds by part; the participant's are those of an average one."""
    n, d = updates.shape
    weights = np.zeros(d, np.float32)
    memory = {name: array.copy() for name, array in defense.memory.items()}
    round = 0
    while True:
        defense.memory = {name: array.copy() for name, array in memory.items()}
        clock: dict[str, float] = {}
        defense.clock = clock
        selected = defense.select(round)
        # Changed in place, as in a federation: what comes out of mixing is as good for the next round.
        view = defense.transmit(round, weights, selected, Sent(updates, updates))
        if tracemalloc.is_tracing():
            tracemalloc.reset_peak()
        start = time.perf_counter()
        aggregated(defense, view)
        yield {
            "decryption": clock.get("decryption", 0.0),
            "aggregation": time.perf_counter() - start,
            "mixing": clock.get("mixing", 0.0) / n,
        }
        round += 1
