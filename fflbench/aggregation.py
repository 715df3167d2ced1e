"""Aggregation of a matrix of updates by any registered rule, with pre-aggregations before it."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.arrays import kernels
from fflbench.arrays.columns import Columns
from fflbench.arrays.conversion import REAL, is_tensor, real_numbers
from fflbench.errors import NotFiniteError, ParameterError
from fflbench.federation import chain
from fflbench.federation.rule import FunctionRule, NoAnswerError
from fflbench.federation.simulation import Gram, simulation_seed
from fflbench.federation.transport import Setting
from fflbench.federation.views import View, read_only
from fflbench.plugin_parameters import format_value
from fflbench.randomness import stream
from fflbench.types import Indices, Matrix, Vector

LARGEST = 1e145
"""Largest value whose squares, summed over a hundred million columns, fit into double precision."""
MOST_PARTICIPANTS = 1_000_000
"""Largest number of participants."""


def aggregate(name: str, updates: Any, *, weights: Any = None, **parameters: Any) -> Any:
    """Aggregate a matrix of updates, one row per participant, by a registered rule or a chain that ends with one.

    Numpy in, numpy out; torch in, torch out. `weights` are the participants' numbers of examples (default: equal).
    A rule with a memory starts with an empty one; `Aggregator` keeps it. A parameter goes to every part that declares
    it, a table to the part of its name.

        fflbench.aggregate("multi-krum", updates, f=2)
        fflbench.aggregate("clipping + nnm + trimmed-mean", updates, f=2, clipping={"bound": 1.0})
    """
    for reserved in {"participants", "seed"} & parameters.keys():
        raise ParameterError(f"aggregate has no {reserved}: use Aggregator, which keeps a memory")
    return Aggregator(name, **parameters)(updates, weights=weights)


class Aggregator:
    """A registered rule, or a chain that ends with one, that keeps its memory from call to call.

    Parameters are those of `aggregate`. `participants` is the number of participants in all, where not everybody sends
    an update in every round; `seed` decides random choices of the rule.

        foolsgold = fflbench.Aggregator("foolsgold", participants=20)
        for updates, senders in rounds:
            change = foolsgold(updates, participants=senders)
    """

    round: int
    """Number of rounds aggregated so far."""
    feedback: dict[int, float]
    """Feedback of the rule to participants in the last round, by their numbers; empty for most rules."""

    def __init__(self, name: str, /, *, participants: int | None = None, seed: int = 0, **parameters: Any) -> None:
        if not isinstance(name, str):
            raise ParameterError(f"the name of a defense must be a text, not {type(name).__name__}")
        self._name, self._parameters = name, parameters
        parts = chain.parse(name)
        if parts.transport.name != chain.PLAIN:
            raise ParameterError(
                f"{self._defense} needs more than a matrix of updates: it is a protocol; use it in a suite"
            )
        self._chain = chain.create(parts.check(_nest_parameters_by_part(parameters)))
        if self._chain.rule.needs_root_update:
            raise ParameterError(f"{self._defense} trains on the server's own examples: use it in a suite")
        if participants is not None:
            participants = check_whole_number("participants", participants, 1, MOST_PARTICIPANTS)
        self._participants, self._seed = participants, check_whole_number("seed", seed, 0, 2**63 - 1)
        self.round, self.feedback = 0, {}

    def __call__(self, updates: Any, *, weights: Any = None, participants: Any = None) -> Any:
        """Return the aggregate of one round's updates, a vector of their type.

        `weights` are the senders' numbers of examples (default: equal), `participants` the numbers of the senders, from
        0 (default: 0, 1, 2, ... in the order of the rows). A call that raises an error leaves the memory as it was,
        also where the rule has no answer; in a federation, a rule may remember such a round.
        """
        # A rule that sorts all columns finds values that are not finite by itself, without another pass.
        finite_later = self._chain.server.sorts_columns
        matrix = check_updates(updates, finite_later=finite_later)
        try:
            return like(self._aggregate(matrix, weights, participants, all_finite=True), updates)
        except NoAnswerError as reason:
            raise ParameterError(f"{self._defense} has no answer: {reason}") from reason
        except NotFiniteError:
            if finite_later:
                _require_finite(matrix, "updates")
            raise

    def simulate(self, updates: Matrix, *, gram: Gram = kernels.gram, all_finite: bool = False) -> Vector | None:
        """Return the aggregate of these updates, which leaves the memory as it is; None where a server would have none.

        As in a round, rows that are not finite are dropped. Random choices of the rule are others than those of a call.
        `gram` returns the inner products of the updates, some of which may be known already, as it may be that all rows
        are finite.
        """
        twin = copy.copy(self)
        twin._seed = simulation_seed(self._seed, self.round)
        if self.round:
            twin._chain = self._chain.simulation_copy(twin._seed)
        try:
            return twin._aggregate(read_only(updates), None, None, gram, all_finite=all_finite)
        except (NoAnswerError, NotFiniteError):
            return None

    @property
    def memory(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of the arrays that the rule keeps from round to round; none before the first round."""
        return copy.deepcopy(self._chain.rule.memory) if self.round else {}

    def __repr__(self) -> str:
        parameters = "".join(f", {name}={value!r}" for name, value in self._parameters.items())
        return f"Aggregator({self._name!r}{parameters})"

    @property
    def _defense(self) -> str:
        return f'defense "{self._name}"'

    def _aggregate(
        self, matrix: Matrix, weights: Any, participants: Any, gram: Gram = kernels.gram, *, all_finite: bool
    ) -> Vector:
        """Return the aggregate of one round and count the round, or raise an error and leave the memory as it was."""
        n, d = matrix.shape
        sizes: npt.NDArray[Any] = np.ones(n) if weights is None else _check_weights(weights, n)
        total = self._check_size(n, d)
        senders = self._check_senders(participants, n, total)
        if not self.round:
            setting = Setting(
                participants=total, per_round=n, sizes=np.ones(total, np.int64), columns=Columns.of_length(d)
            )
            self._chain.begin(setting, self._seed)
        view = View(
            round=self.round,
            model=np.zeros(d, matrix.dtype),
            # Pre-aggregations overwrite rows, and these are the caller's.
            rows=matrix.copy() if self._chain.server.preaggregations else matrix,
            weights=sizes,
            columns=self._chain.setting.columns,
            selected=n,
            participants=senders,
            sizes=sizes,
        )
        before, rng = self.memory, stream(self._seed, "rule", self.round)
        try:
            finite = view if all_finite else view.without_non_finite()
            result, feedback = self._chain.server.aggregate(finite.read_only(), rng, gram)
            chain.check_feedback(feedback, total)
            self._check_result(result, d)
        except BaseException:
            self._chain.rule.memory = before
            raise
        self.round, self.feedback = self.round + 1, {int(who): float(value) for who, value in feedback.items()}
        # A class may return an array of its memory, and a function one of the caller's rows.
        own = isinstance(self._chain.rule, FunctionRule) and not np.may_share_memory(result, matrix)
        return result if own and result.flags.owndata and result.flags.writeable else np.array(result)

    def _check_size(self, n: int, d: int) -> int:
        """Return the number of participants in all, or raise an error for updates that do not fit earlier rounds."""
        total = self._participants or (self._chain.setting.participants if self.round else n)
        # The numbers of senders mean nothing to other rules, so that any number of rows will do for them.
        if n > total and (self._participants or self._chain.rule.needs_participants):
            raise ParameterError(f"{n} updates are more than the {total} participants: set participants = {n} or more")
        if self.round and d != (before := self._chain.setting.columns.count):
            raise ParameterError(f"updates must have {before} columns, as those of earlier rounds, not {d}")
        return max(total, n)

    def _check_senders(self, participants: Any, n: int, total: int) -> Indices:
        wanted = f"participants must be {n} different numbers from 0 to {total - 1}, one for each row"
        if participants is None:
            if n < total and self._chain.rule.needs_participants:
                raise ParameterError(f"{self._defense} must know who sent each row: {wanted}")
            return np.arange(n)
        numbers = to_real_numbers(participants, wanted)
        if numbers.shape != (n,) or numbers.dtype.kind not in "iu" or len(np.unique(numbers)) < n:
            raise ParameterError(wanted)
        if numbers.min() < 0 or numbers.max() >= total:
            raise ParameterError(wanted)
        return numbers.astype(np.int64)

    def _check_result(self, result: Vector, d: int) -> None:
        if result.shape != (d,) or result.dtype.kind not in REAL:
            raise ParameterError(f"{self._defense} gave no vector of {d} numbers")
        if not kernels.finite_rows(result[None]).all():
            raise NotFiniteError(f"{self._defense} gave values that are not finite")


