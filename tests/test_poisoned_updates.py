"""Attackers' updates beside a matrix of honest ones."""

import numpy as np
import pytest
import torch

from fflbench import Aggregator, aggregate, poison, registry
from fflbench.errors import NotRegisteredError, ParameterError
from fflbench.federation import Attack, chain
from fflbench.federation.rounds import Federation
from fflbench.registration import attack
from fflbench.registry import Kind

HONEST = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
EVERYTHING = ["own data", "attackers' updates", "honest updates", "defense"]


@pytest.fixture
def recorded(own_registry):
    """Register an attack that keeps what it knows and does as a function says."""

    def register(knows, poisoned=lambda known: known.updates):
        seen = []

        @attack("records", title="Records", knows=knows)
        class Recording(Attack):
            """Keeps what it knows."""

            def poison_updates(self, known):
                seen.append((self, known))
                return poisoned(known)

        return seen

    return register


def test_gaussian_noise_is_added_to_the_mean_of_honest_updates():
    poisoned = poison("gaussian-noise", HONEST, attackers=2000, sigma=0.5)
    assert (poisoned.shape, poisoned.dtype) == ((2000, 6), np.float32)
    np.testing.assert_allclose(poisoned.mean(0), HONEST.mean(0), atol=0.06)
    np.testing.assert_allclose(poisoned.std(0), 0.5, atol=0.05)


def test_noise_has_the_length_of_the_attackers_own_updates():
    own = np.arange(12, dtype=np.float32).reshape(2, 6)
    poisoned = poison("noise-control", HONEST, attackers=2, own=own)
    np.testing.assert_allclose(np.linalg.norm(poisoned, axis=1), np.linalg.norm(own, axis=1), rtol=1e-6)


def test_an_attack_that_knows_no_other_attackers_is_called_with_one_row_each(recorded):
    seen = recorded(["own data"])
    poison("records", HONEST, attackers=3)
    assert [known.participants.tolist() for _, known in seen] == [[8], [9], [10]]
    for _, known in seen:
        np.testing.assert_array_equal(known.updates, HONEST.mean(0, dtype=np.float64)[None].astype(np.float32))
        with pytest.raises(PermissionError, match="honest updates"):
            assert known.honest is None
        with pytest.raises(PermissionError, match="defense"):
            known.simulate(known.updates)


def test_an_attack_that_knows_everything_gets_all_of_it_at_once(recorded):
    seen = recorded(EVERYTHING)
    poison("records", HONEST, attackers=2, defense="median", model=range(6))
    ((made, known),) = seen
    assert (known.selected, known.participants.tolist(), made.share) == (10, [8, 9], 0.2)
    np.testing.assert_array_equal(known.honest, HONEST)
    np.testing.assert_array_equal(known.weights, range(6))
    rows = np.full((2, 6), 100, np.float32)
    np.testing.assert_array_equal(known.simulate(rows), aggregate("median", np.vstack([HONEST, rows])))
    assert not known.honest.flags.writeable


def test_rows_are_those_of_the_core_for_the_same_updates(own_registry):
    """Attackers stand among the participants of a federation, and last beside a matrix."""
    task = registry.get(Kind.TASK, "digits-mlp").create(rounds=1, participants=10, per_round=10)
    federation = Federation(
        task, registry.get(Kind.ATTACK, "gaussian-noise").create(share=0.2), chain.defense("fedavg"), 3
    )
    federation.participants.attackers = np.array([8, 9])
    updates = np.random.default_rng(1).normal(size=(10, len(federation.weights))).astype(np.float32)
    expected = poison("gaussian-noise", updates[:8], attackers=2, own=updates[8:], seed=3)
    federation.poison(np.arange(10), updates)
    columns = federation.model.columns.parameters
    np.testing.assert_array_equal(expected[:, columns], updates[8:, columns])


