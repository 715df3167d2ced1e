"""Altered, repeated, misdirected and missing messages end an exchange, and neither partner submits."""

import dataclasses
import hashlib
import hmac

import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange.messages import (
    ExchangeReply,
)
from fflbench.defenses.transports.fragment_exchange.parties import (
    Acceptor,
    ExchangeServer,
    Initiator,
    exchange_fragments,
)

from fflbench.crypto.entropy import Entropy
from fflbench.crypto.errors import ProtocolError
from fflbench.crypto.rsa_oaep import ServerPublicKey
from tests.defenses.fragment_exchange.exchanges import complete, messages, opened


def flipped(content):
    changed = bytearray(content)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("field", ["power", "sealed_seed", "whole", "kept", "mac"])
def test_a_tampered_answer_ends_the_exchange(parties, field):
    k, _, _, answer = messages(parties)
    with pytest.raises(ProtocolError):
        k.reply_to_answer(dataclasses.replace(answer, **{field: flipped(getattr(answer, field))}))
    with pytest.raises(ProtocolError, match="not complete"):
        k.submission()


@pytest.mark.parametrize("field", ["whole", "kept", "mac"])
def test_a_tampered_reply_ends_the_exchange(parties, field):
    k, j, _, answer = messages(parties)
    reply = k.reply_to_answer(answer)
    with pytest.raises(ProtocolError):
        j.finish_exchange(dataclasses.replace(reply, **{field: flipped(getattr(reply, field))}))
    with pytest.raises(ProtocolError, match="not complete"):
        j.submission()


def resigned(answer, acceptor, **changed):
    """An answer altered on its way by somebody who can also make its MAC hold for the initiator."""
    altered = dataclasses.replace(answer, **changed, mac=b"")
    transcript = hashlib.sha256(acceptor.transcript[0].to_bytes() + altered.to_bytes()).digest()
    return dataclasses.replace(altered, mac=hmac.new(acceptor._mac_key, transcript, "sha256").digest())


@pytest.mark.parametrize("field", ["sealed_seed", "whole", "kept"])
def test_the_replys_mac_covers_everything_that_was_answered(parties, field):
    k, j, _, answer = messages(parties)
    reply = k.reply_to_answer(resigned(answer, j, **{field: flipped(getattr(answer, field))}))
    with pytest.raises(ProtocolError, match="MAC"):
        j.finish_exchange(reply)


def test_each_mac_covers_the_hash_of_all_bytes_sent_so_far(parties):
    """PROTOCOL 5, computed from the bytes of the messages alone."""
    k, j, offer, answer = messages(parties)
    reply = k.reply_to_answer(answer)
    unsigned = [dataclasses.replace(message, mac=b"").to_bytes() for message in (answer, reply)]
    sent = offer.to_bytes() + unsigned[0]
    assert bytes(answer.mac) == hmac.new(j._mac_key, hashlib.sha256(sent).digest(), "sha256").digest()
    sent += bytes(answer.mac) + unsigned[1]
    assert bytes(reply.mac) == hmac.new(j._mac_key, hashlib.sha256(sent).digest(), "sha256").digest()


