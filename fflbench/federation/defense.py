"""What every defense has: who is selected, what reaches the server, and what the server makes of it."""

import copy
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from fflbench.crypto.messages import SERVER
from fflbench.errors import ParameterError
from fflbench.federation.columns import Columns
from fflbench.federation.ledger import Ledger, Update
from fflbench.federation.views import Sent, ServerView
from fflbench.randomness import stream
from fflbench.registry import Entry, Kind, wrap_functions
from fflbench.tolerance import bears, largest
from fflbench.types import Indices, Matrix, Vector

Tolerated: TypeAlias = int | Literal["20%", "bound"]


@dataclass(frozen=True)
class Setting:
    """What a defense knows before the first round."""

    participants: int
    per_round: int
    sizes: Indices
    columns: Columns
    seed: int


class NoAnswerError(Exception):
    """A rule that has no answer to what it was given; the round keeps its model and says why."""


def require_updates(view: ServerView) -> None:
    """Keep the model where no row is left."""
    if len(view.updates) == 0:
        raise NoAnswerError("no update was left")


class Defense:
    """Selects at random, lets every update through as it is, and leaves the aggregate to subclasses.

    A subclass is a dataclass whose fields are its parameters. What it remembers from round to round stands in
    `memory`, as arrays, and is saved and restored with the cell.
    """

    aggregates_alone: ClassVar[bool] = True
    """Whether a matrix of updates is all its aggregate needs (what `fflbench.aggregate` can offer)."""

    exchanges: ClassVar[bool] = False
    """Whether participants exchange fragments, so that an attack's strategy matters."""

    hides_senders: ClassVar[bool] = False
    """Whether the server sees no single participant's submission."""

    private: ClassVar[tuple[str, ...]] = ("ledger", "clock")
    """Attributes that no simulation gets: it has the class's own value of them."""

    setting: Setting
    memory: dict[str, npt.NDArray[Any]]
    ledger: Ledger | None = None
    """Where messages are counted, if anybody asks for that."""
    clock: dict[str, float] | None = None
    """Where seconds are kept by whose work takes them, if anybody asks for that."""

    @property
    def leaves_out(self) -> str:
        """What of its protocol is only simulated as it is set, in a few words: then its cost cannot be measured."""
        return ""

    @staticmethod
    def missing() -> str:
        """What it needs that is not installed, and how to get it; nothing, for most."""
        return ""

    def validate(self, per_round: int) -> None:
        """Refuse parameters that cannot work with so many participants a round, before anything is trained."""
        if missing := self.missing():
            raise ParameterError(missing)

    def begin(self, setting: Setting) -> None:
        """Get ready for the first round."""
        self.validate(setting.per_round)
        self.setting = setting
        self.memory = {}

    def simulated(self, seed: int) -> Self:
        """Return a copy for an attacker to try rows on: the same memory, other random choices, nothing private."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if name in self.private:
                delattr(twin, name)
            elif name == "setting":
                twin.setting = replace(self.setting, seed=seed)
            else:
                setattr(twin, name, value.simulated(seed) if isinstance(value, Defense) else copy.deepcopy(value))
        return twin

    def assumed(self, selected: int, n: int) -> int | None:
        """Number of attackers it is set to tolerate among n updates of so many selected; None where it has no f."""
        return None

    def select(self, round: int) -> Indices:
        """Who takes part, in ascending order; the same for all defenses that leave this as it is."""
        rng = stream(self.setting.seed, "selection", round)
        return np.sort(rng.choice(self.setting.participants, self.setting.per_round, replace=False))

    def brought(self, rows: Matrix, who: Indices, weights: Vector) -> Matrix:
        """What participants bring to an exchange, of what their training gave; a copy where that differs."""
        return rows

    def transmit(self, round: int, weights: Vector, selected: Indices, sent: Sent) -> ServerView:
        """Carry what was sent to the server."""
        if self.ledger:
            for who, row in zip(selected, sent.submitted, strict=True):
                self.ledger.enter(Update(round, int(who), SERVER, row.data))
        return ServerView(
            round=round,
            weights=weights,
            participants=selected,
            updates=sent.submitted,
            sizes=self.setting.sizes[selected],
            columns=self.setting.columns,
            selected=len(selected),
        )

    def aggregate(self, view: ServerView) -> Vector:
        """The change of the global model; `NoAnswerError` keeps it as it is.

        Called in every round, also where no row is left (`require_updates`): `view.dropped` says whose were not finite.
        """
        raise NotImplementedError

    @contextmanager
    def working(self, what: Literal["mixing", "decryption"]) -> Iterator[None]:
        """Say whose work goes on inside: what participants do with each other, or how the server opens it."""
        start = time.perf_counter()
        try:
            yield
        finally:
            if self.clock is not None:
                self.clock[what] = self.clock.get(what, 0.0) + time.perf_counter() - start

    def report(self) -> dict[str, Any]:
        """What the round just played looked like from inside, as JSON can hold it."""
        return {}

    def flags(self) -> list[str]:
        """What a reader of the results should know of this defense in this setting."""
        return []

    def guarantee(self) -> dict[str, Any]:
        """What it promises of privacy by a proof, so far; nothing, for most."""
        return {}


class Rule(Defense):
    """A defense that is a function of the updates."""

    def __init__(self, entry: Entry, parameters: Mapping[str, Any]) -> None:
        self.entry = entry
        self.parameters = dict(parameters)
        self.filled_in = [name for name in inspect.signature(entry.target).parameters if name in FILL]

    def validate(self, per_round: int) -> None:
        """Refuse an f that the rule cannot bear."""
        if "f" in self.parameters:
            self._bear(self._f(per_round, per_round), per_round)

    def aggregate(self, view: ServerView) -> Vector:
        """The function's value, with what it asks for filled in."""
        require_updates(view)
        n = len(view.updates)
        given = self.parameters | {name: FILL[name](self, view) for name in self.filled_in}
        if "f" in given:
            given["f"] = self._f(view.selected, n)
            try:
                self._bear(given["f"], n)
            except ParameterError as error:
                raise NoAnswerError(str(error)) from error
        aggregate: Vector = self.entry.target(view.updates, **given)
        return aggregate

    def assumed(self, selected: int, n: int) -> int | None:
        """Return its f, where it has one."""
        return self._f(selected, n) if "f" in self.parameters else None

    def flags(self) -> list[str]:
        """Report an f that is 0, or defined but not within what the rule guarantees."""
        n = self.setting.per_round
        f = self.assumed(n, n)
        if f is not None and not bears(self.entry.tolerates, f, n):
            return [f"f = {f} of {n} is beyond what {self.entry.name} guarantees ({self.entry.tolerates})"]
        return [f"f = 0 of {n}: {self.entry.name} is set to tolerate no attacker"] if f == 0 else []

    def _f(self, selected: int, n: int) -> int:
        f: Tolerated = self.parameters["f"]
        if f == "20%":
            return selected // 5
        if f == "bound":
            return largest(self.entry.tolerates, n)
        return f

    def _bear(self, f: int, n: int) -> None:
        if not bears(self.entry.defined, f, n):
            raise ParameterError(f"{self.entry} needs {self.entry.defined}, but f = {f} and n = {n}")


wrap_functions(Kind.DEFENSE, Rule)

FILL: dict[str, Callable[[Rule, ServerView], Any]] = {
    "weights": lambda _, view: view.sizes,
    "participants": lambda _, view: view.participants,
    "columns": lambda _, view: view.columns,
    "rng": lambda rule, view: stream(rule.setting.seed, "rule", view.round),
}
