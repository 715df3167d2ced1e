"""Parties of split and mix: a participant, which splits its update and adds up shares, and the server.

A participant holds x, draws a random share for each of its receivers, and keeps x minus their sum; to what it keeps it
adds what it receives. Shares travel under a pad from a Diffie-Hellman secret, so that the server, which passes public
keys on, sees only the sums in the end. Everything is arithmetic in the ring, and so exact.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fflbench.plugin import (
    DIFFIE_HELLMAN_GROUPS,
    SERVER,
    Bytes,
    DiffieHellmanGroup,
    Entropy,
    ProtocolError,
    derive_key,
    keystream,
)

from .fixed_point import Words
from .messages import KeyAnnouncement, KeyList, ShareMessage, ShareSum


@dataclass(repr=False)
class ShareHolder:
    """State of one participant; neither updates nor secrets appear in its text."""

    words: Words
    """Its encoded update, overwritten by the sum of the shares that it holds."""
    name: int
    receivers: Sequence[int]
    senders: Sequence[int]
    """Participants whose shares it must receive."""
    round: int
    entropy: Entropy
    group: DiffieHellmanGroup = DIFFIE_HELLMAN_GROUPS["ffdhe2048"]
    received: list[ShareMessage] = field(default_factory=list)
    """All shares as they arrived, if `keep` is set."""
    keep: bool = False

    def __post_init__(self) -> None:
        self._secret = self._draw_secret(self.group.secret_bytes, "exponent of shares")
        self._seed = self._draw_secret(keystream.SEED_BYTES, "seed of shares")
        self._shared: dict[int, bytes] = {}
        self._unsent, self._awaited = list(self.receivers), set(self.senders)

    @property
    def others(self) -> list[int]:
        """Participants with whom it exchanges shares in either direction, in ascending order."""
        return sorted({*self.receivers, *self.senders})

    def announce_key(self) -> KeyAnnouncement:
        """Return its public key, for the server to pass on."""
        return KeyAnnouncement(self.round, self.name, SERVER, self.group.public_value(self._secret))

    def accept_keys(self, message: KeyList) -> None:
        """Agree on a secret with everybody it exchanges shares with."""
        size, keys = self.group.SIZE, bytes(message.keys)
        if len(keys) != size * len(self.others):
            raise ProtocolError("a list of public keys of the wrong length")
        for place, other in enumerate(self.others):
            key = keys[place * size : (place + 1) * size]
            self._shared[other] = self.group.shared_secret(self._secret, key)

    def make_share(self, receiver: int) -> ShareMessage:
        """Return a random share for one receiver, encrypted, and subtract it from what is kept."""
        self._unsent.remove(receiver)
        share = np.zeros_like(self.words)
        keystream.xor_keystream(share, derive_key(self._seed, "share", self.round, receiver), share)
        self.words -= share
        keystream.xor_keystream(share, self._key("pad", self.name, receiver), share)
        message = ShareMessage(self.round, self.name, receiver, keystream.as_bytes(share), b"")
        return replace(message, mac=self._compute_mac(message))

    def accept_share(self, message: ShareMessage) -> None:
        """Add a share to what is kept, or raise an error where it is not the one that was sent."""
        if (message.round, message.receiver) != (self.round, self.name) or message.sender not in self._awaited:
            raise ProtocolError("a share of another round, or of somebody who owes none")
        if not hmac.compare_digest(bytes(message.mac), self._compute_mac(message)):
            raise ProtocolError("a share whose MAC does not hold")
        share = np.frombuffer(message.encrypted_share, self.words.dtype).copy()
        if len(share) != len(self.words):
            raise ProtocolError("a share of the wrong length")
        keystream.xor_keystream(share, self._key("pad", message.sender, self.name), share)
        self.words += share
        self._awaited.remove(message.sender)
        if self.keep:
            self.received.append(message)

    def submission(self) -> ShareSum:
        """Return the sum of its shares, once it has sent and received all: before, it would reveal its update."""
        if self._unsent or self._awaited:
            raise ProtocolError("a share that did not arrive")
        return ShareSum(self.round, self.name, SERVER, keystream.as_bytes(self.words))

    def _draw_secret(self, size: int, purpose: str) -> bytes:
        return self.entropy.random_bytes(size, purpose, self.round, self.name)

    def _key(self, purpose: str, sender: int, receiver: int) -> bytes:
        other = receiver if sender == self.name else sender
        return derive_key(self._shared[other], "share", purpose, self.round, sender, receiver)

    def _compute_mac(self, message: ShareMessage) -> bytes:
        code = hmac.new(self._key("mac", message.sender, message.receiver), digestmod="sha256")
        for part in replace(message, mac=b"").parts():
            code.update(part)
        return code.digest()


def list_keys(round: int, receiver: int, others: Sequence[int], keys: Mapping[int, Bytes]) -> KeyList:
    """Return the server's message to a participant: public keys of those it exchanges shares with."""
    return KeyList(round, SERVER, receiver, b"".join(bytes(keys[other]) for other in others))


def add_sums(submissions: Sequence[ShareSum], expected: Sequence[int], out: Words) -> Words:
    """Return the sum of all submissions, or raise an error where one is missing, since shares then do not cancel."""
    if missing := sorted(set(expected) - {each.sender for each in submissions}):
        raise ProtocolError(f"no sum of shares from participant {missing[0]}")
    for each in submissions:
        if len(each.total) != out.nbytes:
            raise ProtocolError("a sum of shares of the wrong length")
        out += np.frombuffer(each.total, out.dtype)
    return out
