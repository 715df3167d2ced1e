"""Wrong poisoning attacks."""

import numpy as np

from fflbench.plugin import Attack, Examples, Goal, attack
from fflbench.registry import Kind
from tests.conformance.wrong_plugins import refused

ATTACK = Kind.ATTACK


@refused(
    ATTACK,
    "poisoned-updates",
    'attack "wrong" returned attackers\' rows as float64 of shape (1, 642), and must return float32 of shape (1, 642)',
)
def sends_double_precision():
    @attack("wrong", title="Wrong", knows=[])
    class Wrong(Attack):
        def poison_updates(self, known):
            return known.updates * np.ones(1)


@refused(
    ATTACK,
    "poisoned-updates",
    'attack "wrong" returned attackers\' rows with NaN or infinity, and must return finite numbers',
)
def sends_nan():
    @attack("wrong", title="Wrong", knows=[])
    class Wrong(Attack):
        def poison_updates(self, known):
            return np.full_like(known.updates, np.nan)


@refused(
    ATTACK,
    "poisoned-updates",
    'attack "wrong" returned attackers\' rows as float32 of shape (1, 642), and must return float32 of shape (4, 642)',
)
def sends_too_few_rows():
    @attack("wrong", title="Wrong", knows=["attackers' updates"])
    class Wrong(Attack):
        def poison_updates(self, known):
            return known.updates[:1]


@refused(
    ATTACK,
    "server-without-answer",
    "attack \"wrong\" raised TypeError: unsupported operand type(s) for -: 'NoneType' and 'float' when it was checked "
    "that attackers send rows also where `known.simulate` gives None, since the server would keep its model",
)
def expects_an_aggregate():
    @attack("wrong", title="Wrong", knows=["defense", "honest updates"])
    class Wrong(Attack):
        def poison_updates(self, known):
            return known.updates * np.sign(known.simulate(known.updates) - 1.0).astype(np.float32)


@refused(
    ATTACK,
    "round-of-attackers-alone",
    'attack "wrong" returned attackers\' rows with NaN or infinity, and must return finite numbers',
)
def sends_the_mean_of_nobody():
    @attack("wrong", title="Wrong", knows=["honest updates"])
    class Wrong(Attack):
        def poison_updates(self, known):
            return np.tile(known.honest.mean(0), (len(known.updates), 1))


@refused(
    ATTACK,
    "honest-updates-unchanged",
    'attack "wrong" writes to arrays that it was handed, and must leave them as they are',
)
def writes_to_honest_rows():
    @attack("wrong", title="Wrong", knows=["honest updates"])
    class Wrong(Attack):
        def poison_updates(self, known):
            known.honest[:] = 0
            return known.updates


@refused(ATTACK, "honest-updates-unchanged", 'attack "wrong" changed the honest updates, which must stay as before')
def makes_honest_rows_writable():
    @attack("wrong", title="Wrong", knows=["honest updates"])
    class Wrong(Attack):
        def poison_updates(self, known):
            known.honest.base[:] = 0
            return known.updates


@refused(ATTACK, "honest-updates-unchanged", 'attack "wrong" changed the model, which must stay as before')
def changes_the_global_model():
    @attack("wrong", title="Wrong", knows=[])
    class Wrong(Attack):
        def poison_updates(self, known):
            known.weights.base[:] = 0
            return known.updates


@refused(
    ATTACK,
    "declared-knowledge",
    'attack "wrong" uses knowledge that it does not declare (this attack does not declare that it knows '
    '"honest updates")',
)
def uses_honest_rows_undeclared():
    @attack("wrong", title="Wrong", knows=["own data"])
    class Wrong(Attack):
        def poison_updates(self, known):
            return -known.honest[: len(known.updates)]


@refused(
    ATTACK,
    "declared-knowledge",
    'attack "wrong" uses knowledge that it does not declare (this attack does not declare that it knows "defense")',
)
def uses_the_defense_undeclared():
    @attack("wrong", title="Wrong", knows=["honest updates"])
    class Wrong(Attack):
        def poison_updates(self, known):
            known.simulate(known.updates)
            return known.updates


