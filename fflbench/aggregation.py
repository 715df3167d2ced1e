"""Every rule for anyone with a matrix."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench import registry
from fflbench.conversion import REAL, is_tensor, real_numbers
from fflbench.errors import ParameterError
from fflbench.federation.columns import Columns
from fflbench.federation.defense import Defense, NoAnswerError, Setting
from fflbench.federation.views import ServerView
from fflbench.kernels import finite_rows
from fflbench.registry import Kind

LARGEST = 1e145
"""Values beyond have squares whose sum over a hundred million columns double precision cannot hold."""


def aggregate(name: str, updates: Any, *, weights: Any = None, **parameters: Any) -> Any:
    """Aggregate a matrix of updates, one row per participant, by a registered defense.

    Numpy in, numpy out; torch in, torch out. `weights` are the participants' numbers of examples (default: equal).
    A rule with a memory starts with an empty one.

        fflbench.aggregate("multi-krum", updates, f=2)
    """
    if not isinstance(name, str):
        raise ParameterError(f"the name of a defense must be a text, not {type(name).__name__}")
    entry = registry.get(Kind.DEFENSE, name)
    defense: Defense = entry.create(**parameters)
    if not defense.aggregates_alone:
        raise ParameterError(f"{entry} needs more than a matrix of updates: it is a protocol; use it in a suite")
    matrix = _numbers(updates, "updates must be a matrix of real numbers")
    if matrix.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            matrix = matrix.astype(np.float32)
    if matrix.ndim != 2 or len(matrix) == 0:
        raise ParameterError(f"updates must be a matrix with at least one row, not of shape {matrix.shape}")
    if not finite_rows(matrix).all():
        raise ParameterError("updates hold values that are not finite; leave those rows out")
    n, d = matrix.shape
    if matrix.dtype == np.float64 and max(matrix.max(initial=0), -matrix.min(initial=0)) > LARGEST:
        raise ParameterError(
            f"updates hold values beyond {LARGEST:g} in size, whose squares double precision cannot add up: "
            "scale them down"
        )
    told = f"weights must be {n} numbers from 0, one for each row, and not all zero"
    sizes: npt.NDArray[Any] = np.ones(n) if weights is None else _numbers(weights, told)
    with np.errstate(over="ignore"):
        total = sizes.sum(dtype=np.float64)
    if sizes.shape != (n,) or not (sizes >= 0).all() or not 0 < total < np.inf:
        raise ParameterError(told)
    columns = Columns.plain(d)
    defense.begin(Setting(participants=n, per_round=n, sizes=sizes, columns=columns, seed=0))
    view = ServerView(
        round=0,
        weights=np.zeros(d, matrix.dtype),
        participants=np.arange(n),
        updates=matrix,
        sizes=sizes,
        columns=columns,
        selected=n,
    )
    try:
        result = defense.aggregate(view)
    except NoAnswerError as reason:
        raise ParameterError(f"{entry} has no answer: {reason}") from reason
    if getattr(result, "shape", None) != (d,) or result.dtype.kind not in REAL:
        raise ParameterError(f"{entry} gave no vector of {d} numbers")
    if not np.isfinite(result).all():
        raise ParameterError(f"{entry} gave values that are not finite")
    if not is_tensor(updates):
        return result
    import torch

    return torch.from_numpy(result).to(updates.device, updates.dtype if updates.is_floating_point() else torch.float32)


def _numbers(value: Any, told: str) -> npt.NDArray[Any]:
    try:
        return real_numbers(value)
    except ValueError as error:
        raise ParameterError(f"{told} ({error})") from error
