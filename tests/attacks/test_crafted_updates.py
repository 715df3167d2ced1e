"""Attacks that know updates, against their definitions and against a second fact each."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm
from sklearn.decomposition import PCA

from fflbench import aggregate, poison, registry
from fflbench.federation import chain
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind
from tests.attacks import definitions
from tests.attacks.attack_rounds import Rounds, close, create
from tests.attacks.definitions import mean
from tests.played import finished
from tests.strategies import normal_matrices

HONEST, D = st.integers(2, 9), st.integers(1, 8)
few = settings(max_examples=40)


# Sign flipping and inner product manipulation


@few
@given(normal_matrices(HONEST, D), st.floats(0.1, 10))
def test_sign_flipping_negates_every_attackers_own_update(own, factor):
    sent = poison("sign-flipping", np.ones_like(own), attackers=len(own), own=own, factor=factor)
    close(sent, [[-factor * value for value in row] for row in own.tolist()], factor * own)
    np.testing.assert_array_equal(poison("sign-flipping", own, attackers=len(own), own=own), -own)


@few
@given(normal_matrices(HONEST, D), st.floats(0.1, 10))
def test_multiples_of_the_honest_mean_are_sent_with_the_opposite_sign(honest, factor):
    wanted = [[-factor * value for value in mean(honest.tolist())]] * 2
    close(poison("sign-flipping-mean", honest, attackers=2, factor=factor), wanted, factor * honest)
    close(poison("inner-product-manipulation", honest, attackers=2, epsilon=factor), wanted, factor * honest)


@few
@given(normal_matrices(HONEST, D), st.integers(1, 4))
def test_manipulation_turns_the_mean_around_from_the_papers_bound_on(honest, attackers):
    middle = honest.mean(0)
    assume(np.abs(middle).min() > 1e-3)
    for multiple, turned in ((0.9, False), (1.1, True)):
        epsilon = multiple * len(honest) / attackers
        sent = poison("inner-product-manipulation", honest, attackers=attackers, epsilon=epsilon)
        assert (middle @ np.vstack([honest, sent]).mean(0) < 0) == turned


# A little is enough


@few
@given(normal_matrices(HONEST, D), st.integers(1, 9), st.floats(0, 3) | st.just("paper"))
def test_a_little_is_enough_is_its_definition(honest, attackers, z):
    sent = poison("a-little-is-enough", honest, attackers=attackers, z=z)
    if z == "paper":
        n = len(honest) + attackers
        supporters = np.floor(n / 2 + 1) - attackers
        assume(supporters > 0)
        z = max(norm.ppf((len(honest) - supporters) / len(honest)), 0)
    close(sent, [definitions.a_little_is_enough(honest.tolist(), z)] * attackers, honest)


@pytest.mark.parametrize(
    ("n", "m", "z"), [(50, 24, 1.43), (10, 2, 0.0), (20, 4, 0.16), (50, 10, 0.25), (100, 20, 0.29), (10, 1, 0.0)]
)
def test_standard_deviations_of_known_settings(n, m, z):
    """Of honest updates that are -1 or 1 with mean 0 and deviation 1."""
    honest = np.resize([-1.0, 1.0], n - m).reshape(-1, 1)
    honest[-1] -= honest.sum()
    sent = poison("a-little-is-enough", honest, attackers=m)
    assert -sent[0, 0] / honest.std() == pytest.approx(z, abs=0.005)


def test_with_partial_knowledge_the_attackers_own_updates_count():
    own = np.array([[1.0, 5.0], [3.0, 5.0]], np.float32)
    sent = poison("a-little-is-enough", np.full((6, 2), 9.0), attackers=2, own=own, z=2.0, knowledge="partial")
    assert sent.tolist() == [[0, 5], [0, 5]]


def test_records_flag_rounds_in_which_a_little_is_nothing():
    task = registry.get(Kind.TASK, "digits-mlp").create(rounds=2, participants=10, per_round=10)

    def flags(**parameters):
        federation = Federation(task, create("a-little-is-enough", **parameters), chain.defense("fedavg"), 0)
        return finished(federation).facts["flags"]

    assert flags() == ["in 2 of 2 rounds attackers sent the mean (a-little-is-enough with z < 0.1)"]
    assert flags(z=1.0) == []


# Min-Max and Min-Sum

BOUNDED = {"min-max": definitions.is_within_largest_distance, "min-sum": definitions.is_within_largest_sum}


@few
@given(
    normal_matrices(st.integers(2, 6), st.integers(1, 5)),
    st.sampled_from(sorted(BOUNDED)),
    st.sampled_from(["unit", "sign", "std"]),
)
def test_bounded_attacks_go_as_far_as_a_search_by_the_definition(honest, name, direction):
    assume(np.linalg.norm(honest.mean(0)) > 1e-2)
    wanted = definitions.farthest(honest.tolist(), direction, BOUNDED[name])
    close(poison(name, honest, attackers=2, direction=direction), [wanted] * 2, honest, rtol=1e-3)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("direction", ["unit", "sign", "std"])
def test_bounded_attacks_by_hand(name, direction):
    """Of 0 and 2, the mean 1 may go to 0: it is then 2 from one of them, and its squares sum up to 4, like theirs."""
    assert poison(name, np.array([[0.0], [2.0]]), attackers=1, direction=direction).tolist() == [[0.0]]


@few
@given(normal_matrices(st.integers(3, 6), st.integers(2, 5)), st.sampled_from(sorted(BOUNDED)))
def test_bounded_attacks_grow_with_the_updates_and_min_sum_stays_as_near_as_an_honest_update(honest, name):
    assume(np.linalg.norm(honest.mean(0)) > 1e-2)
    sent = poison(name, honest, attackers=1)
    close(poison(name, 1024 * honest, attackers=1), 1024 * sent, 1024 * honest)
    if name == "min-sum":
        to_mean = np.linalg.norm(honest - honest.mean(0), axis=1)
        assert np.linalg.norm(sent - honest.mean(0)) == pytest.approx(to_mean.max(), rel=1e-4)


# Fang


@few
@given(normal_matrices(HONEST, D), st.floats(1.1, 5))
def test_values_against_trimmed_mean_lie_in_the_papers_intervals(honest, b):
    sent = poison("fang-trimmed-mean", honest, attackers=3, b=b).astype(float)
    own = poison("fang-trimmed-mean", np.ones_like(honest), attackers=len(honest), own=honest, knowledge="partial")
    for column, values in enumerate(honest.T.tolist()):
        assume(abs(sum(values)) > 1e-3)
        for low, high, drawn in (
            (*definitions.fang_interval(values, b), sent[:, column]),
            (*definitions.fang_interval_of_own(values), own[:, column]),
        ):
            assert low < high or low == high == drawn.min()
            assert low - 1e-4 * abs(low) - 1e-5 <= drawn.min() <= drawn.max() <= high + 1e-4 * abs(high) + 1e-5


def test_attackers_draw_uniformly_and_each_for_itself():
    honest = np.array([[1.0, -3.0, 2.0, -8.0], [3.0, -1.0, 4.0, -6.0]])
    sent = poison("fang-trimmed-mean", honest, attackers=4000)
    for column, (low, high) in enumerate([(0.5, 1.0), (-1.0, -0.5), (1.0, 2.0), (-6.0, -3.0)]):
        assert kstest(sent[:, column], "uniform", (low, high - low)).pvalue > 1e-3
    assert np.abs(np.corrcoef(sent.T)[np.triu_indices(4, 1)]).max() < 0.06


@few
@given(normal_matrices(st.integers(5, 9), D))
def test_against_trimmed_mean_the_aggregate_moves_against_the_honest_mean(honest):
    sent = poison("fang-trimmed-mean", honest, attackers=2)
    for rule in ("median", "trimmed-mean"):
        parameters = {"f": 2} if rule == "trimmed-mean" else {}
        before = aggregate(rule, honest, **parameters)
        after = aggregate(rule, np.vstack([honest, sent]), **parameters)
        assert (np.where(honest.mean(0) < 0, 1, -1) * (after - before) >= -1e-5).all()


@few
@given(normal_matrices(st.integers(5, 8), st.integers(1, 6)), st.integers(1, 3), st.sampled_from([0.0, 0.01]))
def test_the_step_against_krum_is_that_of_the_definition(honest, attackers, epsilon):
    assume(len(honest) > attackers + 1 and np.abs(honest.mean(0)).min() > 1e-3)
    step, signs = definitions.fang_krum(honest.tolist(), attackers)
    sent = poison("fang-krum", honest, attackers=attackers, epsilon=epsilon)
    close(sent[0], [-step * sign for sign in signs], honest)
    noise = min(epsilon, 0.01 * np.linalg.norm(sent[0]))
    assert np.linalg.norm(sent - sent[0], axis=1).max() <= noise * (1 + 1e-4)


@few
@given(normal_matrices(st.integers(6, 9), st.integers(3, 8)), st.integers(2, 3))
def test_krum_selects_the_crafted_row(honest, attackers):
    sent = poison("fang-krum", honest, attackers=attackers, epsilon=0.0)
    assume(np.abs(sent).max() > 1e-4)
    np.testing.assert_array_equal(aggregate("krum", np.vstack([honest, sent]), f=attackers), sent[0])


@pytest.mark.parametrize("seed", range(4))
def test_krum_selects_crafted_rows_among_tiny_updates(seed):
    honest = np.random.default_rng(seed).normal(size=(8, 10)) * 1e-3
    sent = poison("fang-krum", honest, attackers=3)
    assert (aggregate("krum", np.vstack([honest, sent]), f=3) == sent).all(1).any()


def test_with_partial_knowledge_krum_is_tried_on_the_attackers_own_updates():
    own = np.random.default_rng(0).normal(0.2, 1, (6, 5)).astype(np.float32)
    sent = poison("fang-krum", np.ones((9, 5)), attackers=6, own=own, epsilon=0.0, knowledge="partial")
    for crafted in range(1, 7):
        step, signs = definitions.fang_krum(own.tolist(), crafted) if crafted < 5 else (0.0, [])
        if step >= 1e-5:
            break
    assert crafted < 5
    close(sent, [[-step * sign for sign in signs]] * 6, own)


def test_records_flag_rounds_in_which_krum_selects_no_step():
    """Honest updates that agree are nearer to each other than to any step against them."""
    apart = np.random.default_rng(0).normal(size=(8, 10))
    for honest, flagged in ((apart + 9, True), (apart, False)):
        rounds = Rounds("fang-krum", 10)
        rounds.send(honest)
        assert bool(rounds.attack.flags()) == flagged
        assert not any(map(str.isdigit, "".join(rounds.attack.flags())))


@pytest.mark.parametrize("name", ["a-little-is-enough", "min-max", "min-sum", "fang-krum", "fang-trimmed-mean"])
def test_partial_knowledge_needs_no_honest_updates(name):
    assert "honest updates" in create(name).needed_knowledge
    assert create(name, knowledge="partial").needed_knowledge == ("own data", "attackers' updates")


# Mimic


@few
@given(st.data(), st.integers(1, 4), st.integers(0, 99))
def test_mimic_copies_the_rows_of_its_definition(data, warmup, seed):
    honest = [data.draw(normal_matrices(st.integers(3, 5), st.just(4))) for _ in range(4)]
    rounds = Rounds("mimic", 4, seed, warmup=warmup)
    z = rounds.attack.memory["direction"].tolist()
    for rows, copied in zip(honest, definitions.mimic([rows.tolist() for rows in honest], z, warmup), strict=True):
        sent = rounds.send(rows)
        np.testing.assert_array_equal(sent, np.array([copied] * 2, np.float32))


def test_mimic_learns_the_direction_in_which_updates_differ_most():
    rng, rounds = np.random.default_rng(0), Rounds("mimic", 6, warmup=100)
    honest = [3 + rng.normal(size=(12, 6)) * [1, 1, 8, 1, 1, 1] for _ in range(30)]
    for rows in honest:
        rounds.send(rows)
    component = PCA(1).fit(np.vstack(honest)).components_[0]
    assert abs(rounds.attack.memory["direction"] @ component) > 0.98


# ByzMean


@few
@given(normal_matrices(HONEST, D), st.integers(1, 5), st.floats(0, 3))
def test_byzmean_is_its_definition_and_makes_its_vector_the_mean(honest, attackers, z):
    sent = poison("byzmean", honest, attackers=attackers, z=z)
    wanted = definitions.byzmean(honest.tolist(), attackers, z)
    close(sent, wanted, wanted)
    bad = honest.astype(float).mean(0) - z * honest.astype(float).std(0)
    close(aggregate("fedavg", np.vstack([honest, sent])), bad, wanted)
