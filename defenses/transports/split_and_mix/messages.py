"""Messages of split and mix.

```
Participant i                    Receivers of i's shares             Server
    │ KeyAnnouncement: public key                                      │
    │─────────────────────────────────────────────────────────────────►│
    │ KeyList: public keys of those it exchanges shares with           │
    │◄─────────────────────────────────────────────────────────────────│
    │ ShareMessage: encrypted share, MAC                               │
    │──────────────────────────────►│                                  │
    │ ShareSum: its kept share plus all that it received               │
    │─────────────────────────────────────────────────────────────────►│
```
"""

from dataclasses import dataclass

from fflbench.plugin import Bytes, Message, MessagePart

PUBLIC_KEY = MessagePart("public key", "A participant's half of a Diffie-Hellman key agreement")
SHARE = MessagePart("share", "An encrypted additive share of an update", vector=True)
SHARE_SUM = MessagePart("sum of shares", "The sum of the shares that a participant holds", vector=True)
MAC = MessagePart("mac", "Authentication codes")


@dataclass(frozen=True, repr=False)
class KeyAnnouncement(Message):
    """A participant's public key of this round, for the server to pass on."""

    KIND = 20
    PARTS = {"key": PUBLIC_KEY}  # noqa: RUF012

    key: Bytes


@dataclass(frozen=True, repr=False)
class KeyList(Message):
    """Public keys of those with whom a participant exchanges shares, in the round's order."""

    KIND = 21
    PARTS = {"keys": PUBLIC_KEY}  # noqa: RUF012

    keys: Bytes


@dataclass(frozen=True, repr=False)
class ShareMessage(Message):
    """One share of the sender's update, for the receiver alone."""

    KIND = 22
    PARTS = {"encrypted_share": SHARE, "mac": MAC}  # noqa: RUF012

    encrypted_share: Bytes
    mac: Bytes


@dataclass(frozen=True, repr=False)
class ShareSum(Message):
    """Sum of all shares that a participant holds, its own included."""

    KIND = 23
    PARTS = {"total": SHARE_SUM}  # noqa: RUF012

    total: Bytes
