"""`known.simulate`: the aggregate that attackers would cause, on a copy of the defense."""

import numpy as np
import pytest

from fflbench import registry
from fflbench.errors import ParameterError
from fflbench.federation import Attack, Defense
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind, attack

EVERYTHING = ["own data", "attackers' updates", "honest updates", "defense"]
DEFENSES = ["fedavg", "median", "trimmed-mean", "krum", "multi-krum", "foolsgold", "ffl", "ffl-mixing", "ideal-secagg"]


@pytest.fixture
def federation(own_registry):
    """A federation whose attackers do as a function says, and what that function returned in each round."""

    def build(poison, defense, knows=EVERYTHING, **parameters):
        @attack("tries", title="Tries", knows=knows)
        class Tries(Attack):
            """Calls the test."""

            def poison_updates(self, known):
                return poison(known)

        task = registry.get(Kind.TASK, "digits-mlp").create(rounds=3)
        attacking = Tries(share=0.3, **parameters)
        name, given = defense if isinstance(defense, tuple) else (defense, {})
        return Federation(task, attacking, registry.get(Kind.DEFENSE, name).create(**given), 0)

    return build


@pytest.mark.parametrize("defense", ["fedavg", "median", "trimmed-mean", "multi-krum", "foolsgold", "ideal-secagg"])
def test_a_defense_without_random_choices_does_what_was_simulated(federation, defense):
    expected = []

    def poison(known):
        change = known.simulate(-3 * known.updates)
        expected.append(known.weights if change is None else known.weights + change)
        return -3 * known.updates

    it = federation(poison, defense)
    for _ in range(3):
        it.play()
        np.testing.assert_array_equal(it.weights, expected[-1])


@pytest.mark.parametrize(
    ("defense", "strategy"),
    [*((name, 1) for name in DEFENSES), ("ffl", 2), ("ffl", 3), (("ffl", {"mode": "full"}), 3)],
    ids=str,
)
def test_simulating_changes_nothing_and_repeats_within_a_round(federation, defense, strategy):
    tried = []

    def poison(known):
        first, again = known.simulate(-known.updates), known.simulate(-known.updates)
        np.testing.assert_array_equal(first, again)
        other = known.simulate(50 * known.updates)
        tried.append(not np.array_equal(first, other))
        return known.updates

    it = federation(poison, defense, strategy=strategy)
    plain = federation(lambda known: known.updates, defense, strategy=strategy)
    for _ in range(3):
        played, alone = it.play(), plain.play()
        assert played == alone
    np.testing.assert_array_equal(it.weights, plain.weights)
    for name, array in plain.defense.memory.items():
        np.testing.assert_array_equal(it.defense.memory[name], array)
    assert any(tried)


def test_the_simulation_of_an_exchange_pairs_people_by_choices_of_its_own(federation):
    """Otherwise attackers would learn who is paired with whom, and which coordinates change places."""
    found, sent = [], []

    def poison(known):
        found.append(known.weights + known.simulate(known.updates))
        return known.updates

    it = federation(poison, "ffl")
    for _ in range(3):
        it.play()
        sent.append(it.weights)
    assert not any(np.array_equal(one, other) for one, other in zip(found, sent, strict=True))


def test_attackers_who_do_not_know_honest_updates_hand_in_an_estimate(federation):
    found = []

    def poison(known):
        with pytest.raises(PermissionError, match="honest updates"):
            known.simulate(known.updates)
        others = known.selected - len(known.participants)
        estimate = np.tile(known.updates.mean(0), (others, 1))
        found.append((known.simulate(known.updates, honest=estimate), known.updates.copy()))
        for wrong in (estimate[1:], estimate[:, 1:]):
            with pytest.raises(ParameterError, match="estimate of shape"):
                known.simulate(known.updates, honest=wrong)
        with pytest.raises(ParameterError, match="rows of shape"):
            known.simulate(known.updates[:, 1:], honest=estimate)
        return known.updates

    federation(poison, "median", knows=["own data", "attackers' updates", "defense"]).play()
    (simulated, own), *_ = found
    expected = np.median(np.concatenate([own, np.tile(own.mean(0), (10 - len(own), 1))]), axis=0)
    np.testing.assert_allclose(simulated, expected, atol=1e-6)


def test_it_says_so_where_the_server_would_keep_its_model(federation):
    found = []

    def poison(known):
        found.append(known.simulate(np.full_like(known.updates, 3e38)))
        return known.updates

    federation(poison, "fedavg").play()
    assert found == [None]


def test_no_key_of_the_server_is_in_the_copy_that_attackers_try(federation):
    it = federation(lambda known: known.updates, ("ffl", {"mode": "full"}))
    twin = it.defense.simulated(7)
    assert it.defense.server is not None
    assert twin.server is None
    assert twin.setting.seed == 7
    assert all(twin.memory[name] is not array for name, array in it.defense.memory.items())


def test_honest_updates_cannot_be_changed(federation):
    def poison(known):
        with pytest.raises(ValueError, match="read-only"):
            known.honest[:] = 0
        return known.updates

    federation(poison, "fedavg").play()


def test_attackers_who_are_asked_one_by_one_simulate_the_whole_round(federation, monkeypatch):
    """Otherwise an f of 20%, pairs and quartiles would be those of a smaller round."""
    sizes, transmit = [], Defense.transmit

    def counting(self, round, weights, selected, sent):
        sizes.append(len(selected))
        return transmit(self, round, weights, selected, sent)

    monkeypatch.setattr(Defense, "transmit", counting)
    knows = ["own data", "honest updates", "defense"]
    federation(lambda known: known.simulate(known.updates)[None] * 0 + known.updates, "median", knows=knows).play()
    assert len(sizes) > 2
    assert set(sizes) == {10}
