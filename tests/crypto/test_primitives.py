from decimal import Decimal, getcontext

import numpy as np
import pytest
from Crypto.Cipher import AES
from Crypto.Util.number import isPrime
from hypothesis import given
from hypothesis import strategies as st

from fflbench.crypto import keystream
from fflbench.crypto.diffie_hellman import DIFFIE_HELLMAN_GROUPS, FFDHE2048_P, RFC5114_G, RFC5114_P, RFC5114_Q
from fflbench.crypto.entropy import Entropy, derive_key
from fflbench.crypto.errors import ProtocolError


def test_ffdhe2048_is_the_prime_of_its_rfc():
    """RFC 7919, A.1: p = 2^2048 - 2^1984 + ([2^1918 e] + 560316) 2^64 - 1."""
    getcontext().prec = 700
    e_part = int(Decimal(2) ** 1918 * Decimal(1).exp())
    assert 2**2048 - 2**1984 + (e_part + 560316) * 2**64 - 1 == FFDHE2048_P


@pytest.mark.parametrize("group", DIFFIE_HELLMAN_GROUPS.values(), ids=DIFFIE_HELLMAN_GROUPS)
def test_groups_are_of_prime_order_in_a_prime_field_of_2048_bits(group):
    assert group.p.bit_length() == 2048
    assert isPrime(group.p)
    assert isPrime(group.q)
    assert (group.p - 1) % group.q == 0
    assert group.g != 1
    assert pow(group.g, group.q, group.p) == 1


def test_the_papers_group_has_a_subgroup_of_256_bits():
    assert RFC5114_Q.bit_length() == 256
    assert DIFFIE_HELLMAN_GROUPS["rfc5114"].g == RFC5114_G < RFC5114_P


@pytest.mark.parametrize("group", DIFFIE_HELLMAN_GROUPS.values(), ids=DIFFIE_HELLMAN_GROUPS)
def test_both_sides_have_the_same_secret(group):
    a, b = (Entropy().random_bytes(group.secret_bytes, name) for name in "ab")
    assert group.shared_secret(a, group.public_value(b)) == group.shared_secret(b, group.public_value(a))


@pytest.mark.parametrize("group", DIFFIE_HELLMAN_GROUPS.values(), ids=DIFFIE_HELLMAN_GROUPS)
def test_what_is_no_element_ends_the_exchange(group):
    outside = next(value for value in range(2, 100) if pow(value, group.q, group.p) != 1)
    for value in (0, 1, group.p - 1, group.p, group.p + 1, outside):
        with pytest.raises(ProtocolError, match="no element of the group"):
            group.shared_secret(b"\x01" * 32, value.to_bytes(257)[-256:] if value < 2**2048 else value.to_bytes(257))
    for wrong_length in (b"", b"\x02", group.public_value(b"\x05") + b"\x00"):
        with pytest.raises(ProtocolError):
            group.shared_secret(b"\x01" * 32, wrong_length)


def test_labels_never_run_together():
    labels = [
        ("a", "b"),
        ("ab",),
        ("a", "b", ""),
        ("", "a", "b"),
        ("a", 1),
        ("a1",),
        ("mask", 1, 2, 3),
        ("mask", 1, 23),
    ]
    assert len({derive_key(b"secret", *label) for label in labels}) == len(labels)


def test_entropy_is_the_systems_unless_a_cell_gives_its_seed():
    assert Entropy().random_bytes(32, "x") != Entropy().random_bytes(32, "x")
    assert Entropy(3).random_bytes(32, "x", 1) == Entropy(3).random_bytes(32, "x", 1)
    assert (
        len(
            {
                Entropy(3).random_bytes(32, "x", 1),
                Entropy(4).random_bytes(32, "x", 1),
                Entropy(3).random_bytes(32, "x", 2),
            }
        )
        == 3
    )
    assert "3" not in repr(Entropy(3))


def test_choices_of_an_entropy_repeat_with_a_seed_alone():
    drawn = [entropy.generator("order", 1).integers(2**62) for entropy in (Entropy(3), Entropy(3), Entropy(4))]
    assert drawn[0] == drawn[1] != drawn[2]
    assert Entropy().generator("order", 1).integers(2**62) != Entropy().generator("order", 1).integers(2**62)
    assert Entropy(3).derive_secret("x") == Entropy(3).derive_secret("x") != Entropy(4).derive_secret("x")
    with pytest.raises(ValueError, match="only an entropy with a seed repeats its secrets"):
        Entropy().derive_secret("x")


@given(st.integers(0, 300), st.binary(min_size=32, max_size=32))
def test_a_pad_is_the_aes_counter_keystream(size, key):
    out = keystream.fill_keystream(key, np.empty(size, np.uint32))
    block = AES.new(key, AES.MODE_ECB)
    counters = b"".join(block.encrypt(counter.to_bytes(16)) for counter in range(size * 4 // 16 + 1))
    assert out.tobytes() == counters[: size * 4]


def test_padding_twice_takes_the_pad_off():
    data = np.arange(1000, dtype=np.uint32)
    there = np.empty_like(data)
    keystream.xor_keystream(data, b"k" * 32, there)
    assert (there != data).mean() > 0.99
    keystream.xor_keystream(there, b"k" * 32, there)
    np.testing.assert_array_equal(there, data)


def test_a_mask_is_one_unbiased_bit_a_coordinate():
    size = 100_000
    found = keystream.random_mask(b"shared", 1, 2, 3, size)
    assert set(np.unique(found)) == {0, 1}
    assert abs((found > 0).mean() - 0.5) < 4 * 0.5 / np.sqrt(size)
    for other in ((b"other", 1, 2, 3), (b"shared", 2, 2, 3), (b"shared", 1, 3, 2)):
        assert 0.48 < (keystream.random_mask(*other, size) == found).mean() < 0.52


def test_a_seed_is_opened_by_its_server_alone(key, other_key):
    seed = bytes(range(32))
    sealed = key.public.encrypt(seed, Entropy(), 1)
    assert len(sealed) == 384
    assert key.decrypt(sealed, 1) == seed
    assert key.public.encrypt(seed, Entropy(), 1) != sealed
    with pytest.raises(ProtocolError, match="does not open"):
        other_key.decrypt(sealed, 1)
    with pytest.raises(ProtocolError, match="does not open"):
        key.decrypt(sealed, 2)
    for damaged in (sealed[:-1], b"", bytes(384), sealed[:-1] + bytes([sealed[-1] ^ 1])):
        with pytest.raises(ProtocolError):
            key.decrypt(damaged, 1)
    with pytest.raises(ProtocolError, match="wrong length"):
        key.decrypt(key.public.encrypt(b"short", Entropy(), 1), 1)


def test_keys_show_nothing_of_themselves(key):
    assert str(key._key.d)[:20] not in repr(key) + str(vars(key.public))
