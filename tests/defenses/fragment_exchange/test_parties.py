"""An exchange between two participants and what the server makes of it: exact, hidden, and broken off on any fault."""

import dataclasses
import hashlib
import hmac
import multiprocessing
import socket
import struct

import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange.messages import Answer, Offer, Reply, Submission
from fflbench.defenses.transports.fragment_exchange.parties import (
    Acceptor,
    Initiator,
    Server,
    exchange_fragments,
    swap,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fflbench.crypto import pads
from fflbench.crypto.entropy import Entropy, derive
from fflbench.crypto.errors import ProtocolError
from fflbench.crypto.seal import SealingKey


def complete(initiator, acceptor):
    exchange_fragments(initiator, acceptor)
    return initiator.submission(), acceptor.submission()


def opened(submission, server, size):
    out = np.empty(size, np.float32)
    server._heard = (-1, set())
    server.open(submission, submission.round, submission.sender, out)
    return out


@pytest.mark.parametrize("group", ["ffdhe2048", "rfc5114"])
def test_each_coordinate_of_the_mixed_updates_is_a_permutation_of_the_originals(parties, server, group):
    k, j = parties(size=5000, group=group)
    mixed = [opened(submission, server, 5000) for submission in complete(k, j)]
    swapped = mixed[0].view(np.uint32) == j.update.view(np.uint32)
    np.testing.assert_array_equal(mixed[0], np.where(swapped, j.update, k.update))
    np.testing.assert_array_equal(mixed[1], np.where(swapped, k.update, j.update))
    assert abs(swapped.mean() - 0.5) < 4 * 0.5 / np.sqrt(5000)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.integers(1, 200),
    data=st.data(),
)
def test_the_long_way_gives_the_bits_of_a_swap_with_the_same_mask(parties, server, size, data):
    """Any bit pattern: NaN, infinity and minus zero travel like everything else."""
    words = arrays(np.uint32, size, elements=st.integers(0, 2**32 - 1))
    one, other = (data.draw(words).view(np.float32) for _ in range(2))
    bits = data.draw(arrays(np.uint8, size, elements=st.integers(0, 1)))
    k, j = parties(updates=(one, other), entropy=Entropy())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pads, "mask", lambda *_: bits)
        found = [opened(submission, server, size) for submission in complete(k, j)]
    for there, wanted in zip(found, swap(one, other, bits), strict=True):
        assert there.tobytes() == wanted.tobytes()


def test_updates_are_left_alone(parties):
    k, j = parties()
    before = k.update.copy(), j.update.copy()
    complete(k, j)
    np.testing.assert_array_equal(k.update, before[0])
    np.testing.assert_array_equal(j.update, before[1])


def test_with_a_seed_everything_repeats_and_without_nothing_does(parties):
    def sent(entropy):
        k, j = parties(entropy=entropy)
        return [submission.to_bytes() for submission in complete(k, j)]

    assert sent(Entropy(7)) == sent(Entropy(7))
    assert sent(Entropy(7)) != sent(Entropy(8))
    assert sent(Entropy()) != sent(Entropy())


def test_what_a_partner_sees_fits_any_other_update(parties):
    """Proposition 1: for every W' exactly one pair of pads gives the same two masked vectors at the same mask."""
    k, j = parties(size=300)
    answer = j.take(k.offer())
    k.take(answer)
    whole, kept = (np.frombuffer(part, np.uint32) for part in (answer.whole, answer.kept))
    mask = np.negative(k._mask.astype(np.uint32))
    other = np.random.default_rng(9).integers(2**32, size=300, dtype=np.uint32)
    rho = kept ^ (other & ~mask)
    r = whole ^ other ^ rho
    assert (other ^ r ^ rho).tobytes() == whole.tobytes()
    assert ((other & ~mask) ^ rho).tobytes() == kept.tobytes()
    # And for the true update these are the pads that were used.
    true = j.update.view(np.uint32)
    pad = pads.pad(pads.pad_key(j._seed_rho, "rho", 3), np.empty(300, np.uint32))
    assert (kept ^ (true & ~mask)).tobytes() == pad.tobytes()


def test_a_partner_learns_the_half_of_r_that_hides_nothing(parties):
    k, j = parties(size=400)
    answer = j.take(k.offer())
    k.take(answer)
    learned = np.frombuffer(answer.whole, np.uint32) ^ np.frombuffer(answer.kept, np.uint32)
    r = pads.pad(pads.pad_key(j._seed_r, "r", 3), np.empty(400, np.uint32))
    swapped = k._mask > 0
    np.testing.assert_array_equal(learned[~swapped], r[~swapped])
    assert not (learned[swapped] == j.update.view(np.uint32)[swapped]).any()


