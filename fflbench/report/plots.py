"""Pictures of records. Readable in grey and by the colour-blind: lines differ by style as well as by colour."""

from pathlib import Path
from statistics import fmean

from fflbench.errors import RecordError
from fflbench.records.record import Record
from fflbench.records.store import read

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
