"""Untargeted attacks on updates against their definitions, and against a second fact each."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, kstest, norm
from sklearn.decomposition import PCA

from fflbench import aggregate, poison, registry
from fflbench.conformance.small_federation import NormalisedDigits, small_federation, small_task
from fflbench.data import Examples
from fflbench.federation import Columns, chain
from fflbench.federation.attack import AttackSetting, poison_rows
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind
from tests.attacks import definitions
from tests.attacks.definitions import mean
from tests.played import finished
from tests.strategies import normal_matrices

HONEST, D = st.integers(2, 9), st.integers(1, 8)
few = settings(max_examples=40)


def close(found, wanted, rows, rtol=1e-4):
    """Assert equality up to rounding, by the size of the updates."""
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * np.abs(rows).max(initial=1e-30))


def create(name, **parameters):
    return registry.get(Kind.ATTACK, name).create(**parameters)


class Rounds:
    """Rounds of an attack beside given honest updates and global models, with its memory."""

    def __init__(self, name, d, seed=0, **parameters):
        self.attack, self.d, self.round = create(name, **parameters), d, 0
        self.columns = Columns.of_length(d)
        self.attack.begin(AttackSetting(None, np.array([0, 1]), self.columns, np.random.default_rng(seed)))

    def send(self, honest, model=None, attackers=2):
        """Return the attackers' rows of the next round."""
        honest = np.asarray(honest, np.float32).reshape(-1, self.d)
        updates = np.vstack([np.zeros((attackers, self.d), np.float32), honest])
        poison_rows(
            self.attack,
            updates,
            selected=np.arange(len(updates)),
            attackers=np.arange(attackers),
            round=self.round,
            weights=np.zeros(self.d, np.float32) if model is None else np.asarray(model, np.float32),
            columns=self.columns,
            task=None,
            seed=0,
            simulate=lambda rows: None,
        )
        self.round += 1
        return updates[:attackers]


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
    assert np.linalg.norm(sent - sent[0], axis=1).max() <= epsilon * (1 + 1e-4)


@few
@given(normal_matrices(st.integers(6, 9), st.integers(3, 8)), st.integers(2, 3))
def test_krum_selects_the_crafted_row(honest, attackers):
    sent = poison("fang-krum", honest, attackers=attackers, epsilon=0.0)
    assume(np.abs(sent).max() > 1e-4)
    np.testing.assert_array_equal(aggregate("krum", np.vstack([honest, sent]), f=attackers), sent[0])


def test_with_partial_knowledge_krum_is_tried_on_the_attackers_own_updates():
    own = np.random.default_rng(0).normal(0.2, 1, (6, 5)).astype(np.float32)
    sent = poison("fang-krum", np.ones((9, 5)), attackers=6, own=own, epsilon=0.0, knowledge="partial")
    for crafted in range(1, 7):
        step, signs = definitions.fang_krum(own.tolist(), crafted) if crafted < 5 else (0.0, [])
        if step >= 1e-5:
            break
    assert crafted < 5
    close(sent, [[-step * sign for sign in signs]] * 6, own)


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


# Attackers who know only the global model


@few
@given(normal_matrices(st.just(9), st.integers(3, 8)), st.integers(0, 99), st.sampled_from([2, 3]))
def test_poisonedfl_sends_the_rows_of_its_definition(models, seed, window):
    d = models.shape[1]
    rounds = Rounds("poisonedfl", d, seed, window=window)
    signs, quantile = rounds.attack.memory["signs"].tolist(), binom.ppf(0.99, d, 0.5)
    wanted = definitions.poisonedfl(models.astype(float).tolist(), signs, 8.0, window, quantile)
    for model, row in zip(models, wanted, strict=True):
        close(rounds.send(np.zeros((3, d)), model), [row] * 2, wanted, rtol=1e-3)


def test_poisonedfl_tests_with_the_quantiles_of_its_authors():
    from fflbench.attacks.poisoning.poisonedfl import significant_count

    published = {1204682: 603618, 139960: 70415, 717924: 359948, 145212: 73049}
    assert {d: significant_count(d) for d in published} == published