def test_no_two_pads_share_key_and_label(parties, monkeypatch):
    used = []

    def spying(secret, *label, **options):
        used.append((secret, label))
        return derive(secret, *label, **options)

    monkeypatch.setattr(pads, "derive", spying)
    for round in range(3):
        for seed in range(2):
            complete(*parties(round=round, entropy=Entropy(seed), seed=seed))
    made = [entry for entry in used if entry[1][0] == "pad"]
    # Four pads an exchange; r of each side is not derived by anybody else before the server opens it.
    assert len(made) == 3 * 2 * 4
    assert len(set(made)) == len(made)


def messages(parties):
    k, j = parties()
    offer = k.offer()
    answer = j.take(offer)
    return k, j, offer, answer


def flipped(content):
    changed = bytearray(content)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("field", ["power", "sealed_seed", "whole", "kept", "mac"])
def test_a_tampered_answer_ends_the_exchange(parties, field):
    k, _, _, answer = messages(parties)
    with pytest.raises(ProtocolError):
        k.take(dataclasses.replace(answer, **{field: flipped(getattr(answer, field))}))
    with pytest.raises(ProtocolError, match="not complete"):
        k.submission()


@pytest.mark.parametrize("field", ["whole", "kept", "mac"])
def test_a_tampered_reply_ends_the_exchange(parties, field):
    k, j, _, answer = messages(parties)
    reply = k.take(answer)
    with pytest.raises(ProtocolError):
        j.finish(dataclasses.replace(reply, **{field: flipped(getattr(reply, field))}))
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
    reply = k.take(resigned(answer, j, **{field: flipped(getattr(answer, field))}))
    with pytest.raises(ProtocolError, match="MAC"):
        j.finish(reply)


def test_each_mac_covers_the_hash_of_all_bytes_sent_so_far(parties):
    """PROTOCOL 5, computed from the bytes of the messages alone."""
    k, j, offer, answer = messages(parties)
    reply = k.take(answer)
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
    assert party._sign(Reply(3, 5, 9, b"", b"", b"")).mac.hex() == mac


@pytest.mark.parametrize("field", ["whole", "kept", "mac"])
def test_after_a_tampered_reply_neither_partner_holds_a_submission(parties, field):
    k, j = parties()

    def tampered(message):
        if isinstance(message, Reply):
            return dataclasses.replace(message, **{field: flipped(getattr(message, field))})
        return message

    with pytest.raises(ProtocolError, match="MAC"):
        exchange_fragments(k, j, tampered)
    for party in (k, j):
        with pytest.raises(ProtocolError, match="not complete"):
            party.submission()
        with pytest.raises(ProtocolError, match="out of order"):
            party.take(party.transcript[0])


def test_a_partner_that_falls_silent_leaves_neither_with_a_submission(parties):
    k, j = parties()

    def silent(message):
        if isinstance(message, Reply):
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
    fresh = Server(Entropy(seed=5))
    out = np.empty(1000, np.float32)
    submissions = {}
    for round in (3, 4):
        k, j = parties(round=round)
        k.server = j.server = fresh.public
        submissions[round] = complete(k, j)
    fresh.open(submissions[3][0], 3, 5, out)
    fresh.open(submissions[4][0], 4, 5, out)
    with pytest.raises(ProtocolError, match="an earlier round"):
        fresh.open(submissions[3][1], 3, 9, out)
    fresh.open(submissions[4][1], 4, 9, out)


@pytest.mark.parametrize("field", ["power", "sealed_seed"])
def test_an_offer_tampered_with_is_found_out_by_the_initiator(parties, field):
    k, j = parties()
    offer = k.offer()
    if field == "power":
        changed = offer.power[:-1] + bytes([offer.power[-1] ^ 1])
        # Half of all numbers are no squares, so the acceptor may see it at once.
        try:
            answer = j.take(dataclasses.replace(offer, power=changed))
        except ProtocolError:
            return
    else:
        answer = j.take(dataclasses.replace(offer, sealed_seed=flipped(offer.sealed_seed)))
    with pytest.raises(ProtocolError, match="MAC"):
        k.take(answer)


def test_truncated_vectors_end_the_exchange(parties):
    k, _, _, answer = messages(parties)
    with pytest.raises(ProtocolError):
        k.take(dataclasses.replace(answer, whole=answer.whole[:-4]))
    k, j = parties(size=10)
    longer, _ = parties(size=11)
    answer = j.take(longer.offer())
    with pytest.raises(ProtocolError, match="wrong length"):
        longer.take(answer)


def test_replayed_or_misdirected_messages_are_refused(parties):
    k, _, offer, answer = messages(parties)
    later_k, later_j = parties(round=4)
    with pytest.raises(ProtocolError, match="another exchange"):
        later_j.take(offer)
    later_k.offer()
    with pytest.raises(ProtocolError, match="another exchange"):
        later_k.take(answer)
    with pytest.raises(ProtocolError, match="another exchange"):
        k.take(dataclasses.replace(answer, sender=4))
    # The same round with other keys: the header fits, the MAC does not.
    other_k, _ = parties(entropy=Entropy(99))
    other_k.offer()
    with pytest.raises(ProtocolError, match="MAC"):
        other_k.take(answer)


