"""Wrong rules, pre-aggregations and named chains."""

import numpy as np

from fflbench.plugin import NoAnswerError, Rule, chain, over_sorted_columns, preaggregation, rule
from fflbench.registry import Kind
from tests.conformance.wrong_plugins import refused

RULE, PREAGGREGATION = Kind.RULE, Kind.PREAGGREGATION


@refused(
    RULE,
    "aggregate-shape",
    'rule "wrong" returned its aggregate as float64 of shape (12,), and must return float32 of shape (12,)',
)
def returns_float64():
    @rule("wrong", title="Wrong")
    def wrong(updates):
        return updates.mean(0, dtype=np.float64)


@refused(
    RULE,
    "aggregate-shape",
    'rule "wrong" returned its aggregate as float32 of shape (10,), and must return float32 of shape (12,)',
)
def forgets_the_buffers():
    @rule("wrong", title="Wrong")
    def wrong(updates, *, columns):
        return updates[:, columns.parameters].mean(0)


@refused(
    RULE,
    "aggregate-shape",
    'rule "wrong" returned its aggregate as float32 of shape (8, 12), and must return float32 of shape (12,)',
)
def returns_a_matrix():
    @rule("wrong", title="Wrong")
    def wrong(updates):
        return updates


@refused(
    RULE,
    "aggregate-shape",
    'rule "wrong" raised SystemExit: 1 when it was checked that the aggregate is a float32 vector with one '
    "number per column, buffers included",
)
def exits():
    @rule("wrong", title="Wrong")
    def wrong(updates):
        raise SystemExit(1)


@refused(
    RULE,
    "single-row-or-column",
    'rule "wrong" raised IndexError: index 1 is out of bounds for axis 0 with size 1 when it was checked '
    "that a single row, or rows of a single column, give an aggregate or a NoAnswerError",
)
def needs_two_rows():
    @rule("wrong", title="Wrong")
    def wrong(updates):
        return (updates[0] + updates[1]) / 2


@refused(
    RULE,
    "round-without-rows",
    'rule "wrong" raised IndexError: index 0 is out of bounds for axis 0 with size 0 when it was checked '
    "that a round without rows gives an aggregate, or a NoAnswerError",
)
def needs_a_row():
    @rule("wrong", title="Wrong")
    class Wrong(Rule):
        def aggregate(self, view, rng):
            return view.rows[0].copy()


@refused(
    RULE,
    "determinism",
    'rule "wrong" gave other bits when it was called again with the same inputs and generators',
)
def draws_from_the_global_generator():
    @rule("wrong", title="Wrong")
    def wrong(updates):
        return updates[np.random.randint(len(updates))].copy()


@refused(
    RULE,
    "determinism",
    'rule "wrong" gave other bits when it was called again with the same inputs and generators',
)
def counts_its_calls_outside_its_memory():
    calls = []

    @rule("wrong", title="Wrong")
    def wrong(updates):
        calls.append(1)
        return updates[len(calls) % len(updates)].copy()