def test_poisonedfl_keeps_its_signs_and_shrinks_where_the_model_resists():
    rng, d = np.random.default_rng(0), 400
    factors = {}
    for follows in (True, False):
        rounds, model, last = Rounds("poisonedfl", d, window=5), np.zeros(d), np.zeros(d)
        signs = rounds.attack.memory["signs"]
        for number in range(26):
            sent = rounds.send(np.zeros((3, d)), model)[0]
            assert (sent * signs >= 0).all()
            if number:
                factor = float(rounds.attack.memory["factor"])
                assert np.linalg.norm(sent) == pytest.approx(factor * np.linalg.norm(model - last), rel=1e-3)
            last, model = model, model + rng.normal(size=d) + (3 * signs if follows else 0)
        factors[follows] = factor
    assert factors[True] == 8
    # Five tests.
    assert factors[False] == pytest.approx(8 * 0.7**5)


@few
@given(normal_matrices(st.just(3), D), st.floats(0.1, 1e6))
def test_mpaf_drags_every_model_towards_the_same_base_model(models, scale):
    rounds = Rounds("mpaf", models.shape[1], scale=scale)
    base = rounds.attack.memory["base_model"].tolist()
    for model in models:
        wanted = [scale * (towards - now) for towards, now in zip(base, model.tolist(), strict=True)]
        close(rounds.send(np.zeros((2, models.shape[1])), model), [wanted] * 2, wanted)


def test_the_base_model_is_a_new_one_of_the_task():
    federation = small_federation(registry.get(Kind.ATTACK, "mpaf"))
    base, columns = federation.attack.memory["base_model"], federation.model.columns
    first = columns.spans["1.weight"]
    assert np.abs(base[first]).max() <= 1 / 8
    assert base[first].std() == pytest.approx(1 / 8 / np.sqrt(3), rel=0.1)
    assert not np.array_equal(base[first], federation.weights[first])
    assert (base[columns.spans["2.weight"]] == 1).all()


def test_random_models_are_sent_of_both_distributions():
    honest, model = np.zeros((2, 1)), np.array([7.0])
    uniform = poison("random-weights", honest, attackers=3000, model=model) + 7
    gaussian = poison("random-weights", honest, attackers=3000, model=model, distribution="gaussian", scale=3.0) + 7
    assert kstest(uniform[:, 0], "uniform").pvalue > 1e-3
    assert kstest(gaussian[:, 0], "norm", (0, 3)).pvalue > 1e-3


def test_the_same_value_is_sent_in_every_coordinate():
    assert poison("same-value", np.zeros((2, 3)), attackers=2).tolist() == [[100] * 3] * 2
    assert poison("same-value", np.zeros((2, 3)), attackers=1, value=-0.5).tolist() == [[-0.5] * 3]


@few
@given(normal_matrices(st.just(4), D))
def test_free_riders_send_the_last_change_of_the_global_model(models):
    rounds, d = Rounds("free-rider", models.shape[1], sigma=0.0), models.shape[1]
    last = models[0].tolist()
    for model in models.tolist():
        wanted = [now - before for now, before in zip(model, last, strict=True)]
        close(rounds.send(np.ones((2, d)), model), [wanted] * 2, models)
        last = model


def test_free_riders_hide_behind_noise_of_their_own():
    for sends, centre in (("zeros", 0.0), ("last change", 2.0)):
        rounds = Rounds("free-rider", 3000, sends=sends, sigma=0.1)
        rounds.send(np.ones((2, 3000)), np.zeros(3000))
        first, second = rounds.send(np.ones((2, 3000)), np.full(3000, 2.0))
        assert kstest(first, "norm", (centre, 0.1)).pvalue > 1e-3
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


# Label flipping


@pytest.mark.parametrize("mapping", ["mirror", "random"])
def test_every_label_becomes_another(mapping):
    attack, task, rng = create("label-flipping-untargeted", mapping=mapping), small_task(), np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 500)
    flipped = attack.poison_data(Examples(np.zeros((5000, 1, 8, 8), np.float32), labels), task, 0, rng).y
    if mapping == "mirror":
        assert flipped.tolist() == [{c: 9 - c for c in range(10)}[label] for label in labels]
        return
    counts = np.zeros((10, 10))
    np.add.at(counts, (labels, flipped), 1)
    assert (counts.diagonal() == 0).all()
    assert counts[~np.eye(10, dtype=bool)].min() > 30
    assert not attack.targeted


