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

from fflbench.plugin import (
    DIFFIE_HELLMAN_GROUPS,
    ENCRYPTED_SEED_BYTES,
    SERVER,
    Bytes,
    DiffieHellmanGroup,
    Entropy,
    Message,
    ProtocolError,
    ServerPrivateKey,
    ServerPublicKey,
    Vector,
    check_header,
    derive_key,
    keystream,
)

from .messages import ExchangeAnswer, ExchangeOffer, ExchangeReply, ExchangeSubmission

BROKEN_OFF = -1

M = TypeVar("M", bound=Message)
Signed = TypeVar("Signed", ExchangeAnswer, ExchangeReply)


@dataclass(repr=False)
class ExchangeParty:
    """State of either side of an exchange; updates and secrets never appear in its text."""

    update: Vector
    name: int
    partner: int
    round: int
    server: ServerPublicKey
    entropy: Entropy
    group: DiffieHellmanGroup = DIFFIE_HELLMAN_GROUPS["ffdhe2048"]
    transcript: list[Message] = field(default_factory=list)
    """All messages that this party received: the data of a curious participant."""

    def __post_init__(self) -> None:
        check_header(self.round, self.name, self.partner)
        if self.name == self.partner:
            raise ProtocolError(f"participant {self.name} cannot exchange with itself")
        self._words: keystream.Words = _as_float32_vector(self.update).view(np.uint32)
        self._secret = self._draw_secret(self.group.secret_bytes, "exponent")
        self._seed_r = self._draw_secret(keystream.SEED_BYTES, "seed of r")
        self._seed_rho = self._draw_secret(keystream.SEED_BYTES, "seed of rho")
        self._hash = hashlib.sha256()
        self._submission: ExchangeSubmission | None = None
        self._messages = 0

    def submission(self) -> ExchangeSubmission:
        """Return the message to the server, once the exchange is complete."""
        if self._submission is None:
            raise ProtocolError("an exchange that is not complete")
        return self._submission

    def abort(self) -> None:
        """End the exchange, whatever its state: later messages are refused, and there is nothing to submit."""
        self._messages = BROKEN_OFF
        self._submission = None

    @property
    def mask(self) -> keystream.Mask:
        """Mask of the exchange, 1 where the partners swap; known to both once they have agreed."""
        return self._mask

    def _draw_secret(self, size: int, purpose: str) -> bytes:
        return self.entropy.random_bytes(size, purpose, self.round, self.name)

    def _diffie_hellman_public(self) -> bytes:
        return self.group.public_value(self._secret)

    def _seal_seed_for_server(self) -> bytes:
        return self.server.encrypt(self._seed_r, self.entropy, self.round, self.name)

    def _derive_mask_and_mac_key(self, power: Bytes, initiator: int, acceptor: int) -> None:
        """Derive mask and MAC key from the shared secret."""
        shared = self.group.shared_secret(self._secret, bytes(power))
        self._mask = keystream.random_mask(shared, self.round, initiator, acceptor, len(self._words))
        self._mac_key = derive_key(shared, "mac", self.round, initiator, acceptor)

    def _xor_pad(self, data: keystream.Words, seed: bytes, purpose: str, out: keystream.Words) -> keystream.Words:
        """Add the pad of a seed to data."""
        keystream.xor_keystream(data, keystream.keystream_key(seed, purpose, self.round), out)
        return out

    def _pad_update(self) -> tuple[keystream.Words, keystream.Words]:
        """Return `whole` and `kept`, and set the coordinates that this party keeps of its own update."""
        rho = np.zeros_like(self._words)
        self._xor_pad(rho, self._seed_rho, "rho", rho)
        whole = self._xor_pad(self._words, self._seed_r, "r", np.empty_like(self._words))
        whole ^= rho
        # A product with bits is several times faster than a choice by them.
        self._own = np.multiply(self._words, self._mask ^ 1)
        rho ^= self._own
        return whole, rho

    def _prepare_submission(self, whole: Bytes, kept: Bytes, sealed_seed: Bytes) -> None:
        """Combine the partner's fragment, under its pad, with one's own."""
        size = self._words.nbytes
        if len(whole) != size or len(kept) != size or len(sealed_seed) != ENCRYPTED_SEED_BYTES:
            raise ProtocolError("a vector or seed of the wrong length")
        mixed = self._own
        mixed ^= np.frombuffer(whole, np.uint32)
        mixed ^= np.frombuffer(kept, np.uint32)
        self._submission = ExchangeSubmission(self.round, self.name, SERVER, keystream.as_bytes(mixed), sealed_seed)

    def _check_header_and_record(self, message: Message, step: int) -> None:
        """Check that a message is for this party, from its partner, of this round and in order, and keep it."""
        if (message.round, message.sender, message.receiver) != (self.round, self.partner, self.name):
            raise ProtocolError("a message of another exchange")
        self._begin_step_in_order(step)
        self.transcript.append(message)

    def _begin_step_in_order(self, step: int) -> None:
        """Check that messages come once and in order; until one is processed, the exchange counts as broken off.

        Another exchange needs new parties in another round: with a seeded entropy the same round gives the same pads.
        """
        if self._messages != step:
            raise ProtocolError("a message out of order")
        self._messages = BROKEN_OFF

    def _complete_step(self, step: int) -> None:
        self._messages = step + 1

    def _hash_message(self, message: Message) -> None:
        """Add a message to the hash of everything both sides have sent."""
        for part in message.parts():
            self._hash.update(part)

    def _hash_and_compute_mac(self, message: Signed) -> bytes:
        """Return the MAC of a message, over the hash of all that both sides have sent so far, the message included."""
        self._hash_message(replace(message, mac=b""))
        mac = hmac.digest(self._mac_key, self._hash.digest(), "sha256")
        self._hash.update(mac)
        return mac

    def _add_mac(self, message: Signed) -> Signed:
        return replace(message, mac=self._hash_and_compute_mac(message))

    def _check_mac(self, message: Signed) -> None:
        if not hmac.compare_digest(bytes(message.mac), self._hash_and_compute_mac(message)):
            raise ProtocolError("a message whose MAC does not hold")