@refused(RULE, "inputs-unchanged", 'rule "wrong" writes to arrays that it was handed, and must leave them as they are')
def sorts_in_place():
    @rule("wrong", title="Wrong")
    def wrong(updates):
        updates.sort(0)
        return updates[len(updates) // 2].copy()


@refused(RULE, "inputs-unchanged", 'rule "wrong" changed the rows, which must stay as before')
def makes_its_rows_writable():
    @rule("wrong", title="Wrong")
    def wrong(updates):
        updates.flags.writeable = True
        updates *= 2
        return updates.mean(0)


@refused(
    RULE,
    "permutation-invariance",
    'rule "wrong" gave another aggregate when rows came in another order, which must make no difference',
)
def takes_the_first_row():
    @rule("wrong", title="Wrong")
    def wrong(updates):
        return updates[0].copy()


@refused(
    RULE,
    "permutation-invariance",
    'rule "wrong" gave other feedback when rows came in another order, which must make no difference',
)
def numbers_its_feedback_by_places():
    @rule("wrong", title="Wrong")
    def wrong(updates):
        return updates.mean(0), {place: float(row[0]) for place, row in enumerate(updates)}


@refused(
    RULE,
    "linearity",
    'rule "wrong" is registered as linear, and gave another aggregate for the weighted mean of the rows than '
    "for the rows",
)
def is_a_median_registered_as_linear():
    @rule("wrong", title="Wrong", linear=True)
    def wrong(updates):
        return np.median(updates, 0)


@refused(
    RULE,
    "coordinates-alone",
    'rule "wrong" is registered as coordinatewise, and gave another aggregate when columns were permuted one by one',
)
def takes_the_shortest_row():
    @rule("wrong", title="Wrong", coordinatewise=True)
    def wrong(updates):
        return updates[np.argmin((updates**2).sum(1))]


@refused(
    RULE,
    "refusal-of-non-finite-updates",
    'rule "wrong" is registered with sorts_columns, and gave an aggregate of updates with nan',
)
def does_not_sort_the_first_update():
    @rule("wrong", title="Wrong", sorts_columns=True)
    def wrong(updates):
        return over_sorted_columns(updates[1:], lambda block: block[0])


@refused(
    RULE,
    "hostile-updates",
    'rule "wrong" gave an aggregate with NaN or infinity when updates held tiny values; a finite aggregate '
    "or a NoAnswerError would be right",
)
def divides_by_the_norm():
    @rule("wrong", title="Wrong")
    def wrong(updates):
        return (updates / np.linalg.norm(updates, axis=1, keepdims=True)).mean(0)


@refused(
    RULE,
    "hostile-updates",
    'rule "wrong" gave an aggregate with NaN or infinity in the round after updates held a huge value; a '
    "finite aggregate or a NoAnswerError would be right",
)
def keeps_infinity_for_the_next_round():
    @rule("wrong", title="Wrong")
    class Wrong(Rule):
        def begin(self, setting):
            super().begin(setting)
            self.memory["squares"] = np.zeros(setting.columns.count, np.float32)

        def aggregate(self, view, rng):
            if not len(view.rows):
                raise NoAnswerError("no update was left")
            before = np.sqrt(self.memory["squares"])
            self.memory["squares"] += (view.rows**2).sum(0)
            return view.rows.mean(0) + before


@refused(
    RULE,
    "simulated-round",
    'rule "wrong" gave another aggregate in a simulated round: what lasts from round to round must stand in its memory',
)
def keeps_its_momentum_outside_its_memory():
    @rule("wrong", title="Wrong")
    class Wrong(Rule):
        momentum = 0

        def aggregate(self, view, rng):
            if not len(view.rows):
                raise NoAnswerError("no update was left")
            self.momentum = np.float32(0.5) * (self.momentum + view.rows.mean(0))
            return self.momentum


@refused(RULE, "simulated-round", 'rule "wrong" changed the memory of the real rule, which must stay as before')
def shares_its_memory_with_its_twin():
    @rule("wrong", title="Wrong")
    class Wrong(Rule):
        def begin(self, setting):
            super().begin(setting)
            self.memory["rounds"] = np.zeros(1)

        def simulation_copy(self):
            return self

        def aggregate(self, view, rng):
            self.memory["rounds"] += 1
            return view.rows.mean(0)


refused(
    RULE,
    "resuming",
    'rule "wrong" led to another model after the run was stopped and resumed: what lasts from round to round '
    "must stand in its memory",
)(keeps_its_momentum_outside_its_memory)


# Pre-aggregations


@refused(
    PREAGGREGATION,
    "coefficients-shape",
    'preaggregation "wrong" must return coefficients of 8 columns, not of shape (8, 12)',
)
def returns_rows_instead_of_coefficients():
    @preaggregation("wrong", title="Wrong")
    def wrong(updates):
        return updates


@refused(
    PREAGGREGATION, "coefficients-shape", 'preaggregation "wrong" returned no rows for 8, and must return at least one'
)
def returns_no_rows():
    @preaggregation("wrong", title="Wrong", regroups=True)
    def wrong(updates):
        return np.empty((0, len(updates)))


@refused(
    PREAGGREGATION,
    "single-row",
    'preaggregation "wrong" raised ZeroDivisionError: division by zero when it was checked that a single row '
    "gives coefficients, or a NoAnswerError",
)
def needs_another_row():
    @preaggregation("wrong", title="Wrong")
    def wrong(updates):
        return np.full((len(updates), len(updates)), 1 / (len(updates) - 1))


@refused(
    PREAGGREGATION,
    "determinism",
    'preaggregation "wrong" gave other bits when it was called again with the same inputs and generators',
)
def shuffles_by_the_global_generator():
    @preaggregation("wrong", title="Wrong")
    def wrong(updates):
        return np.eye(len(updates))[np.random.permutation(len(updates))]


@refused(
    PREAGGREGATION,
    "inputs-unchanged",
    'preaggregation "wrong" writes to arrays that it was handed, and must leave them as they are',
)
def clips_in_place():
    @preaggregation("wrong", title="Wrong")
    def wrong(updates):
        np.clip(updates, -1, 1, out=updates)
        return np.eye(len(updates))


@refused(
    PREAGGREGATION,
    "permutation-equivariance",
    'preaggregation "wrong" combined rows in another way when they came in another order, which must make no '
    "difference",
)
def halves_the_first_row():
    @preaggregation("wrong", title="Wrong")
    def wrong(updates):
        coefficients = np.eye(len(updates))
        coefficients[0] /= 2
        return coefficients


@refused(PREAGGREGATION, "hostile-updates", 'preaggregation "wrong" returned coefficients that are not finite')
def divides_by_norms_of_zero():
    @preaggregation("wrong", title="Wrong")
    def wrong(updates, *, norms):
        return np.diag(1 / norms)


# Named chains


@refused(
    Kind.DEFENSE,
    "hostile-updates",
    'defense "wrong" gave an aggregate with NaN or infinity when updates held tiny values; a finite '
    "aggregate or a NoAnswerError would be right",
)
def contains_a_wrong_rule():
    @rule("wrong-part", title="Wrong")
    def wrong(updates):
        return (updates / np.linalg.norm(updates, axis=1, keepdims=True)).mean(0)

    chain("wrong", "clipping + wrong-part", title="Wrong")


@refused(
    Kind.DEFENSE,
    "resuming",
    'defense "wrong" led to another model after the run was stopped and resumed: what lasts from round to '
    "round must stand in its memory",
)
def contains_a_rule_that_forgets():
    @rule("wrong-part", title="Wrong")
    class Wrong(Rule):
        rounds = 0

        def aggregate(self, view, rng):
            self.rounds += 1
            return view.rows.mean(0) / np.float32(self.rounds)

    chain("wrong", "wrong-part", title="Wrong")
