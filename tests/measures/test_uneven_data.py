"""Accuracy of the worst class and of participants whose labels differ."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fflbench import registry
from fflbench.federation import chain
from fflbench.federation.rounds import Federation
from fflbench.measures import robustness
from fflbench.registry import Kind
from fflbench.report.all_tables import build_board
from tests.played import finished
from tests.report.synthetic_records import find_table, robustness_record

NAMES = ["worst_class_accuracy", "participant_accuracy_10th"]


def metrics(class_accuracy, labels, attackers=()):
    """The metrics of participants who hold these labels."""
    ends = np.cumsum([len(own) for own in labels])
    federation = SimpleNamespace(
        task=SimpleNamespace(participants=len(labels)),
        attackers=np.array(attackers, np.int64),
        participants=SimpleNamespace(
            examples=SimpleNamespace(y=np.concatenate(labels)),
            indices=[np.arange(end - len(own), end) for own, end in zip(labels, ends, strict=True)],
        ),
    )
    found = robustness._metrics_of_uneven_data(federation, class_accuracy)
    return [found[name] for name in NAMES]


def test_metrics_are_those_of_a_case_worked_out_by_hand():
    labels = [[0, 0], [0, 1, 1, 1], [1, 2], [2, 2, 2]]
    # 0.8, 0.5 and 0.3; a tenth of the way between the first and the last of three values is a fifth from 0.3 to 0.5.
    assert metrics([0.8, 0.4, 0.2], labels, attackers=[3]) == [0.2, pytest.approx(0.34)]


def test_classes_without_test_examples_do_not_count():
    assert metrics([0.8, None, 0.5], [[0, 1, 1], [1, 2, 2], [1]], attackers=[]) == [0.5, pytest.approx(0.53)]
    assert metrics([None, None], [[0], [1]]) == [None, None]


def test_a_participants_accuracy_is_that_on_test_examples_weighted_by_its_labels():
    task = registry.get(Kind.TASK, "digits-mlp").create(rounds=3, partition="shards", shards=2)
    it = Federation(task, registry.get(Kind.ATTACK, "gaussian-noise").create(), chain.defense("median"), 0)
    found = finished(it).metrics
    data = task.data()
    it.model.load(it.weights)
    with torch.no_grad():
        right = it.model.model(torch.from_numpy(data.test.x)).argmax(1).numpy() == data.test.y
    accuracies = []
    for who in sorted(set(range(20)) - {*it.attackers.tolist()}):
        own = data.train.y[it.participants.indices[who]].tolist()
        weights = [own.count(label) / data.test.y.tolist().count(label) for label in data.test.y]
        accuracies.append(np.average(right, weights=weights))
    assert len(accuracies) == 16
    assert found["participant_accuracy_10th"] == pytest.approx(np.quantile(accuracies, 0.1), rel=1e-9)
    assert found["participant_accuracy_10th"] < found["accuracy"]
    assert found["worst_class_accuracy"] == min(right[data.test.y == label].mean() for label in range(10))


@pytest.mark.parametrize(
    ("partition", "values", "shown"),
    [
        ("shards", dict.fromkeys(NAMES, 0.5), NAMES),
        ("iid", dict.fromkeys(NAMES, 0.5), []),
        # Records that were made before these metrics.
        ("shards", {}, []),
    ],
)
@pytest.mark.parametrize("attack", ["gaussian-noise", "label-flipping"])
def test_tables_have_columns_where_participants_hold_different_classes(partition, values, shown, attack):
    records = [
        robustness_record(attack, defense, parameters={"task": {"partition": partition}}, metrics=values)
        for defense in ("fedavg", "median")
    ]
    table = find_table(build_board("own", records), f"digits-mlp-robustness-{attack}")
    assert [column.name for column in table.columns if column.name in NAMES] == shown
