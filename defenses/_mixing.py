"""Mixing: participants pair up and swap random coordinates of their updates before the server sees them.

The half of fragmented federated learning that hides updates; what the server then makes of the mixed ones is another
matter (`ffl`, `ffl-mixing`).
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt

from fflbench.crypto import pads
from fflbench.crypto.entropy import Entropy, derive
from fflbench.crypto.errors import ExchangeError
from fflbench.crypto.exchange import Acceptor, Initiator, Server, exchange_fragments, swap_in_place
from fflbench.crypto.groups import GROUPS
from fflbench.crypto.messages import SERVER, Message, Submission
from fflbench.errors import ParameterError
from fflbench.federation import Defense, Sent, ServerView
from fflbench.federation.defense import Setting
from fflbench.kernels import finite_rows
from fflbench.randomness import stream
from fflbench.types import Indices, Matrix, Vector

M = TypeVar("M", bound=Message)

KINDS = ("power", "sealed seed", "masked vector", "mixed update", "feedback", "mac", "framing")


@dataclass(kw_only=True)
class Mixing(Defense):
    """Selects like everybody, pairs at random, and lets the server see mixed updates only.

    A participant scales its change by its number of examples over a public figure, the mean, since the server cannot
    weigh people whose coordinates it cannot tell apart. Who finds no partner abstains; only an attacker may then submit
    its own row, under a pad of its own.
    """

    exchanges: ClassVar[bool] = True
    aggregates_alone: ClassVar[bool] = False
    private: ClassVar[tuple[str, ...]] = (*Defense.private, "server")

    mode: Annotated[
        Literal["fast", "full"], "swap the same coordinates without keys, or send and open every message for real"
    ] = "fast"
    group: Annotated[Literal["ffdhe2048", "rfc5114"], "where partners agree on a secret; the second is the paper's"] = (
        "ffdhe2048"
    )
    weighting: Annotated[
        Literal["examples", "equal"],
        "scale each change by its sender's number of examples, or let everyone count alike",
    ] = "examples"
    server: Server | None = field(default=None, init=False, repr=False)
    """The party that can open sealed seeds, in mode full."""

    @property
    def sends_models(self) -> bool:
        """Whether whole local models are scaled and mixed, less the global model, instead of changes."""
        return False

    @property
    def leaves_out(self) -> str:
        return "" if self.mode == "full" else 'keys, pads and messages (set mode = "full")'

    def validate(self, per_round: int) -> None:
        super().validate(per_round)
        if per_round < 2:
            raise ParameterError(f"mixing takes two: per_round = {per_round} leaves nobody to exchange with")

    def begin(self, setting: Setting) -> None:
        super().begin(setting)
        self.reference = float(self.counts(np.arange(setting.participants)).mean())
        self.memory["bytes"] = np.zeros(len(KINDS), np.int64)
        self.server = Server(Entropy(setting.seed)) if self.mode == "full" else None
        self.partner: dict[int, int] = {}
        self.abstained: list[int] = []
        self.lone: list[int] = []
        self.framed: list[int] = []
        self.faults: list[str] = []

    def simulated(self, seed: int) -> Self:
        """Return a copy without keys: it swaps the same number of coordinates, but sends no messages."""
        twin = super().simulated(seed)
        twin.mode = "fast"
        return twin

    def accepts(self, asked: int, asking: int, *, first: bool) -> bool:
        """Whether a participant exchanges with another; `first` says whether it is the one who asks."""
        return True

    def brought(self, rows: Matrix, who: Indices, weights: Vector) -> Matrix:
        return self._scale(rows.copy(), who, weights)

    def transmit(self, round: int, weights: Vector, selected: Indices, sent: Sent) -> ServerView:
        nobody = np.zeros(len(selected), bool)
        indifferent = nobody if sent.accepts_everyone is None else sent.accepts_everyone
        ignoring = nobody if sent.ignores_exchange is None else sent.ignores_exchange
        pairs = self._pair(round, selected, indifferent, sent.avoid_each_other)
        paired = nobody.copy()
        paired[np.array(pairs, int).ravel()] = True
        lone = indifferent & ~paired if sent.lone_sender else nobody
        own = np.flatnonzero(lone | ignoring & paired)
        whole = dict(zip(own.tolist(), self._scale(sent.submitted[own], selected[own], weights), strict=True))
        # Scaled and mixed where they are: what was sent is not needed again, and another matrix may not fit.
        rows = self._scale(sent.exchanged, selected, weights)
        finite = finite_rows(rows)
        self.faults = []
        arrived = nobody.copy()
        for one, other in pairs:
            exchange = self._exchange if self.mode == "full" else self._swap
            arrived[[one, other]] = exchange(round, selected, rows, one, other, whole)
        for place in np.flatnonzero(lone).tolist():
            arrived[place] = self._submit_alone(round, int(selected[place]), whole[place], rows[place])
        both_ways = [*pairs, *((other, one) for one, other in pairs)]
        self.partner = {int(selected[one]): int(selected[other]) for one, other in both_ways}
        self.abstained, self.lone = selected[~paired & ~lone].tolist(), selected[lone].tolist()
        planted = [one for one, other in both_ways if arrived[one] and finite[one] and not finite[other]]
        self.framed = sorted(int(selected[one]) for one in planted if not np.isfinite(rows[one]).all())
        return ServerView(
            round=round,
            weights=weights,
            participants=selected[arrived],
            updates=rows if arrived.all() else rows[arrived],
            sizes=self.setting.sizes[selected[arrived]],
            columns=self.setting.columns,
            selected=len(selected),
        )

    def counts(self, who: Indices) -> npt.NDArray[np.float64]:
        """For how many examples each participant counts."""
        return self.setting.sizes[who].astype(np.float64) if self.weighting == "examples" else np.ones(len(who))

    def unscaled(self, view: ServerView) -> float:
        """Factor that turns the mean of scaled rows into a mean by examples."""
        return len(view.participants) * self.reference / float(self.counts(view.participants).sum())

    def report(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "abstained": self.abstained,
            "lone": self.lone,
            "framed": self.framed,
            "faults": self.faults,
        }
        if self.mode == "full":
            told["bytes_so_far"] = dict(zip(KINDS, self.memory["bytes"].tolist(), strict=True))
        return told

    def _scale(self, rows: Matrix, who: Indices, weights: Vector) -> Matrix:
        factors = self.counts(who) / self.reference
        with np.errstate(over="ignore", invalid="ignore"):
            rows *= factors.astype(np.float32)[:, None]
            if self.sends_models:
                # d_k / d_ref times the local model, less the global one; row by row, since a second matrix may not fit.
                for row, factor in zip(rows, factors, strict=True):
                    row += np.float32(factor - 1) * weights
        return rows

    def _pair(
        self, round: int, selected: Indices, indifferent: npt.NDArray[np.bool_], avoiding: bool
    ) -> list[tuple[int, int]]:
        """In random order, each who is free asks random others who are free, until one agrees."""
        rng = stream(self.setting.seed, "pairing", round)
        free = set(range(len(selected)))
        pairs = []
        for one in rng.permutation(len(selected)):
            if one not in free:
                continue
            for other in rng.permutation(sorted(free - {one})):
                if avoiding and indifferent[one] and indifferent[other]:
                    continue
                willing = indifferent[one] or self.accepts(selected[one], selected[other], first=True)
                agreed = indifferent[other] or self.accepts(selected[other], selected[one], first=False)
                if willing and agreed:
                    pairs.append((int(one), int(other)))
                    free -= {one, other}
                    break
        return pairs

    def _swap(
        self, round: int, selected: Indices, rows: Matrix, one: int, other: int, whole: dict[int, Vector]
    ) -> tuple[bool, bool]:
        """The exchange without keys, pads or messages: the same coordinates change places."""
        secret = derive(f"cell {self.setting.seed}".encode(), "fast mask")
        mask = pads.mask(secret, round, int(selected[one]), int(selected[other]), rows.shape[1])
        swap_in_place(rows[one], rows[other], mask)
        for place in {one, other}.intersection(whole):
            rows[place] = whole[place]
        return True, True

    def _exchange(
        self, round: int, selected: Indices, rows: Matrix, one: int, other: int, whole: dict[int, Vector]
    ) -> tuple[bool, bool]:
        """The exchange for real. A fault between partners silences both, one that only the server sees its sender."""
        assert self.server is not None
        k, j = int(selected[one]), int(selected[other])
        entropy, public, group = Entropy(self.setting.seed), self.server.public, GROUPS[self.group]
        with self.working("mixing"):
            initiator = Initiator(rows[one], k, j, round, public, entropy, group)
            acceptor = Acceptor(rows[other], j, k, round, public, entropy, group)
        try:
            with self.working("mixing"):
                exchange_fragments(initiator, acceptor, self._count)
        except ExchangeError as error:
            self.faults.append(f"between partners: {error}")
            return False, False
        arrived = []
        for place, party in ((one, initiator), (other, acceptor)):
            if place in whole:
                arrived.append(self._submit_alone(round, party.name, whole[place], rows[place]))
            else:
                arrived.append(self._submit(party.submission(), rows[place]))
        return arrived[0], arrived[1]

    def _submit(self, submission: Submission, out: Vector) -> bool:
        """Send a submission to the server, which opens it into a row; whether that worked."""
        assert self.server is not None
        self._count(submission)
        try:
            with self.working("decryption"):
                self.server.open(submission, submission.round, submission.sender, out)
        except ExchangeError as error:
            self.faults.append(f"at the server: {error}")
            return False
        return True

    def _submit_alone(self, round: int, name: int, row: Vector, out: Vector) -> bool:
        """Submit a row that was not mixed."""
        if self.mode == "full":
            return self._submit(self._alone(round, name, row), out)
        out[:] = row
        return True

    def _alone(self, round: int, name: int, row: Vector) -> Submission:
        """Submission of an attacker without a partner, or who ignores the exchange: its row, under a pad of its own."""
        assert self.server is not None
        entropy = Entropy(self.setting.seed)
        seed = entropy.bytes(pads.SEED_BYTES, "seed of a lone pad", round, name)
        encrypted = np.empty(len(row), np.uint32)
        pads.add_pad(row.view(np.uint32), pads.pad_key(seed, "r", round), encrypted)
        sealed = self.server.public.seal(seed, entropy, round, "lone", name)
        return Submission(round, name, SERVER, pads.as_bytes(encrypted), sealed)

    def _count(self, message: M, /) -> M:
        """Enter a message into the ledger, as it is sent."""
        if self.ledger:
            self.ledger.enter(message)
        for kind, size in message.sizes().items():
            self.memory["bytes"][KINDS.index(kind)] += size
        return message
