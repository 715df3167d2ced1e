"""Contract of rules and pre-aggregations: the server's half of a defense.

Both receive the server's view, their memory and a generator, and nothing else: no seed, no keys, no secret of a
transport.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fflbench.arrays import kernels
from fflbench.attacker_tolerance import is_tolerated, largest_tolerated, undefined_reason
from fflbench.errors import ParameterError
from fflbench.federation.simulation import Gram
from fflbench.federation.transport import Feedback, Memory, ServerSetting
from fflbench.federation.views import View
from fflbench.registry import Entry, Kind, set_function_wrapper
from fflbench.types import Coefficients, Indices, Matrix, Vector

PERCENTAGE = re.compile(r"(\d+(?:\.\d+)?)%")
ORACLE = "attackers"
"""Value of f that stands for the true number of attackers."""


class NoAnswerError(Exception):
    """Raised by a rule without an aggregate: the model is kept, the reason reported, and feedback still delivered."""

    def __init__(self, reason: str, feedback: Feedback | None = None) -> None:
        super().__init__(reason)
        self.feedback: Feedback = feedback or {}


def require_rows(view: View, feedback: Feedback | None = None) -> None:
    """Raise `NoAnswerError` where no row is left."""
    if len(view.rows) == 0:
        raise NoAnswerError("no update was left", feedback)


class AssumedAttackers:
    """Number of attackers that a part of a defense assumes, where it has a parameter f."""

    label: str
    """Name of the part in messages."""
    tolerates: str = ""
    """Condition on f attackers among n under which its guarantee holds; set by the decorator that registers it."""
    defined: str = ""
    """Condition under which it has an answer at all; set by the decorator that registers it."""

    @property
    def f_setting(self) -> Any:
        """Its parameter f as a suite sets it: a number, a percentage, "bound" or "attackers"; None without one."""
        return getattr(self, "f", None)

    @property
    def uses_oracle(self) -> bool:
        """Whether its f is the true number of attackers."""
        return bool(self.f_setting == ORACLE)

    def validate(self, n: int, selected: int) -> None:
        """Raise a `ParameterError` for parameters that cannot work with n rows of so many selected participants."""
        f = self.assumed_attackers(selected, n)
        if f is not None:
            self._check_f(f, n)

    def assumed_attackers(self, selected: int, n: int, attackers: int | None = None) -> int | None:
        """Return its f among n rows; None without one, or where it is the true number and that is not known."""
        f: int | str | None = self.f_setting
        if f == ORACLE:
            return attackers
        if f == "bound":
            return largest_tolerated(self.tolerates, n)
        if isinstance(f, str) and (percentage := PERCENTAGE.fullmatch(f)):
            return int(selected * Fraction(percentage[1]) / 100)
        check_f_text(self.label, f)
        assert not isinstance(f, str)
        return f

    def f_of(self, view: View) -> int:
        """Return its f among the rows of a view; `NoAnswerError` where it is not defined for so many attackers."""
        n = len(view.rows)
        f = self.assumed_attackers(view.selected, n, view.attackers)
        if f is None:
            raise ParameterError(f'{self.label}: f = "{ORACLE}" is known only in a federation; give a number')
        try:
            self._check_f(f, n)
        except ParameterError as error:
            raise NoAnswerError(str(error)) from error
        return f

    def warnings_about_f(self, selected: int, n: int) -> list[str]:
        """Return warnings about an f that is an oracle, 0, or defined but beyond what is guaranteed."""
        name = self.label.partition('"')[2].rstrip('"')
        if self.uses_oracle:
            return [f"{name} knows the true number of attackers of each round: an oracle"]
        f = self.assumed_attackers(selected, n)
        if f is not None and not is_tolerated(self.tolerates, f, n):
            return [f"f = {f} of {n} is beyond what {name} guarantees ({self.tolerates})"]
        return [f"f = 0 of {n}: {name} is set to tolerate no attacker"] if f == 0 else []

    def _check_f(self, f: int, n: int) -> None:
        if not is_tolerated(self.defined, f, n):
            raise ParameterError(undefined_reason(self.label, self.defined, f, n))


class Rule(AssumedAttackers):
    """A rule with a memory, or one that selects participants or sends them feedback.

    A subclass is a dataclass whose fields are its parameters. State that lasts from round to round stands in `memory`,
    as arrays, and is saved and restored with the cell. With a field `f: int`, `self.f_of(view)` is the number of
    attackers that a suite lets it assume.
    """

    needs_participants: bool = False
    """Whether it must know who sent each row; set by the decorator that registers it."""
    needs_root_update: bool = False
    """Whether it needs an update of the server's own examples; set by the decorator that registers it."""
    coordinatewise: bool = False
    """Whether it treats every coordinate alone, its values in any order; set by the decorator that registers it."""
    setting: ServerSetting
    """Numbers of participants and columns of an update; from `begin` on."""
    memory: Memory
    """State that lasts from round to round, as arrays by name: saved and restored with the cell."""

    def begin(self, setting: ServerSetting) -> None:
        """Prepare for the first round: keep the setting, with an empty `memory`."""
        self.setting, self.memory = setting, {}

    def simulation_copy(self) -> Self:
        """Return a copy on which an attacker can try rows: the same memory, and nothing else."""
        twin = dataclasses.replace(self)  # type: ignore[type-var]
        twin.begin(self.setting)
        twin.memory = {name: array.copy() for name, array in self.memory.items()}
        return twin

    def select(self, round: int, rng: np.random.Generator) -> Indices:
        """Return the participants of a round, in ascending order; the default is the same for all rules."""
        return np.sort(rng.choice(self.setting.participants, self.setting.per_round, replace=False))

    def aggregate(self, view: View, rng: np.random.Generator) -> "Vector | tuple[Vector, Feedback]":
        """Return the change of the global model, with feedback to participants if any; `NoAnswerError` keeps the model.

        Called in every round, also where no row is left (`require_rows`): `view.dropped` says whose were not finite.
        """
        raise NotImplementedError

    def report(self) -> dict[str, Any]:
        """Return facts for the round's history, as JSON values."""
        return {}

    def flags(self) -> list[str]:
        """Return warnings for readers of the results about this rule in this setting: by default, about its f."""
        return self.warnings_about_f(self.setting.per_round, self.setting.rows)


