"""Who was in the data: cases whose answer is known, controls without one, and what an attack may see."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict

from fflbench import registry
from fflbench.errors import SuiteError
from fflbench.execution.cell import play
from fflbench.privacy.membership import Crowd, MembershipAttack, _digests, _rows
from fflbench.privacy.roc import by_chance, curve
from fflbench.registry import Kind, privacy_attack
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

ATTACKS = {
    "loss-threshold": {},
    "loss-difference": {},
    "gradient-alignment": {},
    "white-box": {},
    "lira": {"shadows": 400},
}
OVERFIT = {"participants": 120, "local_epochs": 40}
"""Twelve examples each, learnt by heart."""


def judged(attacks, *, defense="fedavg", task="digits-mlp", fields=OVERFIT, seeds=(0,), **measure):
    suite = {
        "tasks": [task],
        "attacks": list(attacks),
        "defenses": [defense],
        "seeds": list(seeds),
        "attack": {name: ATTACKS[name] for name in attacks if name in ATTACKS},
        "overrides": dict(fields),
        "measure": {"use": "membership", "rounds_before": 3, **measure},
    }
    records = [play(cell, "test") for cell in plan(parse(suite, "test", "test"))]
    for record in records:
        assert record.status == "done", record.error
    return records


def mean(records, name="auc"):
    return np.mean([record.metrics[name] for record in records])


@pytest.mark.parametrize("attack", ATTACKS)
def test_victims_who_learn_by_heart_are_told(attack):
    assert mean(judged([attack], seeds=(0, 1))) > 0.68


@pytest.mark.parametrize("attack", ATTACKS)
def test_members_are_not_told_from_members(attack):
    records = judged([attack], control=True, seeds=(0, 1, 2))
    assert abs(mean(records) - 0.5) < mean(records, "auc_by_chance")


@pytest.mark.parametrize("attack", ["loss-difference", "gradient-alignment", "lira"])
def test_a_mixed_update_still_tells_who_was_in_the_data(attack):
    """FFL's proposition on membership says that it cannot."""
    mixed, plain = (judged([attack], defense=defense, seeds=(0, 1)) for defense in ("ffl", "fedavg"))
    assert mean(mixed) > 0.5 + 2 * mean(mixed, "auc_by_chance")
    assert mean(mixed) < mean(plain)


def test_a_traitor_exposes_its_partner_as_if_there_were_no_mixing():
    traitor = judged(["loss-difference"], defense="ffl", target="colluding", seeds=(0, 1))
    assert mean(traitor) == pytest.approx(mean(judged(["loss-difference"], seeds=(0, 1))), abs=0.06)
    assert traitor[0].facts["caution"] == "outside the paper's model"


def test_a_sum_over_everybody_tells_less_than_each_by_itself():
    own, together = (
        judged(["loss-difference"], seeds=(0, 1)),
        judged(["loss-difference"], defense="ideal-secagg", target="aggregate", seeds=(0, 1)),
    )
    assert mean(together) < mean(own) - 0.05
    assert together[0].facts["updates"] == 1


def test_few_examples_give_partners_away():
    (record,) = judged(
        ["loss-difference"], defense="ffl", target="found-pair-sum", fields={"participants": 288}, others=20
    )
    assert record.metrics["pair_accuracy"] == 1.0


def test_a_cell_gives_the_same_bits_again():
    one, two = (judged(["lira"], defense="ffl")[0] for _ in range(2))
    assert (one.metrics, one.history) == (two.metrics, two.history)


def test_facts_state_how_victims_trained():
    (record,) = judged(["gradient-alignment"])
    assert record.facts["training"] == "40 epochs of batches of 16, sgd, rate 0.1, momentum 0.9"
    assert record.facts["examples_each"] == pytest.approx(12, abs=0.1)
    assert record.facts["conversion"].startswith("SGD")
    assert record.metrics["tpr_at_fpr_0.001"] is None
    assert record.metrics["tpr_at_fpr_0.01_low"] < record.metrics["tpr_at_fpr_0.01"]


def test_with_adam_gradients_are_converted_and_it_says_how(real):
    real("adult")
    (record,) = judged(["gradient-alignment"], task="adult-mlp", fields={"participants": 500}, others=20, members=20)
    assert record.facts["conversion"].startswith("Adam")


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
    (record,) = judged([attack])
    assert abs(record.metrics["auc"] - 0.5) < 1.5 * record.metrics["auc_by_chance"]


