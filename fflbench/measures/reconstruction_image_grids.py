"""Figures of reconstructions beside the originals: one row per observation and defense, as in the FFL paper."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Arrays, Record, ReportFigure, image_grid, record_groups, slug

SHOWN = 8
"""Number of images per row."""


def image_grids(records: Sequence[Record], arrays: Callable[[Record], Arrays]) -> Iterable[ReportFigure]:
    """Return one grid per setting of the victims and attack, of the first seed."""
    for group in record_groups.group_records(records):
        for attack in group.attacks:
            first = min(group.seeds)
            drawn = [
                record
                for record in _records_in_row_order(group, attack)
                if record.seed == first and record.status == "done"
            ]
            images = [(record, own) for record in drawn if _has_images(own := arrays(record))]
            # Records of images of another shape than the first's cannot share its grid.
            alike = [each for each in images if each[1]["found"].shape == images[0][1]["found"].shape]
            if alike:
                title = f"{group.heading} by {attack}"
                content = image_grid(title, _grid_rows(group, alike))
                caption = f"Reconstructions of the first seed: {title}"
                yield ReportFigure(slug(f"grid-{title}"), group.measure.section, caption, content)


def _records_in_row_order(group: record_groups.RecordGroup, attack: str) -> Iterable[Record]:
    """Return the records of an attack in order; one that several defenses share appears once, for the first of them."""
    ordered: dict[str, Record] = {}
    for observation in group.observations:
        for row in group.defenses:
            for record in group.records_by_cell.get((row, attack, observation), ()):
                ordered.setdefault(record.id, record)
    return ordered.values()


def _has_images(arrays: Arrays) -> bool:
    """Return whether arrays are images of one or three channels (fourth axis of six)."""
    return "found" in arrays and arrays["found"].ndim == 6 and arrays["found"].shape[3] in (1, 3)


def _grid_rows(
    group: record_groups.RecordGroup, images: Sequence[tuple[Record, Arrays]]
) -> list[tuple[str, npt.NDArray[np.float64]]]:
    rows = [("originals", _first_images(images[0][1]["originals"]))]
    for record, own in images:
        kind = record.facts.get("caution") or {False: "naive", True: "adaptive"}.get(record.facts["adaptive"], "")
        label = f"{record.labels['defense']}, {group.observation(record)}\n"
        label += (f"{kind}, " if kind else "") + f"{record.metrics['psnr']:.1f} dB"
        rows.append((label, _first_images(own["found"])))
    return rows


def _first_images(images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the first few images, with values from 0 to 1."""
    return np.clip(images.reshape(-1, *images.shape[3:])[:SHOWN].astype(np.float64), 0, 1)
