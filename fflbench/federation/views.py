"""Views of a round: what participants hand to a transport, and what the server and participants see of it."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fflbench.arrays.columns import Columns
from fflbench.arrays.kernels import compact, finite_rows
from fflbench.federation.ledger import Ledger
from fflbench.federation.messages import Message
from fflbench.types import Indices, Matrix, Vector

Rows: TypeAlias = Literal["participant", "mixture", "group", "anonymous", "sum"]
"""Meaning of a row in the server's view.

One participant's update, a mixture of several that one of them submits, the update of a group, an update without a
sender, or the sum of all.
"""

Party: TypeAlias = str | int
"""A server by its name, or a participant by its number."""

NOBODY = -1
"""Sender of a row without one."""


@dataclass(frozen=True)
class Upload:
    """Updates that the selected participants hand to a transport, one row per participant."""

    round: int
    """Number of the round, from 0."""
    model: Vector
    """The global model that they started from."""
    participants: Indices
    """Sender of each row."""
    rows: Matrix
    """May be overwritten by the transport, since a second matrix may not fit into memory."""
    attackers: npt.NDArray[np.bool_]
    """Whether each of them is an attacker."""
    deviation: Any = None
    """Deviation from the protocol, an object of the transport's deviation class; None where everybody follows it."""
    clean: Callable[[Indices], Matrix] | None = None
    """Function that returns attackers' updates on unpoisoned data, by participant; for deviations that need them."""
    watch: Collection[int] = ()
    """Participants whose views the transcript must hold."""


@dataclass(frozen=True)
class View:
    """Everything that a server sees of a round, and nothing more."""

    round: int
    """Number of the round, from 0."""
    model: Vector
    """The global model that participants started from."""
    rows: Matrix
    """Updates as the transport delivers them; `Transport.rows` says what a row is."""
    weights: npt.NDArray[Any]
    """Weight of each row in a mean."""
    columns: Columns
    """Positions of the model's tensors in a row."""
    selected: int
    """Number of participants selected."""
    participants: Indices | None = None
    """Sender of each row, where rows have senders."""
    sizes: npt.NDArray[Any] | None = None
    """Declared number of examples of each row."""
    scale: float = 1.0
    """Factor by which the round multiplies the rule's result."""
    dropped: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    """Senders of rows that were not finite, which are no longer among `rows`."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further information that a transport shows its server."""
    root_update: Vector | None = None
    """Update that the server trained on its own examples, for rules that need one."""
    attackers: int | None = None
    """True number of attackers among the senders of `rows`: an oracle, only for parts with f = "attackers"."""

    def without_non_finite(self) -> "View":
        """Return the view without rows that hold NaN or infinity; the others move up in place."""
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
        """Return the view with read-only arrays."""
        windows: dict[str, Any] = {
            name: read_only(value) for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return replace(self, **windows)


@dataclass(frozen=True)
class ParticipantView:
    """Everything that one participant has and sees of a round."""

    update: Vector
    """Its own update, as the transport uses it: scaled by transports that scale."""
    size: int
    """Number of examples that it declares."""
    received: tuple[Message, ...] = ()
    """Messages that it received."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further information that it has, such as keys."""


@dataclass
class Transcript:
    """Views of all parties of a round, and every message."""

    round: int
    """Number of the round, from 0."""
    views: dict[Party, View | ParticipantView] = field(default_factory=dict)
    """Views of servers, and of the participants that are watched."""
    ledger: Ledger = field(default_factory=Ledger)
    """Number and bytes of all messages, by kind."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts about the transport for the round's history, as JSON values; no party sees them."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of work, by `participants` (all together) and `server`."""

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
        """Add the seconds of the enclosed block to a party's work."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[whose] = self.seconds.get(whose, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class ObservedUpdates:
    """Updates to attack, and the participants behind them."""

    updates: tuple[Vector, ...]
    """Mean updates, each over the same number of participants."""
    participants: tuple[int, ...]
    """Participants against whose data the updates are scored, all together."""
    layer: str = ""
    """Name of the weights that could be separated, with their bias, where only one layer could."""
    owners: npt.NDArray[np.bool_] | None = None
    """For that layer's columns, whether the first update's entry is attributed to the first participant."""
    determined: bool = True
    """Whether the views determine the updates, for observations that estimate updates which they may not."""


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only view of an array."""
    window = array.view()
    window.flags.writeable = False
    return window
