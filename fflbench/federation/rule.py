"""Contract of rules and pre-aggregations: the server's half of a defense.

Both receive the server's view, their memory and a generator, and nothing else: no seed, no keys, no secret of a
transport.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from fflbench import kernels
from fflbench.errors import ParameterError
from fflbench.federation.transport import Feedback, Memory, ServerSetting
from fflbench.federation.views import View
from fflbench.registry import Entry, Kind, wrap_functions
from fflbench.tolerance import bears, largest
from fflbench.types import Coefficients, Indices, Matrix, Vector

Tolerated: TypeAlias = int | Literal["20%", "bound"]


class NoAnswerError(Exception):
    """Raised by a rule without an aggregate: the model is kept, the reason reported, and feedback still delivered."""

    def __init__(self, reason: str, feedback: Feedback | None = None) -> None:
        super().__init__(reason)
        self.feedback: Feedback = feedback or {}


def require_rows(view: View, feedback: Feedback | None = None) -> None:
    """Raise `NoAnswerError` where no row is left."""
    if len(view.rows) == 0:
        raise NoAnswerError("no update was left", feedback)


class Rule:
    """A rule with a memory, or one that selects participants or sends them feedback.

    A subclass is a dataclass whose fields are its parameters. State that lasts from round to round stands in `memory`,
    as arrays, and is saved and restored with the cell.
    """

    needs_participants: bool = False
    """Whether it must know who sent each row; set by the decorator that registers it."""
    setting: ServerSetting
    memory: Memory

    def validate(self, n: int, selected: int) -> None:
        """Raise a `ParameterError` for parameters that cannot work with n rows of so many selected participants."""

    def begin(self, setting: ServerSetting) -> None:
        """Prepare for the first round."""
        self.setting, self.memory = setting, {}

    def simulated(self) -> Self:
        """Return a copy on which an attacker can try rows: the same memory, and nothing else."""
        twin = dataclasses.replace(self)  # type: ignore[type-var]
        twin.begin(self.setting)
        twin.memory = {name: array.copy() for name, array in self.memory.items()}
        return twin

    def assumed(self, selected: int, n: int) -> int | None:
        """Return the number of attackers it is set to tolerate among n rows; None where it has no f."""
        return None

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
        """Return warnings for readers of the results about this rule in this setting."""
        return []


class Geometry:
    """Norms of rows and distances between them, computed on demand and updated by pre-aggregations."""

    def __init__(self, rows: Matrix, products: npt.NDArray[np.float64] | None = None) -> None:
        self._rows, self._products = rows, products

    @property
    def products(self) -> npt.NDArray[np.float64]:
        """Return all inner products of rows."""
        if self._products is None:
            self._products = kernels.gram(self._rows)
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
        return kernels.distances_of(self.products)

    def combined(self, coefficients: Coefficients, rows: Matrix) -> "Geometry":
        """Return the geometry of combined rows; known inner products are reused without another pass."""
        known = self._products
        return Geometry(rows, None if known is None else coefficients @ known @ coefficients.T)


class Function:
    """A registered function of a matrix, with its parameters and the arguments that the round fills in."""

    def __init__(self, entry: Entry, parameters: Mapping[str, Any]) -> None:
        self.entry = entry
        self.parameters = dict(parameters)
        self.filled_in = [name for name in inspect.signature(entry.target).parameters if name in FILL]

    def validate(self, n: int, selected: int) -> None:
        """Raise a `ParameterError` for an f that the function cannot tolerate among n rows."""
        if "f" in self.parameters:
            self._check_f(self._f(selected, n), n)

    def assumed(self, selected: int, n: int) -> int | None:
        """Return its f, or None without one."""
        return self._f(selected, n) if "f" in self.parameters else None

    def warnings(self, selected: int, n: int) -> list[str]:
        """Return warnings about an f that is 0, or defined but beyond what the function guarantees."""
        f = self.assumed(selected, n)
        if f is not None and not bears(self.entry.tolerates, f, n):
            return [f"f = {f} of {n} is beyond what {self.entry.name} guarantees ({self.entry.tolerates})"]
        return [f"f = 0 of {n}: {self.entry.name} is set to tolerate no attacker"] if f == 0 else []

    def call(self, view: View, geometry: Geometry, rng: np.random.Generator) -> Any:
        """Call the function with its parameters and the arguments that the round fills in."""
        require_rows(view)
        n = len(view.rows)
        given = self.parameters | {name: FILL[name](view, geometry, rng) for name in self.filled_in}
        if "f" in given:
            given["f"] = self._f(view.selected, n)
            try:
                self._check_f(given["f"], n)
            except ParameterError as error:
                raise NoAnswerError(str(error)) from error
        return self.entry.target(view.rows, **given)

    def _f(self, selected: int, n: int) -> int:
        f: Tolerated = self.parameters["f"]
        if f == "20%":
            return selected // 5
        if f == "bound":
            return largest(self.entry.tolerates, n)
        return f

    def _check_f(self, f: int, n: int) -> None:
        if not bears(self.entry.defined, f, n):
            raise ParameterError(f"{self.entry} needs {self.entry.defined}, but f = {f} and n = {n}")


FILL: dict[str, Callable[[View, Geometry, np.random.Generator], Any]] = {
    "weights": lambda view, geometry, rng: view.weights,
    "participants": lambda view, geometry, rng: view.participants,
    "columns": lambda view, geometry, rng: view.columns,
    "model": lambda view, geometry, rng: view.model,
    "scale": lambda view, geometry, rng: view.scale,
    "norms": lambda view, geometry, rng: geometry.norms,
    "distances": lambda view, geometry, rng: geometry.distances,
    "rng": lambda view, geometry, rng: rng,
}
"""Arguments that functions can ask for by name; everything else after `updates` is a parameter."""


class FunctionRule(Function, Rule):
    """A rule that is a function of the updates."""

    @property
    def needs_participants(self) -> bool:  # type: ignore[override]
        """Whether the function asks for participants."""
        return self.entry.participants

    def simulated(self) -> Self:
        """Return itself: it has no memory."""
        return self

    def aggregate(self, view: View, rng: np.random.Generator) -> Vector:
        """Return the function's aggregate."""
        return self.of(view, Geometry(view.rows[:, view.columns.parameters]), rng)

    def of(self, view: View, geometry: Geometry, rng: np.random.Generator) -> Vector:
        """Return the function's aggregate, with norms or distances that may be known already."""
        aggregate: Vector = self.call(view, geometry, rng)
        return aggregate

    def flags(self) -> list[str]:
        """Return warnings about its f."""
        return self.warnings(self.setting.per_round, self.setting.rows)


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


wrap_functions(Kind.RULE, FunctionRule)
wrap_functions(Kind.PREAGGREGATION, Preaggregation)
