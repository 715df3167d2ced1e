"""Who was in the data: cases whose answer is known, controls without one, and what an attack may see."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict

from fflbench import registration, registry
from fflbench.data import Examples
from fflbench.errors import SuiteError
from fflbench.execution.cell import play
from fflbench.privacy.member_split import Dealer, MemberSplit, _digests, alike, dealt_anew
from fflbench.privacy.membership import MembershipAttack
from fflbench.privacy.roc import by_chance, curve
from fflbench.registration import privacy_attack
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

ATTACKS = {
    "loss-threshold": {},
    "loss-difference": {},
    "gradient-alignment": {},
    "white-box": {},
    "lira": {"shadows": 400},
}
OVERFIT = {"participants": 60, "local_epochs": 40}
"""Twenty-four examples each, learnt by heart."""


def judged(attacks, *, defense="fedavg", task="digits-mlp", fields=OVERFIT, seeds=(0,), **measure):
    suite = {
        "tasks": [task],
        "attacks": list(attacks),
        "defenses": [defense],
        "seeds": list(seeds),
        "attack": {name: ATTACKS[name] for name in attacks if name in ATTACKS},
        "overrides": dict(fields),
        "measure": {"use": "membership", **{"rounds_before": 3, **measure}},
    }
    records = [play(cell, "test") for cell in plan(parse(suite, "test", "test"))]
    for record in records:
        assert record.status == "done", record.error
    return records


def mean(records, name="auc"):
    return np.mean([record.metrics[name] for record in records])


@pytest.mark.parametrize("attack", ATTACKS)
def test_victims_who_learn_by_heart_are_told(attack):
    assert mean(judged([attack], rounds_before=0, seeds=(0, 1))) > 0.63


@pytest.mark.parametrize("attack", ATTACKS)
def test_members_are_not_told_from_members(attack):
    records = judged([attack], control=True, seeds=(0, 1, 2))
    assert abs(mean(records) - 0.5) < mean(records, "auc_by_chance")


@pytest.mark.parametrize("attack", ["loss-difference", "gradient-alignment", "lira"])
def test_a_mixed_update_still_tells_who_was_in_the_data(attack):
    """FFL's proposition on membership says that it cannot."""
    mixed, plain = (judged([attack], defense=defense, seeds=(0, 1)) for defense in ("ffl", "fedavg"))
    assert mean(mixed) > 0.5 + mean(mixed, "auc_by_chance")
    assert mean(mixed) < mean(plain)


def test_a_colluding_participant_exposes_another_as_if_there_were_no_exchange():
    traitor = judged(["loss-difference"], defense="ffl", observation="colluding-participant", seeds=(0, 1))
    assert mean(traitor) == pytest.approx(mean(judged(["loss-difference"], seeds=(0, 1))), abs=0.06)
    assert traitor[0].facts["caution"] == "a participant colludes"


def test_a_sum_over_everybody_tells_less_than_each_by_itself():
    own, together = (
        judged(["loss-difference"], seeds=(0, 1)),
        judged(["loss-difference"], defense="ideal-secagg", observation="sum", seeds=(0, 1)),
    )
    assert mean(together) < mean(own) - 0.05
    assert together[0].facts["updates"] == 1


def test_few_examples_give_pairs_away():
    (record,) = judged(
        ["loss-difference"], defense="ffl", observation="found-pair-sum", fields={"participants": 288}, others=20
    )
    assert record.metrics["pair_accuracy"] == 1.0


def test_a_cell_gives_the_same_bits_again():
    one, two = (judged(["lira"], defense="ffl")[0] for _ in range(2))
    assert (one.metrics, one.history) == (two.metrics, two.history)


def test_facts_state_how_victims_trained():
    (record,) = judged(["gradient-alignment"])
    assert record.facts["training"] == "40 epochs of batches of 16, sgd, rate 0.1, momentum 0.9"
    assert record.facts["examples_each"] == pytest.approx(24, abs=0.2)
    assert record.facts["conversion"].startswith("SGD")
    assert record.metrics["tpr_at_fpr_0.001"] is None
    assert record.metrics["tpr_at_fpr_0.01_low"] < record.metrics["tpr_at_fpr_0.01"]


def test_with_adam_gradients_are_converted_and_it_says_how(real):
    real("adult")
    (record,) = judged(["gradient-alignment"], task="adult-mlp", fields={"participants": 500}, others=20, members=20)
    assert record.facts["conversion"].startswith("Adam")


def test_noise_on_running_statistics_does_not_silence_a_model(own_registry):
    """Else every loss would be no number, and a defense would look safe."""
    from torch import nn

    @registration.task("normed", title="Normed")
    class Normed(registry.get(Kind.TASK, "digits-mlp").target):
        """Digits through a batch normalisation."""

        engine = "loop"

        def model(self):
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))

    for attack in ("loss-threshold", "loss-difference"):
        (record,) = judged([attack], task="normed", defense="ldp", fields={"participants": 60}, rounds_before=1)
        assert record.facts["not_finite"] == 0


