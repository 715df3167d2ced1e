"""Contract of transports: how updates travel from participants to the server, and what the server sees of them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args

import numpy as np
import numpy.typing as npt

from fflbench.arrays.columns import Columns
from fflbench.crypto.entropy import Entropy
from fflbench.errors import ParameterError
from fflbench.federation.messages import SERVER, FeedbackMessage, Update
from fflbench.federation.views import ObservedUpdates, ParticipantView, Rows, Transcript, Upload, View
from fflbench.types import Indices, Matrix, Vector

Memory = dict[str, npt.NDArray[Any]]
"""State that lasts from round to round, as arrays: it is saved and restored with the cell."""

Feedback = Mapping[int, float]
"""A rule's feedback, by participant."""


@dataclass(frozen=True)
class Setting:
    """Setting of a transport, known before the first round."""

    participants: int
    """Number of participants in the federation."""
    per_round: int
    """Number of participants selected each round."""
    sizes: Indices
    """Numbers of examples that participants declare, by participant."""
    columns: Columns
    """Positions of the model's tensors in an update."""


@dataclass(frozen=True)
class ServerSetting:
    """Setting of a rule, known before the first round."""

    participants: int
    """Number of participants in the federation."""
    per_round: int
    """Number of participants selected each round."""
    columns: Columns
    """Positions of the model's tensors in an update."""
    multiple: int = 1
    """Number of which the transport needs a multiple of participants."""
    rows: int = 0
    """Number of rows that the rule receives if all selected participants' updates arrive."""


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """Deviation of participants from a transport's protocol; defined in the transport's package.

    Its fields are the parameters of a suite's [deviation.TRANSPORT] table.
    """

    @property
    def needs_attackers(self) -> bool:
        """Whether only attackers deviate, so that a federation without them is unchanged."""
        return True

    @property
    def needs_clean_updates(self) -> bool:
        """Whether attackers also need their honest updates, so that each round trains them twice."""
        return False


class Transport:
    """Carrier of updates from participants to the server; a subclass is a dataclass whose fields are its parameters.

    It simulates all participants and owns their state: keys, reputations of each other, noise. It must not use who the
    attackers are, except to let them deviate.
    """

    rows: ClassVar[Rows] = "participant"
    """Meaning of a row in the server's view."""
    deviation: ClassVar[type[Deviation] | None] = None
    """Class of the deviations that the protocol allows for, if any."""
    multiple: ClassVar[int] = 1
    """Number of which a multiple of participants is needed."""
    overwrites_rows: ClassVar[bool] = True
    """Whether rows may reach the server otherwise than they are handed in, or are overwritten on their way."""

    setting: Setting
    """Numbers of participants, their sizes and the columns of an update; from `begin` on."""
    entropy: Entropy
    """Source of keys, pairings and masks; from `begin` on."""
    memory: Memory
    """State that lasts from round to round, as arrays by name: saved and restored with the cell."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.rows not in get_args(Rows):
            raise TypeError(f"{cls.__name__}.rows must be one of {', '.join(get_args(Rows))}")
        if cls.deviation is not None and not (isinstance(cls.deviation, type) and issubclass(cls.deviation, Deviation)):
            raise TypeError(f"{cls.__name__}.deviation must be a subclass of Deviation, or None")
        if type(cls.multiple) is not int or cls.multiple < 1:
            raise TypeError(f"{cls.__name__}.multiple must be a whole number from 1")

    @property
    def simulated_part(self) -> str:
        """Part of the protocol that is only simulated with these parameters, if any: its cost cannot be measured."""
        return ""

    @staticmethod
    def missing_dependency() -> str:
        """Return which dependency is not installed, and how to install it; an empty text if none."""
        return ""

    def validate(self, per_round: int) -> None:
        """Raise a `ParameterError` for parameters that cannot work with so many participants per round."""
        if missing := self.missing_dependency():
            raise ParameterError(missing)

    def begin(self, setting: Setting, entropy: Entropy) -> None:
        """Prepare for the first round: keep the setting, with an empty `memory`."""
        self.setting, self.entropy, self.memory = setting, entropy, {}

    def simulation_copy(self, entropy: Entropy) -> Self:
        """Return a transport on which an attacker can try rows: the same memory, other random choices, no keys."""
        fast = {"mode": "fast"} if "mode" in vars(self) else {}
        twin = dataclasses.replace(self, **fast)  # type: ignore[type-var]
        twin.begin(self.setting, entropy)
        twin.memory = {name: array.copy() for name, array in self.memory.items()}
        return twin

    def transmit(self, upload: Upload) -> Transcript:
        """Carry the participants' updates to the server."""
        raise NotImplementedError

    def deliver(self, transcript: Transcript, feedback: Feedback) -> None:
        """Carry the server's feedback to participants."""
        for who, value in feedback.items():
            transcript.ledger.add(FeedbackMessage.of(transcript.round, int(who), value))

    @classmethod
    def collude(cls, view: View, who: int, own: ParticipantView, people: Sequence[int]) -> list[ObservedUpdates]:
        """Return the updates that the server learns from a colluding participant's view.

        By default the colluding participant's own update is subtracted from the sum. Called for several participants in
        turn, it returns nothing for those who would only repeat what another has contributed.
        """
        others = [other for other in people if other != who]
        if who > min(others, default=who):
            return []
        assert view.sizes is not None
        weights = view.sizes.astype(np.float64)
        total = (weights[:, None] * view.rows.astype(np.float64)).sum(0)
        rest = (total - own.size * own.update) / (weights.sum() - own.size)
        return [ObservedUpdates((rest.astype(np.float32),), tuple(others))]

    def expected_rows(self, who: Indices, updates: Matrix, model: Vector) -> Matrix:
        """Return updates after all that the protocol does to them without randomness, such as clipping or scaling.

        A server that knows the protocol looks for these in its view; the updates themselves stay as they are.
        """
        return updates

    def flags(self) -> list[str]:
        """Return warnings for readers of the results about this transport in this setting."""
        return []

    def guarantee(self) -> dict[str, Any]:
        """Return the proven privacy guarantee so far, such as epsilon and delta; empty for most transports."""
        return {}

    def summary(self, history: Sequence[Mapping[str, Any]], attackers: Indices) -> dict[str, Any]:
        """Return facts about all rounds, from the facts of each round's transcript."""
        return {}

    # Helpers for subclasses

    def submitted(self, upload: Upload) -> Transcript:
        """Return a transcript in which every row reached the server unchanged, under its sender's name."""
        transcript = Transcript(upload.round)
        if len(upload.rows):
            last = Update(upload.round, int(upload.participants[-1]), SERVER, upload.rows[-1].data)
            transcript.ledger.add(last, len(upload.rows))
        transcript.views["server"] = View(
            round=upload.round,
            model=upload.model,
            rows=upload.rows,
            weights=self.setting.sizes[upload.participants],
            columns=self.setting.columns,
            selected=len(upload.participants),
            participants=upload.participants,
            sizes=self.setting.sizes[upload.participants],
        )
        self.watched(transcript, upload)
        return transcript

    def watched(self, transcript: Transcript, upload: Upload) -> None:
        """Add the views of watched participants: their updates before anything is overwritten."""
        for place in np.flatnonzero(np.isin(upload.participants, list(upload.watch))) if upload.watch else ():
            who = int(upload.participants[place])
            transcript.views[who] = ParticipantView(upload.rows[place].copy(), int(self.setting.sizes[who]))
