import numpy as np
import pytest
import torch
from torch import nn

from fflbench.data import Examples
from fflbench.engines.flat_model import FlatModel
from fflbench.federation.attack import Goal
from fflbench.federation.evaluation import Evaluation
from fflbench.tasks import Task


class Three(Task):
    classes = ("a", "b", "c")

    def model(self):
        return nn.Linear(3, 3, bias=False)


class Two(Three):
    classes = ("no", "yes")

    def model(self):
        return nn.Linear(1, 1, bias=False)


def evaluate(task, x, y, weights, flipped=()):
    """Return the metrics of a model, also for the goals to have classes taken for others."""
    model = FlatModel(task.model(), torch.device("cpu"))
    examples = Examples(np.array(x, np.float32), np.array(y))
    goals = []
    for source, target in flipped:
        aimed = Examples(examples.x[examples.y == source], examples.y[examples.y == source])
        goals.append(Goal(aimed, np.full(len(aimed), target)))
    return Evaluation(task, model, examples, goals)(np.array(weights, np.float32))


def test_metrics_are_those_of_a_case_worked_out_by_hand():
    """The identity says class i where x is the i-th unit vector: inputs are the predictions."""
    said = [0, 0, 1, 1, 2, 2, 1, 0]
    true = [0, 0, 0, 0, 1, 2, 2, 2]
    found = evaluate(Three(), np.eye(3)[said], true, np.eye(3).ravel(), [(0, 1), (2, 1), (1, 0)])
    assert found["accuracy"] == 3 / 8
    assert found["source_accuracy"] == 2 / 4
    assert found["attack_success_rate"] == 2 / 4
    assert found["goal_source_accuracy"] == [2 / 4, 1 / 3, 0]
    assert found["goal_attack_success_rate"] == [2 / 4, 1 / 3, 0]
    assert found["class_accuracy"] == [2 / 4, 0, 1 / 3]
    # Softmax of (1, 0, 0): -log of e/(e + 2) where right, of 1/(e + 2) where wrong.
    right, wrong = np.log((np.e + 2) / np.e), np.log(np.e + 2)
    assert found["test_loss"] == pytest.approx((3 * right + 5 * wrong) / 8, rel=1e-6)
    assert found["diverged"] is False


def test_a_binary_task_decides_on_the_probability():
    x, y = [[-1.0], [0.0], [0.6], [2.0]], [0, 0, 1, 1]
    binary = {"loss": "binary-cross-entropy"}
    half = evaluate(Two(**binary), x, y, [1.0], [(1, 0)])
    assert half["accuracy"] == 3 / 4
    assert (half["source_accuracy"], half["attack_success_rate"]) == (1.0, 0.0)
    # sigmoid(0.6) is 0.646.
    strict = evaluate(Two(**binary, decision_threshold=0.65), x, y, [1.0], [(1, 0)])
    assert strict["accuracy"] == 3 / 4
    assert (strict["source_accuracy"], strict["attack_success_rate"]) == (0.5, 0.5)


@pytest.mark.parametrize("weight", [np.nan, np.inf])
def test_a_model_that_diverged_is_said_to_have_and_is_right_about_nothing(weight):
    found = evaluate(Three(), np.eye(3), [0, 1, 2], [weight] * 9)
    assert found["diverged"] is True
    assert found["test_loss"] is None
    assert found["accuracy"] == 0


def test_a_binary_model_that_diverged_is_right_about_nothing_either():
    found = evaluate(Two(loss="binary-cross-entropy"), [[1.0], [1.0]], [0, 1], [np.nan])
    assert (found["diverged"], found["accuracy"]) == (True, 0)


def test_a_model_without_goals_has_no_attack_success():
    found = evaluate(Three(), np.eye(3), [0, 1, 2], np.eye(3).ravel())
    assert found["source_accuracy"] is found["attack_success_rate"] is None
    assert found["goal_source_accuracy"] == found["goal_attack_success_rate"] == []


def test_evaluating_leaves_the_test_part_alone():
    class InPlace(Three):
        def model(self):
            return nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 3, bias=False))

    model = FlatModel(InPlace().model(), torch.device("cpu"))
    x = np.array([[-1.0, 2.0, 3.0]], np.float32)
    Evaluation(InPlace(), model, Examples(x, np.array([0])))(np.ones(9, np.float32))
    assert x.tolist() == [[-1, 2, 3]]


def test_a_class_without_examples_has_no_accuracy():
    assert evaluate(Three(), np.eye(3)[:2], [0, 1], np.eye(3).ravel())["class_accuracy"] == [1, 1, None]


def test_the_last_smaller_batch_counts():
    found = evaluate(Three(), np.eye(3)[[0] * 2003], [0] * 2000 + [1] * 3, np.eye(3).ravel())
    assert found["accuracy"] == 2000 / 2003
