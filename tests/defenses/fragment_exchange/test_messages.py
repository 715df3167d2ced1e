"""Messages of a round as bytes."""

import struct

import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange.messages import (
    ExchangeAnswer,
    ExchangeOffer,
    ExchangeReply,
    ExchangeSubmission,
)
from hypothesis import given
from hypothesis import strategies as st

from fflbench.crypto.errors import ProtocolError
from fflbench.federation.messages import SERVER, FeedbackMessage, GlobalModel, Update

MESSAGES = [ExchangeOffer, ExchangeAnswer, ExchangeReply, ExchangeSubmission, FeedbackMessage, GlobalModel, Update]


def test_no_two_messages_are_of_one_kind():
    assert len({message.KIND for message in MESSAGES}) == len(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_come_back_from_their_bytes(message):
    fields = {name: bytes([number]) * (number + 1) for number, name in enumerate(message.PARTS)}
    made = message(1, 2, 3, **fields)
    content = made.to_bytes()
    assert sum(made.sizes().values()) == len(content)
    back = message.from_bytes(content)
    assert {name: bytes(getattr(back, name)) for name in fields} == fields
    for cut in range(len(content)):
        with pytest.raises(ProtocolError):
            message.from_bytes(content[:cut])
    with pytest.raises(ProtocolError, match="after its end"):
        message.from_bytes(content + b"x")
    with pytest.raises(ProtocolError, match="another kind"):
        message.from_bytes(b"XXXX" + content[4:])


@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_an_protocol_error(content):
    for message in MESSAGES:
        try:
            message.from_bytes(content)
        except ProtocolError:
            continue


def test_a_message_whose_header_does_not_fit_is_refused_when_it_is_made():
    with pytest.raises(ProtocolError, match="round = 4294967296 does not fit"):
        ExchangeOffer(2**32, 1, 2, b"", b"")


@pytest.mark.parametrize("difference", [0.0, -0.8125, 0.1])
def test_feedback_carries_its_value_in_four_bytes(difference):
    message = FeedbackMessage.from_bytes(FeedbackMessage.of(3, 7, difference).to_bytes())
    assert {part.kind: size for part, size in message.sizes().items()}["feedback"] == 4
    assert message.value == np.float32(difference)


@pytest.mark.parametrize("content", [b"", bytes(3), bytes(5), struct.pack("<f", float("nan"))])
def test_feedback_that_is_no_finite_number_is_refused(content):
    with pytest.raises(ProtocolError, match="feedback that is no finite number"):
        _ = FeedbackMessage(1, SERVER, 3, content).value
