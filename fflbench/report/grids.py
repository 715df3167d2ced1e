"""Pictures of what was rebuilt, beside the originals: a row for each target and defense, as in the FFL paper."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.records.arrays import Arrays
from fflbench.records.names import slug
from fflbench.records.record import Record
from fflbench.report import leaks
from fflbench.report.plots import add_files, saved

SHOWN = 8
"""Images in a row."""
VARIED = ("people", "batch", "local_steps", "model_epochs", "groups", "rate")


def reconstructions(records: Sequence[Record], arrays: Callable[[Record], Arrays]) -> dict[str, bytes]:
    """A grid for each setting of the victims and each attack; of its first seed."""
    made: dict[str, bytes] = {}
    grouped = leaks.settings(records)
    for title, of_setting in grouped.items():
        for attack in dict.fromkeys(record.labels["privacy-attack"] for record in of_setting):
            of_attack = [record for record in of_setting if record.labels["privacy-attack"] == attack]
            first = min(record.configuration["seed"] for record in of_attack)
            drawn = sorted((record for record in of_attack if record.configuration["seed"] == first), key=_order)
            images = [(record, found) for record in drawn if _has_images(found := arrays(record))]
            # Whoever reports other images than the others has no place beside them.
            alike = [each for each in images if each[1]["found"].shape == images[0][1]["found"].shape]
            if alike:
                name = _name(attack, of_setting, grouped.values())
                add_files(made, {f"{name}.png": _grid(f"{title}\n{attack}", alike)})
    return made


def _order(record: Record) -> tuple[int, bool]:
    """The naive way first, and FedAvg before others."""
    target = leaks.told(record)["target"]
    known = leaks.TARGET_ORDER.index(target) if target in leaks.TARGET_ORDER else len(leaks.TARGET_ORDER)
    return known, record.configuration["defense"]["name"] != "fedavg"


def _has_images(found: Arrays) -> bool:
    """Whether these are images of one or three channels: groups, people, examples, channels, height and width."""
    return "found" in found and found["found"].ndim == 6 and found["found"].shape[3] in (1, 3)


def _name(attack: str, of_setting: list[Record], settings: Iterable[list[Record]]) -> str:
    """What tells a grid from the others of its suite."""
    told = leaks.told(of_setting[0])
    alike = [leaks.told(other[0]) for other in settings if other[0].labels["task"] == of_setting[0].labels["task"]]
    varied = [f"{name}-{told[name]}" for name in VARIED if len({other[name] for other in alike}) > 1]
    return slug("-".join(["grid", of_setting[0].labels["task"], attack, *varied]))


def _grid(title: str, images: list[tuple[Record, Arrays]]) -> bytes:
    originals = _first(images[0][1]["originals"])
    rows = [("originals", originals)]
    for record, found in images:
        target, defense = leaks.told(record)["target"], record.labels["defense"]
        kind = {"no": "naive", "yes": "adaptive"}.get(leaks.adaptive(record), leaks.adaptive(record))
        label = f"{defense}, {target}\n" + (f"{kind}, " if kind else "") + f"{record.metrics['psnr']:.1f} dB"
        rows.append((label, _first(found["found"])))
    return picture(title, rows)


def picture(title: str, rows: Sequence[tuple[str, npt.NDArray[np.float64]]]) -> bytes:
    """Rows of as many images each, channels last and from 0 to 1, each row under its name."""
    from matplotlib.figure import Figure

    count = len(rows[0][1])
    figure = Figure(figsize=(1.0 * count + 2.6, 1.0 * len(rows) + 0.7), layout="constrained")
    figure.suptitle(title, fontsize="small")
    axes = figure.subplots(len(rows), count, squeeze=False)
    for of_row, (label, drawn) in zip(axes, rows, strict=True):
        of_row[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize="small")
        for axis, image in zip(of_row, drawn, strict=True):
            axis.set_xticks([])
            axis.set_yticks([])
            for side in axis.spines.values():
                side.set_visible(False)
            if np.isfinite(image).all():
                axis.imshow(image.squeeze(-1) if image.shape[-1] == 1 else image, cmap="gray", vmin=0, vmax=1)
            else:
                axis.text(0.5, 0.5, "not attacked", ha="center", va="center", fontsize=6, color="#777777")
                axis.set_aspect("equal")
    return saved(figure, "png")


def _first(images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The first few, one after the other, with channels last as matplotlib wants them."""
    flat = images.reshape(-1, *images.shape[3:])[:SHOWN]
    return np.clip(flat.transpose(0, 2, 3, 1).astype(np.float64), 0, 1)
