"""The two-world game: certain where values survive, at chance where nothing differs, and bounded by proven epsilons."""

import functools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import norm

from fflbench import registry
from fflbench.conformance.small_federation import small_task
from fflbench.errors import SuiteError
from fflbench.execution.run_cell import run_cell
from fflbench.federation import Transport
from fflbench.federation.attack import Attack
from fflbench.federation.chain import defense
from fflbench.federation.rounds import Federation
from fflbench.privacy.distinguishing_advantage import GuessCounts
from fflbench.privacy.two_world_game import prepare_two_world_game
from fflbench.registration import transport
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

DELTA = 1e-5


@functools.cache
def game(alternative="other-examples", alike=20, seed=0, rounds_before=1, **task):
    return prepare_two_world_game(
        small_task(**task), seed, "cpu", trained=8, rounds_before=rounds_before, alternative=alternative, alike=alike
    )


def guessed(played, text, trials=200, seed=0, **parameters):
    """Return the counts of a game's guesses behind a chain."""
    worlds = Counter((each.first, each.guessed_first) for each in played.run(defense(text, **parameters), trials, seed))
    tp, fn, fp, tn = (worlds[world] for world in ((True, True), (True, False), (False, True), (False, False)))
    return GuessCounts(tp, tp + fn, fp, fp + tn)


def plan_cells(*defenses, tables=None, overrides=None, **measure):
    suite = {
        "tasks": ["digits-mlp"],
        "defenses": list(defenses),
        "defense": tables or {},
        "seeds": [0],
        "overrides": overrides or {},
        "measure": {"use": "two-world", "trials": 60, "rounds_before": 1, **measure},
    }
    return plan(parse(suite, "test", "test"))


def run(*arguments, **settings):
    (cell,) = plan_cells(*arguments, **settings)
    record = run_cell(cell, "test")
    assert record.status == "done", record.error
    return record


VALUES_SURVIVE = [
    ("fedavg", {}),
    ("ffl", {}),
    ("fragment-exchange", {"normalise": "literal"}),
    ("ideal-shuffle", {"group": 2}),
    ("ideal-shuffle", {"group": 3}),
    ("ideal-shuffle", {"group": "all"}),
    ("ldp", {"noise": 0.0}),
]


@pytest.mark.parametrize(("text", "parameters"), VALUES_SURVIVE)
@pytest.mark.parametrize("alternative", ["other-examples", "other-order", "other-participant"])
def test_the_server_is_certain_wherever_values_survive(text, parameters, alternative):
    assert guessed(game(alternative), text, 50, **parameters).advantage == 1


def test_values_survive_unequal_numbers_of_examples():
    uneven = game(partition="dirichlet")
    assert len(set(uneven.setting.sizes.tolist())) > 1
    for text in ("fedavg", "ffl", "ideal-shuffle"):
        assert guessed(uneven, text, 100).advantage == 1


def test_a_sum_is_decided_by_who_knows_the_others_and_mostly_by_who_does_not():
    assert guessed(game(alike=0), "ideal-secagg").advantage == 1
    unknown = guessed(game(), "ideal-secagg")
    assert unknown.advantage_interval()[0] > 0.2
    assert unknown.advantage < 1


CHAINS = [*VALUES_SURVIVE, ("ideal-secagg", {}), ("ldp", {"noise": 1.0})]


@pytest.mark.parametrize(("text", "parameters"), CHAINS)
def test_two_equal_candidates_leave_nothing_but_chance(text, parameters):
    """The control: fails once in a thousand games of honest guesses, and seeds are fixed."""
    found = guessed(game("same"), text, 150, **parameters)
    assert abs(found.advantage) < norm.isf(0.0005) / 150**0.5


def test_pure_noise_leaves_nothing_but_chance():
    found = guessed(game(), "ldp", 400, noise=1e5)
    assert abs(found.advantage) < norm.isf(0.0005) / 400**0.5


@pytest.mark.parametrize(("clip", "noise"), [(0.05, 1.0), (0.5, 0.5), (1000.0, 0.0005)])
def test_behind_gaussian_noise_the_advantage_is_that_of_the_best_test(clip, noise):
    """Neyman and Pearson: the distance of the clipped candidates decides, in units of the noise's deviation."""
    played, trials = game(), 500

    def clipped(rows):
        norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        return rows * np.minimum(1, clip / norms)

    distances = np.linalg.norm(clipped(played.updates) - clipped(played.alternatives), axis=1)
    wanted = np.mean(2 * norm.cdf(distances / (2 * noise * clip)) - 1)
    assert 0.1 < wanted < 0.99
    found = guessed(played, "ldp", trials, clip=clip, noise=noise)
    assert found.advantage == pytest.approx(wanted, abs=4 / trials**0.5 * (1 - wanted**2) ** 0.5)


