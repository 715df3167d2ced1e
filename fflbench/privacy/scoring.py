"""Quality of reconstructions, after matching them with the originals."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Examples = npt.NDArray[np.float32]

RANGE = 1.0
"""Range of pixels, from black to white."""
WINDOW = 5
"""Side of the window for structural similarity on images too small for the usual one of 11 pixels."""


@dataclass(frozen=True)
class Score:
    """Quality of one victim's reconstructed examples, one value per example."""

    mse: list[float]
    psnr: list[float]
    ssim: list[float] | None
    """None where examples are no images."""
    label_accuracy: float
    """Share of labels rebuilt in any order: knowing which ones are present is the leak."""
    rebuilt: Examples
    """Reconstructions in the order of the originals."""


def score(x: Examples, y: npt.NDArray[Any], rebuilt: Examples, labels: npt.NDArray[Any]) -> Score:
    """Compare originals with reconstructions, matched by least squared error; images in pixels, 0 to 1."""
    from scipy.optimize import linear_sum_assignment

    rebuilt = shown(rebuilt)
    seen, true = (part.reshape(len(part), -1).astype(np.float64) for part in (rebuilt, x))
    errors = ((true[:, None] - seen[None]) ** 2).mean(2)
    rows, order = linear_sum_assignment(errors)
    mse = errors[rows, order]
    return Score(
        mse=mse.tolist(),
        psnr=[psnr(error) for error in mse],
        ssim=ssim(x, rebuilt[order]) if is_image(x) else None,
        label_accuracy=_shared(y, labels),
        rebuilt=rebuilt[order],
    )


def _shared(true: npt.NDArray[Any], guessed: npt.NDArray[Any]) -> float:
    here, there = Counter(true.tolist()), Counter(guessed.tolist())
    return (here & there).total() / len(true)


def is_image(x: Examples) -> bool:
    """Whether examples have channels, height and width."""
    return x.ndim == 4


def pixels(x: Examples, low: Examples, high: Examples) -> Examples:
    """Return images before normalisation, black 0 and white 1; other examples unchanged."""
    return (x - low) / (high - low) if low.ndim == 3 else x


def shown(rebuilt: Examples) -> Examples:
    """Return images with pixels clipped to the range from black to white; NaN becomes black."""
    if not is_image(rebuilt):
        return np.nan_to_num(rebuilt, nan=0.0, posinf=1e6, neginf=-1e6)
    return np.clip(np.nan_to_num(rebuilt, nan=0.0, posinf=RANGE, neginf=0.0), 0, RANGE)


def psnr(mse: float) -> float:
    """Return the peak signal-to-noise ratio in decibels; 150 where nothing differs."""
    return float(min(10 * np.log10(RANGE**2 / mse), 150.0)) if mse > 0 else 150.0


def ssim(x: Examples, rebuilt: Examples) -> list[float]:
    """Return the structural similarity of each image (Wang et al., Image quality assessment, IEEE TIP 2004)."""
    import torch
    from torchmetrics.functional.image import structural_similarity_index_measure

    small: dict[str, Any] = {"gaussian_kernel": False, "kernel_size": WINDOW}
    values = structural_similarity_index_measure(
        torch.from_numpy(rebuilt),
        torch.from_numpy(x),
        data_range=RANGE,
        reduction="none",
        **(small if min(x.shape[2:]) < 16 else {}),
    )
    return [float(value) for value in values.reshape(-1)]  # type: ignore[union-attr]
