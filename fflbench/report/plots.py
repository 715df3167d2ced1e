"""Pictures of records. Readable in grey and by the colour-blind: lines differ by style as well as by colour."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fflbench.errors import RecordError
from fflbench.records.names import slug
from fflbench.records.record import Record
from fflbench.records.store import read
from fflbench.report import costs, leaks
from fflbench.report.statistics import estimate
from fflbench.report.texts import csv_text, distinct

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HONEST, ATTACKERS = {"color": "#0072B2", "linestyle": "-"}, {"color": "#D55E00", "linestyle": "--"}


def trusts(record: Record) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Average trust by round of the honest participants and of the attackers that submitted in it."""
    attackers = set(record.facts["attackers"])
    honest: list[tuple[int, float]] = []
    hostile: list[tuple[int, float]] = []
    for told in record.history:
        by_name = {int(name): value for name, value in told.get("trust", {}).items()}
        for points, values in (
            (honest, [value for name, value in by_name.items() if name not in attackers]),
            (hostile, [value for name, value in by_name.items() if name in attackers]),
        ):
            if values:
                points.append((told["round"], fmean(values)))
    return honest, hostile


def rounds(file: Path, picture: Path) -> None:
    """Draw a record's rounds: accuracy, and below it trust where the defense has any (the paper's trust figure)."""
    record = read(file)
    if record.status != "done":
        raise RecordError(f"{file} is the record of a cell that failed: there is nothing to draw")
    if "measure" in record.configuration:
        raise RecordError(f"{file} is no federation and has no rounds to draw; its suite's folder holds the pictures")
    from matplotlib.figure import Figure

    honest, hostile = trusts(record)
    panels = 2 if honest or hostile else 1
    figure = Figure(figsize=(7, 3 * panels), layout="constrained")
    axes = figure.subplots(panels, 1, squeeze=False, sharex=True)[:, 0]
    points = [(told["round"], told["accuracy"]) for told in record.history if told["accuracy"] is not None]
    axes[0].plot(*zip(*points, strict=True), **HONEST)
    axes[0].set_ylabel("accuracy")
    axes[0].set_title(str(record), fontsize="medium")
    if panels == 2:
        for points, style, label in ((honest, HONEST, "honest"), (hostile, ATTACKERS, "attackers")):
            if points:
                marker = "o" if len(points) < 40 else ""
                axes[1].plot(*zip(*points, strict=True), label=label, marker=marker, markersize=3, **style)
        axes[1].set_ylabel("average trust")
        axes[1].set_ylim(-0.03, 1.03)
        axes[1].legend(frameon=False)
    axes[-1].set_xlabel("round")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(picture, dpi=150)
    except (OSError, ValueError) as error:
        raise RecordError(f"the picture cannot be written to {picture}: {error}") from error


MARKS = "osD^vPX*<>hp"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's, which the colour-blind can tell apart; marks and dashes tell lines apart in grey."""