def test_an_attack_with_a_memory_starts_with_an_empty_one(own_registry):
    @attack("accumulates", title="Accumulates", knows=["own data", "attackers' updates"])
    class Accumulates(Attack):
        """Sends the opposite of all updates so far."""

        def begin(self, setting):
            super().begin(setting)
            assert setting.attackers.tolist() == [8, 9]
            self.memory["sum"] = np.zeros(setting.columns.count)

        def poison_updates(self, known):
            self.memory["sum"] += known.updates.mean(0)
            return np.tile(-self.memory["sum"], (len(known.updates), 1))

    for _ in range(2):
        poisoned = poison("accumulates", HONEST, attackers=2)
        np.testing.assert_allclose(poisoned, np.tile(-HONEST.mean(0), (2, 1)), rtol=1e-5)


def line_search(known):
    """The largest multiple of the opposite direction by which the aggregate still moves away."""
    direction = -np.sign(known.honest.mean(0))
    changes = {step: known.simulate(np.tile(known.honest.mean(0) + step * direction, (2, 1))) for step in range(1, 20)}
    best = max(changes, key=lambda step: direction @ changes[step])
    return np.tile(known.honest.mean(0) + best * direction, (2, 1))


@pytest.mark.parametrize("defense", ["median", Aggregator("multi-krum", f=2), "nnm + trimmed-mean"])
def test_an_adaptive_attack_moves_its_defense_further_than_noise(recorded, defense):
    recorded(EVERYTHING, line_search)
    poisoned = poison("records", HONEST, attackers=2, defense=defense)
    aggregator = Aggregator(defense) if isinstance(defense, str) else defense
    direction = -np.sign(HONEST.mean(0))
    moved = direction @ aggregator.simulate(np.vstack([HONEST, poisoned]))
    assert moved > direction @ aggregator.simulate(np.vstack([HONEST, np.tile(HONEST.mean(0), (2, 1))]))


def test_the_memory_of_a_simulated_defense_counts_and_stays(recorded):
    changes = []
    recorded(EVERYTHING, lambda known: changes.append(known.simulate(known.updates)) or known.updates)
    foolsgold = Aggregator("foolsgold")
    everyone = np.vstack([HONEST, HONEST[:2]])
    foolsgold(np.random.default_rng(1).normal(size=(10, 6)))
    before = foolsgold.memory["history"]
    poison("records", HONEST, attackers=2, own=everyone[8:], defense=foolsgold)
    np.testing.assert_array_equal(foolsgold.memory["history"], before)
    np.testing.assert_array_equal(changes[0], foolsgold(everyone))


def test_a_simulation_without_an_answer_gives_none(recorded):
    changes = []
    recorded(EVERYTHING, lambda known: changes.append(known.simulate(np.full((2, 6), np.nan))) or known.updates)
    poison("records", HONEST, attackers=2, defense=Aggregator("trimmed-mean", f=4))
    assert changes == [None]


def test_torch_in_torch_out_and_the_matrix_stays():
    honest = torch.from_numpy(HONEST.copy()).double()
    poisoned = poison("gaussian-noise", honest, attackers=2)
    assert (type(poisoned), poisoned.dtype) == (torch.Tensor, torch.float64)
    np.testing.assert_array_equal(poisoned.numpy(), poison("gaussian-noise", HONEST, attackers=2))
    np.testing.assert_array_equal(honest.numpy(), HONEST)
    assert poison("gaussian-noise", HONEST.astype(np.float64), attackers=1).dtype == np.float64


