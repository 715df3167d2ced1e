"""Messages of the fragment exchange.

```
Initiator k                          Acceptor j                    Server
    │ ExchangeOffer: power, sealed seed  │                            │
    │───────────────────────────────────►│                            │
    │ ExchangeAnswer: power, sealed seed,│                            │
    │         two masked vectors, MAC    │                            │
    │◄───────────────────────────────────│                            │
    │ ExchangeReply: two masked vectors, │                            │
    │         MAC                        │                            │
    │───────────────────────────────────►│                            │
    │ ExchangeSubmission: encrypted mixed update, the partner's       │
    │         sealed seed                │                            │
    │────────────────────────────────────────────────────────────────►│
    │                                    │──── ExchangeSubmission ───►│
    │◄──────────────── FeedbackMessage, by the rule ──────────────────│
```
"""

from dataclasses import dataclass

from fflbench.plugin import Bytes, Message, MessagePart

POWER = MessagePart("power", "A partner's half of a Diffie-Hellman key agreement")
SEALED_SEED = MessagePart("sealed seed", "The seed of a pad, sealed for the server")
MASKED = MessagePart("masked vector", "Updates under one-time pads", vector=True)
MIXED = MessagePart("mixed update", "An update submitted after an exchange", vector=True)
MAC = MessagePart("mac", "Authentication codes")


@dataclass(frozen=True, repr=False)
class ExchangeOffer(Message):
    """The initiator's power and its seed of r, sealed for the server."""

    KIND = 1
    PARTS = {"power": POWER, "sealed_seed": SEALED_SEED}  # noqa: RUF012

    power: Bytes
    sealed_seed: Bytes


@dataclass(frozen=True, repr=False)
class ExchangeAnswer(Message):
    """The acceptor's power and sealed seed, and its update twice masked: whole, and what it keeps."""

    KIND = 2
    PARTS = {  # noqa: RUF012
        "power": POWER,
        "sealed_seed": SEALED_SEED,
        "whole": MASKED,
        "kept": MASKED,
        "mac": MAC,
    }

    power: Bytes
    sealed_seed: Bytes
    whole: Bytes
    kept: Bytes
    mac: Bytes


@dataclass(frozen=True, repr=False)
class ExchangeReply(Message):
    """The initiator's update, twice masked."""

    KIND = 3
    PARTS = {"whole": MASKED, "kept": MASKED, "mac": MAC}  # noqa: RUF012

    whole: Bytes
    kept: Bytes
    mac: Bytes


@dataclass(frozen=True, repr=False)
class ExchangeSubmission(Message):
    """A mixed update under the partner's pad r, and that pad's sealed seed."""

    KIND = 4
    PARTS = {"encrypted_mixed": MIXED, "sealed_seed": SEALED_SEED}  # noqa: RUF012

    encrypted_mixed: Bytes
    sealed_seed: Bytes
