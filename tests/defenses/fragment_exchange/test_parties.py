"""An exchange between two participants and what the server decrypts: exact, and hidden from both."""

import multiprocessing
import socket
import struct

import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange.messages import (
    ExchangeAnswer,
    ExchangeOffer,
    ExchangeReply,
    ExchangeSubmission,
)
from fflbench.defenses.transports.fragment_exchange.parties import (
    Acceptor,
    Initiator,
    swap_coordinates,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fflbench.crypto import keystream
from fflbench.crypto.entropy import Entropy, derive_key
from fflbench.crypto.errors import ProtocolError
from fflbench.crypto.rsa_oaep import ServerPublicKey
from tests.defenses.fragment_exchange.exchanges import complete, messages, opened


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
        patch.setattr(keystream, "random_mask", lambda *_: bits)
        found = [opened(submission, server, size) for submission in complete(k, j)]
    for there, wanted in zip(found, swap_coordinates(one, other, bits), strict=True):
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
    answer = j.answer_offer(k.make_offer())
    k.reply_to_answer(answer)
    whole, kept = (np.frombuffer(part, np.uint32) for part in (answer.whole, answer.kept))
    mask = np.negative(k._mask.astype(np.uint32))
    other = np.random.default_rng(9).integers(2**32, size=300, dtype=np.uint32)
    rho = kept ^ (other & ~mask)
    r = whole ^ other ^ rho
    assert (other ^ r ^ rho).tobytes() == whole.tobytes()
    assert ((other & ~mask) ^ rho).tobytes() == kept.tobytes()
    # And for the true update these are the pads that were used.
    true = j.update.view(np.uint32)
    pad = keystream.fill_keystream(keystream.keystream_key(j._seed_rho, "rho", 3), np.empty(300, np.uint32))
    assert (kept ^ (true & ~mask)).tobytes() == pad.tobytes()


def test_a_partner_learns_the_half_of_r_that_hides_nothing(parties):
    k, j = parties(size=400)
    answer = j.answer_offer(k.make_offer())
    k.reply_to_answer(answer)
    learned = np.frombuffer(answer.whole, np.uint32) ^ np.frombuffer(answer.kept, np.uint32)
    r = keystream.fill_keystream(keystream.keystream_key(j._seed_r, "r", 3), np.empty(400, np.uint32))
    swapped = k._mask > 0
    np.testing.assert_array_equal(learned[~swapped], r[~swapped])
    assert not (learned[swapped] == j.update.view(np.uint32)[swapped]).any()


def test_no_two_pads_share_key_and_label(parties, monkeypatch):
    used = []

    def spying(secret, *label, **options):
        used.append((secret, label))
        return derive_key(secret, *label, **options)

    monkeypatch.setattr(keystream, "derive_key", spying)
    for round in range(3):
        for seed in range(2):
            complete(*parties(round=round, entropy=Entropy(seed), seed=seed))
    made = [entry for entry in used if entry[1][0] == "pad"]
    # Four pads an exchange; r of each side is not derived by anybody else before the server opens it.
    assert len(made) == 3 * 2 * 4
    assert len(set(made)) == len(made)


def test_messages_and_errors_show_no_content(parties):
    k, _, offer, answer = messages(parties)
    assert repr(offer) == "ExchangeOffer(round: 3, sender: 5, receiver: 9, power: 256 bytes, sealed_seed: 384 bytes)"
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
    reply = k.reply_to_answer(answer)
    j.finish_exchange(reply)
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
    acceptor = Acceptor(update, name=9, partner=5, round=1, server=ServerPublicKey(server_key), entropy=Entropy())
    with socket.create_connection(("127.0.0.1", port)) as connection:
        send(connection, acceptor.answer_offer(receive(connection, ExchangeOffer)))
        acceptor.finish_exchange(receive(connection, ExchangeReply))
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
            send(connection, initiator.make_offer())
            send(connection, initiator.reply_to_answer(receive(connection, ExchangeAnswer)))
        theirs = ExchangeSubmission.from_bytes(queue.get(timeout=60))
        process.join()
    mine, their = (opened(submission, server, 2000) for submission in (initiator.submission(), theirs))
    np.testing.assert_array_equal(mine + their, 3)
    assert set(np.unique(mine)) == {1, 2}