# What an attack sees


@pytest.fixture
def nosy(own_registry):
    """Attacks that try to see what they did not declare."""

    @privacy_attack("by-number", title="By number", knows=["server view"])
    class ByNumber(MembershipAttack):
        """Take an example's number, or place, for its score."""

        def judge(self, server, update, suspects):
            return torch.from_numpy(suspects.astype(float))

    @privacy_attack("by-place", title="By place", knows=["server view"])
    class ByPlace(MembershipAttack):
        """Take the order in which suspects come for their score."""

        def judge(self, server, update, suspects):
            return -torch.arange(len(suspects), dtype=torch.float64)

    @privacy_attack("by-class", title="By class", knows=["server view", "auxiliary data"])
    class ByClass(MembershipAttack):
        """Score an example by what the update did to others of its class."""

        def judge(self, server, update, suspects):
            weights = server.before, server.after(update)
            before, after = (server.examine.losses(weight, server.auxiliary) for weight in weights)
            y = server.examine.y
            means = {int(label): (before - after)[y[server.auxiliary] == label].mean() for label in y.unique()}
            return torch.stack([means[int(label)] for label in y[suspects]])

    @privacy_attack("nothing", title="Nothing", knows=["server view"])
    class Nothing(MembershipAttack):
        """Judge by the global model alone."""

        def judge(self, server, update, suspects):
            return -server.examine.losses(server.before, suspects)

    @privacy_attack("nosy", title="Nosy", knows=["server view"])
    class Nosy(MembershipAttack):
        """Ask for data that it never declared."""

        def judge(self, server, update, suspects):
            return torch.zeros(len(server.auxiliary))

    @privacy_attack("playful", title="Playful", knows=["server view"])
    class Playful(MembershipAttack):
        """Play rounds without having declared any data."""

        def judge(self, server, update, suspects):
            return server.rehearse([[suspects]], "play")


@pytest.mark.parametrize("attack", ["by-number", "by-place"])
def test_neither_numbers_nor_their_order_say_who_is_a_member(nosy, attack):
    # With so few participants nobody is left who never took part, so that non-members are the test part.
    (record,) = judged([attack], fields={})
    assert abs(record.metrics["auc"] - 0.5) < 1.5 * record.metrics["auc_by_chance"]


@pytest.mark.parametrize("fields", [{"participants": 288}, {"partition": "shards"}])
def test_classes_that_somebody_holds_are_no_membership(nosy, fields):
    records = judged(["by-class"], fields=fields, seeds=(0, 1, 2), others=72)
    assert abs(mean(records) - 0.5) < mean(records, "auc_by_chance")


def test_a_model_that_nobody_trained_tells_nothing(nosy):
    records = judged(["nothing"], fields={}, rounds_before=0, seeds=range(5))
    assert abs(mean(records) - 0.5) < mean(records, "auc_by_chance")


@pytest.mark.parametrize(("attack", "what"), [("nosy", "auxiliary data"), ("playful", "stage")])
def test_what_is_not_declared_is_not_told(nosy, attack, what):
    suite = {"tasks": ["digits-mlp"], "attacks": [attack], "defenses": ["fedavg"], "seeds": [0]}
    (cell,) = plan(parse({**suite, "measure": {"use": "membership", "rounds_before": 0}}, "test", "test"))
    record = play(cell, "test")
    assert record.status == "failed"
    assert f'does not declare that it knows "{what}"' in record.error


def test_reconstructions_are_no_membership_attacks():
    suite = {"tasks": ["digits-mlp"], "attacks": ["dlg"], "defenses": ["fedavg"], "seeds": [0]}
    with pytest.raises(SuiteError, match='cannot run "dlg"'):
        plan(parse({**suite, "measure": {"use": "membership"}}, "test", "test"))


# Who counts as a non-member


def crowd(name, trained=20, **fields):
    task, pool = dealt_anew(registry.get(Kind.TASK, name).create(**fields), 0)
    return MemberSplit.of(task, pool, 0, set(range(trained)), set(range(10)))


@pytest.fixture(scope="module")
def adult(real_data):
    return crowd("adult-mlp")


def rows(crowd, which):
    return Examples(crowd.pool.x[which], crowd.pool.y[which])


def test_a_set_is_dealt_anew_by_the_seed_and_nothing_is_lost():
    task = registry.get(Kind.TASK, "digits-mlp").create()
    before = task.data()
    (one, pool), (other, _) = (dealt_anew(task, seed) for seed in (0, 1))
    assert len(one.data().train) == len(before.train)
    assert sorted(_digests(pool)) == sorted([*_digests(before.train), *_digests(before.test)])
    assert list(_digests(one.data().test)) != list(_digests(other.data().test))
    assert task.data() is before