def test_messages_out_of_order_are_refused(parties):
    k, j, offer, answer = messages(parties)
    reply = k.take(answer)
    fresh_k, fresh_j = parties()
    for early in (lambda: fresh_j.finish(reply), lambda: fresh_k.take(answer)):
        with pytest.raises(ProtocolError, match="out of order"):
            early()
    j.finish(reply)
    for again in (k.offer, lambda: k.take(answer), lambda: j.take(offer), lambda: j.finish(reply)):
        with pytest.raises(ProtocolError, match="out of order"):
            again()


def test_a_seed_sealed_to_another_key_is_seen_by_the_server(parties, server, stranger):
    k, j = parties()
    j.server = SealingKey(stranger.public.exported)
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
        server.open(mine, 3, 5, out)
    for round, sender in ((4, 9), (3, 5)):
        with pytest.raises(ProtocolError, match="another round or sender"):
            server.open(theirs, round, sender, out)
    with pytest.raises(ProtocolError, match="another round or sender"):
        server.open(dataclasses.replace(theirs, receiver=7), 3, 9, out)


def test_after_a_fault_nothing_more_is_taken(parties):
    k, j = parties()
    offer = k.offer()
    with pytest.raises(ProtocolError, match="no element"):
        j.take(dataclasses.replace(offer, power=bytes(256)))
    other_k, other_j = parties()
    reply = other_k.take(other_j.take(other_k.offer()))
    with pytest.raises(ProtocolError, match="out of order"):
        j.finish(reply)


def test_messages_and_errors_show_no_content(parties):
    k, _, offer, answer = messages(parties)
    assert repr(offer) == "Offer(round: 3, sender: 5, receiver: 9, power: 256 bytes, sealed_seed: 384 bytes)"
    for secret in (k._secret, k._seed_r, k._seed_rho):
        for shown in (repr(k), repr(answer), str(vars(ProtocolError("x")))):
            assert secret.hex() not in shown
            assert repr(secret)[2:-1] not in shown
    assert str(k.update[0]) not in repr(k)


def test_the_server_shows_nothing_of_its_key(server):
    assert str(server._key._key.d)[:20] not in repr(server)


def kinds(message):
    return {part.kind: size for part, size in message.sizes().items()}


def test_the_ledger_counts_what_the_paper_counts(parties):
    """D parameters: 4 D bytes a vector; 256 bytes a power, 384 a sealed seed, 32 a MAC."""
    k, j, offer, answer = messages(parties)
    reply = k.take(answer)
    j.finish(reply)
    assert kinds(offer) == {"framing": 17 + 2 * 8, "power": 256, "sealed seed": 384}
    assert kinds(answer) == {"framing": 17 + 5 * 8, "power": 256, "sealed seed": 384, "masked vector": 8000, "mac": 32}
    assert kinds(reply) == {"framing": 17 + 3 * 8, "masked vector": 8000, "mac": 32}
    assert kinds(k.submission()) == {"framing": 17 + 2 * 8, "mixed update": 4000, "sealed seed": 384}


def send(connection, message):
    content = message.to_bytes()
    connection.sendall(struct.pack("<Q", len(content)) + content)


def receive(connection, kind):
    def exactly(count):
        found = b""
        while len(found) < count:
            found += connection.recv(count - len(found))
        return found

    return kind.from_bytes(exactly(struct.unpack("<Q", exactly(8))[0]))


def other_process(port, server_key, queue):
    """The acceptor, in a process that has nothing but the server's public key and a socket."""
    update = np.full(2000, 2, np.float32)
    acceptor = Acceptor(update, name=9, partner=5, round=1, server=SealingKey(server_key), entropy=Entropy())
    with socket.create_connection(("127.0.0.1", port)) as connection:
        send(connection, acceptor.take(receive(connection, Offer)))
        acceptor.finish(receive(connection, Reply))
    queue.put(acceptor.submission().to_bytes())


def test_an_exchange_over_a_real_socket_between_two_processes(server):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    update = np.full(2000, 1, np.float32)
    initiator = Initiator(update, name=5, partner=9, round=1, server=server.public, entropy=Entropy())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = context.Process(
            target=other_process, args=(listening.getsockname()[1], server.public.exported, queue)
        )
        process.start()
        listening.settimeout(60)
        connection, _ = listening.accept()
        with connection:
            send(connection, initiator.offer())
            send(connection, initiator.take(receive(connection, Answer)))
        theirs = Submission.from_bytes(queue.get(timeout=60))
        process.join()
    mine, their = (opened(submission, server, 2000) for submission in (initiator.submission(), theirs))
    np.testing.assert_array_equal(mine + their, 3)
    assert set(np.unique(mine)) == {1, 2}
