"""EXCHANGE_FRAGMENTS: two participants swap random coordinates of their updates without seeing each other's.

Both swap where the mask m is 1 and keep where it is 0. With r and rho a party's two pads, it sends

    whole = W ^ r ^ rho        kept = (W & ~m) ^ rho

whose sum is (W & m) ^ r: the fragment for its partner, still under r. The partner adds its own W & ~m and submits the
sum; the server, which alone can open the seed of r, removes the pad. Everything is XOR on the bits of float32, so
mixing is exact.

A party sees the messages it receives and nothing else. An invalid message ends the exchange with a `ProtocolError`, and
`exchange_fragments` then breaks it off on both sides: neither submits.
"""

import hashlib
import hmac
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from fflbench.crypto import pads
from fflbench.crypto.entropy import Entropy, derive
from fflbench.crypto.errors import ProtocolError
from fflbench.crypto.groups import GROUPS, Group
from fflbench.crypto.pads import SEED_BYTES, Mask, Words
from fflbench.crypto.seal import SEALED_BYTES, OpeningKey, SealingKey
from fflbench.federation.messages import SERVER, Bytes, Message, check_header
from fflbench.types import Vector

from .messages import Answer, Offer, Reply, Submission

BROKEN_OFF = -1

M = TypeVar("M", bound=Message)
Signed = TypeVar("Signed", Answer, Reply)


@dataclass(repr=False)
class Party:
    """State of either side of an exchange; updates and secrets never appear in its text."""

    update: Vector
    name: int
    partner: int
    round: int
    server: SealingKey
    entropy: Entropy
    group: Group = GROUPS["ffdhe2048"]
    transcript: list[Message] = field(default_factory=list)
    """All messages that this party received: the data of a curious participant."""

    def __post_init__(self) -> None:
        check_header(self.round, self.name, self.partner)
        if self.name == self.partner:
            raise ProtocolError(f"participant {self.name} cannot exchange with itself")
        self._words: Words = _as_vector(self.update).view(np.uint32)
        self._secret = self._draw(self.group.secret_bytes, "exponent")
        self._seed_r = self._draw(SEED_BYTES, "seed of r")
        self._seed_rho = self._draw(SEED_BYTES, "seed of rho")
        self._hash = hashlib.sha256()
        self._submission: Submission | None = None
        self._messages = 0

    def submission(self) -> Submission:
        """Return the message to the server, once the exchange is complete."""
        if self._submission is None:
            raise ProtocolError("an exchange that is not complete")
        return self._submission

    def break_off(self) -> None:
        """End the exchange, whatever its state: later messages are refused, and there is nothing to submit."""
        self._messages = BROKEN_OFF
        self._submission = None

    @property
    def mask(self) -> Mask:
        """Mask of the exchange, 1 where the partners swap; known to both once they have agreed."""
        return self._mask

    def _draw(self, size: int, purpose: str) -> bytes:
        return self.entropy.bytes(size, purpose, self.round, self.name)

    def _power(self) -> bytes:
        return self.group.public(self._secret)

    def _seal(self) -> bytes:
        return self.server.seal(self._seed_r, self.entropy, self.round, self.name)

    def _agree(self, power: Bytes, initiator: int, acceptor: int) -> None:
        """Derive mask and MAC key from the shared secret."""
        shared = self.group.shared(self._secret, bytes(power))
        self._mask = pads.mask(shared, self.round, initiator, acceptor, len(self._words))
        self._mac_key = derive(shared, "mac", self.round, initiator, acceptor)

    def _add_pad(self, data: Words, seed: bytes, purpose: str, out: Words) -> Words:
        """Add the pad of a seed to data."""
        pads.add_pad(data, pads.pad_key(seed, purpose, self.round), out)
        return out

    def _masked(self) -> tuple[Words, Words]:
        """Return `whole` and `kept`, and set the coordinates that this party keeps of its own update."""
        rho = np.zeros_like(self._words)
        self._add_pad(rho, self._seed_rho, "rho", rho)
        whole = self._add_pad(self._words, self._seed_r, "r", np.empty_like(self._words))
        whole ^= rho
        # A product with bits is several times faster than a choice by them.
        self._own = np.multiply(self._words, self._mask ^ 1)
        rho ^= self._own
        return whole, rho

    def _mix(self, whole: Bytes, kept: Bytes, sealed_seed: Bytes) -> None:
        """Combine the partner's fragment, under its pad, with one's own."""
        size = self._words.nbytes
        if len(whole) != size or len(kept) != size or len(sealed_seed) != SEALED_BYTES:
            raise ProtocolError("a vector or seed of the wrong length")
        mixed = self._own
        mixed ^= np.frombuffer(whole, np.uint32)
        mixed ^= np.frombuffer(kept, np.uint32)
        self._submission = Submission(self.round, self.name, SERVER, pads.as_bytes(mixed), sealed_seed)

    def _accept(self, message: Message, place: int) -> None:
        """Check that a message is for this party, from its partner, in this round and in order."""
        if (message.round, message.sender, message.receiver) != (self.round, self.partner, self.name):
            raise ProtocolError("a message of another exchange")
        self._turn(place)
        self.transcript.append(message)

    def _turn(self, place: int) -> None:
        """Check that messages come once and in order; until one is processed, the exchange counts as broken off.

        Another exchange needs new parties in another round: with a seeded entropy the same round gives the same pads.
        """
        if self._messages != place:
            raise ProtocolError("a message out of order")
        self._messages = BROKEN_OFF

    def _done(self, place: int) -> None:
        self._messages = place + 1

    def _absorb(self, message: Message) -> None:
        """Add a message to the hash of everything both sides have sent."""
        for part in message.parts():
            self._hash.update(part)

    def _mac(self, message: Signed) -> bytes:
        """Return the MAC of a message, over the hash of all that both sides have sent so far, the message included."""
        self._absorb(replace(message, mac=b""))
        mac = hmac.digest(self._mac_key, self._hash.digest(), "sha256")
        self._hash.update(mac)
        return mac

    def _sign(self, message: Signed) -> Signed:
        return replace(message, mac=self._mac(message))

    def _check_mac(self, message: Signed) -> None:
        if not hmac.compare_digest(bytes(message.mac), self._mac(message)):
            raise ProtocolError("a message whose MAC does not hold")