RFC4231 = [
    (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
    (b"\xaa" * 20, b"\xdd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    (bytes(range(1, 26)), b"\xcd" * 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
    (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
    (
        b"\xaa" * 131,
        b"This is a test using a larger than block-size key and a larger than block-size data. "
        b"The key needs to be hashed before being used by the HMAC algorithm.",
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
    ),
]


@pytest.mark.parametrize(("key", "data", "mac"), RFC4231, ids=["1", "2", "3", "4", "6", "7"])
def test_macs_between_partners_are_those_of_rfc_4231(parties, monkeypatch, key, data, mac):
    """The party's own computation, with the hash of what was sent replaced by the vector's data."""

    class Hashed:
        def update(self, part):
            pass

        def digest(self):
            return data

    party, _ = parties()
    party._mac_key, party._hash = key, Hashed()
    assert party._add_mac(ExchangeReply(3, 5, 9, b"", b"", b"")).mac.hex() == mac


@pytest.mark.parametrize("field", ["whole", "kept", "mac"])
def test_after_a_tampered_reply_neither_partner_holds_a_submission(parties, field):
    k, j = parties()

    def tampered(message):
        if isinstance(message, ExchangeReply):
            return dataclasses.replace(message, **{field: flipped(getattr(message, field))})
        return message

    with pytest.raises(ProtocolError, match="MAC"):
        exchange_fragments(k, j, tampered)
    for party, process in ((k, k.reply_to_answer), (j, j.answer_offer)):
        with pytest.raises(ProtocolError, match="not complete"):
            party.submission()
        with pytest.raises(ProtocolError, match="out of order"):
            process(party.transcript[0])


def test_a_partner_that_falls_silent_leaves_neither_with_a_submission(parties):
    k, j = parties()

    def silent(message):
        if isinstance(message, ExchangeReply):
            raise ProtocolError("a partner that fell silent")
        return message

    with pytest.raises(ProtocolError, match="silent"):
        exchange_fragments(k, j, silent)
    with pytest.raises(ProtocolError, match="not complete"):
        k.submission()


@pytest.mark.parametrize("side", [Initiator, Acceptor])
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"partner": 5}, "cannot exchange with itself"),
        ({"update": np.zeros((2, 3), np.float32)}, r"one vector of numbers, not an array of shape \(2, 3\)"),
        ({"update": np.float32(1)}, "one vector of numbers"),
        ({"update": ["a", "b"]}, "one vector of numbers"),
        ({"round": 2**32}, "round = 4294967296 does not fit"),
        ({"round": -1}, "round = -1 does not fit"),
        ({"round": 1.5}, "round = 1.5 does not fit"),
        ({"name": 2**32}, "sender = 4294967296 does not fit"),
        ({"partner": -2}, "receiver = -2 does not fit"),
    ],
)
def test_a_party_that_cannot_exchange_is_refused_when_it_is_made(server, side, changed, reason):
    fitting = {"update": np.zeros(3, np.float32), "name": 5, "partner": 9, "round": 1}
    with pytest.raises(ProtocolError, match=reason):
        side(**{**fitting, **changed}, server=server.public, entropy=Entropy())


def test_a_seed_sealed_in_an_earlier_round_does_not_open(parties, server):
    old, _ = complete(*parties(round=3))
    new, _ = complete(*parties(round=4))
    with pytest.raises(ProtocolError, match="does not open"):
        opened(dataclasses.replace(new, sealed_seed=old.sealed_seed), server, 1000)


def test_the_server_hears_no_round_again(parties):
    fresh = ExchangeServer(Entropy(seed=5))
    out = np.empty(1000, np.float32)
    submissions = {}
    for round in (3, 4):
        k, j = parties(round=round)
        k.server = j.server = fresh.public
        submissions[round] = complete(k, j)
    fresh.decrypt_submission(submissions[3][0], 3, 5, out)
    fresh.decrypt_submission(submissions[4][0], 4, 5, out)
    with pytest.raises(ProtocolError, match="an earlier round"):
        fresh.decrypt_submission(submissions[3][1], 3, 9, out)
    fresh.decrypt_submission(submissions[4][1], 4, 9, out)


@pytest.mark.parametrize("field", ["power", "sealed_seed"])
def test_an_offer_tampered_with_is_found_out_by_the_initiator(parties, field):
    k, j = parties()
    offer = k.make_offer()
    if field == "power":
        changed = offer.power[:-1] + bytes([offer.power[-1] ^ 1])
        # Half of all numbers are no squares, so the acceptor may see it at once.
        try:
            answer = j.answer_offer(dataclasses.replace(offer, power=changed))
        except ProtocolError:
            return
    else:
        answer = j.answer_offer(dataclasses.replace(offer, sealed_seed=flipped(offer.sealed_seed)))
    with pytest.raises(ProtocolError, match="MAC"):
        k.reply_to_answer(answer)


