"""Wrong measures, privacy attacks, observations and suites."""

import time
from dataclasses import replace

import numpy as np
import torch

from fflbench.plugin import (
    Measure,
    MembershipAttack,
    Metric,
    Observation,
    ObservedUpdates,
    Outcome,
    PositiveCount,
    PropertyAttack,
    ReconstructedExamples,
    ReconstructionAttack,
    RecordFields,
    State,
    measure,
    observation,
    privacy_attack,
    share,
    suites_in,
)
from fflbench.registry import Kind
from tests.conformance.wrong_plugins import refused

MEASURE, PRIVACY_ATTACK, OBSERVATION = Kind.MEASURE, Kind.PRIVACY_ATTACK, Kind.OBSERVATION
LENGTH = Metric("length", "length", "Length of an update.")


class Counted(RecordFields):
    updates: PositiveCount


def outcome(**metrics):
    return Outcome(metrics=metrics, history=[], facts={})


@refused(MEASURE, "declared-metrics", 'measure "wrong" gave no metric "length", which measure "wrong" declares')
def declares_a_metric_that_it_does_not_give():
    @measure("wrong", title="Wrong")
    class Wrong(Measure):
        metrics = (LENGTH,)

        def run(self, context):
            return outcome()


@refused(MEASURE, "declared-metrics", 'measure "wrong" gave a metric "width", which measure "wrong" does not declare')
def gives_a_metric_that_it_does_not_declare():
    @measure("wrong", title="Wrong")
    class Wrong(Measure):
        metrics = (LENGTH,)

        def run(self, context):
            return outcome(length=1.0, width=2.0)


@refused(MEASURE, "declared-metrics", 'measure "wrong" gave a metric "short" that is 20, and must be from 0 to 1')
def gives_a_share_above_one():
    @measure("wrong", title="Wrong")
    class Wrong(Measure):
        metrics = (share("short", "short", "Share of short updates."),)

        def run(self, context):
            return outcome(short=20.0)


@refused(
    MEASURE,
    "facts-history-and-arrays",
    'measure "wrong" gave facts or a history other than it declares (updates: Field required)',
)
def gives_other_facts_than_it_declares():
    @measure("wrong", title="Wrong")
    class Wrong(Measure):
        facts = Counted

        def run(self, context):
            return outcome()


@refused(
    MEASURE,
    "facts-history-and-arrays",
    'measure "wrong" gave results that no record can hold (Object of type ndarray is not JSON serializable)',
)
def gives_a_history_of_arrays():
    @measure("wrong", title="Wrong")
    class Wrong(Measure):
        def run(self, context):
            return replace(outcome(), history=[{"norms": np.ones(2)}])


@refused(
    MEASURE,
    "facts-history-and-arrays",
    'measure "wrong" counts no trials in the fact "updates", which metric "short" names',
)
def counts_no_trials():
    @measure("wrong", title="Wrong")
    class Wrong(Measure):
        metrics = (share("short", "short", "Share of short updates.", trials="updates"),)

        def run(self, context):
            return outcome(short=0.5)


@refused(
    MEASURE,
    "reported-steps",
    'measure "wrong" reported steps [1, 2], and must report some of 1 to 1, in ascending order',
)
def reports_more_steps_than_announced():
    @measure("wrong", title="Wrong")
    class Wrong(Measure):
        def run(self, context):
            context.report_step(1)
            context.report_step(2)
            return outcome()


@refused(
    MEASURE,
    "determinism",
    'measure "wrong" gave other bits when it was called again with the same inputs and generators',
)
def measures_the_clock():
    @measure("wrong", title="Wrong")
    class Wrong(Measure):
        metrics = (LENGTH,)

        def run(self, context):
            return outcome(length=time.perf_counter())


@refused(MEASURE, "resuming", 'measure "wrong" gave other metrics after a cell was stopped and resumed')
def forgets_its_sum():
    @measure("wrong", title="Wrong")
    class Wrong(Measure):
        metrics = (LENGTH,)

        def step_count(self, task):
            return 3

        def run(self, context):
            done = {"steps": 0}
            context.resume(lambda state: done.update(state.facts))
            total = 0.0
            for step in range(done["steps"], 3):
                total += step
                context.report_step(step + 1, state=lambda step=step: State({}, {"steps": step + 1}))
            return outcome(length=total)


# Privacy attacks


@refused(
    PRIVACY_ATTACK,
    "declared-metrics",
    'privacy-attack "wrong" is taken by no registered measure; inherit from a base class that one of them takes',
)
def inherits_from_no_base_class():
    @privacy_attack("wrong", title="Wrong", knows=["server view"])
    class Wrong:
        pass


@refused(
    PRIVACY_ATTACK,
    "declared-metrics",
    'privacy-attack "wrong": this attack does not declare that it knows "auxiliary data"',
)
def uses_auxiliary_data_undeclared():
    @privacy_attack("wrong", title="Wrong", knows=["server view"])
    class Wrong(MembershipAttack):
        def score(self, observer, update, candidates):
            return torch.zeros(len(observer.auxiliary_examples))


class Guessing(ReconstructionAttack):
    """Guesses zeros of class 0."""

    def reconstruct(self, observed):
        count = observed.victim_count, observed.count
        return ReconstructedExamples(torch.zeros(*count, *observed.shape), torch.zeros(count, dtype=torch.int64))