@pytest.mark.parametrize(("attack", "what"), [("nosy", "auxiliary data"), ("playful", "stage")])
def test_what_is_not_declared_is_not_told(nosy, attack, what):
    suite = {"tasks": ["digits-mlp"], "attacks": [attack], "defenses": ["fedavg"], "seeds": [0]}
    (cell,) = plan(parse({**suite, "measure": {"use": "membership", "rounds_before": 0}}, "test", "test"))
    record = play(cell, "test")
    assert record.status == "failed"
    assert f'does not declare that it knows "{what}"' in record.error


def test_reconstructions_are_no_membership_attacks():
    suite = {"tasks": ["digits-mlp"], "attacks": ["dlg"], "defenses": ["fedavg"], "seeds": [0]}
    with pytest.raises(SuiteError, match='cannot let "dlg" loose'):
        plan(parse({**suite, "measure": {"use": "membership"}}, "test", "test"))


# Who counts as a non-member


@pytest.fixture(scope="module")
def adult(real_data):
    task = registry.get(Kind.TASK, "adult-mlp").create()
    return Crowd.of(task, 0, set(range(20)), set(range(10)))


def test_non_members_equal_no_training_row(adult):
    train = adult.data.train
    known = set(_digests(train))
    assert not any(digest in known for digest in _digests(_rows(adult.data, adult.strangers)))
    assert not any(digest in known for digest in _digests(_rows(adult.data, adult.auxiliary)))
    # Almost a quarter of the test rows do.
    assert 0.23 < adult.equal / len(adult.data.test) < 0.25


def test_members_that_somebody_else_holds_too_are_not_judged(adult):
    train = adult.data.train
    judged_rows = adult.single(np.concatenate(adult.held))
    digests = list(_digests(train))
    assert len({digests[row] for row in judged_rows}) == len(judged_rows)
    assert len(judged_rows) < len(train)


def test_members_and_others_cannot_be_told_apart_without_an_update(adult):
    """Else rows that repeat, which are never non-members, would pass for leaks."""
    rng = np.random.default_rng(0)
    members = rng.permutation(adult.single(np.concatenate(adult.held)))[:4000]
    others = adult.strangers[:4000]
    rows = _rows(adult.data, np.concatenate([members, others]))
    truth = np.arange(len(rows)) < len(members)
    blind = np.column_stack([rows.x, rows.y])
    scores = cross_val_predict(
        HistGradientBoostingClassifier(random_state=0, max_iter=30), blind, truth, cv=4, method="predict_proba"
    )
    assert abs(curve(scores[:, 1], truth).area - 0.5) < by_chance(len(members), len(others)) + 0.005


def test_others_are_those_who_never_took_part_where_they_are_many():
    task = registry.get(Kind.TASK, "digits-mlp").create(participants=100)
    crowd = Crowd.of(task, 0, set(range(20)), set(range(10)))
    assert crowd.strangers.max() < len(crowd.data.train)
    held = {row for who in range(20) for row in crowd.held[who]} | {row for own in crowd.controlled for row in own}
    assert not held & {*crowd.strangers.tolist(), *crowd.auxiliary.tolist()}
    assert not set(crowd.strangers) & set(crowd.auxiliary)


def test_one_who_controls_nobody_cannot_learn():
    suite = {"tasks": ["digits-mlp"], "attacks": ["white-box"], "defenses": ["fedavg"], "seeds": [0]}
    settings = {"overrides": {"per_round": 20}, "measure": {"use": "membership", "rounds_before": 0}}
    (cell,) = plan(parse({**suite, **settings}, "test", "test"))
    assert "white-box needs participants who sit out the round" in play(cell, "test").error


def test_means_of_shadows_are_each_examples_own():
    lira = registry.get(Kind.PRIVACY_ATTACK, "lira").create()
    rng = np.random.default_rng(0)
    lira.sure, chosen = rng.normal(size=(30, 7)), rng.random((30, 7)) < 0.4
    found, deviation = lira._normal(chosen)
    wanted = [lira.sure[chosen[:, place], place] for place in range(7)]
    np.testing.assert_allclose(found, [values.mean() for values in wanted])
    squares = sum(((values - values.mean()) ** 2).sum() for values in wanted)
    assert deviation == pytest.approx(np.sqrt(squares / sum(len(values) - 1 for values in wanted)), rel=1e-4)
