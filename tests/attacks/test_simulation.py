"""`known.simulate`: the aggregate that attackers would cause, on a copy of the defense."""

import numpy as np
import pytest

from fflbench import Aggregator, registry
from fflbench.errors import ParameterError
from fflbench.federation import Attack, Transport, chain
from fflbench.federation.rounds import Federation
from fflbench.federation.simulation import RoundSimulation
from fflbench.registration import attack, preaggregation
from fflbench.registry import Kind

EVERYTHING = ["own data", "attackers' updates", "honest updates", "defense"]
PREDICTABLE = [
    "fedavg",
    "median",
    "trimmed-mean",
    "krum",
    "multi-krum",
    "foolsgold",
    "reputation",
    "nnm + median",
    "ideal-secagg",
]
RANDOM = ["ffl", "fragment-exchange + multi-krum", "ldp + median", "bucketing + median"]
TRIES = 100


@pytest.fixture
def federation(own_registry):
    """A federation whose attackers do as a function says."""

    def build(poison, defense, knows=EVERYTHING, **parameters):
        @attack("tries", title="Tries", knows=knows)
        class Tries(Attack):
            """Calls the test."""

            def poison_updates(self, known):
                return poison(known)

        task = registry.get(Kind.TASK, "digits-mlp").create(rounds=3)
        return Federation(task, Tries(share=0.3), chain.defense(defense, **parameters), 0)

    return build


@pytest.mark.parametrize("defense", PREDICTABLE)
def test_a_defense_without_random_choices_does_what_was_simulated(federation, defense):
    expected = []

    def poison(known):
        change = known.simulate(-3 * known.updates)
        expected.append(known.weights if change is None else known.weights + change)
        return -3 * known.updates

    it = federation(poison, defense)
    for _ in range(3):
        it.run_round()
        np.testing.assert_array_equal(it.weights, expected[-1])


def bits(federation):
    """Everything that a round leaves behind, but for times and the number of simulations."""
    arrays, facts = federation.state()
    history = [uncounted(item) for item in facts["history"]]
    return {name: array.tobytes() for name, array in arrays.items()}, {**facts, "seconds": None, "history": history}


def uncounted(item):
    """The history of a round without the number of simulations."""
    return {name: value for name, value in item.items() if name != "simulations"}


@pytest.mark.parametrize("defense", [*PREDICTABLE, *RANDOM])
def test_a_hundred_simulations_a_round_change_nothing_and_repeat_within_a_round(federation, defense):
    differing = []

    def poison(known):
        first = known.simulate(-known.updates)
        for factor in np.linspace(0, 50, TRIES - 2):
            differing.append(not np.array_equal(first, known.simulate(np.float32(factor) * known.updates)))
        np.testing.assert_array_equal(known.simulate(-known.updates), first)
        return known.updates

    trying, plain = federation(poison, defense), federation(lambda known: known.updates, defense)
    for _ in range(3):
        assert uncounted(trying.run_round()) == uncounted(plain.run_round())
    assert [item["simulations"] for item in trying.history] == [TRIES] * 3
    assert 0 < trying.seconds["simulate"] < trying.seconds["poison"]
    assert bits(trying) == bits(plain)
    assert len(differing) == 3 * (TRIES - 2)
    assert any(differing)


@pytest.mark.parametrize("defense", RANDOM)
def test_a_simulation_makes_random_choices_of_its_own(federation, defense):
    """Otherwise attackers would learn those of the round: pairs, masks, noise, buckets."""
    found, sent = [], []

    def poison(known):
        found.append(known.weights + known.simulate(known.updates))
        return known.updates

    it = federation(poison, defense)
    for _ in range(3):
        it.run_round()
        sent.append(it.weights)
    assert not any(np.array_equal(one, other) for one, other in zip(found, sent, strict=True))