def test_mirrored_labels_reduce_accuracy():
    task = registry.get(Kind.TASK, "digits-mlp").create(rounds=10)
    clean, flipped = (
        finished(Federation(task, create("label-flipping-untargeted", share=share), chain.defense("fedavg"), 0)).metrics
        for share in (0.0, 0.6)
    )
    assert flipped["accuracy"] < clean["accuracy"] - 0.2


# All of them

ATTACKS = [
    ("sign-flipping", {}),
    ("sign-flipping-mean", {}),
    ("inner-product-manipulation", {}),
    ("a-little-is-enough", {"z": 1.5}),
    ("a-little-is-enough", {"knowledge": "partial"}),
    *((name, {"direction": direction}) for name in BOUNDED for direction in ("unit", "sign", "std")),
    *((name, {"knowledge": "partial"}) for name in ("min-max", "min-sum", "fang-krum", "fang-trimmed-mean")),
    ("fang-krum", {}),
    ("fang-trimmed-mean", {}),
    ("mimic", {}),
    ("byzmean", {}),
    ("poisonedfl", {}),
    ("mpaf", {}),
    ("free-rider", {}),
    ("random-weights", {}),
    ("random-weights", {"distribution": "gaussian"}),
    ("same-value", {}),
]
WITHOUT_DATA = {"poisonedfl", "mpaf", "free-rider", "random-weights", "same-value"}
LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(("name", "parameters"), ATTACKS)
@pytest.mark.parametrize("attackers", [1, 2, 7])
def test_rows_are_finite_beside_any_honest_updates(name, parameters, attackers):
    normal = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    for honest in (
        normal,
        normal[:1],
        normal[:2],
        normal[:, :1],
        np.zeros((4, 3)),
        np.repeat(normal[:1], 4, 0),
        np.where(normal > 0, LARGEST, -LARGEST),
        np.full((3, 2), LARGEST),
        np.full((3, 2), 1e-45),
    ):
        for own in (None, np.resize(honest[::-1], (attackers, honest.shape[1]))):
            sent = poison(name, honest.astype(np.float32), attackers=attackers, own=own, **parameters)
            assert np.isfinite(sent).all()


@pytest.mark.parametrize(("name", "parameters"), ATTACKS)
def test_buffers_stay_as_trained_or_do_not_change(name, parameters):
    federation = Federation(
        small_task(NormalisedDigits, per_round=8), create(name, share=0.5, **parameters), chain.defense("fedavg"), 0
    )
    selected = federation.select()
    before = federation.train(selected)
    after = before.copy()
    federation.poison(selected, after)
    hostile = np.isin(selected, federation.attackers)
    buffers = slice(federation.model.columns.parameters.stop, None)
    assert before[:, buffers].any()
    if name == "mimic":
        assert all(any(np.array_equal(row, honest) for honest in before[~hostile]) for row in after[hostile])
    else:
        wanted = np.zeros_like(before) if name in WITHOUT_DATA else before
        np.testing.assert_array_equal(after[hostile][:, buffers], wanted[hostile][:, buffers])


@pytest.mark.parametrize("name", sorted(WITHOUT_DATA))
def test_fake_participants_declare_that_they_know_nothing_and_ignore_their_training(name):
    assert registry.get(Kind.ATTACK, name).knows == ()
    rows = [poison(name, np.zeros((3, 4)), attackers=2, own=own) for own in (np.ones((2, 4)), np.zeros((2, 4)))]
    np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("name", ["mimic", "poisonedfl", "free-rider", "mpaf", "a-little-is-enough"])
def test_memories_survive_a_stop(name):
    task = small_task(per_round=6, rounds=4)
    whole, first, second = (Federation(task, create(name, share=0.5), chain.defense("median"), 0) for _ in range(3))
    whole.run()
    for _ in range(2):
        first.run_round()
    second.restore(first.state())
    second.run()
    np.testing.assert_array_equal(whole.weights, second.weights)
