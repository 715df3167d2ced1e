"""Figures of images in rows, as the FFL paper shows reconstructions."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fflbench.report.figure_files import encode_figure

GAP = 0.1
"""Gap between images, relative to their height."""


def image_grid(title: str, rows: Sequence[tuple[str, npt.NDArray[np.float64]]]) -> bytes:
    """Return a PNG of rows of as many images each, channels first and from 0 to 1, each row under its name."""
    import torch
    from matplotlib.figure import Figure
    from torchvision.utils import make_grid

    count, _, height, width = rows[0][1].shape
    # One channel or three: all in colour, so that they fit in one grid.
    images = np.concatenate([np.broadcast_to(images, (count, 3, height, width)) for _, images in rows])
    gap = max(1, round(GAP * height))
    shown = torch.from_numpy(np.nan_to_num(images, nan=1.0))
    grid = make_grid(shown, nrow=count, padding=gap, pad_value=1.0).permute(1, 2, 0).numpy()
    figure = Figure(figsize=(1.0 * count + 2.6, 1.0 * len(rows) + 0.7), layout="constrained")
    figure.suptitle(title, fontsize="small")
    axis = figure.subplots()
    axis.imshow(grid, interpolation="nearest")
    for place in np.flatnonzero(~np.isfinite(images).all((1, 2, 3))):
        row, column = divmod(int(place), count)
        x, y = _image_center(column, width, gap), _image_center(row, height, gap)
        axis.text(x, y, "not attacked", ha="center", va="center", fontsize=6, color="#777777")
    axis.set_xticks([])
    middles = [_image_center(row, height, gap) for row in range(len(rows))]
    axis.set_yticks(middles, [name for name, _ in rows], fontsize="small")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return encode_figure(figure, "png")


def _image_center(index: int, size: int, gap: int) -> float:
    """Return the coordinate of the middle of an image, in pixels of the grid."""
    return gap + index * (size + gap) + (size - 1) / 2
