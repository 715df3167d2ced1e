"""Aggregation of a matrix of updates by any registered rule, with pre-aggregations before it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.arrays.columns import Columns
from fflbench.arrays.conversion import REAL, is_tensor, real_numbers
from fflbench.arrays.kernels import finite_rows
from fflbench.errors import ParameterError
from fflbench.federation import chain
from fflbench.federation.rule import NoAnswerError
from fflbench.federation.transport import Setting
from fflbench.federation.views import View
from fflbench.randomness import stream
from fflbench.types import Matrix

LARGEST = 1e145
"""Largest value whose squares, summed over a hundred million columns, fit into double precision."""


def aggregate(name: str, updates: Any, *, weights: Any = None, **parameters: Any) -> Any:
    """Aggregate a matrix of updates, one row per participant, by a registered rule or a chain that ends with one.

    Numpy in, numpy out; torch in, torch out. `weights` are the participants' numbers of examples (default: equal).
    A rule with a memory starts with an empty one. A parameter goes to every part that declares it, a table to the part
    of its name.

        fflbench.aggregate("multi-krum", updates, f=2)
        fflbench.aggregate("clipping + nnm + trimmed-mean", updates, f=2, clipping={"bound": 1.0})
    """
    if not isinstance(name, str):
        raise ParameterError(f"the name of a defense must be a text, not {type(name).__name__}")
    defense = f'defense "{name}"'
    parts = chain.parse(name)
    if parts.transport.name != chain.PLAIN:
        raise ParameterError(f"{defense} needs more than a matrix of updates: it is a protocol; use it in a suite")
    created = chain.create(parts.check(_nest_parameters_by_part(parameters)))
    if created.rule.needs_root_update:
        raise ParameterError(f"{defense} trains on the server's own examples: use it in a suite")
    matrix = _check_updates(updates)
    n, d = matrix.shape
    sizes: npt.NDArray[Any] = np.ones(n) if weights is None else _check_weights(weights, n)
    columns = Columns.of_length(d)
    created.begin(Setting(participants=n, per_round=n, sizes=sizes, columns=columns), seed=0)
    view = View(
        round=0,
        model=np.zeros(d, matrix.dtype),
        # Pre-aggregations overwrite rows, and these are the caller's.
        rows=matrix.copy() if parts.preaggregations else matrix,
        weights=sizes,
        columns=columns,
        selected=n,
        participants=np.arange(n),
        sizes=sizes,
    )
    try:
        result, _ = created.server.aggregate(view.read_only(), stream(0, "rule", 0))
    except NoAnswerError as reason:
        raise ParameterError(f"{defense} has no answer: {reason}") from reason
    if result.shape != (d,) or result.dtype.kind not in REAL:
        raise ParameterError(f"{defense} gave no vector of {d} numbers")
    if not np.isfinite(result).all():
        raise ParameterError(f"{defense} gave values that are not finite")
    if not is_tensor(updates):
        return result
    import torch

    return torch.from_numpy(result).to(updates.device, updates.dtype if updates.is_floating_point() else torch.float32)


def _nest_parameters_by_part(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those such as "clipping.bound" in a table of their part, as in a suite."""
    nested: dict[str, Any] = {}
    for name, value in parameters.items():
        part, dot, own = name.partition(".")
        table = {own: value} if dot else value
        both = isinstance(nested.get(part), Mapping) and isinstance(table, Mapping)
        nested[part] = {**nested[part], **table} if both else table
    return nested


def _check_updates(updates: Any) -> Matrix:
    matrix = _to_real_numbers(updates, "updates must be a matrix of real numbers")
    if matrix.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            matrix = matrix.astype(np.float32)
    if matrix.ndim != 2 or len(matrix) == 0:
        raise ParameterError(f"updates must be a matrix with at least one row, not of shape {matrix.shape}")
    if not finite_rows(matrix).all():
        raise ParameterError("updates hold values that are not finite; leave those rows out")
    if matrix.dtype == np.float64 and max(matrix.max(initial=0), -matrix.min(initial=0)) > LARGEST:
        raise ParameterError(
            f"updates hold values beyond {LARGEST:g} in size, whose squares double precision cannot add up: "
            "scale them down"
        )
    return matrix


def _check_weights(weights: Any, n: int) -> npt.NDArray[Any]:
    wanted = f"weights must be {n} numbers from 0, one for each row, and not all zero"
    sizes = _to_real_numbers(weights, wanted)
    with np.errstate(over="ignore"):
        total = sizes.sum(dtype=np.float64)
    if sizes.shape != (n,) or not (sizes >= 0).all() or not 0 < total < np.inf:
        raise ParameterError(wanted)
    return sizes


def _to_real_numbers(value: Any, wanted: str) -> npt.NDArray[Any]:
    try:
        return real_numbers(value)
    except ValueError as error:
        raise ParameterError(f"{wanted} ({error})") from error
