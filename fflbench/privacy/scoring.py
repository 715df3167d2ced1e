"""How good a reconstruction is, after matching it with the originals as well as can be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.float32]

RANGE = 1.0
"""Of pixels, which all our images have from 0 to 1."""


@dataclass(frozen=True)
class Score:
    """Of one victim's examples, one by one."""

    mse: list[float]
    psnr: list[float]
    label_accuracy: float
    order: list[int]
    """Which reconstruction goes with each original."""


def score(x: Images, y: npt.NDArray[Any], found: Images, labels: npt.NDArray[Any]) -> Score:
    """Compare originals with reconstructions, paired so that the squared error is least."""
    from scipy.optimize import linear_sum_assignment

    seen = np.nan_to_num(found, nan=1e6, posinf=1e6, neginf=-1e6).reshape(len(found), -1).astype(np.float64)
    true = x.reshape(len(x), -1).astype(np.float64)
    errors = ((true[:, None] - seen[None]) ** 2).mean(2)
    rows, order = linear_sum_assignment(errors)
    mse = errors[rows, order]
    return Score(
        mse=mse.tolist(),
        psnr=[psnr(error) for error in mse],
        label_accuracy=float(np.mean(y == labels[order])),
        order=order.tolist(),
    )


def psnr(mse: float) -> float:
    """The peak signal-to-noise ratio in decibels; 150 where nothing differs."""
    return float(min(10 * np.log10(RANGE**2 / mse), 150.0)) if mse > 0 else 150.0
