"""Requirements that all untargeted attacks on updates meet, and label flipping of all classes."""

import numpy as np
import pytest

from fflbench import poison, registry
from fflbench.conformance.small_federation import NormalisedDigits, small_task
from fflbench.data import Examples
from fflbench.federation import chain
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind
from tests.attacks.attack_rounds import create
from tests.played import finished

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


def test_all_labels_become_class_0():
    attack, labels = create("label-flipping-untargeted", mapping="all-to-one"), np.arange(10)
    examples = Examples(np.zeros((10, 1, 8, 8), np.float32), labels)
    assert not attack.poison_data(examples, small_task(), 0, np.random.default_rng(0)).y.any()


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
    *((name, {"direction": direction}) for name in ("min-max", "min-sum") for direction in ("unit", "sign", "std")),
    *((name, {"knowledge": "partial"}) for name in ("min-max", "min-sum", "fang-krum", "fang-trimmed-mean")),
    ("fang-krum", {}),
    ("fang-trimmed-mean", {}),
    ("mimic", {}),
    ("byzmean", {}),
    ("signguard-evasion", {}),
    ("clipped-clustering-evasion", {}),
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