class Initiator(Party):
    """Participant k, which starts the exchange."""

    def offer(self) -> Offer:
        """Return the first message."""
        self._turn(0)
        message = Offer(self.round, self.name, self.partner, self._power(), self._seal())
        self._absorb(message)
        self._done(0)
        return message

    def take(self, answer: Answer) -> Reply:
        """Process the second message and return the third; then there is a submission."""
        self._accept(answer, 1)
        self._agree(answer.power, self.name, self.partner)
        self._check_mac(answer)
        whole, kept = map(pads.as_bytes, self._masked())
        self._mix(answer.whole, answer.kept, answer.sealed_seed)
        self._done(1)
        return self._sign(Reply(self.round, self.name, self.partner, whole, kept, mac=b""))


class Acceptor(Party):
    """Participant j, which accepts the exchange."""

    def take(self, offer: Offer) -> Answer:
        """Process the first message and return the second."""
        self._accept(offer, 0)
        if len(offer.sealed_seed) != SEALED_BYTES:
            raise ProtocolError("a vector or seed of the wrong length")
        self._partners_seed = offer.sealed_seed
        self._absorb(offer)
        self._agree(offer.power, self.partner, self.name)
        whole, kept = map(pads.as_bytes, self._masked())
        self._done(0)
        return self._sign(
            Answer(self.round, self.name, self.partner, self._power(), self._seal(), whole, kept, mac=b"")
        )

    def finish(self, reply: Reply) -> None:
        """Process the third message; then there is a submission."""
        self._accept(reply, 1)
        self._check_mac(reply)
        self._mix(reply.whole, reply.kept, self._partners_seed)
        self._done(1)


class Delivery(Protocol):
    """Channel from one party to the other."""

    def __call__(self, message: M, /) -> M:
        """Carry a message, and return it as it arrives."""


def _as_sent(message: M, /) -> M:
    return message


def exchange_fragments(initiator: Initiator, acceptor: Acceptor, deliver: Delivery = _as_sent) -> None:
    """Run a whole exchange, each message going through `deliver`; on a fault both sides break it off."""
    try:
        answer = deliver(acceptor.take(deliver(initiator.offer())))
        acceptor.finish(deliver(initiator.take(answer)))
    except ProtocolError:
        initiator.break_off()
        acceptor.break_off()
        raise


class Server:
    """The party with the private key, which removes the pads."""

    def __init__(self, entropy: Entropy) -> None:
        self._key = OpeningKey(entropy)
        self.public = self._key.public
        self._heard: tuple[int, set[int]] = (-1, set())

    def open(self, submission: Submission, round: int, sender: int, out: Vector) -> None:
        """Decrypt the mixed update of a submission into `out`; one per sender and round, in ascending rounds."""
        if (submission.round, submission.sender, submission.receiver) != (round, sender, SERVER):
            raise ProtocolError("a submission of another round or sender")
        if round < self._heard[0]:
            raise ProtocolError("a submission of an earlier round")
        if self._heard[0] != round:
            self._heard = round, set()
        if sender in self._heard[1]:
            raise ProtocolError("a second submission")
        if len(submission.encrypted_mixed) != out.nbytes:
            raise ProtocolError("a submission of the wrong length")
        seed = self._key.open(bytes(submission.sealed_seed), round)
        encrypted: npt.NDArray[np.uint32] = np.frombuffer(submission.encrypted_mixed, np.uint32)
        pads.add_pad(encrypted, pads.pad_key(seed, "r", round), out.view(np.uint32))
        self._heard[1].add(sender)


def _as_vector(update: Vector) -> Vector:
    try:
        vector = np.ascontiguousarray(update, np.float32)
    except (TypeError, ValueError) as error:
        raise ProtocolError("an update must be one vector of numbers") from error
    # Checked on the argument, since numpy makes a vector of a single number.
    if np.ndim(update) != 1:
        raise ProtocolError(f"an update must be one vector of numbers, not an array of shape {np.shape(update)}")
    return vector


def swap(one: Vector, other: Vector, mask: Mask) -> tuple[Vector, Vector]:
    """Return the mixed updates that an exchange results in, without keys or pads."""
    mixed = one.copy(), other.copy()
    swap_in_place(*mixed, mask)
    return mixed


def swap_in_place(one: Vector, other: Vector, mask: Mask) -> None:
    """Mix two updates in place."""
    a, b = one.view(np.uint32), other.view(np.uint32)
    exchanged = a ^ b
    exchanged *= mask
    a ^= exchanged
    b ^= exchanged