def test_a_simulation_works_on_copies_of_memories(federation):
    it = federation(lambda known: known.updates, "ffl")
    it.run_round()
    twin = it.defense.simulation_copy(7)
    for owner, memory in it.defense.memory.items():
        assert memory
        for name, array in memory.items():
            np.testing.assert_array_equal(twin.memory[owner][name], array)
            assert not np.shares_memory(twin.memory[owner][name], array)


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

    federation(poison, "median", knows=["own data", "attackers' updates", "defense"]).run_round()
    (simulated, own), *_ = found
    expected = np.median(np.concatenate([own, np.tile(own.mean(0), (10 - len(own), 1))]), axis=0)
    np.testing.assert_allclose(simulated, expected, atol=1e-6)


def test_it_says_so_where_the_server_would_keep_its_model(federation):
    found = []

    def poison(known):
        found.append(known.simulate(np.full_like(known.updates, 3e38)))
        return known.updates

    federation(poison, "fedavg").run_round()
    assert found == [None]


def test_honest_updates_cannot_be_changed(federation):
    def poison(known):
        with pytest.raises(ValueError, match="read-only"):
            known.honest[:] = 0
        return known.updates

    federation(poison, "fedavg").run_round()


def test_rows_that_are_tried_are_left_alone(federation):
    """Transports and pre-aggregations overwrite what they are given."""

    def poison(known):
        rows, before = 2 * known.updates, 2 * known.updates
        known.simulate(rows)
        np.testing.assert_array_equal(rows, before)
        return known.updates

    for defense in ("ffl", "nnm + median"):
        federation(poison, defense).run_round()


def test_attackers_who_are_asked_one_by_one_simulate_the_whole_round(federation, monkeypatch):
    """Otherwise an f of 20%, pairs and quartiles would be those of a smaller round."""
    sizes, submitted = [], Transport.submitted

    def counting(self, upload):
        sizes.append(len(upload.participants))
        return submitted(self, upload)

    monkeypatch.setattr(Transport, "submitted", counting)
    knows = ["own data", "honest updates", "defense"]
    federation(lambda known: known.simulate(known.updates)[None] * 0 + known.updates, "median", knows=knows).run_round()
    assert len(sizes) > 2
    assert set(sizes) == {10}


def test_where_nobody_is_honest_the_others_are_assumed_to_send_the_mean_of_what_is_tried():
    nobody = np.empty((0, 2), np.float32)
    simulation = RoundSimulation(
        lambda updates, **known: updates.mean(0), np.arange(3), np.ones(3, bool), nobody, nobody
    )
    for value in (1.0, 5.0):
        change = simulation(np.array([0]), np.full((1, 2), value, np.float32), None)
        np.testing.assert_array_equal(change, [value, value])


@pytest.mark.parametrize("tried", [np.full((1, 4), np.inf, np.float32), np.full((1, 4), 1e300), np.ones((1, 4))])
@pytest.mark.parametrize("honest_value", [0.5, np.nan])
def test_rows_that_are_not_finite_as_they_are_sent_are_dropped_in_simulations(tried, honest_value):
    honest = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    honest[2, 1] = honest_value
    hostile = np.arange(6) == 5
    updates = np.vstack([honest, np.zeros((1, 4), np.float32)])
    simulation = RoundSimulation(Aggregator("median").simulate, np.arange(6), hostile, honest, updates)
    sent = np.vstack([honest, tried])
    with np.errstate(over="ignore"):
        sent = sent.astype(np.float32)
    # The second call knows the honest rows, and equal rows may come as one.
    for rows in (tried, np.broadcast_to(tried[0], (1, 4))):
        with np.errstate(over="ignore"):
            found = simulation(np.array([5]), rows, None)
        np.testing.assert_array_equal(found, np.median(sent[np.isfinite(sent).all(1)], axis=0))


def test_a_pre_aggregation_that_overflows_keeps_the_model(own_registry, federation):
    @preaggregation("doubles", title="Doubles")
    def doubles(updates):
        """Multiply every update by two."""
        return 2 * np.eye(len(updates))

    def poison(known):
        known.updates[:] = np.finfo(np.float32).max
        assert known.simulate(known.updates) is None
        return known.updates

    it = federation(poison, "doubles + median")
    assert "not finite" in it.run_round()["kept_because"]