def scaling(records: Sequence[Record]) -> dict[str, bytes]:
    """The server's seconds by number of updates and by their length, on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.5), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    growth = costs.exponents(records)
    measured = costs.points(records)
    for place, name in enumerate(measured):
        if name not in growth:
            continue
        look = style(place)
        for axis, line, exponent, letter in zip(axes, costs.lines(measured, name), growth[name], "nD", strict=True):
            label = name if exponent is None else f"{name}: {letter}^{exponent:.2f}"
            axis.loglog(list(line), list(line.values()), label=label, **look)
    ns = sorted({n for of in measured.values() for n, _ in of})
    axes[0].set_xticks(ns, [f"{n}" for n in ns], minor=False)
    axes[0].minorticks_off()
    axes[0].set_xlabel("updates n, at the most columns")
    axes[1].set_xlabel("columns D, at the most updates")
    axes[0].set_ylabel("server: decryption + aggregation, seconds")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3, which="major")
        axis.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return both(figure, "scaling")


def decay(records: Sequence[Record]) -> dict[str, bytes]:
    """How well pairs are found and masks undone, by batch size and number of people: a picture a task."""
    made: dict[str, bytes] = {}
    unmixed = [record for of_setting in leaks.settings(records).values() for record in of_setting]
    unmixed = [record for record in unmixed if _parameter(record, "target") == "unmixed"]
    # Everything else must be the same, or a point would mix different things.
    for key in dict.fromkeys(map(_but_people, unmixed)):
        of_key = [record for record in unmixed if _but_people(record) == key]
        if len({_parameter(record, "batch") for record in of_key}) > 2:
            task = of_key[0].labels["task"]
            figure = _decay(task, of_key)
            name = slug(f"decay-{task}-{of_key[0].labels['defense']}")
            rows: list[list[Any]] = [["people", "batch", "seed", "pair_accuracy", "mask_accuracy"]]
            for record in sorted(
                of_key, key=lambda record: [_parameter(record, "people"), _parameter(record, "batch")]
            ):
                found = [record.metrics.get(metric) for metric in ("pair_accuracy", "mask_accuracy")]
                start = [_parameter(record, "people"), _parameter(record, "batch"), record.configuration["seed"]]
                rows.append([*start, *found])
            add_files(made, both(figure, name) | {f"{name}.csv": csv_text(rows).encode()})
    return made


def _decay(task: str, records: Sequence[Record]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    batches = sorted({_parameter(record, "batch") for record in records})
    for place, people in enumerate(sorted({_parameter(record, "people") for record in records})):
        of_people = [record for record in records if _parameter(record, "people") == people]
        for axis, metric in zip(axes, ("pair_accuracy", "mask_accuracy"), strict=True):
            found = {
                batch: estimate(values)
                for batch in batches
                if (values := leaks.values([r for r in of_people if _parameter(r, "batch") == batch], metric))
            }
            axis.errorbar(
                list(found),
                [100 * figure.mean for figure in found.values()],
                [100 * (figure.half_width or 0) for figure in found.values()],
                label=f"{people} people",
                capsize=2,
                **style(place),
            )
    axes[0].set_ylabel("right, %")
    axes[0].set_title("pairs found", fontsize="medium")
    told = "owners of entries told, of right pairs\n(half is chance; no point: not attempted)"
    axes[1].set_title(told, fontsize="medium")
    axes[0].set_ylim(-3, 103)
    axes[0].set_xscale("log", base=2)
    axes[0].set_xticks(batches, [str(batch) for batch in batches], minor=False)
    axes[0].minorticks_off()
    for axis in axes:
        axis.set_xlabel("examples a participant holds")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    figure.suptitle(f"{task}: what a server finds out of an exchange by rank", fontsize="medium")
    return figure


def _parameter(record: Record, name: str) -> Any:
    return leaks.told(record)[name]


def _but_people(record: Record) -> str:
    """All that decides a record but batch, people and seed."""
    others = {name: value for name, value in leaks.told(record).items() if name not in ("batch", "people")}
    return str([*(record.labels.get(kind) for kind in ("task", "privacy-attack", "defense")), others])


def style(place: int) -> dict[str, Any]:
    """What tells a line from others, in colour and in grey."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKS[place % len(MARKS)],
        "linestyle": ("-", "--", "-.", ":")[(place + place // len(COLOURS)) % 4],
        "markersize": 5,
    }


@contextmanager
def plain_text() -> Iterator[None]:
    """Names as they are: a dollar in one is no formula, and letters that the font lacks are worth no warning."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font|constrained_layout not applied")
        yield


def add_files(made: dict[str, bytes], files: Mapping[str, bytes]) -> None:
    """Add the files of one figure, which share a name, under another one where theirs is taken."""
    stems = {name.rpartition(".")[0] for name in made}
    renamed = distinct(next(iter(files), "").rpartition(".")[0], stems)
    made |= {f"{renamed}.{name.rpartition('.')[2]}": content for name, content in files.items()}


def both(figure: "Figure", name: str) -> dict[str, bytes]:
    """A figure as PNG and as SVG, laid out once."""
    found = {f"{name}.png": saved(figure, "png")}
    figure.set_layout_engine("none")
    return found | {f"{name}.svg": saved(figure, "svg")}


def saved(figure: "Figure", kind: str) -> bytes:
    """A figure as the content of its file; the same numbers give the same bytes."""
    from matplotlib import rc_context

    stream = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with rc_context({"svg.hashsalt": "fflbench"}):
        figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
    return stream.getvalue()
