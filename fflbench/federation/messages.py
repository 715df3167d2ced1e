"""Messages between participants and the server, as bytes, with the kinds that a ledger counts them under.

Each begins with a frame (kind, round, sender, receiver), and each field with its length.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

from fflbench.crypto.errors import ProtocolError

HEADER = struct.Struct("<4sBIII")
LENGTH = struct.Struct("<Q")
FLOAT = struct.Struct("<f")
LARGEST_FLOAT = 3.4028234e38
MAGIC = b"FFL1"

Bytes: TypeAlias = "bytes | memoryview[int]"
"""Content of a message's field; arrays are sent without a copy."""

SERVER = 0xFFFFFFFF
"""The server's pseudonym, and the largest number that a header holds."""
SECOND_SERVER = SERVER - 1
"""Pseudonym of a second server, for transports with two."""


class MessagePart(NamedTuple):
    """Declaration of a message's field: the kind under which a ledger counts it, and its meaning."""

    kind: str
    meaning: str
    vector: bool = False
    """Whether it has the length of the model."""


FRAMING = MessagePart("framing", "Headers and lengths")


def check_header(round: int, sender: int, receiver: int) -> None:
    """Raise an error for numbers that do not fit into a header."""
    header: dict[str, Any] = {"round": round, "sender": sender, "receiver": receiver}
    for name, value in header.items():
        if not hasattr(value, "__index__") or not 0 <= value <= SERVER:
            raise ProtocolError(f"{name} = {value} does not fit into a message, which holds 0 to {SERVER}")


@dataclass(frozen=True)
class Message:
    """Message from one pseudonym to another in one round."""

    KIND: ClassVar[int]
    PARTS: ClassVar[Mapping[str, MessagePart]]
    """Declarations of its fields, in their order."""
    rides_along: ClassVar[bool] = False
    """Whether it travels with another message, and so costs no latency of its own."""

    round: int
    sender: int
    receiver: int

    def __post_init__(self) -> None:
        check_header(self.round, self.sender, self.receiver)

    def parts(self) -> Iterator[Bytes]:
        """Yield the message's bytes piece by piece, without copying large fields."""
        yield HEADER.pack(MAGIC, self.KIND, self.round, self.sender, self.receiver)
        for name in self.PARTS:
            content = memoryview(getattr(self, name)).cast("B")
            yield LENGTH.pack(len(content))
            yield content

    def to_bytes(self) -> bytes:
        """Return the message as one bytes object."""
        return b"".join(self.parts())

    def sizes(self) -> dict[MessagePart, int]:
        """Return the number of bytes by kind; frames are a kind of their own."""
        sizes = {FRAMING: HEADER.size + LENGTH.size * len(self.PARTS)}
        for name, part in self.PARTS.items():
            sizes[part] = sizes.get(part, 0) + memoryview(getattr(self, name)).nbytes
        return sizes

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a message of this kind, or raise a `ProtocolError`."""
        view = memoryview(content)
        if len(view) < HEADER.size:
            raise ProtocolError("a message that is cut off")
        magic, kind, round, sender, receiver = HEADER.unpack_from(view)
        if magic != MAGIC or kind != cls.KIND:
            raise ProtocolError("a message of another kind than expected")
        place, fields = HEADER.size, {}
        for name in cls.PARTS:
            if len(view) < place + LENGTH.size:
                raise ProtocolError("a message that is cut off")
            (length,) = LENGTH.unpack_from(view, place)
            place += LENGTH.size
            if len(view) < place + length:
                raise ProtocolError("a message that is cut off")
            fields[name] = view[place : place + length]
            place += length
        if place != len(view):
            raise ProtocolError("a message with something after its end")
        return cls(round, sender, receiver, **fields)

    def __repr__(self) -> str:
        """Show kind and sizes, never content."""
        shown = ", ".join(f"{field.name}: {_size(getattr(self, field.name))}" for field in fields(self))
        return f"{type(self).__name__}({shown})"


def _size(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"{memoryview(value).nbytes} bytes"


@dataclass(frozen=True, repr=False)
class GlobalModel(Message):
    """The global model, from the server to a selected participant."""

    KIND = 6
    PARTS = {"model": MessagePart("global model", "The global model", vector=True)}  # noqa: RUF012

    model: Bytes


@dataclass(frozen=True, repr=False)
class Update(Message):
    """A participant's update in the clear."""

    KIND = 7
    PARTS = {"update": MessagePart("update", "An update submitted as it is", vector=True)}  # noqa: RUF012

    update: Bytes


@dataclass(frozen=True, repr=False)
class FeedbackMessage(Message):
    """A rule's feedback to one participant: a float of four bytes, sent with the next global model."""

    KIND = 5
    rides_along = True
    PARTS = {"content": MessagePart("feedback", "The server's feedback to a participant")}  # noqa: RUF012

    content: Bytes

    @classmethod
    def of(cls, round: int, receiver: int, value: float) -> Self:
        """Return the server's feedback to one participant."""
        # Values beyond single precision, which struct refuses, become infinity, which the reader refuses.
        return cls(round, SERVER, receiver, FLOAT.pack(value if abs(value) <= LARGEST_FLOAT else math.inf))

    @property
    def value(self) -> float:
        """Return the number that the message holds."""
        if len(self.content) != FLOAT.size or not math.isfinite(value := FLOAT.unpack(self.content)[0]):
            raise ProtocolError("feedback that is no finite number of four bytes")
        return float(value)