@refused(
    ATTACK,
    "determinism",
    'attack "wrong" gave other bits when it was called again with the same inputs and generators',
)
def draws_from_the_global_generator():
    @attack("wrong", title="Wrong", knows=[])
    class Wrong(Attack):
        def poison_updates(self, known):
            return known.updates + np.random.standard_normal(known.updates.shape).astype(np.float32)


@refused(
    ATTACK,
    "poisoned-data",
    'attack "wrong" returned poisoned inputs as float32 of shape (37, 1, 8, 8), and must return float32 of '
    "shape (38, 1, 8, 8)",
)
def drops_examples():
    @attack("wrong", title="Wrong", knows=["own data"])
    class Wrong(Attack):
        def poison_data(self, examples, task, round, rng):
            return Examples(examples.x[1:], examples.y[1:])


@refused(
    ATTACK,
    "poisoned-data",
    'attack "wrong" returned poisoned labels that are no classes of the task, which are numbered 0 to 9',
)
def invents_a_class():
    @attack("wrong", title="Wrong", knows=["own data"])
    class Wrong(Attack):
        def poison_data(self, examples, task, round, rng):
            return Examples(examples.x, np.full_like(examples.y, len(task.classes)))


@refused(
    ATTACK,
    "poisoned-data",
    'attack "wrong" writes to arrays that it was handed, and must leave them as they are',
)
def poisons_in_place():
    @attack("wrong", title="Wrong", knows=["own data"])
    class Wrong(Attack):
        def poison_data(self, examples, task, round, rng):
            examples.y[:] = 0
            return examples


@refused(
    ATTACK,
    "attacker-training",
    'attack "wrong" returned the update of its own training with NaN or infinity, and must return finite numbers',
)
def trains_to_infinity():
    @attack("wrong", title="Wrong", knows=["own data"])
    class Wrong(Attack):
        def train(self, local):
            return np.full_like(local.train(), np.inf)


@refused(
    ATTACK,
    "attacker-training",
    'attack "wrong" returned the update of its own training as float64 of shape (642,), and must return '
    "float32 of shape (642,)",
)
def trains_in_double_precision():
    @attack("wrong", title="Wrong", knows=["own data"])
    class Wrong(Attack):
        def train(self, local):
            return local.train().astype(np.float64)


@refused(
    ATTACK,
    "goal",
    'attack "wrong": goal must return a Goal with at least one example, of the shape of those that it '
    "receives, and one label from 0 to 9 for each",
)
def wants_a_class_that_is_none():
    @attack("wrong", title="Wrong", knows=[])
    class Wrong(Attack):
        def goal(self, test, task):
            return Goal(test, np.full(len(test), -1))


@refused(
    ATTACK,
    "goal",
    'attack "wrong" returned its goal\'s inputs as float64 of shape (80, 1, 8, 8), and must return float32 of '
    "shape (80, 1, 8, 8)",
)
def aims_at_inputs_in_double_precision():
    @attack("wrong", title="Wrong", knows=[])
    class Wrong(Attack):
        def goal(self, test, task):
            return Goal(Examples(test.x.astype(np.float64), test.y), np.zeros(len(test), np.int64))


@refused(
    ATTACK,
    "resuming",
    'attack "wrong" led to another model after the run was stopped and resumed: what lasts from round to '
    "round must stand in its memory",
)
def keeps_its_direction_outside_its_memory():
    @attack("wrong", title="Wrong", knows=[])
    class Wrong(Attack):
        def poison_updates(self, known):
            if not hasattr(self, "direction"):
                self.direction = known.updates.copy()
            return self.direction


@refused(ATTACK, "declared-examples", 'attack "wrong" declares fewer than one example')
def declares_no_example():
    @attack("wrong", title="Wrong", knows=["own data"])
    class Wrong(Attack):
        def declared_examples(self, held):
            return held // 2


@refused(
    ATTACK,
    "declared-examples",
    'attack "wrong" returned declared numbers of examples as int32 of shape (4,), and must return int64 of shape (4,)',
)
def declares_narrow_numbers():
    @attack("wrong", title="Wrong", knows=["own data"])
    class Wrong(Attack):
        def declared_examples(self, held):
            return held.astype(np.int32)
