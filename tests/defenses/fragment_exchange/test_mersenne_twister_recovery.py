import random

import numpy as np
from fflbench.defenses.transports.fragment_exchange.mersenne_twister_recovery import recover_outputs, temper, untemper
from hypothesis import given, settings
from hypothesis import strategies as st

LENGTH = 8_000


def outputs(seed, length=LENGTH):
    return np.random.MT19937(seed).random_raw(length).astype(np.uint32)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_scrambling_is_undone(words):
    words = np.array(words, np.uint32)
    np.testing.assert_array_equal(untemper(temper(words)), words)
    np.testing.assert_array_equal(temper(untemper(words)), words)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_half_of_the_outputs_give_the_rest(seed, hidden):
    true = outputs(seed)
    known = np.random.default_rng(hidden).random(LENGTH) < 0.5
    found, sure = recover_outputs(np.where(known, true, 7).astype(np.uint32), known)
    assert sure.mean() > 0.98
    np.testing.assert_array_equal(found[sure], true[sure])


def test_python_has_the_same_generator():
    generator = random.Random(5)
    true = np.array([generator.getrandbits(32) for _ in range(LENGTH)], np.uint32)
    known = np.random.default_rng(0).random(LENGTH) < 0.5
    found, sure = recover_outputs(np.where(known, true, 0).astype(np.uint32), known)
    np.testing.assert_array_equal(found[sure], true[sure])
    assert sure.mean() > 0.98


def test_624_outputs_in_a_row_give_all_that_follow_and_what_came_before():
    true = outputs(3)
    known = np.zeros(LENGTH, bool)
    known[2000:2624] = True
    found, sure = recover_outputs(np.where(known, true, 0).astype(np.uint32), known)
    assert sure[2000:].all()
    assert sure[:2000].mean() > 0.99
    np.testing.assert_array_equal(found[sure], true[sure])


def test_a_few_outputs_give_nothing_more():
    true = outputs(3)
    known = np.zeros(LENGTH, bool)
    known[:300] = True
    _, sure = recover_outputs(np.where(known, true, 0).astype(np.uint32), known)
    assert sure.sum() == 300


def test_words_of_another_generator_are_told_apart():
    words = np.random.default_rng(0).integers(2**32, size=LENGTH, dtype=np.uint32)
    assert recover_outputs(words, np.random.default_rng(1).random(LENGTH) < 0.5) is None
    one_bit_off = outputs(3)
    one_bit_off[4000] ^= np.uint32(1)
    assert recover_outputs(one_bit_off, np.ones(LENGTH, bool)) is None