class Geometry:
    """Norms of rows and distances between them, computed on demand and updated by pre-aggregations."""

    def __init__(
        self, rows: Matrix, products: npt.NDArray[np.float64] | None = None, *, gram: Gram = kernels.gram
    ) -> None:
        self._rows, self._products, self._gram = rows, products, gram

    @property
    def products(self) -> npt.NDArray[np.float64]:
        """Return all inner products of rows."""
        if self._products is None:
            self._products = self._gram(self._rows)
        return self._products

    @property
    def norms(self) -> npt.NDArray[np.float64]:
        """Return the Euclidean norm of every row."""
        if self._products is None:
            return kernels.row_norms(self._rows)
        norms: npt.NDArray[np.float64] = np.sqrt(np.maximum(self._products.diagonal(), 0))
        return norms

    @property
    def distances(self) -> npt.NDArray[np.float64]:
        """Return the squared Euclidean distances between all rows."""
        return kernels.distances_from_gram(self.products)

    def combined(self, coefficients: Coefficients, rows: Matrix) -> "Geometry":
        """Return the geometry of combined rows; known inner products are reused without another pass."""
        known = self._products
        return Geometry(rows, None if known is None else coefficients @ known @ coefficients.T)


class Function(AssumedAttackers):
    """A registered function of a matrix, with its parameters and the arguments that the round fills in."""

    def __init__(self, entry: Entry, parameters: Mapping[str, Any]) -> None:
        self.entry = entry
        self.label, self.tolerates, self.defined = str(entry), entry.tolerates, entry.defined
        self.parameters = dict(parameters)
        self.filled_in = [name for name in inspect.signature(entry.target).parameters if name in FILL]
        check_f_text(self.label, self.f_setting)

    @property
    def f_setting(self) -> Any:
        """Its parameter f."""
        return self.parameters.get("f")

    def call(self, view: View, geometry: Geometry, rng: np.random.Generator) -> Any:
        """Call the function with its parameters and the arguments that the round fills in."""
        require_rows(view)
        given = self.parameters | {name: FILL[name](view, geometry, rng) for name in self.filled_in}
        if "f" in given:
            given["f"] = self.f_of(view)
        return self.entry.target(view.rows, **given)


