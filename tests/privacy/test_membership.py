"""Membership inference: cases with a known answer, controls, and the knowledge of attacks."""

import numpy as np
import pytest
import torch

from fflbench import registration, registry
from fflbench.errors import SuiteError
from fflbench.execution.run_cell import run_cell
from fflbench.privacy.membership_attack import MembershipAttack
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
"""Parameters with which participants overfit: twenty-four examples each."""


def run_membership(attacks, *, defense="fedavg", task="digits-mlp", fields=OVERFIT, seeds=(0,), **measure):
    suite = {
        "tasks": [task],
        "attacks": list(attacks),
        "defenses": [defense],
        "seeds": list(seeds),
        "attack": {name: ATTACKS[name] for name in attacks if name in ATTACKS},
        "overrides": dict(fields),
        "measure": {"use": "membership", **{"rounds_before": 3, **measure}},
    }
    records = [run_cell(cell, "test") for cell in plan(parse(suite, "test", "test"))]
    for record in records:
        assert record.status == "done", record.error
    return records


def mean_metric(records, name="auc"):
    return np.mean([record.metrics[name] for record in records])


@pytest.mark.parametrize("attack", ATTACKS)
def test_members_are_identified_where_victims_overfit(attack):
    assert mean_metric(run_membership([attack], rounds_before=0, seeds=(0, 1))) > 0.63


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_distinguishes_members_from_members(attack):
    records = run_membership([attack], control=True, seeds=(0, 1, 2))
    assert abs(mean_metric(records) - 0.5) < mean_metric(records, "auc_by_chance")


@pytest.mark.parametrize("attack", ["loss-difference", "gradient-alignment", "lira"])
def test_a_mixed_update_still_reveals_membership(attack):
    """FFL's proposition on membership says that it does not."""
    mixed, plain = (run_membership([attack], defense=defense, seeds=(0, 1)) for defense in ("ffl", "fedavg"))
    assert mean_metric(mixed) > 0.5 + mean_metric(mixed, "auc_by_chance")
    assert mean_metric(mixed) < mean_metric(plain)


def test_a_colluding_participant_exposes_another_as_if_there_were_no_exchange():
    colluding = run_membership(["loss-difference"], defense="ffl", observation="colluding-participant", seeds=(0, 1))
    assert mean_metric(colluding) == pytest.approx(
        mean_metric(run_membership(["loss-difference"], seeds=(0, 1))), abs=0.06
    )
    assert colluding[0].facts["caution"] == "a participant colludes"


def test_the_sum_of_all_updates_reveals_less_than_each_update():
    own, together = (
        run_membership(["loss-difference"], seeds=(0, 1)),
        run_membership(["loss-difference"], defense="ideal-secagg", observation="sum", seeds=(0, 1)),
    )
    assert mean_metric(together) < mean_metric(own) - 0.05
    assert together[0].facts["updates"] == 1


def test_pairs_are_found_where_participants_hold_few_examples():
    (record,) = run_membership(
        ["loss-difference"], defense="ffl", observation="found-pair-sum", fields={"participants": 288}, others=20
    )
    assert record.metrics["pair_accuracy"] == 1.0


def test_a_cell_gives_the_same_bits_again():
    one, two = (run_membership(["lira"], defense="ffl")[0] for _ in range(2))
    assert (one.metrics, one.history) == (two.metrics, two.history)


def test_facts_state_how_victims_trained():
    (record,) = run_membership(["gradient-alignment"])
    assert record.facts["training"] == "40 epochs of batches of 16, sgd, rate 0.1, momentum 0.9"
    assert record.facts["examples_each"] == pytest.approx(24, abs=0.2)
    assert record.facts["conversion"].startswith("SGD")
    assert record.metrics["tpr_at_fpr_0.001"] is None
    assert record.metrics["tpr_at_fpr_0.01_low"] < record.metrics["tpr_at_fpr_0.01"]


def test_facts_name_local_steps_where_they_replace_epochs():
    (record,) = run_membership(["loss-difference"], fields={"participants": 60, "local_steps": 3}, rounds_before=0)
    assert record.facts["training"] == "3 steps of batches of 16, sgd, rate 0.1, momentum 0.9"


def test_with_adam_gradients_are_converted_and_it_says_how(real):
    real("adult")
    (record,) = run_membership(
        ["gradient-alignment"], task="adult-mlp", fields={"participants": 500}, others=20, members=20
    )
    assert record.facts["conversion"].startswith("Adam")


def test_noise_on_running_statistics_leaves_losses_finite(own_registry):
    """Otherwise every loss would be NaN, and a defense would look safe."""
    from torch import nn

    @registration.task("normed", title="Normed")
    class Normed(registry.get(Kind.TASK, "digits-mlp").target):
        """Digits through a batch normalisation."""

        engine = "loop"

        def model(self):
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))

    for attack in ("loss-threshold", "loss-difference"):
        (record,) = run_membership([attack], task="normed", defense="ldp", fields={"participants": 60}, rounds_before=1)
        assert record.facts["not_finite"] == 0


# Knowledge of an attack