def like(result: npt.NDArray[Any], updates: Any) -> Any:
    """Return a result as a torch tensor where the updates are one."""
    if not is_tensor(updates):
        return result
    import torch

    return torch.from_numpy(result).to(updates.device, updates.dtype if updates.is_floating_point() else torch.float32)


def check_whole_number(name: str, value: Any, low: int, high: int) -> int:
    """Return a whole number, or raise an error that names it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise ParameterError(f"{name} = {format_value(value)} must be a whole number from {low} to {high}")
    return int(value)


def _nest_parameters_by_part(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those such as "clipping.bound" in a table of their part, as in a suite."""
    nested: dict[str, Any] = {}
    for name, value in parameters.items():
        part, dot, own = name.partition(".")
        table = {own: value} if dot else value
        both = isinstance(nested.get(part), Mapping) and isinstance(table, Mapping)
        nested[part] = {**nested[part], **table} if both else table
    return nested


def check_updates(updates: Any, name: str = "updates", *, finite_later: bool = False) -> Matrix:
    """Return updates as a matrix of single or double precision, or raise an error that calls them by a name.

    Where values that are not finite are found later, those of single precision are not checked here.
    """
    matrix = to_real_numbers(updates, f"{name} must be a matrix of real numbers")
    if matrix.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            matrix = matrix.astype(np.float32)
    if matrix.ndim != 2 or len(matrix) == 0:
        raise ParameterError(f"{name} must be a matrix with at least one row, not of shape {matrix.shape}")
    if not finite_later or matrix.dtype == np.float64:
        _require_finite(matrix, name)
    if matrix.dtype == np.float64 and max(matrix.max(initial=0), -matrix.min(initial=0)) > LARGEST:
        raise ParameterError(
            f"{name} hold values beyond {LARGEST:g} in size, whose squares double precision cannot add up: "
            "scale them down"
        )
    return matrix


def _require_finite(matrix: Matrix, name: str) -> None:
    if not kernels.finite_rows(matrix).all():
        raise ParameterError(f"{name} hold values that are not finite; leave those rows out")


def _check_weights(weights: Any, n: int) -> npt.NDArray[Any]:
    wanted = f"weights must be {n} numbers from 0, one for each row, and not all zero"
    sizes = to_real_numbers(weights, wanted)
    with np.errstate(over="ignore"):
        total = sizes.sum(dtype=np.float64)
    if sizes.shape != (n,) or not (sizes >= 0).all() or not 0 < total < np.inf:
        raise ParameterError(wanted)
    return sizes


def to_real_numbers(value: Any, wanted: str) -> npt.NDArray[Any]:
    """Return a value as an array of real numbers, or raise an error that says what is wanted."""
    try:
        return real_numbers(value)
    except ValueError as error:
        raise ParameterError(f"{wanted} ({error})") from error
