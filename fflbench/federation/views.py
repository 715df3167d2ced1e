"""Messages of a round as each party sees them: what participants hand to a transport, and what the server receives."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fflbench.federation.columns import Columns
from fflbench.federation.ledger import Ledger
from fflbench.federation.messages import Message
from fflbench.kernels import compact, finite_rows
from fflbench.types import Indices, Matrix, Vector

Rows: TypeAlias = Literal["participant", "mixture", "group", "anonymous", "sum"]
"""What a row of the server's view is: one participant's update, a mixture of some that one of them submits, the update
of a group, one of nobody's name, or the sum of all."""

Party: TypeAlias = str | int
"""A server by its name, or a participant by its number."""

NOBODY = -1
"""Stands for the sender of a row that has none."""


@dataclass(frozen=True)
class Upload:
    """What the selected participants hand to a transport; one row per participant."""

    round: int
    model: Vector
    """The global model that they started from."""
    participants: Indices
    rows: Matrix
    """Theirs to overwrite: a second matrix may not fit."""
    attackers: npt.NDArray[np.bool_]
    """Which of them attack."""
    deviation: Any = None
    """How some depart from the protocol: an object of the transport's deviation, or None where everybody follows it."""
    clean: Callable[[Indices], Matrix] | None = None
    """Returns attackers' updates on unpoisoned data, by their numbers; for deviations that need them."""
    watch: Collection[int] = ()
    """Participants whose views the transcript must hold."""


@dataclass(frozen=True)
class View:
    """Everything that a server sees of a round, and nothing more."""

    round: int
    model: Vector
    """The global model that participants started from."""
    rows: Matrix
    weights: npt.NDArray[Any]
    """How much each row counts in a mean."""
    columns: Columns
    selected: int
    """Number of participants that were asked."""
    participants: Indices | None = None
    """Who submitted each row, where a row has a sender."""
    sizes: npt.NDArray[Any] | None = None
    """Numbers of examples that are declared for each row."""
    scale: float = 1.0
    """Factor by which the round multiplies the rule's result."""
    dropped: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    """Senders of rows that were not finite, and so are no longer among `rows`."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Anything else that a transport shows its server."""

    def without_non_finite(self) -> "View":
        """Return the view after rows with NaN or infinity are thrown out; the others move up in place."""
        finite = finite_rows(self.rows)
        if finite.all():
            return self
        senders = np.full(len(finite), NOBODY) if self.participants is None else self.participants
        return replace(
            self,
            rows=compact(self.rows, finite) if self.rows.flags.writeable else self.rows[finite],
            weights=self.weights[finite],
            participants=None if self.participants is None else self.participants[finite],
            sizes=None if self.sizes is None else self.sizes[finite],
            dropped=np.concatenate([self.dropped, senders[~finite]]),
        )

    def read_only(self) -> "View":
        """Return the view with arrays that nobody can overwrite by mistake."""
        windows: dict[str, Any] = {
            name: read_only(value) for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return replace(self, **windows)


@dataclass(frozen=True)
class ParticipantView:
    """What one participant has and sees of a round."""

    update: Vector
    """Its own contribution, as the transport takes it: scaled where that scales."""
    size: int
    """Number of its examples."""
    received: tuple[Message, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Transcript:
    """What each party saw of a round, and every message of it."""

    round: int
    views: dict[Party, View | ParticipantView] = field(default_factory=dict)
    """The servers' views, and those of participants that are watched."""
    ledger: Ledger = field(default_factory=Ledger)
    facts: dict[str, Any] = field(default_factory=dict)
    """What the round's history tells of the transport, as JSON can hold it; no party sees it."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time by whose work takes it: `participants` (all together) or `server`."""

    @property
    def server(self) -> View:
        """View of the server on which the rule runs: the only one, or the first of several."""
        view = self.views["server" if "server" in self.views else "server-1"]
        assert isinstance(view, View)
        return view

    @server.setter
    def server(self, view: View) -> None:
        self.views["server" if "server" in self.views else "server-1"] = view

    @property
    def servers(self) -> dict[str, View]:
        """Views of all servers."""
        return {party: view for party, view in self.views.items() if isinstance(view, View)}  # type: ignore[misc]

    @property
    def participants(self) -> dict[int, ParticipantView]:
        """Views of the participants that are watched."""
        return {party: view for party, view in self.views.items() if isinstance(view, ParticipantView)}  # type: ignore[misc]

    @contextmanager
    def timed(self, whose: Literal["participants", "server"]) -> Iterator[None]:
        """Add the time of what goes on inside to somebody's work."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[whose] = self.seconds.get(whose, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class ObservedUpdates:
    """Updates to attack, and whose examples are behind them."""

    updates: tuple[Vector, ...]
    """Each the mean change of the model over as many people as the others."""
    people: tuple[int, ...]
    """Whom the core scores them against, all together."""
    layer: str = ""
    """The weights that could be separated, with their bias, where only one layer could."""
    owners: npt.NDArray[np.bool_] | None = None
    """For that layer's columns: whether the first update's entry is taken for the first person's."""


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a window on an array through which it cannot be changed."""
    window = array.view()
    window.flags.writeable = False
    return window
