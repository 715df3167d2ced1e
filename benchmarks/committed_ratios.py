"""Committed ratios: their file, tables and figure, and the comparison of new ratios with them.

Ratios differ between processors, so each processor has a table of its own and is compared with itself.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.timing import Ratio
from fflbench.records.manifest import processor_name

FOLDER = Path(__file__).parent
RESULTS, PAGE, FIGURE = FOLDER / "results.json", FOLDER / "README.md", FOLDER / "ratios.svg"

SHARE = 0.75
"""Share of a committed ratio that must be reached: noise is smaller than that, and regressions are larger."""

HEADER = """# Speed compared with ByzFL, pfl-research and plain PyTorch

Ratios of their time (or memory) to ours: above 1, fflbench is faster. Both sides are measured in one run, in turns, and
the best of five turns of each counts.
```sh
pip install -e ".[peers]" && python -m benchmarks --peers --write   # measures, and writes this page
python -m benchmarks --check                                        # fails below 75% of a committed ratio
```
`--check` compares new ratios, never seconds, with those of the same processor.

- Rounds: "ours" is the time of two cells side by side, divided by the rounds they run together, as in a suite. One
  federation alone uses one core, so that one MNIST round takes longer than in pfl-research with two workers.
- Median: of an even number of values, torch takes the lower of the two middle ones, ByzFL and fflbench their mean.
- Rules run through `fflbench.aggregate`, which also makes sure that all values are finite; ByzFL does not. Clipping,
  ARC and, for 10 updates, the median take about as long as numpy's sum over the rows on as many threads: one pass.
- A line search is compared with the calls of the rule that it makes, so that a ratio of 0.67 means 1.5 times as long.
  It also writes the attackers' rows before every call.
- Load is that of the machine at the start of a measurement, the processes of the previous one included.
- Memory is the peak of a run with all its processes; shared memory counts once.

![Speed of fflbench relative to other libraries](ratios.svg)
"""

COLUMNS = ("measurement", "compared with", "theirs", "ours", "ratio", "target", "load")


def print_table(measured: Sequence[Ratio]) -> None:
    """Print ratios as a table."""
    table = Table(*COLUMNS)
    for each in measured:
        table.add_row(each.what, each.against, *_format_cells(each), f"{each.load:.2f}")
    Console(width=200 if not sys.stdout.isatty() else None).print(table)


def write_ratios(measured: Sequence[Ratio]) -> None:
    """Write ratios, tables and figure; ratios of benchmarks that did not run are kept if versions are the same."""
    by_processor, machine = read_by_processor(), _machine_and_versions()
    before = by_processor.get(machine["processor"], {})
    kept = before["ratios"] if before.get("machine") == machine else {}
    ratios = kept | {each.name: vars(each) | {"ratio": round(each.ratio, 3)} for each in measured}
    by_processor[machine["processor"]] = {"machine": machine, "ratios": ratios}
    RESULTS.write_text(json.dumps(by_processor, indent=1) + "\n", "utf-8")
    PAGE.write_text(render_page(by_processor), "utf-8")
    draw_bars(
        [each for each in _parse_ratios(by_processor[machine["processor"]]) if each.unit == "s"], machine["processor"]
    )


def render_page(by_processor: Mapping[str, Any]) -> str:
    """Return the page of all ratios, with one table per processor."""
    return "\n".join([HEADER, *(line for section in by_processor.values() for line in _markdown_table(section))])


def _markdown_table(section: dict[str, Any]) -> Iterator[str]:
    machine = dict(section["machine"])
    yield f"## {machine.pop('processor')}"
    yield f"{', '.join(f'{name} {value}' for name, value in machine.items())}\n"
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for each in _parse_ratios(section):
        yield f"| {each.what} | {each.against} | {' | '.join(_format_cells(each))} | {each.load:.1f} |"
    yield ""


def _parse_ratios(section: dict[str, Any]) -> list[Ratio]:
    ratios = section["ratios"].values()
    return [Ratio(**{key: value for key, value in each.items() if key != "ratio"}) for each in ratios]


def compare_with_committed(measured: Sequence[Ratio]) -> int:
    """Compare with the committed ratios; return 1 if one is too low, or none could be compared."""
    before = read_of_this_processor()
    too_low = [each for each in measured if each.name in before and each.ratio < SHARE * before[each.name]["ratio"]]
    for each in too_low:
        committed = before[each.name]["ratio"]
        print(
            f"too low: {each.what} against {each.against}: {each.ratio:.2f}x, committed {committed:.2f}x",
            file=sys.stderr,
        )
    names = {each.name for each in measured}
    for name in before:
        if name not in names:
            print(f"not measured: {name}", file=sys.stderr)
    known = len(names & set(before))
    print(f"{known - len(too_low)} of {known} ratios reach {SHARE:.0%} of the committed ones", file=sys.stderr)
    return 1 if too_low or not known else 0


def read_of_this_processor() -> dict[str, Any]:
    """Return the committed ratios of this processor, by name."""
    section = read_by_processor().get(processor_name())
    if section is None:
        sys.exit(
            f"{RESULTS.name} has no ratios of this processor, {processor_name()}: "
            "write them with python -m benchmarks --peers --write"
        )
    ratios: dict[str, Any] = section["ratios"]
    return ratios


def read_by_processor() -> dict[str, Any]:
    """Return all committed ratios, by processor."""
    by_processor: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    return by_processor


def draw_bars(rows: Sequence[Ratio], title: str) -> None:
    """Draw ratios as bars from 1 on a logarithmic axis, with their targets as ticks."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.34 * len(rows) + 1), layout="constrained")
    axis = figure.subplots()
    places = range(len(rows))
    axis.barh(places, [each.ratio - 1 for each in rows], left=1, color="#0072B2", height=0.6)
    for place, each in zip(places, rows, strict=True):
        if each.at_least:
            axis.plot([each.at_least] * 2, [place - 0.42, place + 0.42], color="#D55E00", linewidth=2)
        beside = max(each.ratio, each.at_least or 0, 1)
        axis.annotate(f"{each.ratio:.2g}x", (beside, place), (4, 0), textcoords="offset points", va="center")
    axis.set_title(title, fontsize="small")
    axis.set_xscale("log")
    ticks = [0.25, 0.5, 1, 2, 5, 10, 20, 50]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.margins(y=0.01)
    axis.set_yticks(places, [f"{each.what}\nagainst {each.against}" for each in rows], fontsize="x-small")
    axis.invert_yaxis()
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xlabel("times faster (orange: target)")
    axis.spines[["top", "right"]].set_visible(False)
    with rc_context({"svg.hashsalt": "fflbench"}):
        figure.savefig(FIGURE, metadata={"Date": None})


def _format_cells(ratio: Ratio) -> tuple[str, ...]:
    missed = ratio.at_least is not None and ratio.ratio < ratio.at_least
    wanted = "" if ratio.at_least is None else f"{ratio.at_least:g}{', missed' * missed}"
    return f"{ratio.theirs:.4f} {ratio.unit}", f"{ratio.ours:.4f} {ratio.unit}", f"{ratio.ratio:.2f}", wanted


def _machine_and_versions() -> dict[str, str]:
    known = {"processor": processor_name(), "cores": str(os.cpu_count())}
    for package in ("numpy", "torch", "byzfl", "pfl"):
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return known
