"""What is sent, and what of it the server sees."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fflbench.federation.columns import Columns
from fflbench.kernels import finite_rows
from fflbench.types import Indices, Matrix, Vector


class Sent(NamedTuple):
    """What the selected participants send, a row each; attackers may exchange one thing and submit another."""

    exchanged: Matrix
    """What goes into an exchange of fragments, where the defense has one."""
    submitted: Matrix
    """What is sent to the server where there is no exchange, or by those who ignore what came of it."""
    ignores_exchange: npt.NDArray[np.bool_] | None = None
    """Who submits its own row whole, whatever it exchanged."""
    accepts_everyone: npt.NDArray[np.bool_] | None = None
    """Who exchanges with anybody, whatever the other's reputation."""
    avoid_each_other: bool = False
    """Whether those who exchange with anybody leave out each other."""
    lone_sender: bool = False
    """Whether those who exchange with anybody submit their own row where they find no partner."""


@dataclass(frozen=True)
class ServerView:
    """Everything the server ever sees of a round, and nothing more."""

    round: int
    weights: Vector
    """The global model that participants started from."""
    participants: Indices
    """Who submitted, a row of `updates` each."""
    updates: Matrix
    sizes: Indices
    """How many examples each participant declares."""
    columns: Columns
    selected: int
    """How many were asked."""
    dropped: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    """Whose rows were not finite, and so are no longer among `updates`."""

    def without_non_finite(self) -> "ServerView":
        """The view after rows with NaN or infinity are thrown out."""
        finite = finite_rows(self.updates)
        if finite.all():
            return self
        return replace(
            self,
            participants=self.participants[finite],
            updates=self.updates[finite],
            sizes=self.sizes[finite],
            dropped=self.participants[~finite],
        )
