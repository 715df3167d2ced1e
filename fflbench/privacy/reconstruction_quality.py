"""Quality of reconstructed examples (MSE, PSNR, SSIM, labels), after matching them with the originals."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Examples = npt.NDArray[np.float32]

DATA_RANGE = 1.0
"""Range of pixels, from black (0) to white (1)."""
SMALL_WINDOW = 5
"""Side of the window for structural similarity on images too small for the usual one of 11 pixels."""


@dataclass(frozen=True)
class ReconstructionQuality:
    """Quality of one victim's reconstructed examples, one value per example."""

    mse: list[float]
    psnr: list[float]
    ssim: list[float] | None
    """None where examples are not images."""
    label_accuracy: float
    """Share of labels recovered, in any order: knowing which labels are present is the leak."""
    rebuilt: Examples
    """Reconstructions in the order of the originals."""


def compare_with_originals(
    x: Examples, y: npt.NDArray[Any], rebuilt: Examples, labels: npt.NDArray[Any]
) -> ReconstructionQuality:
    """Compare originals with reconstructions, matched by least squared error; images in pixels, 0 to 1."""
    from scipy.optimize import linear_sum_assignment

    rebuilt = clip_pixels(rebuilt)
    guessed, true = (part.reshape(len(part), -1).astype(np.float64) for part in (rebuilt, x))
    errors = ((true[:, None] - guessed[None]) ** 2).mean(2)
    rows, order = linear_sum_assignment(errors)
    mse = errors[rows, order]
    return ReconstructionQuality(
        mse=mse.tolist(),
        psnr=[psnr(error) for error in mse],
        ssim=ssim(x, rebuilt[order]) if is_image(x) else None,
        label_accuracy=_label_overlap(y, labels),
        rebuilt=rebuilt[order],
    )


def _label_overlap(true: npt.NDArray[Any], guessed: npt.NDArray[Any]) -> float:
    counts, guessed_counts = Counter(true.tolist()), Counter(guessed.tolist())
    return (counts & guessed_counts).total() / len(true)


def is_image(x: Examples) -> bool:
    """Return whether examples have channels, height and width."""
    return x.ndim == 4


def to_pixels(x: Examples, low: Examples, high: Examples) -> Examples:
    """Return images with their normalisation undone, black 0 and white 1; other examples unchanged."""
    return (x - low) / (high - low) if low.ndim == 3 else x


def clip_pixels(rebuilt: Examples) -> Examples:
    """Return images clipped to the range of pixels, NaN as black; of other examples, finite values."""
    if not is_image(rebuilt):
        return np.nan_to_num(rebuilt, nan=0.0, posinf=1e6, neginf=-1e6)
    return np.clip(np.nan_to_num(rebuilt, nan=0.0, posinf=DATA_RANGE, neginf=0.0), 0, DATA_RANGE)


def psnr(mse: float) -> float:
    """Return the peak signal-to-noise ratio in decibels; 150 where nothing differs."""
    return float(min(10 * np.log10(DATA_RANGE**2 / mse), 150.0)) if mse > 0 else 150.0


def ssim(x: Examples, rebuilt: Examples) -> list[float]:
    """Return the structural similarity of each image (Wang et al., Image quality assessment, IEEE TIP 2004)."""
    import torch
    from torchmetrics.functional.image import structural_similarity_index_measure

    small: dict[str, Any] = {"gaussian_kernel": False, "kernel_size": SMALL_WINDOW}
    values = structural_similarity_index_measure(
        torch.from_numpy(rebuilt),
        torch.from_numpy(x),
        data_range=DATA_RANGE,
        reduction="none",
        **(small if min(x.shape[2:]) < 16 else {}),
    )
    return [float(value) for value in values.reshape(-1)]  # type: ignore[union-attr]
