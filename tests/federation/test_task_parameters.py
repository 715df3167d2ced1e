"""Parameters of tasks that rounds act on: evaluations and worker momentum."""

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from typer.testing import CliRunner

import fflbench
from fflbench import registry
from fflbench.cli import app
from fflbench.data import digits
from fflbench.federation import Attack, chain
from fflbench.federation.rounds import Federation
from fflbench.measures.robustness import outcome_of_federation
from fflbench.registration import attack, task
from fflbench.registry import Kind
from fflbench.tasks import Task
from fflbench.types import State
from tests.played import finished

# Evaluations


@settings(max_examples=12)
@given(st.integers(1, 7), st.integers(1, 9))
def test_metrics_stand_in_every_so_manieth_round_and_in_the_last(rounds, every):
    it = registry.get(Kind.TASK, "digits-mlp").create(rounds=rounds, evaluate_every=every, local_epochs=1)
    cell = Federation(it, registry.get(Kind.ATTACK, "none").create(), chain.defense("fedavg"), 0)
    cell.run()
    evaluated = [item["round"] for item in cell.history if "accuracy" in item]
    assert evaluated == [number for number in range(1, rounds + 1) if number % every == 0 or number == rounds]
    assert outcome_of_federation(cell).metrics["accuracy"] == cell.history[-1]["accuracy"]


def test_evaluating_less_often_changes_no_model_and_no_final_metric(federation):
    often, rarely = (federation(rounds=7, evaluate_every=every, average_last=3) for every in (1, 5))
    assert finished(often).metrics == finished(rarely).metrics
    assert often.weights.tobytes() == rarely.weights.tobytes()
    assert [item["round"] for item in rarely.history if "accuracy" in item] == [5, 7]


def test_a_suite_that_evaluates_rarely_has_tables(tmp_path):
    (tmp_path / "own.toml").write_text(
        'tasks = ["digits-mlp"]\nattacks = ["none", "label-flipping"]\ndefenses = ["fedavg"]\nseeds = [0, 1]\n'
        "[overrides]\nrounds = 5\nevaluate_every = 2\n"
    )
    done = CliRunner().invoke(app, ["run", str(tmp_path / "own.toml"), "--out", str(tmp_path), "--workers", "1"])
    assert done.exit_code == 0, done.output
    for record in fflbench.load(tmp_path):
        assert [item["round"] for item in record.history if "accuracy" in item] == [2, 4, 5]


# Worker momentum


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_worker_momentum_follows_its_recursion(federation, beta):
    cell = federation(rounds=5, worker_momentum=beta)
    momenta = {}
    for _ in range(5):
        selected = cell.select()
        plain = cell.participants.engine.train(cell.weights, selected, cell.round)
        for who, update in zip(selected.tolist(), plain.astype(np.float64), strict=True):
            momenta[who] = beta * momenta[who] + (1 - beta) * update if who in momenta else update
        before = cell.weights.copy()
        cell.run_round()
        expected = np.average([momenta[who] for who in selected], axis=0, weights=cell.participants.sizes[selected])
        np.testing.assert_allclose(cell.weights - before, expected, atol=1e-5)
    assert len(momenta) > len(selected)


def test_attackers_have_momentum_too_and_poison_what_they_would_send(federation, own_registry):
    @attack("spying", title="Spying", knows=["own data", "attackers' updates"])
    class Spying(Attack):
        """Keep what it is shown."""

        def poison_updates(self, known):
            seen.append((known.participants, known.updates.copy()))
            return np.zeros_like(known.updates)

    seen = []
    cell = federation(attack=("spying", {"share": 0.4}), worker_momentum=0.5, rounds=2)
    for _ in range(2):
        cell.run_round()
        participants, updates = seen[-1]
        np.testing.assert_array_equal(cell.participants.momentum[participants], updates)


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_worker_momentum_goes_on_from_a_checkpoint_to_the_same_bits(federation, stop):
    fields = {"attack": "gaussian-noise", "defense": "trimmed-mean", "rounds": 5, "worker_momentum": 0.9}
    whole, first, second = (federation(**fields) for _ in range(3))
    whole.run()
    for _ in range(stop):
        first.run_round()
    file, state = io.BytesIO(), first.state()
    np.savez(file, **state.arrays)
    text = json.dumps(state.facts)
    first.run_round()
    file.seek(0)
    second.restore(State(dict(np.load(file, allow_pickle=False)), json.loads(text)))
    second.run()
    assert second.weights.tobytes() == whole.weights.tobytes()
    assert second.participants.momentum.tobytes() == whole.participants.momentum.tobytes()
    assert second.history == whole.history


def test_buffers_have_no_momentum(federation, own_registry):
    @task("normed", title="Normed")
    class Normed(Task):
        """Digits with a batch normalisation."""

        classes = tuple("0123456789")

        def data(self):
            return digits.load()

        def model(self):
            return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))

    cell = federation(task="normed", worker_momentum=0.9, rounds=2)
    cell.run_round()
    selected = cell.select()
    plain = cell.participants.engine.train(cell.weights, selected, cell.round)
    sent = cell.train(selected)
    buffers = slice(cell.model.columns.parameters.stop, None)
    np.testing.assert_array_equal(sent[:, buffers], plain[:, buffers])
    assert (sent[:, : buffers.start] != plain[:, : buffers.start]).any()