@refused(
    PRIVACY_ATTACK,
    "determinism",
    'privacy-attack "wrong" gave other bits when it was called again with the same inputs and generators',
)
def guesses_by_the_global_generator():
    @privacy_attack("wrong", title="Wrong", knows=["server view"])
    class Wrong(Guessing):
        def reconstruct(self, observed):
            guess = super().reconstruct(observed)
            return replace(guess, x=torch.rand(guess.x.shape))


@refused(
    PRIVACY_ATTACK,
    "reconstructions",
    'privacy-attack "wrong" changed the global model, which must stay as before',
)
def changes_the_model():
    @privacy_attack("wrong", title="Wrong", knows=["server view"])
    class Wrong(Guessing):
        def reconstruct(self, observed):
            with torch.no_grad():
                next(observed.model.parameters()).zero_()
            return super().reconstruct(observed)


@refused(
    PRIVACY_ATTACK,
    "reconstructions",
    'privacy-attack "wrong" returned labels that are no classes, which are numbered 0 to 9',
)
def guesses_a_class_that_is_none():
    @privacy_attack("wrong", title="Wrong", knows=["server view"])
    class Wrong(Guessing):
        def reconstruct(self, observed):
            guess = super().reconstruct(observed)
            return replace(guess, y=guess.y + observed.classes)


@refused(
    PRIVACY_ATTACK,
    "reconstructions",
    'privacy-attack "wrong" returned inputs as a tensor of shape (1, 1, 1, 8, 8), and must return a tensor '
    "of shape (4, 1, 1, 8, 8)",
)
def returns_one_example_for_all_victims():
    @privacy_attack("wrong", title="Wrong", knows=["server view"])
    class Wrong(Guessing):
        def reconstruct(self, observed):
            guess = super().reconstruct(observed)
            return replace(guess, x=guess.x[:1])


@refused(PRIVACY_ATTACK, "membership-scores", 'privacy-attack "wrong" returned scores with NaN or infinity')
def scores_with_nan():
    @privacy_attack("wrong", title="Wrong", knows=["server view"])
    class Wrong(MembershipAttack):
        def score(self, observer, update, candidates):
            scores = torch.arange(len(candidates)).double()
            scores[0] = torch.nan
            return scores


@refused(
    PRIVACY_ATTACK,
    "property-scores",
    'privacy-attack "wrong" returned scores as float64 of shape (1,), and must return float64 of shape (4,)',
)
def scores_all_updates_together():
    @privacy_attack("wrong", title="Wrong", knows=["server view"])
    class Wrong(PropertyAttack):
        def score(self, updates):
            return np.ones(1)


# Observations


class OneRow(Observation):
    """Takes the first row for participant 0."""

    def observe(self, coalition):
        return [ObservedUpdates((coalition.server.rows[0].copy(),), (0,))]


@refused(
    OBSERVATION,
    "observed-updates",
    'observation "wrong" attributes updates to (99,), and must name participants of the round',
)
def names_a_stranger():
    @observation("wrong", title="Wrong", knows=["server view"])
    class Wrong(OneRow):
        def observe(self, coalition):
            return [replace(each, participants=(99,)) for each in super().observe(coalition)]


@refused(
    OBSERVATION,
    "observed-updates",
    'observation "wrong" returned an update as float64 of shape (12,), and must return float32 of shape (12,)',
)
def returns_double_precision():
    @observation("wrong", title="Wrong", knows=["server view"])
    class Wrong(OneRow):
        def observe(self, coalition):
            return [ObservedUpdates((coalition.server.rows[0].astype(np.float64),), (0,))]


@refused(OBSERVATION, "observed-updates", 'observation "wrong" observes nothing behind any registered transport')
def applies_to_nothing():
    @observation("wrong", title="Wrong", knows=["server view"])
    class Wrong(OneRow):
        def applies_to(self, transport):
            return False


@refused(
    OBSERVATION,
    "inputs-unchanged",
    'observation "wrong" writes to arrays that it was handed, and must leave them as they are',
)
def scales_the_server_s_rows():
    @observation("wrong", title="Wrong", knows=["server view"])
    class Wrong(OneRow):
        def observe(self, coalition):
            coalition.server.rows[:] *= 2
            return super().observe(coalition)


@refused(
    OBSERVATION,
    "determinism",
    'observation "wrong" gave other bits when it was called again with the same inputs and generators',
)
def observes_a_random_row():
    @observation("wrong", title="Wrong", knows=["server view"])
    class Wrong(OneRow):
        def observe(self, coalition):
            rows = coalition.server.rows
            return [ObservedUpdates((rows[np.random.randint(len(rows))] + np.float32(np.random.rand()),), (0,))]


@refused(
    OBSERVATION,
    "declared-metrics",
    'observation "wrong" gave a metric "pair_accuracy" that is 2, and must be from 0 to 1',
)
def observes_updates_of_nobody_in_a_measure():
    @observation("wrong", title="Wrong", knows=["server view"])
    class Wrong(OneRow):
        def own_metrics(self, observed, transcript):
            return {"pair_accuracy": 2.0}


# Suites


@refused(
    Kind.SUITE,
    "planning",
    'suite "wrong": FOLDER/wrong.toml: attacks: attack "gausian-noise" is not registered; did you mean '
    '"gaussian-noise"? (fflbench list attacks; a file of your own: --plugin, or import it in Python)',
)
def names_an_attack_that_is_not_registered(tmp_path):
    text = 'title = "Wrong"\ntasks = ["digits-mlp"]\nattacks = ["gausian-noise"]\ndefenses = ["median"]\nseeds = [0]\n'
    (tmp_path / "wrong.toml").write_text(text)
    suites_in(tmp_path)