@pytest.fixture
def undeclared_knowledge_attacks(own_registry):
    """Attacks that try to use knowledge that they do not declare."""

    @privacy_attack("by-number", title="By number", knows=["server view"])
    class ByNumber(MembershipAttack):
        """Take an example's number, or place, for its score."""

        def score(self, observer, update, candidates):
            return torch.from_numpy(candidates.astype(float))

    @privacy_attack("by-place", title="By place", knows=["server view"])
    class ByPlace(MembershipAttack):
        """Take the order in which candidates come for their score."""

        def score(self, observer, update, candidates):
            return -torch.arange(len(candidates), dtype=torch.float64)

    @privacy_attack("by-class", title="By class", knows=["server view", "auxiliary data"])
    class ByClass(MembershipAttack):
        """Score an example by what the update did to others of its class."""

        def score(self, observer, update, candidates):
            weights = observer.weights, observer.weights_after(update)
            before, after = (observer.signals.losses(weight, observer.auxiliary_examples) for weight in weights)
            y = observer.signals.y
            means = {
                int(label): (before - after)[y[observer.auxiliary_examples] == label].mean() for label in y.unique()
            }
            return torch.stack([means[int(label)] for label in y[candidates]])

    @privacy_attack("nothing", title="Nothing", knows=["server view"])
    class Nothing(MembershipAttack):
        """Judge by the global model alone."""

        def score(self, observer, update, candidates):
            return -observer.signals.losses(observer.weights, candidates)

    @privacy_attack("nosy", title="Nosy", knows=["server view"])
    class Nosy(MembershipAttack):
        """Ask for data that it never declared."""

        def score(self, observer, update, candidates):
            return torch.zeros(len(observer.auxiliary_examples))

    @privacy_attack("playful", title="Playful", knows=["server view"])
    class Playful(MembershipAttack):
        """Simulate rounds without having declared any data."""

        def score(self, observer, update, candidates):
            return observer.simulate_rounds([[candidates]], "play")


@pytest.mark.parametrize("attack", ["by-number", "by-place"])
def test_neither_indices_nor_their_order_reveal_members(undeclared_knowledge_attacks, attack):
    # With so few participants nobody is left who never took part, so that non-members are the test set.
    (record,) = run_membership([attack], fields={})
    assert abs(record.metrics["auc"] - 0.5) < 1.5 * record.metrics["auc_by_chance"]


@pytest.mark.parametrize("fields", [{"participants": 288}, {"partition": "shards"}])
def test_the_classes_that_participants_hold_do_not_reveal_membership(undeclared_knowledge_attacks, fields):
    records = run_membership(["by-class"], fields=fields, seeds=(0, 1, 2), others=72)
    assert abs(mean_metric(records) - 0.5) < mean_metric(records, "auc_by_chance")


def test_an_untrained_model_reveals_nothing(undeclared_knowledge_attacks):
    records = run_membership(["nothing"], fields={}, rounds_before=0, seeds=range(5))
    assert abs(mean_metric(records) - 0.5) < mean_metric(records, "auc_by_chance")


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        ("nosy", 'this attack does not declare that it knows "auxiliary data"'),
        ("playful", 'simulated rounds need "auxiliary data" or "controlled participants"'),
    ],
)
def test_an_attack_gets_no_data_or_rounds_that_it_does_not_declare(undeclared_knowledge_attacks, attack, message):
    suite = {"tasks": ["digits-mlp"], "attacks": [attack], "defenses": ["fedavg"], "seeds": [0]}
    (cell,) = plan(parse({**suite, "measure": {"use": "membership", "rounds_before": 0}}, "test", "test"))
    record = run_cell(cell, "test")
    assert record.status == "failed"
    assert message in record.error


def test_reconstructions_are_no_membership_attacks():
    suite = {"tasks": ["digits-mlp"], "attacks": ["dlg"], "defenses": ["fedavg"], "seeds": [0]}
    with pytest.raises(SuiteError, match='cannot run "dlg"'):
        plan(parse({**suite, "measure": {"use": "membership"}}, "test", "test"))


def test_white_box_needs_enough_controlled_participants():
    suite = {"tasks": ["digits-mlp"], "attacks": ["white-box"], "defenses": ["fedavg"], "seeds": [0]}
    settings = {"overrides": {"per_round": 20}, "measure": {"use": "membership", "rounds_before": 0}}
    (cell,) = plan(parse({**suite, **settings}, "test", "test"))
    assert "0 do, and 20 take part" in run_cell(cell, "test").error


def test_lira_takes_means_of_each_example_and_one_deviation():
    lira = registry.get(Kind.PRIVACY_ATTACK, "lira").create()
    rng = np.random.default_rng(0)
    lira.sure, chosen = rng.normal(size=(30, 7)), rng.random((30, 7)) < 0.4
    found, deviation = lira._fit_normal(chosen)
    wanted = [lira.sure[chosen[:, place], place] for place in range(7)]
    np.testing.assert_allclose(found, [values.mean() for values in wanted])
    squares = sum(((values - values.mean()) ** 2).sum() for values in wanted)
    assert deviation == pytest.approx(np.sqrt(squares / sum(len(values) - 1 for values in wanted)), rel=1e-4)
