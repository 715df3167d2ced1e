"""Runtime of a round at the server and at a participant, and its growth.

Jebreel et al., Enhanced security and privacy via fragmented federated learning, IEEE TNNLS 2022, table "CPU runtime".
"""

import copy
import itertools
import math
import os
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge

from fflbench.measures.growth import BREA, CostGrowth, Points, computed_growth, growth_table, log_log_slope
from fflbench.plugin import (
    LOWER,
    PROCESS_BYTES,
    Arrays,
    Chain,
    Context,
    Matrix,
    Measure,
    Metric,
    NotNegative,
    Outcome,
    PositiveCount,
    Record,
    RecordFields,
    ReportFigure,
    Table,
    Task,
    Timing,
    figure_with_panels,
    kernel_threads,
    line_style,
    mean_and_spread,
    measure,
    one_round,
    record_groups,
    slug,
    tables_beside_papers,
)

SHORTER = (1_000_000, 3_162_278)
"""Lengths of shorter updates that large models are also timed with, to fit the growth."""

PARTS = {"decryption": "server: decryption", "aggregation": "server: aggregation", "participant": "participant"}

TEMPORARIES = 24
"""Number of vectors of a model's length that two participants and the server may hold besides the updates."""


def _cost_metric(name: str, title: str, meaning: str, unit: str = "s", digits: int = 5, **declared: Any) -> Metric:
    return Metric(name, title, meaning, LOWER, unit=unit, digits=digits, low=0.0, seeded=False, **declared)


class _Facts(RecordFields):
    columns: PositiveCount
    updates_bytes: PositiveCount
    timed_runs: PositiveCount


class _TimedRun(RecordFields):
    columns: PositiveCount
    decryption: NotNegative
    aggregation: NotNegative


