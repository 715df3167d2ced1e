"""Pictures of what was rebuilt, beside the originals: a row for each observation and defense, as in the FFL paper."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.records.arrays import Arrays
from fflbench.records.record import Record
from fflbench.report.groups import Group, groups
from fflbench.report.image_grid import image_grid
from fflbench.report.picture import Picture
from fflbench.texts import slug

SHOWN = 8
"""Images in a row."""


def figures(records: Sequence[Record], arrays: Callable[[Record], Arrays]) -> Iterable[Picture]:
    """Return a grid for each setting of the victims and each attack; of its first seed."""
    for group in groups(records):
        for attack in group.attacks:
            first = min(group.seeds)
            drawn = [record for record in _in_rows(group, attack) if record.seed == first and record.status == "done"]
            images = [(record, found) for record in drawn if _has_images(found := arrays(record))]
            # Whoever reports other images than the others has no place beside them.
            alike = [each for each in images if each[1]["found"].shape == images[0][1]["found"].shape]
            if alike:
                title = f"{group.head} by {attack}"
                content = image_grid(title, _rows(group, alike))
                caption = f"What was rebuilt, of the first seed: {title}"
                yield Picture(slug(f"grid-{title}"), group.measure.section, caption, content)


def _in_rows(group: Group, attack: str) -> Iterable[Record]:
    """Return the records of an attack in their order; one that defenses share is there once, for the first of them."""
    found: dict[str, Record] = {}
    for observation in group.observations:
        for row in group.defenses:
            for record in group.places.get((row, attack, observation), ()):
                found.setdefault(record.id, record)
    return found.values()


def _has_images(found: Arrays) -> bool:
    """Whether these are images of one or three channels: groups, people, examples, channels, height and width."""
    return "found" in found and found["found"].ndim == 6 and found["found"].shape[3] in (1, 3)


def _rows(group: Group, images: Sequence[tuple[Record, Arrays]]) -> list[tuple[str, npt.NDArray[np.float64]]]:
    rows = [("originals", _first(images[0][1]["originals"]))]
    for record, found in images:
        kind = record.facts.get("caution") or {False: "naive", True: "adaptive"}.get(record.facts["adaptive"], "")
        label = f"{record.labels['defense']}, {group.observation(record)}\n"
        label += (f"{kind}, " if kind else "") + f"{record.metrics['psnr']:.1f} dB"
        rows.append((label, _first(found["found"])))
    return rows


def _first(images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the first few, one after the other, with channels last as matplotlib wants them."""
    flat = images.reshape(-1, *images.shape[3:])[:SHOWN]
    return np.clip(flat.transpose(0, 2, 3, 1).astype(np.float64), 0, 1)
