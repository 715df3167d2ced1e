"""Every rule for anyone with a matrix."""

from typing import Any

import numpy as np

from fflbench import registry
from fflbench.errors import ParameterError
from fflbench.federation.columns import Columns
from fflbench.federation.defense import Defense, NoAnswerError, Setting
from fflbench.federation.views import ServerView
from fflbench.kernels import finite_rows
from fflbench.registry import Kind


def aggregate(name: str, updates: Any, *, weights: Any = None, **parameters: Any) -> Any:
    """Aggregate a matrix of updates, a row a participant, by a registered defense.

    Numpy in, numpy out; torch in, torch out. `weights` are the participants' numbers of examples (default: equal).
    A rule with a memory starts with an empty one.

        fflbench.aggregate("multi-krum", updates, f=2)
    """
    entry = registry.get(Kind.DEFENSE, name)
    defense: Defense = entry.create(**parameters)
    if not defense.aggregates_alone:
        raise ParameterError(f"{entry} needs more than a matrix of updates: it is a protocol; use it in a suite")
    is_torch = type(updates).__module__.partition(".")[0] == "torch"
    if is_torch:
        whole = updates.detach().cpu()
        matrix = (whole if str(whole.dtype) == "torch.float64" else whole.float()).numpy()
    else:
        matrix = np.asarray(updates)
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float32)
    if matrix.ndim != 2 or len(matrix) == 0:
        raise ParameterError(f"updates must be a matrix with at least one row, not of shape {matrix.shape}")
    if not finite_rows(matrix).all():
        raise ParameterError("updates hold values that are not finite; leave those rows out")
    n, d = matrix.shape
    sizes = np.ones(n) if weights is None else np.asarray(weights)
    with np.errstate(over="ignore"):
        total = sizes.sum()
    if sizes.shape != (n,) or not (sizes >= 0).all() or not 0 < total < np.inf:
        raise ParameterError(f"weights must be {n} numbers from 0, one a row, and not all zero")
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
    if not is_torch:
        return result
    import torch

    return torch.from_numpy(result).to(updates.device, updates.dtype if updates.is_floating_point() else torch.float32)