def test_truncated_vectors_end_the_exchange(parties):
    k, _, _, answer = messages(parties)
    with pytest.raises(ProtocolError):
        k.reply_to_answer(dataclasses.replace(answer, whole=answer.whole[:-4]))
    k, j = parties(size=10)
    longer, _ = parties(size=11)
    answer = j.answer_offer(longer.make_offer())
    with pytest.raises(ProtocolError, match="wrong length"):
        longer.reply_to_answer(answer)


def test_replayed_or_misdirected_messages_are_refused(parties):
    k, _, offer, answer = messages(parties)
    later_k, later_j = parties(round=4)
    with pytest.raises(ProtocolError, match="another exchange"):
        later_j.answer_offer(offer)
    later_k.make_offer()
    with pytest.raises(ProtocolError, match="another exchange"):
        later_k.reply_to_answer(answer)
    with pytest.raises(ProtocolError, match="another exchange"):
        k.reply_to_answer(dataclasses.replace(answer, sender=4))
    # The same round with other keys: the header fits, the MAC does not.
    other_k, _ = parties(entropy=Entropy(99))
    other_k.make_offer()
    with pytest.raises(ProtocolError, match="MAC"):
        other_k.reply_to_answer(answer)


def test_messages_out_of_order_are_refused(parties):
    k, j, offer, answer = messages(parties)
    reply = k.reply_to_answer(answer)
    fresh_k, fresh_j = parties()
    for early in (lambda: fresh_j.finish_exchange(reply), lambda: fresh_k.reply_to_answer(answer)):
        with pytest.raises(ProtocolError, match="out of order"):
            early()
    j.finish_exchange(reply)
    for again in (
        k.make_offer,
        lambda: k.reply_to_answer(answer),
        lambda: j.answer_offer(offer),
        lambda: j.finish_exchange(reply),
    ):
        with pytest.raises(ProtocolError, match="out of order"):
            again()


def test_a_seed_sealed_to_another_key_is_seen_by_the_server(parties, server, stranger):
    k, j = parties()
    j.server = ServerPublicKey(stranger.public.exported)
    mine, theirs = complete(k, j)
    with pytest.raises(ProtocolError, match="does not open"):
        opened(mine, server, 1000)
    assert np.isfinite(opened(theirs, server, 1000)).all()


def test_a_submission_of_the_wrong_length_is_seen_by_the_server(parties, server):
    mine, _ = complete(*parties())
    with pytest.raises(ProtocolError, match="wrong length"):
        opened(mine, server, 999)
    with pytest.raises(ProtocolError, match="wrong length"):
        opened(dataclasses.replace(mine, encrypted_mixed=mine.encrypted_mixed[:-1]), server, 1000)


def test_replayed_or_misaddressed_submissions_are_seen_by_the_server(parties, server):
    mine, theirs = complete(*parties())
    out = np.empty(1000, np.float32)
    opened(mine, server, 1000)
    with pytest.raises(ProtocolError, match="a second submission"):
        server.decrypt_submission(mine, 3, 5, out)
    for round, sender in ((4, 9), (3, 5)):
        with pytest.raises(ProtocolError, match="another round or sender"):
            server.decrypt_submission(theirs, round, sender, out)
    with pytest.raises(ProtocolError, match="another round or sender"):
        server.decrypt_submission(dataclasses.replace(theirs, receiver=7), 3, 9, out)


def test_after_a_fault_nothing_more_is_taken(parties):
    k, j = parties()
    offer = k.make_offer()
    with pytest.raises(ProtocolError, match="no element"):
        j.answer_offer(dataclasses.replace(offer, power=bytes(256)))
    other_k, other_j = parties()
    reply = other_k.reply_to_answer(other_j.answer_offer(other_k.make_offer()))
    with pytest.raises(ProtocolError, match="out of order"):
        j.finish_exchange(reply)