class Initiator(ExchangeParty):
    """Participant k, which starts the exchange."""

    def make_offer(self) -> ExchangeOffer:
        """Return the first message."""
        self._begin_step_in_order(0)
        message = ExchangeOffer(
            self.round, self.name, self.partner, self._diffie_hellman_public(), self._seal_seed_for_server()
        )
        self._hash_message(message)
        self._complete_step(0)
        return message

    def reply_to_answer(self, answer: ExchangeAnswer) -> ExchangeReply:
        """Process the second message and return the third; then there is a submission."""
        self._check_header_and_record(answer, 1)
        self._derive_mask_and_mac_key(answer.power, self.name, self.partner)
        self._check_mac(answer)
        whole, kept = map(keystream.as_bytes, self._pad_update())
        self._prepare_submission(answer.whole, answer.kept, answer.sealed_seed)
        self._complete_step(1)
        return self._add_mac(ExchangeReply(self.round, self.name, self.partner, whole, kept, mac=b""))


class Acceptor(ExchangeParty):
    """Participant j, which accepts the exchange."""

    def answer_offer(self, offer: ExchangeOffer) -> ExchangeAnswer:
        """Process the first message and return the second."""
        self._check_header_and_record(offer, 0)
        if len(offer.sealed_seed) != ENCRYPTED_SEED_BYTES:
            raise ProtocolError("a vector or seed of the wrong length")
        self._partners_seed = offer.sealed_seed
        self._hash_message(offer)
        self._derive_mask_and_mac_key(offer.power, self.partner, self.name)
        whole, kept = map(keystream.as_bytes, self._pad_update())
        self._complete_step(0)
        return self._add_mac(
            ExchangeAnswer(
                self.round,
                self.name,
                self.partner,
                self._diffie_hellman_public(),
                self._seal_seed_for_server(),
                whole,
                kept,
                mac=b"",
            )
        )

    def finish_exchange(self, reply: ExchangeReply) -> None:
        """Process the third message; then there is a submission."""
        self._check_header_and_record(reply, 1)
        self._check_mac(reply)
        self._prepare_submission(reply.whole, reply.kept, self._partners_seed)
        self._complete_step(1)


class Delivery(Protocol):
    """Channel from one party to the other."""

    def __call__(self, message: M, /) -> M:
        """Carry a message, and return it as it arrives."""


def _deliver_unchanged(message: M, /) -> M:
    return message


def exchange_fragments(initiator: Initiator, acceptor: Acceptor, deliver: Delivery = _deliver_unchanged) -> None:
    """Run a whole exchange, each message going through `deliver`; on a fault both sides break it off."""
    try:
        answer = deliver(acceptor.answer_offer(deliver(initiator.make_offer())))
        acceptor.finish_exchange(deliver(initiator.reply_to_answer(answer)))
    except ProtocolError:
        initiator.abort()
        acceptor.abort()
        raise


class ExchangeServer:
    """The party with the private key, which removes the pads."""

    def __init__(self, entropy: Entropy) -> None:
        self._key = ServerPrivateKey(entropy)
        self.public = self._key.public
        self._heard: tuple[int, set[int]] = (-1, set())

    def decrypt_submission(self, submission: ExchangeSubmission, round: int, sender: int, out: Vector) -> None:
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
        seed = self._key.decrypt(bytes(submission.sealed_seed), round)
        encrypted: npt.NDArray[np.uint32] = np.frombuffer(submission.encrypted_mixed, np.uint32)
        keystream.xor_keystream(encrypted, keystream.keystream_key(seed, "r", round), out.view(np.uint32))
        self._heard[1].add(sender)


def _as_float32_vector(update: Vector) -> Vector:
    try:
        vector = np.ascontiguousarray(update, np.float32)
    except (TypeError, ValueError) as error:
        raise ProtocolError("an update must be one vector of numbers") from error
    # Checked on the argument, since numpy makes a vector of a single number.
    if np.ndim(update) != 1:
        raise ProtocolError(f"an update must be one vector of numbers, not an array of shape {np.shape(update)}")
    return vector


def swap_coordinates(one: Vector, other: Vector, mask: keystream.Mask) -> tuple[Vector, Vector]:
    """Return the mixed updates that an exchange results in, without keys or pads."""
    mixed = one.copy(), other.copy()
    swap_coordinates_in_place(*mixed, mask)
    return mixed


def swap_coordinates_in_place(one: Vector, other: Vector, mask: keystream.Mask) -> None:
    """Mix two updates in place."""
    a, b = one.view(np.uint32), other.view(np.uint32)
    exchanged = a ^ b
    exchanged *= mask
    a ^= exchanged
    b ^= exchanged
