"""The messages of the exchange, as bytes.

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
    │◄───────────────────── Feedback: sim - Q1 ──────────────────────│
```
Each begins with a frame (kind, round, sender, receiver), and each field with its length.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeAlias

from fflbench.crypto.errors import ExchangeError

HEADER = struct.Struct("<4sBIII")
LENGTH = struct.Struct("<Q")
FLOAT = struct.Struct("<f")
MAGIC = b"FFL1"

Bytes: TypeAlias = "bytes | memoryview[int]"

SERVER = 0xFFFFFFFF
"""The server's pseudonym, and the largest number that a header holds."""


def check_header(round: int, sender: int, receiver: int) -> None:
    """Refuse numbers that do not fit into a header."""
    header: dict[str, Any] = {"round": round, "sender": sender, "receiver": receiver}
    for name, value in header.items():
        if not hasattr(value, "__index__") or not 0 <= value <= SERVER:
            raise ExchangeError(f"{name} = {value} does not fit into a message, which holds 0 to {SERVER}")


@dataclass(frozen=True)
class Message:
    """A message from one pseudonym to another in one round."""

    KIND: ClassVar[int]
    COUNTED_AS: ClassVar[dict[str, str]]
    """What each field is called in the ledger."""
    rides_along: ClassVar[bool] = False
    """Whether it travels with another message, and so costs no latency of its own."""

    round: int
    sender: int
    receiver: int

    def __post_init__(self) -> None:
        check_header(self.round, self.sender, self.receiver)

    def parts(self) -> Iterator[Bytes]:
        """Its bytes, piece by piece: nothing large is copied."""
        yield HEADER.pack(MAGIC, self.KIND, self.round, self.sender, self.receiver)
        for name in self.COUNTED_AS:
            content = memoryview(getattr(self, name)).cast("B")
            yield LENGTH.pack(len(content))
            yield content

    def to_bytes(self) -> bytes:
        """Its bytes in one piece."""
        return b"".join(self.parts())

    def sizes(self) -> dict[str, int]:
        """How many bytes it has, by kind; frames are a kind of their own."""
        found = {"framing": HEADER.size + LENGTH.size * len(self.COUNTED_AS)}
        for name, kind in self.COUNTED_AS.items():
            found[kind] = found.get(kind, 0) + memoryview(getattr(self, name)).nbytes
        return found

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a message of this kind, or an error."""
        view = memoryview(content)
        if len(view) < HEADER.size:
            raise ExchangeError("a message that is cut off")
        magic, kind, round, sender, receiver = HEADER.unpack_from(view)
        if magic != MAGIC or kind != cls.KIND:
            raise ExchangeError("a message of another kind than expected")
        place, found = HEADER.size, {}
        for name in cls.COUNTED_AS:
            if len(view) < place + LENGTH.size:
                raise ExchangeError("a message that is cut off")
            (length,) = LENGTH.unpack_from(view, place)
            place += LENGTH.size
            if len(view) < place + length:
                raise ExchangeError("a message that is cut off")
            found[name] = view[place : place + length]
            place += length
        if place != len(view):
            raise ExchangeError("a message with something after its end")
        return cls(round, sender, receiver, **found)

    def __repr__(self) -> str:
        """Kind and sizes, never content."""
        shown = ", ".join(f"{field.name}: {_size(getattr(self, field.name))}" for field in fields(self))
        return f"{type(self).__name__}({shown})"


def _size(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"{memoryview(value).nbytes} bytes"


@dataclass(frozen=True, repr=False)
class Offer(Message):
    """The initiator's power and its seed of r, sealed for the server."""

    KIND = 1
    COUNTED_AS = {"power": "power", "sealed_seed": "sealed seed"}  # noqa: RUF012

    power: Bytes
    sealed_seed: Bytes


@dataclass(frozen=True, repr=False)
class Answer(Message):
    """The acceptor's power and sealed seed, and its update twice masked: whole, and what it keeps."""

    KIND = 2
    COUNTED_AS = {  # noqa: RUF012
        "power": "power",
        "sealed_seed": "sealed seed",
        "whole": "masked vector",
        "kept": "masked vector",
        "mac": "mac",
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
    COUNTED_AS = {"whole": "masked vector", "kept": "masked vector", "mac": "mac"}  # noqa: RUF012

    whole: Bytes
    kept: Bytes
    mac: Bytes


@dataclass(frozen=True, repr=False)
class Submission(Message):
    """A mixed update under the partner's pad r, and that pad's sealed seed."""

    KIND = 4
    COUNTED_AS = {"encrypted_mixed": "mixed update", "sealed_seed": "sealed seed"}  # noqa: RUF012

    encrypted_mixed: Bytes
    sealed_seed: Bytes


@dataclass(frozen=True, repr=False)
class Feedback(Message):
    """How a mixed update compared with the others: sim - Q1, a float of four bytes, sent with the next global model."""

    KIND = 5
    rides_along = True
    COUNTED_AS = {"difference": "feedback"}  # noqa: RUF012

    difference: Bytes

    @classmethod
    def of(cls, round: int, receiver: int, difference: float) -> Self:
        """The server's feedback to one participant."""
        return cls(round, SERVER, receiver, FLOAT.pack(difference))

    @property
    def value(self) -> float:
        """The difference that its bytes hold."""
        if len(self.difference) != FLOAT.size or not math.isfinite(value := FLOAT.unpack(self.difference)[0]):
            raise ExchangeError("feedback that is no finite number of four bytes")
        return float(value)