@pytest.mark.parametrize("noise", [0.3, 1.0, 5.0])
def test_the_bound_from_errors_is_below_the_proven_epsilon(noise):
    """It may exceed a tight epsilon in 5% of games; the proven one is that of the farthest candidates."""
    played, chain = game(), defense("ldp", noise=noise, clip=0.05)
    list(played.run(chain, 2, 0))
    proven = chain.transport.guarantee()
    assert (proven["rounds"], proven["delta"]) == (1, DELTA)
    assert guessed(played, "ldp", 400, 1, noise=noise, clip=0.05).epsilon_lower_bound(DELTA) <= proven["epsilon"]


def test_candidates_at_the_farthest_distance_come_near_the_proven_epsilon():
    """A worst case: opposite updates longer than the clip are 2C apart, as the guarantee assumes."""
    played = game()
    opposite = type(played)(played.weights, played.setting, 100 * played.updates, -100 * played.updates, None)
    chain = defense("ldp", noise=2.0, clip=1.0)
    found = guessed(opposite, "ldp", 1500, noise=2.0, clip=1.0)
    list(opposite.run(chain, 2, 0))
    assert found.advantage == pytest.approx(2 * norm.cdf(0.5) - 1, abs=0.1)
    assert 0.4 < found.epsilon_lower_bound(DELTA) <= chain.transport.guarantee()["epsilon"]


def test_the_first_candidates_are_the_updates_of_the_round():
    played, task = game(), small_task()
    federation = Federation(task, Attack(share=0.0), defense("fedavg"), 0)
    federation.run_round()
    np.testing.assert_array_equal(played.updates, federation.train(np.arange(8)))
    np.testing.assert_array_equal(played.weights, federation.weights)


def test_the_other_candidates_are_plausible_updates_of_the_same_participant():
    for alternative in ("other-examples", "other-order"):
        played = game(alternative)
        assert played.equal_candidates == 0
        lengths = [np.linalg.norm(rows, axis=1).mean() for rows in (played.updates, played.alternatives)]
        assert lengths[0] == pytest.approx(lengths[1], rel=0.5)
    assert game("same").equal_candidates == 8


def test_every_participant_is_tested_in_both_worlds():
    trials = list(game().run(defense("fedavg"), 160, 0))
    assert Counter(each.participant for each in trials) == dict.fromkeys(range(8), 20)
    assert Counter(each.first for each in trials) == {True: 80, False: 80}
    assert len({(each.participant, each.first) for each in trials}) == 16


def test_a_participant_whose_row_is_lost_is_guessed_at():
    played = game()
    broken = np.full_like(played.updates, np.nan)
    lost = type(played)(played.weights, played.setting, broken, broken, played.alike)
    assert abs(guessed(lost, "fedavg", 400).advantage) < norm.isf(0.0005) / 400**0.5


def test_the_record_has_counts_intervals_and_the_guarantee():
    record = run("ldp + fedavg")
    metrics, facts = record.metrics, record.facts
    counts = GuessCounts(facts["true_positives"], facts["positives"], facts["false_positives"], facts["negatives"])
    assert (counts.trials, counts.positives) == (60, 30)
    assert metrics["advantage"] == counts.advantage
    assert (metrics["advantage_low"], metrics["advantage_high"]) == counts.advantage_interval()
    assert metrics["epsilon"] == counts.epsilon_lower_bound(DELTA)
    assert metrics["proven_epsilon"] == facts["guarantee"]["epsilon"]
    assert sum(item["trials"] for item in record.history) == 60
    assert sum(item["correct"] for item in record.history) == counts.correct
    assert run("ldp + fedavg", delta=1e-6).metrics["proven_epsilon"] is None


def test_the_rule_makes_no_difference_so_that_chains_share_a_cell():
    (cell,) = plan_cells("fedavg", "median", "krum")
    assert set(cell.shared_by) == {"median", "krum"}


def test_a_server_that_sees_a_sum_needs_data_of_its_own_or_the_others():
    assert run("ideal-secagg").facts["knows"] == ["server view", "auxiliary data"]
    known = run("ideal-secagg", others="known")
    assert known.facts["knows"] == ["server view", "honest updates"]
    assert known.metrics["advantage"] == 1
    assert run("ffl").facts["knows"] == ["server view"]


def test_rows_of_groups_have_no_test(own_registry):
    @transport("grouped", title="Grouped")
    class Grouped(Transport):
        """Shows the updates of groups."""

        rows = "group"

    measure = registry.get(Kind.MEASURE, "two-world").create()
    assert not measure.applies_to(defense("grouped"))
    assert measure.applies_to(defense("fedavg"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trials": 1}, "trials"),
        ({"delta": 0}, "delta"),
        ({"alternative": "another"}, "alternative"),
        (
            {"alternative": "other-participant", "overrides": {"participants": 10}},
            'alternative = "other-participant" needs somebody who is not selected: 10 train, and per_round = 10',
        ),
    ],
)
def test_games_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(SuiteError, match=message):
        plan_cells("fedavg", **settings)


def test_a_number_that_leaves_somebody_without_an_exchange_is_refused():
    with pytest.raises(SuiteError, match="per_round = 9 leaves somebody over"):
        plan_cells("ffl", overrides={"per_round": 9})
