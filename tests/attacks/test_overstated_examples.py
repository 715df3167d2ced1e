"""Attackers who declare more examples than they hold."""

import numpy as np
import pytest

import fflbench
from fflbench import registry
from fflbench.errors import ParameterError
from fflbench.federation import attack_chain, chain
from fflbench.federation.rounds import Federation
from fflbench.plugin import Attack, attack
from fflbench.registry import Kind
from tests.played import finished

TRANSPORTS = {"ldp": {"clip": 1e6, "noise": 0.0}}
"""Parameters with which transports change no sum of updates."""


def federation(text, defense="fedavg", parts=None, **parameters):
    """A federation of ten participants with different numbers of examples, two of them attackers."""
    fields = {"participants": 10, "per_round": 10, "rounds": 2, "partition": "dirichlet", "local_epochs": 1}
    task = registry.get(Kind.TASK, "digits-mlp").create(**fields)
    entries = attack_chain.parse(text)
    created = entries[0].create(**attack_chain.configure(entries, parameters)["parameters"])
    return Federation(task, created, chain.defense(defense, **(parts or {})), 0)


def rows_of_first_round(it):
    selected = it.select()
    updates = it.train(selected)
    it.poison(selected, updates)
    return updates


def expected_change(it, factor):
    """The mean of the first round's rows, weighted by numbers of examples of which attackers overstate theirs."""
    rows = rows_of_first_round(it).astype(np.float64)
    factors = [factor if who in it.attackers else 1 for who in range(10)]
    examples = [round(times * len(own)) for times, own in zip(factors, it.participants.indices, strict=True)]
    assert len(set(examples)) > 5
    return sum(count * row for count, row in zip(examples, rows, strict=True)) / sum(examples)


@pytest.mark.parametrize("name", [entry.name for entry in registry.entries(Kind.TRANSPORT) if not entry.source])
@pytest.mark.parametrize("factor", [1, 10, 2.5])
def test_every_transport_weights_updates_by_declared_numbers(name, factor):
    parts = {name: TRANSPORTS[name]} if name in TRANSPORTS else {}
    # Sign flipping has a factor, too.
    own = {"overstated-examples": {"factor": factor}}
    it = federation("overstated-examples + sign-flipping", f"{name} + fedavg", parts, **own)
    change, start = expected_change(federation("sign-flipping"), factor), it.weights.copy()
    it.run_round()
    np.testing.assert_allclose(it.weights - start, change, rtol=1e-4, atol=1e-5 * np.abs(change).max())


@pytest.mark.parametrize("rule", ["median", "trimmed-mean", "multi-krum"])
def test_rules_that_ignore_weights_are_not_affected(rule):
    wrapped, plain = (federation(f"{chain}sign-flipping", rule) for chain in ("overstated-examples + ", ""))
    assert finished(wrapped).metrics == finished(plain).metrics
    assert wrapped.weights.tobytes() == plain.weights.tobytes()


def test_fedavg_is_affected_and_training_is_not():
    wrapped, plain = (federation(f"{chain}sign-flipping") for chain in ("overstated-examples + ", ""))
    assert rows_of_first_round(wrapped).tobytes() == rows_of_first_round(plain).tobytes()
    assert finished(wrapped).metrics["accuracy"] < finished(plain).metrics["accuracy"]
    assert (wrapped.participants.sizes == plain.participants.sizes).all()


@pytest.mark.parametrize("text", ["on-off + overstated-examples + looks", "overstated-examples + on-off + looks"])
def test_simulations_weight_by_declared_numbers_wherever_the_wrapper_stands(own_registry, text):
    seen = []

    @attack("looks", title="Looks", knows=["own data", "attackers' updates", "honest updates", "defense"])
    class Looks(Attack):
        """Keeps what its rows would lead to."""

        def poison_updates(self, known):
            seen.append(known.simulate(known.updates))
            return known.updates

    change = expected_change(federation(text, factor=100, period=1, duty=1), 100)
    np.testing.assert_allclose(seen[0], change, rtol=1e-4, atol=1e-5 * np.abs(change).max())


def test_a_share_of_excluded_data_is_one_of_examples_that_participants_hold():
    it = federation("overstated-examples + gaussian-noise", "reputation", factor=1000)
    facts = finished(it).facts
    sizes = np.array([len(own) for own in it.participants.indices])
    assert facts["share_of_data_excluded"] == pytest.approx(sizes[facts["excluded"]].sum() / sizes.sum())


@pytest.mark.parametrize(
    "declared",
    [lambda held: held[:1], lambda held: held * 2.0, lambda held: held * 0, lambda held: held + 10**12, lambda _: 5],
)
def test_numbers_that_cannot_be_declared_are_refused(own_registry, declared):
    @attack("odd", title="Odd", knows=["own data"])
    class Odd(Attack):
        """Declares odd numbers."""

        def declared_examples(self, held):
            return declared(held)

    with pytest.raises(ParameterError, match=r"declared_examples must return an array of 2 whole numbers from 1"):
        federation("odd")


def test_a_matrix_of_updates_gets_the_rows_of_the_wrapped_attack():
    honest = np.random.default_rng(0).normal(size=(7, 5))
    rows = fflbench.poison("overstated-examples + min-max", honest, attackers=2)
    np.testing.assert_array_equal(rows, fflbench.poison("min-max", honest, attackers=2))
