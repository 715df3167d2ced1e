"""Attackers who send NaN, infinity or their own update with flipped exponent bits."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fflbench import poison, registry
from fflbench.federation import chain
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind
from tests.attacks.attack_rounds import Rounds
from tests.played import finished

HONEST = np.ones((3, 5), np.float32)
NUMBERS = st.floats(-10, 10, width=32)


def flipped(own):
    return poison("non-finite", HONEST, attackers=len(own), own=own, values="flipped exponents")


@pytest.mark.parametrize(("values", "expected"), [({}, np.nan), ({"values": "infinity"}, np.inf)])
def test_every_parameter_is_nan_unless_infinity_is_asked_for(values, expected):
    np.testing.assert_array_equal(poison("non-finite", HONEST, attackers=2, **values), np.full((2, 5), expected))


@given(arrays.arrays(np.float32, (2, 5), elements=NUMBERS))
def test_flipping_changes_the_highest_exponent_bit_of_every_value_and_no_other(own):
    bits = [struct.unpack("<I", struct.pack("<f", value))[0] for value in own.ravel()]
    expected = b"".join(struct.pack("<I", each + 2**30 if each % 2**31 < 2**30 else each - 2**30) for each in bits)
    assert flipped(own).astype("<f4").tobytes() == expected


@given(arrays.arrays(np.float32, (1, 5), elements=st.floats(2.0**-126, 0.96875, width=32)))
def test_flipped_exponents_multiply_small_values_by_a_power_of_two_and_keep_them_finite(own):
    np.testing.assert_array_equal(flipped(own).astype(np.float64), own.astype(np.float64) * 2.0**128)


@pytest.mark.parametrize(
    "defense", ["fedavg", "median", "multi-krum", "foolsgold", "ffl", "fragment-exchange + median"]
)
@pytest.mark.parametrize("values", ["nan", "infinity", "flipped exponents"])
def test_the_model_stays_finite_behind_every_kind_of_defense(values, defense):
    task = registry.get(Kind.TASK, "digits-mlp").create(rounds=3)
    attack = registry.get(Kind.ATTACK, "non-finite").create(values=values)
    federation = Federation(task, attack, chain.defense(defense), 0)
    outcome = finished(federation)
    assert np.isfinite(federation.weights).all()
    # Flipped exponents leave most rows finite, and these are not dropped.
    if values != "flipped exponents":
        assert outcome.facts["dropped_rows"] > 0
        assert outcome.metrics["accuracy"] > 0.3


@pytest.mark.parametrize("entry", registry.entries(Kind.ATTACK), ids=str)
def test_an_honest_update_that_is_not_finite_does_not_disarm_an_attack(entry):
    """The server drops such updates, and so do attackers, in this round and for the rounds after it."""
    if not entry.target.sends_finite_rows:
        pytest.skip("sends NaN or infinity by definition")
    honest = np.random.default_rng(0).normal(size=(7, 6))
    with_nan = honest.copy()
    with_nan[3, 2] = np.nan
    rounds = Rounds(entry.name, 6)
    for _ in range(2):
        assert np.isfinite(rounds.send(with_nan)).all()
    if "honest updates" in entry.knows:
        assert np.isfinite(rounds.send(np.full((7, 6), np.nan))).all()