def test_the_seed_decides_the_noise():
    one, same, other = (poison("gaussian-noise", HONEST, attackers=2, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one[0], one[1])


@pytest.mark.parametrize("name", ["none", "label-flipping"])
def test_an_attack_on_data_alone_is_refused(name):
    with pytest.raises(
        ParameterError, match=rf'^attack "{name}" does not change updates after local training: use it in a suite$'
    ):
        poison(name, HONEST, attackers=2)


def test_an_attack_that_also_poisons_data_needs_the_updates_after_it(own_registry):
    @attack("both", title="Both", knows=["own data"])
    class Both(Attack):
        """Poisons data, and reverses updates."""

        def poison_data(self, examples, task, round, rng):
            return examples

        def poison_updates(self, known):
            return -known.updates

    with pytest.raises(ParameterError, match="also changes data or local training: give own"):
        poison("both", HONEST, attackers=2)
    np.testing.assert_array_equal(poison("both", HONEST, attackers=2, own=HONEST[:2]), -HONEST[:2])


def test_an_attack_that_asks_for_a_task_says_so(recorded):
    recorded(["own data"], lambda known: known.updates * len(known.task.classes))
    with pytest.raises(
        ParameterError,
        match=r'^attack "records" needs more than a matrix of updates: it asks for a task; use it in a suite$',
    ):
        poison("records", HONEST, attackers=2)


@pytest.mark.parametrize(
    ("poisoned", "told"),
    [
        (lambda known: known.updates[0], "poison_updates must return a matrix of the shape of known.updates"),
        (lambda known: None, "poison_updates must return a matrix of the shape of known.updates"),
        (lambda known: known.honest, '^attack "records": PermissionError: this attack does not declare'),
        (lambda known: 1 / 0, '^attack "records": ZeroDivisionError: division by zero$'),
    ],
)
def test_an_attack_that_errs_is_named_in_a_sentence(recorded, poisoned, told):
    recorded([], poisoned)
    with pytest.raises(ParameterError, match=told) as refused:
        poison("records", HONEST, attackers=2)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"attackers": 0}, "attackers = 0 must be a whole number from 1 to 1000000"),
        ({"attackers": 1.5}, "attackers = 1.5 must be a whole number"),
        ({"share": 0.5}, "leave out share, since attackers says how many there are"),
        ({"own": HONEST[:3]}, r"own must be the updates of 2 attackers, a matrix of shape \(2, 6\)"),
        ({"own": "abc"}, "own updates must be a matrix of real numbers"),
        ({"model": HONEST}, "model must be a vector of 6 finite numbers"),
        ({"model": [np.nan] * 6}, "model must be a vector of 6 finite numbers"),
        ({"defense": "median"}, "does not declare that it knows the defense: leave out defense"),
        ({"sigma": -1.0}, "sigma = -1.0 should be greater than 0"),
        ({"sigm": 1.0}, 'has no parameter "sigm"; did you mean "sigma"'),
        ({"seed": None}, "seed = none must be a whole number"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(given, told):
    with pytest.raises(ParameterError, match=told) as refused:
        poison("gaussian-noise", HONEST, **{"attackers": 2, **given})
    assert "\n" not in str(refused.value)


def test_honest_updates_that_cannot_be_are_refused():
    for honest, told in {
        "abc": "honest updates must be a matrix of real numbers",
        (1.0, 2.0): "honest updates must be a matrix with at least one row",
        ((np.nan, 1.0),): "honest updates hold values that are not finite",
        ((1e100, 1.0),): "honest updates hold values that are too large for single precision",
    }.items():
        with pytest.raises(ParameterError, match=told):
            poison("gaussian-noise", honest, attackers=2)


def test_a_wrong_name_gets_the_right_one(recorded):
    with pytest.raises(NotRegisteredError, match='did you mean "gaussian-noise"'):
        poison("gausian-noise", HONEST, attackers=2)
    with pytest.raises(ParameterError, match="the name of an attack must be a text"):
        poison(None, HONEST, attackers=2)
    recorded(EVERYTHING)
    with pytest.raises(ParameterError, match='must know the defense: give one, as in defense="median"'):
        poison("records", HONEST, attackers=2)
    with pytest.raises(NotRegisteredError, match='did you mean "median"'):
        poison("records", HONEST, attackers=2, defense="medan")


def test_the_largest_numbers_give_a_finite_mean():
    top = np.finfo(np.float32).max
    poisoned = poison("gaussian-noise", np.full((4, 3), top), attackers=1, sigma=1.0)
    np.testing.assert_allclose(poisoned, top, rtol=1e-6)
