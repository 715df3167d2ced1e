"""The committed ratios: their tables and picture, and whether today's come near them.

Ratios differ between processors, so each has a table of its own, and is compared with itself.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.timing import Ratio
from fflbench.records.manifest import processor

FOLDER = Path(__file__).parent
RESULTS, PAGE, PICTURE = FOLDER / "results.json", FOLDER / "README.md", FOLDER / "ratios.svg"

SHARE = 0.75
"""Of a committed ratio that must be reached: machines are noisy, and slips are larger."""

HEADER = """# How fast we are

Ratios, theirs over ours, measured in one run with the sides taking turns; the best of five turns of each
counts. Made by `python -m benchmarks --peers --write` after `pip install -e ".[peers]"`; `python -m benchmarks --check`
compares ratios measured anew with those of the same processor, never seconds, and fails below 75% of them.

Beside whole rounds, "ours" is the time of two cells divided by the rounds they play together: that is how a suite runs.
One federation by itself takes one core, so one MNIST round takes it longer than pfl-research with two workers. Torch
and ByzFL take the lower of two middle values as the median of an even number, we their mean. Load is that of the
machine when a measurement began, the processes of the one before it included. Memory is the most that a run and all
its processes take at a time, what they share counted once.

![How many times faster than others fflbench is](ratios.svg)
"""


def show(found: Sequence[Ratio]) -> None:
    """Print a table."""
    table = Table("what", "against", "theirs", "ours", "ratio", "meant to reach", "load")
    for each in found:
        table.add_row(each.what, each.against, *_figures(each), f"{each.load:.2f}")
    Console(width=200 if not sys.stdout.isatty() else None).print(table)


def write(found: Sequence[Ratio]) -> None:
    """Write ratios, tables and picture; those of rooms that did not run are kept, if versions are the same."""
    told, machine = sections(), _machine()
    before = told.get(machine["processor"], {})
    kept = before["ratios"] if before.get("machine") == machine else {}
    ratios = kept | {each.name: vars(each) | {"ratio": round(each.ratio, 3)} for each in found}
    told[machine["processor"]] = {"machine": machine, "ratios": ratios}
    RESULTS.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    PAGE.write_text("\n".join([HEADER, *(line for section in told.values() for line in _table(section))]), "utf-8")
    draw([each for each in _rows(told[machine["processor"]]) if each.unit == "s"], machine["processor"])


def _table(section: dict[str, Any]) -> Iterator[str]:
    machine = dict(section["machine"])
    yield f"## {machine.pop('processor')}"
    yield f"{', '.join(f'{name} {value}' for name, value in machine.items())}\n"
    yield "| what | against | theirs | ours | ratio | meant to reach | load |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for each in _rows(section):
        yield f"| {each.what} | {each.against} | {' | '.join(_figures(each))} | {each.load:.1f} |"
    yield ""


def _rows(section: dict[str, Any]) -> list[Ratio]:
    told = section["ratios"].values()
    return [Ratio(**{key: value for key, value in each.items() if key != "ratio"}) for each in told]


def check(found: Sequence[Ratio]) -> int:
    """Compare with the committed ratios; 1 if one fell behind."""
    before = read()
    behind = [each for each in found if each.name in before and each.ratio < SHARE * before[each.name]["ratio"]]
    for each in behind:
        was = before[each.name]["ratio"]
        print(f"behind: {each.what} against {each.against}: {each.ratio:.2f}x, committed {was:.2f}x", file=sys.stderr)
    measured = {each.name for each in found}
    for name in before:
        if name not in measured:
            print(f"not measured: {name}", file=sys.stderr)
    known = len(measured & set(before))
    print(f"{known - len(behind)} of {known} ratios reach {SHARE:.0%} of the committed ones", file=sys.stderr)
    return 1 if behind or not known else 0


def read() -> dict[str, Any]:
    """Return the committed ratios of this processor, by name."""
    section = sections().get(processor())
    if section is None:
        told = f"{RESULTS.name} has nothing of this processor, {processor()}"
        sys.exit(f"{told}: python -m benchmarks --peers --write puts it there")
    ratios: dict[str, Any] = section["ratios"]
    return ratios


def sections() -> dict[str, Any]:
    """Return all committed ratios, by processor."""
    told: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    return told


def draw(rows: Sequence[Ratio], title: str) -> None:
    """Bars from 1 on a logarithmic axis, with what was meant to be reached as ticks."""
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
    axis.set_xlabel("times faster (orange: meant to reach)")
    axis.spines[["top", "right"]].set_visible(False)
    with rc_context({"svg.hashsalt": "fflbench"}):
        figure.savefig(PICTURE, metadata={"Date": None})


def _figures(each: Ratio) -> tuple[str, ...]:
    missed = each.at_least is not None and each.ratio < each.at_least
    wanted = "" if each.at_least is None else f"{each.at_least:g}{', missed' * missed}"
    return f"{each.theirs:.4f} {each.unit}", f"{each.ours:.4f} {each.unit}", f"{each.ratio:.2f}", wanted


def _machine() -> dict[str, str]:
    known = {"processor": processor(), "cores": str(os.cpu_count())}
    for package in ("numpy", "torch", "byzfl", "pfl"):
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return known
