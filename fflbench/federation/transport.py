"""Contract of transports: how updates travel from participants to the server, and what of them it sees."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args

import numpy as np
import numpy.typing as npt

from fflbench.crypto.entropy import Entropy
from fflbench.errors import ParameterError
from fflbench.federation.columns import Columns
from fflbench.federation.messages import SERVER, FeedbackMessage, Update
from fflbench.federation.views import ObservedUpdates, ParticipantView, Rows, Transcript, Upload, View
from fflbench.types import Indices

Memory = dict[str, npt.NDArray[Any]]
"""State from round to round, as arrays: it is saved and restored with the cell."""

Feedback = Mapping[int, float]
"""A rule's answer to participants, by their numbers."""


@dataclass(frozen=True)
class Setting:
    """What is settled before the first round."""

    participants: int
    per_round: int
    sizes: Indices
    """Participants' numbers of examples."""
    columns: Columns


@dataclass(frozen=True)
class ServerSetting:
    """What a rule knows before the first round."""

    participants: int
    per_round: int
    columns: Columns
    multiple: int = 1
    """The transport needs participants in multiples of this."""
    rows: int = 0
    """Rows that the rule is given where those of all who are selected arrive."""


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """How participants depart from a transport's protocol; a subclass stands beside its transport.

    Its fields are the parameters of a suite's [deviation.TRANSPORT] table.
    """

    @property
    def needs_attackers(self) -> bool:
        """Whether only attackers deviate, so that without them nothing changes."""
        return True

    @property
    def needs_clean_updates(self) -> bool:
        """Whether attackers also need what honest training would give, so that the round trains them twice."""
        return False


class Transport:
    """Carries updates to the server. A subclass is a dataclass whose fields are its parameters.

    It plays all participants and owns their state: keys, reputations of each other, noise. It may not look at who
    attacks, except to let them deviate.
    """

    rows: ClassVar[Rows] = "participant"
    """What a row of the server's view is."""
    deviation: ClassVar[type[Deviation] | None] = None
    """How participants can depart from the protocol, if in any way."""
    multiple: ClassVar[int] = 1
    """Participants are needed in multiples of this."""

    setting: Setting
    entropy: Entropy
    memory: Memory

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.rows not in get_args(Rows):
            raise TypeError(f"{cls.__name__}.rows must be one of {', '.join(get_args(Rows))}")
        if cls.deviation is not None and not (isinstance(cls.deviation, type) and issubclass(cls.deviation, Deviation)):
            raise TypeError(f"{cls.__name__}.deviation must be a subclass of Deviation, or None")
        if type(cls.multiple) is not int or cls.multiple < 1:
            raise TypeError(f"{cls.__name__}.multiple must be a whole number from 1")

    @property
    def leaves_out(self) -> str:
        """What of its protocol is only simulated as it is set, in a few words: then its cost cannot be measured."""
        return ""

    @staticmethod
    def missing() -> str:
        """Return what it needs that is not installed, and how to get it; nothing, for most."""
        return ""

    def validate(self, per_round: int) -> None:
        """Refuse parameters that cannot work with so many participants a round, before anything is trained."""
        if missing := self.missing():
            raise ParameterError(missing)

    def begin(self, setting: Setting, entropy: Entropy) -> None:
        """Get ready for the first round."""
        self.setting, self.entropy, self.memory = setting, entropy, {}

    def simulated(self, entropy: Entropy) -> Self:
        """Return a transport for an attacker to try rows on: the same memory, other random choices, no keys."""
        fast = {"mode": "fast"} if "mode" in vars(self) else {}
        twin = dataclasses.replace(self, **fast)  # type: ignore[type-var]
        twin.begin(self.setting, entropy)
        twin.memory = {name: array.copy() for name, array in self.memory.items()}
        return twin

    def transmit(self, upload: Upload) -> Transcript:
        """Carry what participants hand in to the server."""
        raise NotImplementedError

    def deliver(self, transcript: Transcript, feedback: Feedback) -> None:
        """Carry the server's feedback to participants."""
        for who, value in feedback.items():
            transcript.ledger.enter(FeedbackMessage.of(transcript.round, int(who), value))

    @classmethod
    def collude(cls, view: View, who: int, own: ParticipantView, people: Sequence[int]) -> list[ObservedUpdates]:
        """Return the updates that the server finds with the help of one of the people, who tells what it sees.

        By default it takes its own update out of a sum. Asked of one after the other, it returns nothing for those who
        could only tell again what another has told.
        """
        others = [other for other in people if other != who]
        if who > min(others, default=who):
            return []
        assert view.sizes is not None
        weights = view.sizes.astype(np.float64)
        total = (weights[:, None] * view.rows.astype(np.float64)).sum(0)
        rest = (total - own.size * own.update) / (weights.sum() - own.size)
        return [ObservedUpdates((rest.astype(np.float32),), tuple(others))]

    def flags(self) -> list[str]:
        """Return what a reader of the results should know of this transport in this setting."""
        return []

    def guarantee(self) -> dict[str, Any]:
        """Return what it promises of privacy by a proof, so far; nothing, for most."""
        return {}

    def summary(self, history: Sequence[Mapping[str, Any]], attackers: Indices) -> dict[str, Any]:
        """Return facts about all rounds, from what transcripts told of each."""
        return {}

    # What most transports share

    def submitted(self, upload: Upload) -> Transcript:
        """Return a transcript in which every row reached the server under its sender's name, as it is."""
        transcript = Transcript(upload.round)
        for who, row in zip(upload.participants, upload.rows, strict=True):
            transcript.ledger.enter(Update(upload.round, int(who), SERVER, row.data))
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
        """Enter views of the participants that are watched: their updates before anything is overwritten."""
        for place in np.flatnonzero(np.isin(upload.participants, list(upload.watch))):
            who = int(upload.participants[place])
            transcript.views[who] = ParticipantView(upload.rows[place].copy(), int(self.setting.sizes[who]))
