"""Messages of the fragment exchange.

```
Initiator k                        Acceptor j                      Server
    │ Offer: power, sealed seed        │                              │
    │─────────────────────────────────►│                              │
    │ Answer: power, sealed seed,      │                              │
    │         two masked vectors, MAC  │                              │
    │◄─────────────────────────────────│                              │
    │ Reply: two masked vectors, MAC   │                              │
    │─────────────────────────────────►│                              │
    │ Submission: encrypted mixed update, the partner's sealed seed   │
    │────────────────────────────────────────────────────────────────►│
    │                                  │───── Submission ────────────►│
    │◄──────────────── FeedbackMessage, by the rule ─────────────────│
```
"""

from dataclasses import dataclass

from fflbench.federation.messages import Bytes, Message, Part

POWER = Part("power", "A partner's half of a Diffie-Hellman key agreement")
SEALED_SEED = Part("sealed seed", "The seed of a pad, sealed for the server")
MASKED = Part("masked vector", "Updates under one-time pads", vector=True)
MIXED = Part("mixed update", "An update submitted after an exchange", vector=True)
MAC = Part("mac", "Authentication codes")


@dataclass(frozen=True, repr=False)
class Offer(Message):
    """The initiator's power and its seed of r, sealed for the server."""

    KIND = 1
    PARTS = {"power": POWER, "sealed_seed": SEALED_SEED}  # noqa: RUF012

    power: Bytes
    sealed_seed: Bytes


@dataclass(frozen=True, repr=False)
class Answer(Message):
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
class Reply(Message):
    """The initiator's update, twice masked."""

    KIND = 3
    PARTS = {"whole": MASKED, "kept": MASKED, "mac": MAC}  # noqa: RUF012

    whole: Bytes
    kept: Bytes
    mac: Bytes


@dataclass(frozen=True, repr=False)
class Submission(Message):
    """A mixed update under the partner's pad r, and that pad's sealed seed."""

    KIND = 4
    PARTS = {"encrypted_mixed": MIXED, "sealed_seed": SEALED_SEED}  # noqa: RUF012

    encrypted_mixed: Bytes
    sealed_seed: Bytes