def check_f_text(label: str, f: Any) -> None:
    """Raise an error for a text that is no way to set f."""
    percentage = PERCENTAGE.fullmatch(f) if isinstance(f, str) else None
    if isinstance(f, str) and f not in ("bound", ORACLE) and not (percentage and Fraction(percentage[1]) <= 100):
        raise ParameterError(f'{label}: f = "{f}" must be a number, a percentage such as "20%", "bound" or "{ORACLE}"')


FILL: dict[str, Callable[[View, Geometry, np.random.Generator], Any]] = {
    "weights": lambda view, geometry, rng: view.weights,
    "participants": lambda view, geometry, rng: view.participants,
    "columns": lambda view, geometry, rng: view.columns,
    "model": lambda view, geometry, rng: view.model,
    "scale": lambda view, geometry, rng: view.scale,
    "root_update": lambda view, geometry, rng: view.root_update,
    "norms": lambda view, geometry, rng: geometry.norms,
    "distances": lambda view, geometry, rng: geometry.distances,
    "products": lambda view, geometry, rng: geometry.products,
    "rng": lambda view, geometry, rng: rng,
}
"""Arguments that functions can ask for by name; everything else after `updates` is a parameter."""


class FunctionRule(Function, Rule):
    """A rule that is a function of the updates and returns the aggregate, or a pair: it and the weight of each row."""

    _reported: Mapping[str, Any] = {}

    @property
    def needs_participants(self) -> bool:  # type: ignore[override]
        """Whether the function asks for participants."""
        return self.entry.participants

    @property
    def needs_root_update(self) -> bool:  # type: ignore[override]
        """Whether the function asks for an update of the server's own examples."""
        return self.entry.root_update

    @property
    def coordinatewise(self) -> bool:  # type: ignore[override]
        """Whether the function is declared to treat every coordinate alone."""
        return self.entry.coordinatewise

    def simulation_copy(self) -> Self:
        """Return itself: it has no memory."""
        return self

    def aggregate(self, view: View, rng: np.random.Generator) -> Vector:
        """Return the function's aggregate."""
        return self.aggregate_with(view, Geometry(view.rows[:, view.columns.parameters]), rng)

    def aggregate_with(self, view: View, geometry: Geometry, rng: np.random.Generator) -> Vector:
        """Return the function's aggregate, with norms or distances that may be known already."""
        self._reported = {}
        answer: Any = self.call(view, geometry, rng)
        # Feedback, the other thing that may come with an aggregate, is a mapping.
        if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], np.ndarray):
            answer, weights = answer
            if view.participants is not None:
                by_sender = zip(view.participants.tolist(), weights.tolist(), strict=True)
                self._reported = {"row_weights": {str(who): weight for who, weight in by_sender}}
        aggregate: Vector = answer
        return aggregate

    def report(self) -> dict[str, Any]:
        """Return the weights of rows, where the function returns them and senders are known."""
        return dict(self._reported)


class Preaggregation(Function):
    """A function of the updates that returns coefficients: how new rows combine the old ones."""

    def coefficients(self, view: View, geometry: Geometry, rng: np.random.Generator) -> Coefficients:
        """Return the coefficients, one row per new row."""
        matrix = np.asarray(self.call(view, geometry, rng), np.float64)
        n = len(view.rows)
        if matrix.ndim != 2 or matrix.shape[1] != n:
            raise ParameterError(f"{self.entry} must return coefficients of {n} columns, not of shape {matrix.shape}")
        if len(matrix) != n and not self.entry.regroups:
            raise ParameterError(f"{self.entry} returned {len(matrix)} rows for {n}; register it with regroups=True")
        if not np.isfinite(matrix).all():
            raise ParameterError(f"{self.entry} returned coefficients that are not finite")
        return matrix


set_function_wrapper(Kind.RULE, FunctionRule)
set_function_wrapper(Kind.PREAGGREGATION, Preaggregation)