def test_non_members_equal_no_training_row(adult):
    held = np.concatenate(adult.held)
    known = set(_digests(rows(adult, held)))
    for which in (adult.strangers, adult.auxiliary):
        assert not any(digest in known for digest in _digests(rows(adult, which)))
        assert not set(which) & set(held)
    # Almost a quarter of the test rows do.
    assert 0.23 < adult.equal < 0.25


def test_rows_that_repeat_are_judged_on_neither_side(adult):
    held = np.concatenate(adult.held)
    digests = list(_digests(adult.pool))
    members = adult.single(held)
    assert len({digests[row] for row in members}) == len(members) < len(held)
    others = [*adult.strangers, *adult.auxiliary]
    assert len({digests[row] for row in others}) == len(others)


def test_members_and_others_cannot_be_told_apart_without_an_update(adult):
    """Else rows that repeat, which are never non-members, would pass for leaks."""
    rng = np.random.default_rng(0)
    members = rng.permutation(adult.single(np.concatenate(adult.held)))[:4000]
    members, others = Dealer(adult.strangers, adult.pool.y, rng).deal(members, 4000)
    order = rng.permutation(len(members) + len(others))
    both = rows(adult, np.concatenate([members, others])[order])
    truth = order < len(members)
    blind = np.column_stack([both.x, both.y])
    scores = cross_val_predict(
        HistGradientBoostingClassifier(random_state=0, max_iter=30), blind, truth, cv=4, method="predict_proba"
    )
    assert abs(curve(scores[:, 1], truth).area - 0.5) < by_chance(len(members), len(others)) + 0.005


def test_others_are_of_the_members_classes():
    y = np.repeat([0, 1, 2], [30, 30, 0])
    y = np.append(y, [2] * 5)
    dealer = Dealer(np.arange(10, 60), y, np.random.default_rng(0))
    members, others = dealer.deal(np.array([0, 1, 2, 3, 60]), 9)
    # Of the third class nobody is left to compare with.
    assert members.tolist() == [0, 1, 2, 3]
    assert y[others].tolist() == [0] * 8
    assert len(set(others)) == 8
    members, others = dealer.deal(np.array([0, 1, 2, 30, 31, 32]), 10**6)
    assert np.bincount(y[others]).tolist() == [18, 18]


def test_as_many_of_each_class_are_chosen_from_both():
    y = np.array([0, 0, 0, 1, 1, 2, 0, 1, 1, 1])
    one, other = alike(y, np.arange(6), np.arange(6, 10), np.random.default_rng(0))
    assert y[one].tolist() == y[other].tolist() == [0, 1, 1]


def test_those_who_never_took_part_are_no_members():
    found = crowd("digits-mlp", participants=100)
    held = {row for who in range(20) for row in found.held[who]} | {row for own in found.controlled for row in own}
    assert not held & {*found.strangers.tolist(), *found.auxiliary.tolist()}
    assert not set(found.strangers) & set(found.auxiliary)
    idle = {row for who in range(100) for row in found.held[who]} - held
    assert idle & set(found.strangers.tolist())


def test_one_who_controls_nobody_cannot_learn():
    suite = {"tasks": ["digits-mlp"], "attacks": ["white-box"], "defenses": ["fedavg"], "seeds": [0]}
    settings = {"overrides": {"per_round": 20}, "measure": {"use": "membership", "rounds_before": 0}}
    (cell,) = plan(parse({**suite, **settings}, "test", "test"))
    assert "0 do, and 20 take part" in play(cell, "test").error


def test_means_of_shadows_are_each_examples_own():
    lira = registry.get(Kind.PRIVACY_ATTACK, "lira").create()
    rng = np.random.default_rng(0)
    lira.sure, chosen = rng.normal(size=(30, 7)), rng.random((30, 7)) < 0.4
    found, deviation = lira._normal(chosen)
    wanted = [lira.sure[chosen[:, place], place] for place in range(7)]
    np.testing.assert_allclose(found, [values.mean() for values in wanted])
    squares = sum(((values - values.mean()) ** 2).sum() for values in wanted)
    assert deviation == pytest.approx(np.sqrt(squares / sum(len(values) - 1 for values in wanted)), rel=1e-4)


def test_the_attack_in_the_docs_works(own_registry, tmp_path):
    page = (Path(__file__).parents[2] / "docs/privacy.md").read_text()
    file = tmp_path / "confidence.py"
    file.write_text(page.split("```python\n")[1].split("```")[0])
    assert registry.load_named([str(file)]) == ()
    (record,) = judged(["confidence"])
    assert record.metrics["auc"] > 0.5 + record.metrics["auc_by_chance"]
