"""Figures of images in rows, as the FFL paper shows reconstructions."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fflbench.report.picture import saved

GAP = 0.1
"""Gap between images, relative to their side."""


def image_grid(title: str, rows: Sequence[tuple[str, npt.NDArray[np.float64]]]) -> bytes:
    """Return a PNG of rows of as many images each, channels last and from 0 to 1, each row under its name."""
    from matplotlib.figure import Figure

    count, height, width, _ = rows[0][1].shape
    figure = Figure(figsize=(1.0 * count + 2.6, 1.0 * len(rows) + 0.7), layout="constrained")
    figure.suptitle(title, fontsize="small")
    axis = figure.subplots()
    for row, (_, images) in enumerate(rows):
        for column, image in enumerate(images):
            left, top = column * (1 + GAP), row * (1 + GAP)
            if np.isfinite(image).all():
                shown = image.squeeze(-1) if image.shape[-1] == 1 else image
                axis.imshow(shown, cmap="gray", vmin=0, vmax=1, extent=(left, left + 1, top + 1, top))
            else:
                axis.text(left + 0.5, top + 0.5, "not attacked", ha="center", va="center", fontsize=6, color="#777777")
    axis.set_xlim(0, count * (1 + GAP) - GAP)
    axis.set_ylim(len(rows) * (1 + GAP) - GAP, 0)
    axis.set_aspect(height / width)
    axis.set_xticks([])
    axis.set_yticks([row * (1 + GAP) + 0.5 for row in range(len(rows))], [name for name, _ in rows], fontsize="small")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return saved(figure, "png")
