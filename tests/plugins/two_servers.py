"""Secure aggregation by two servers (Corrigan-Gibbs and Boneh, Prio, NSDI 2017), without its proofs. An example."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fflbench.arrays.kernels import finite_rows
from fflbench.crypto import keystream
from fflbench.federation import ObservedUpdates, Rows, Transcript, Transport, Upload, View
from fflbench.federation.messages import SECOND_SERVER, SERVER, Bytes, Message, MessagePart
from fflbench.privacy.observation import Coalition, Observation
from fflbench.registration import observation, transport
from fflbench.types import Matrix

FRACTION = 2.0**32
"""Fixed point: so many steps make 1. Sums are exact as long as they stay below 2^31."""

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, repr=False)
class Share(Message):
    """One of two shares of an update; each alone is uniformly random."""

    KIND = 21
    PARTS: ClassVar[Mapping[str, MessagePart]] = {
        "words": MessagePart("share", "One of two shares of an update", vector=True)
    }

    words: Bytes


@dataclass(frozen=True, repr=False)
class SumOfShares(Message):
    """The second server's sum of all shares that it received."""

    KIND = 22
    PARTS: ClassVar[Mapping[str, MessagePart]] = {
        "words": MessagePart("sum of shares", "A server's sum of shares", vector=True)
    }

    words: Bytes


@transport("two-servers", title="Two servers")
class TwoServers(Transport):
    """Send each of two servers one additive share of the update, so that together they find the sum and no more.

    Updates are multiplied by their numbers of examples, which are public. Whose update is not finite abstains.
    """

    rows: ClassVar[Rows] = "sum"

    def transmit(self, upload: Upload) -> Transcript:
        transcript = Transcript(upload.round)
        self.watched(transcript, upload)
        finite = finite_rows(upload.rows)
        who = upload.participants[finite]
        sizes = self.setting.sizes[who]
        first = encoded(upload.rows[finite].astype(np.float64) * sizes[:, None])
        second = np.empty_like(first)
        for each, own, other in zip(who.tolist(), first, second, strict=True):
            other[:] = self._random(upload.round, each, len(other))
            own -= other
            transcript.ledger.add(Share(upload.round, each, SERVER, own.data))
            transcript.ledger.add(Share(upload.round, each, SECOND_SERVER, other.data))
        total_of_second = second.sum(0, dtype=np.uint64)
        transcript.ledger.add(SumOfShares(upload.round, SECOND_SERVER, SERVER, total_of_second.data))
        total = decoded(first.sum(0, dtype=np.uint64) + total_of_second)
        weight = sizes.sum(keepdims=True)[: len(who)]
        view = View(
            round=upload.round,
            model=upload.model,
            rows=(total / weight[:, None]).astype(np.float32),
            weights=weight,
            sizes=weight,
            columns=self.setting.columns,
            selected=len(upload.participants),
            extra={"shares": first, "senders": who, "sizes": sizes},
        )
        transcript.views["server-1"] = view
        transcript.views["server-2"] = replace(view, rows=view.rows[:0], extra={**view.extra, "shares": second})
        return transcript

    def _random(self, round: int, who: int, count: int) -> Words:
        """Return a participant's share for the second server."""
        seed = self.entropy.random_bytes(keystream.SEED_BYTES, "share", round, who)
        return keystream.fill_keystream(
            keystream.keystream_key(seed, "share", round), np.empty(2 * count, np.uint32)
        ).view(np.uint64)


def encoded(values: npt.NDArray[np.float64]) -> Words:
    """Return numbers in fixed point, modulo 2^64."""
    return np.rint(values * FRACTION).astype(np.int64).view(np.uint64)


def decoded(words: Words) -> npt.NDArray[np.float64]:
    """Return the numbers that words in fixed point stand for."""
    return words.view(np.int64) / FRACTION


class Shares(Observation):
    """Take the shares of those in the coalition for updates."""

    adaptive = True

    def applies_to(self, transport: Transport) -> bool:
        return isinstance(transport, TwoServers)

    def observe(self, coalition: Coalition) -> list[ObservedUpdates]:
        views = [coalition.server, *coalition.servers.values()]
        words = np.sum([view.extra["shares"] for view in views], 0, dtype=np.uint64)
        who, sizes = coalition.server.extra["senders"], coalition.server.extra["sizes"]
        updates: Matrix = (decoded(words) / sizes[:, None]).astype(np.float32)
        return [ObservedUpdates((row,), (int(each),)) for each, row in zip(who, updates, strict=True)]


@observation("one-server", title="One server", knows=["server view"])
class OneServer(Shares):
    """Take the shares that one server received for updates."""


@observation("both-servers", title="Both servers", knows=["server view"])
class BothServers(Shares):
    """Add up the shares that the two servers received."""

    caution = "servers collude"
    servers = ("server-2",)