@measure("runtime", title="Runtime")
class Runtime(Measure):
    """Time a round's work: the server's decryption, its aggregation, and one participant's part in the transport."""

    alone = True
    needs_data = False
    mode = "full"
    section = "Cost"
    joined = ("seconds", "participant_seconds", "peak_bytes")
    facts = _Facts
    item = _TimedRun
    metrics = (
        _cost_metric("seconds", "server", "Seconds of a round: decryption and aggregation.", headline=True),
        _cost_metric(
            "participant_seconds", "participant", "Seconds that a participant takes to send its update.", headline=True
        ),
        _cost_metric(
            "peak_bytes", "peak memory", "Of the server, updates included.", "MB", 1, factor=1e-6, headline=True
        ),
        _cost_metric("decryption_seconds", "decryption", "Seconds of the server's decryption in a round."),
        _cost_metric("aggregation_seconds", "aggregation", "Seconds of the rule and what goes before it in a round."),
        *(_cost_metric(f"{part}_spread", f"{part}, standard deviation", "Over repeated runs.") for part in PARTS),
    )

    updates: Annotated[int, Ge(2), "updates that reach the server in a round"] = 10
    repeats: Annotated[int, Ge(1), "timed runs, after one to warm up"] = 5
    patience: Annotated[float, Ge(0), "seconds after which no more runs begin, once two are timed"] = 20.0
    threads: Annotated[int, Ge(1), "threads the server may use"] = 1

    @classmethod
    def table_notes(cls, records: Sequence[Record]) -> Iterable[str]:
        counts = sorted({record.facts["timed_runs"] for record in records})
        several = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        yield f"Mean over {several} timed runs, after one to warm up."

    @classmethod
    def extra_tables(cls, records: Sequence[Record]) -> Iterable[Table]:
        return _paper_and_growth_tables(records)

    @classmethod
    def extra_figures(cls, records: Sequence[Record], arrays: Callable[[Record], Arrays]) -> Iterable[ReportFigure]:
        return _growth_figures(records)

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        one_round.require_measurable_cost(defense, self.updates)

    def step_count(self, task: Task) -> int:
        return 1 + self.repeats

    def memory_bytes(self, task: Task) -> int:
        return PROCESS_BYTES + 4 * task.columns().count * (self.updates * 11 // 10 + TEMPORARIES)

    def estimate_seconds(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        values = self.updates * task.columns().count
        # A transport with a mode runs cryptography.
        once = values * (3e-8 if hasattr(defense.transport, "mode") else 3e-9)
        # The two shorter lengths add about a third.
        return 1 + values * 8e-9 + 1.3 * once * (1 + min(self.repeats, 2 + self.patience / once))

    def run(self, context: Context) -> Outcome:
        defense, seed, columns = context.defense, context.seed, context.task.columns()
        load = os.getloadavg()[0]
        with kernel_threads(self.threads):
            tracemalloc.start()
            try:
                updates = np.random.default_rng(seed).standard_normal((self.updates, columns.count), dtype=np.float32)
                timed_rounds = time_rounds(one_round.begin_chain(defense, self.updates, columns, seed), updates)
                next(timed_rounds)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            context.report_step(1)
            full_length = list(self._repeat_timed_round(timed_rounds, columns.count, context.report_step))
            history = list(full_length)
            for count in (count for count in SHORTER if count < columns.count / 2):
                shorter = one_round.begin_chain(defense, self.updates, columns.truncated(count), seed)
                timed_rounds = time_rounds(
                    shorter, updates.reshape(-1)[: self.updates * count].reshape(self.updates, count)
                )
                next(timed_rounds)
                history += self._repeat_timed_round(timed_rounds, count, lambda _: None)
        metrics = {"seconds": fmean(run["decryption"] + run["aggregation"] for run in full_length), "peak_bytes": peak}
        for part in PARTS:
            mean, spread = mean_and_spread([run[part] for run in full_length])
            metrics |= {f"{part}_seconds": mean, f"{part}_spread": spread}
        return Outcome(
            metrics=metrics,
            history=history,
            facts={
                "columns": columns.count,
                "updates_bytes": updates.nbytes,
                "timed_runs": len(full_length),
                "load_at_start": load,
            },
        )

    def _repeat_timed_round(
        self, timed_rounds: Iterator[dict[str, float]], columns: int, report: Callable[[int], None]
    ) -> Iterator[dict[str, Any]]:
        """Yield timed runs of updates with this many columns; fewer than `repeats` where they take long."""
        start = time.monotonic()
        for repeat in range(self.repeats):
            if repeat >= 2 and time.monotonic() - start > self.patience:
                return
            yield {"columns": columns, **next(timed_rounds)}
            report(2 + repeat)


def time_rounds(chain: Chain, updates: Matrix) -> Iterator[dict[str, float]]:
    """Run rounds from the same memory, and yield the seconds of each by part; those of an average participant."""
    memory = copy.deepcopy(chain.memory)
    for round in itertools.count():
        chain.memory = copy.deepcopy(memory)
        # Overwritten, as in a federation: one round's result is as good an input for the next, unless it was clipped.
        if chain.server.preaggregations:
            np.random.default_rng(round).standard_normal(out=updates, dtype=np.float32)
        transcript = one_round.transmit(chain, round, updates)
        if tracemalloc.is_tracing():
            tracemalloc.reset_peak()
        start = time.perf_counter()
        one_round.aggregate(chain, transcript)
        yield {
            "decryption": transcript.seconds.get("server", 0.0),
            "aggregation": time.perf_counter() - start,
            "participant": transcript.seconds.get("participants", 0.0) / len(updates),
        }


# Tables and figures


MIN_COLUMNS = 1_000_000
"""Number of columns from which on growth is fitted: below, fixed costs hide it."""
SECTION = "Cost"


def _paper_and_growth_tables(records: Sequence[Record]) -> Iterable[Table]:
    """Return tables of our seconds beside published ones, where there are any, and of their growth."""
    yield from tables_beside_papers(records)
    for growth in collect_runtime_growth(records):
        widest, most = growth.fixed
        brea = computed_growth(growth.costs.values(), growth.fixed, _brea_server_order, lambda n, d: n * d + n**2)
        yield growth_table(
            {**growth.costs, BREA: brea},
            "runtime",
            name=slug(f"runtime-growth-{growth.heading}"),
            title=f"{growth.heading}: how the time of a round grows",
            section=SECTION,
            notes=(
                f"Fitted on logarithms of seconds, of the server's decryption plus aggregation: in n at {widest:,} "
                f"columns, in D from 1M columns on at n = {most}, the last layer as it is. BREA by the orders that the "
                "paper states, at the same sizes; nothing of it was run.",
            ),
        )


# Growth


@dataclass(frozen=True)
class RuntimeGrowth:
    """Seconds on a large model, by the number of updates and by their length."""

    heading: str
    costs: dict[str, CostGrowth]
    """Growth of each defense."""
    fixed: tuple[int, int]
    """Number of columns at which n varies, and n at which columns vary."""


def collect_runtime_growth(records: Sequence[Record]) -> list[RuntimeGrowth]:
    """Return the growth on every large model with enough points, first on that with most defenses."""
    done, found = [record for record in records if record.status == "done"], []
    for task in record_groups.ordered_labels(done, "task", lambda record: record.labels["task"]):
        of_task = [record for record in done if record.labels["task"] == task]
        for setting, own in record_groups.records_by_setting(of_task, excluded_parameter="updates").items():
            growth = _growth_on_task(f"{task} ({setting})" if setting else task, own)
            found += [growth] if growth.costs else []
    return sorted(found, key=lambda growth: (-len(growth.costs), -growth.fixed[0]))


def _growth_on_task(heading: str, records: Sequence[Record]) -> RuntimeGrowth:
    runs: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    behind: dict[str, list[Record]] = {}
    for record in records:
        behind.setdefault(record.labels["defense"], []).append(record)
        updates = record_groups.measure_parameters(record)["updates"]
        runs.setdefault(record.labels["defense"], []).extend(
            (updates, item) for item in record.history if item["columns"] >= MIN_COLUMNS
        )
    sizes = [(n, item["columns"]) for of in runs.values() for n, item in of]
    most, widest = (max((size[place] for size in sizes), default=0) for place in (0, 1))

    def points(name: str, part: Callable[[Mapping[str, Any]], float]) -> tuple[Points, Points]:
        """Return seconds by n at the most columns, and by columns at the largest n of any defense."""
        seconds: dict[tuple[int, int], list[float]] = {}
        for n, item in runs[name]:
            seconds.setdefault((n, item["columns"]), []).append(part(item))
        means = {size: fmean(values) for size, values in sorted(seconds.items())}
        return {n: mean for (n, d), mean in means.items() if d == widest}, {
            d: mean for (n, d), mean in means.items() if n == most
        }

    costs = {
        name: CostGrowth(
            points(name, lambda item: float(item["decryption"] + item["aggregation"])),
            points(name, lambda item: float(item.get("participant", 0.0))),
            own[0].defense,
            own,
        )
        for name, own in behind.items()
    }
    fitted = {
        name: of for name, of in costs.items() if any(exponent is not None for exponent in of.exponents["server"])
    }
    return RuntimeGrowth(heading, fitted, (widest, most))


def _brea_server_order(n: int, d: int) -> float:
    """Return the order that the FFL paper states for BREA's server; 0, as unknown, where its logarithms are small."""
    return 0.0 if n < 10 else float((n**2 + n * d) * math.log(n * math.log(math.log(n))) ** 2)


def _growth_figures(records: Sequence[Record]) -> Iterable[ReportFigure]:
    """Yield the figure of the server's seconds by number of updates and by length, on logarithmic axes."""
    growth = next(iter(collect_runtime_growth(records)), None)
    if growth is None:
        return
    measured = {name: of.server for name, of in growth.costs.items()}
    figure, axes = figure_with_panels(2, 6, 4.5, sharey=True)
    numbers: list[list[object]] = [["defense", "axis", "size", "seconds"]]
    for place, (name, lines) in enumerate(measured.items()):
        for axis, line, letter in zip(axes, lines, "nD", strict=True):
            label = name if (exponent := log_log_slope(line)) is None else f"{name}: {letter}^{exponent:.2f}"
            axis.loglog(list(line), list(line.values()), label=label, **line_style(place))
            numbers += [[name, letter, size, seconds] for size, seconds in line.items()]
    ns = sorted({n for in_n, _ in measured.values() for n in in_n})
    axes[0].set_xticks(ns, [f"{n}" for n in ns], minor=False)
    axes[0].minorticks_off()
    axes[1].xaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
    axes[0].set_xlabel("updates n, at the most columns")
    axes[1].set_xlabel("columns D, at the most updates")
    axes[0].set_ylabel("server: decryption + aggregation, seconds")
    for axis in axes:
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.grid(alpha=0.3, which="major")
        axis.legend(frameon=False, fontsize="small", loc="upper left")
    yield ReportFigure(slug("scaling"), SECTION, "How the server's time grows", figure, numbers)
