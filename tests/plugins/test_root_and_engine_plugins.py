"""Root examples of the server, and engines: by a rule and an engine from outside, each in one file."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fflbench
from fflbench import registry
from fflbench.cli import app
from fflbench.errors import FflbenchError, ParameterError
from fflbench.federation import Attack, chain
from fflbench.federation.rounds import Federation
from fflbench.federation.time_estimates import defense_seconds
from fflbench.measures.robustness import Robustness
from fflbench.registration import attack
from fflbench.registry import Kind
from tests.played import finished

ROOT_ALONE, ENGINE = FILES = [str(Path(__file__).parent / f"{name}.py") for name in ("root_alone", "torch_engine")]


@pytest.fixture(scope="module")
def loaded():
    """The registry with both files, until the last of these tests."""
    registry.load_installed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_entries", dict(registry._entries))
        assert registry.load_named(FILES) == ()
        yield


@pytest.fixture
def federation():
    def build(attack="none", defense="fedavg", share=None, **fields):
        return Federation(
            registry.get(Kind.TASK, "digits-mlp").create(**fields),
            registry.get(Kind.ATTACK, attack).create(**{} if share is None else {"share": share}),
            chain.defense(defense),
            0,
        )

    return build


# Root examples


@given(st.integers(0, 400), st.integers(0, 50), st.sampled_from(["iid", "dirichlet", "shards"]))
def test_root_examples_belong_to_no_participant(count, seed, partition):
    it = registry.get(Kind.TASK, "digits-mlp").create(root_examples=count, partition=partition)
    y = it.data().train.y
    root, held = it.root_indices(y, seed), it.divide(y, seed)
    assert len(root) == len(set(root.tolist())) == count
    everything = np.concatenate([root, *held])
    assert sorted(everything.tolist()) == list(range(len(y)))
    assert root.tolist() == it.root_indices(y, seed).tolist()


def test_no_root_examples_leave_the_division_as_it_is():
    plain, rooted = (registry.get(Kind.TASK, "digits-mlp").create(root_examples=count) for count in (0, 100))
    y = plain.data().train.y
    assert sum(map(len, plain.divide(y, 0))) == len(y)
    assert sum(map(len, rooted.divide(y, 0))) == len(y) - 100


def test_more_root_examples_than_there_are_is_an_error():
    it = registry.get(Kind.TASK, "digits-mlp").create(root_examples=5000)
    with pytest.raises(ParameterError, match="root_examples = 5000 is more than the 1437 training examples"):
        it.divide(it.data().train.y, 0)


def test_a_rule_gets_the_update_of_the_servers_examples(federation, loaded):
    cell = federation(defense="root-alone", root_examples=100, rounds=3)
    server = np.array([cell.task.participants])
    for _ in range(3):
        expected = cell.participants.engine.train(cell.weights, server, cell.round)[0]
        before = cell.weights.copy()
        cell.run_round()
        np.testing.assert_array_equal(cell.weights, before + expected)
        selected = cell.select()
        assert not cell.transmit(selected, cell.train(selected)).server.root_update.flags.writeable


def test_the_servers_examples_are_trained_on_as_they_are(federation, loaded):
    cell = federation(attack="label-flipping", share=0.4, defense="root-alone", root_examples=100, rounds=2)
    data = cell.task.data().train
    cell.run()
    root = cell.task.root_indices(data.y, 0)
    np.testing.assert_array_equal(cell.participants.data.y[root], data.y[root])


def test_trust_in_the_servers_direction_stands_up_to_reversed_updates(federation, loaded, own_registry):
    @attack("reversed", title="Reversed", knows=["own data"])
    class Reversed(Attack):
        """Send the opposite, enlarged."""

        def poison_updates(self, known):
            return -5 * known.updates

    fields = {"attack": "reversed", "share": 0.3, "root_examples": 100, "rounds": 10}
    trusting, averaging = (finished(federation(defense=name, **fields)).metrics for name in ("fltrust", "fedavg"))
    assert trusting["accuracy"] > 0.7
    assert averaging["accuracy"] < 0.5


def test_simulated_rows_meet_the_same_root_update(federation, loaded, own_registry):
    @attack("trying", title="Trying", knows=["own data", "attackers' updates", "honest updates", "defense"])
    class Trying(Attack):
        """Send what was simulated."""

        def poison_updates(self, known):
            expected.append(known.weights + known.simulate(-known.updates))
            return -known.updates

    expected = []
    cell = federation(attack="trying", share=0.3, defense="fltrust", root_examples=50, rounds=3)
    for _ in range(3):
        cell.run_round()
        np.testing.assert_array_equal(cell.weights, expected[-1])


@pytest.mark.parametrize("name", ["fltrust", "root-alone"])
def test_a_task_without_root_examples_is_refused_in_one_sentence(federation, loaded, name, tmp_path):
    it, defense = registry.get(Kind.TASK, "digits-mlp").create(), chain.defense(name)
    with pytest.raises(ParameterError, match="set the task's root_examples, to 100 say"):
        Robustness().check(it, defense, registry.get(Kind.ATTACK, "none").create())
    with pytest.raises(ParameterError, match="the server has no examples to train on: set the task's root_examples"):
        federation(defense=name).run_round()


@pytest.mark.parametrize("name", ["fltrust", "root-alone"])
def test_a_matrix_of_updates_has_no_root_update(loaded, name):
    with pytest.raises(ParameterError, match="trains on the server's own examples: use it in a suite"):
        fflbench.aggregate(name, np.eye(4, dtype=np.float32))


@pytest.mark.parametrize("name", ["fltrust", "root-alone"])
def test_a_suite_with_a_rule_that_needs_root_examples_is_estimated_and_runs(loaded, name, tmp_path):
    (tmp_path / "own.toml").write_text(
        f'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["{name}"]\nseeds = [0]\n'
        "[overrides]\nrounds = 2\nroot_examples = 50\n"
    )
    estimated = defense_seconds(registry.get(Kind.TASK, "digits-mlp").create(), chain.defense(name))
    assert min(estimated) > 0
    words = ["run", str(tmp_path / "own.toml"), "--out", str(tmp_path), "--dry-run", "--plugin", ROOT_ALONE]
    dry = CliRunner().invoke(app, words)
    assert dry.exit_code == 0, dry.output
    (record,) = fflbench.run(tmp_path / "own.toml", out=tmp_path, workers=1, plugins=[ROOT_ALONE])
    assert record.status == "done"


# Engines


def test_a_task_is_trained_by_the_engine_that_it_names(federation, loaded, monkeypatch):
    built_in, outside = federation(), federation(engine="torch-optim")
    selected = built_in.select()
    np.testing.assert_allclose(outside.train(selected), built_in.train(selected), rtol=1e-3, atol=2e-4)
    monkeypatch.setattr(type(outside.participants.engine), "_train", lambda self, weights, *_: np.ones_like(weights))
    np.testing.assert_array_equal(outside.train(selected), 1)


def test_an_engine_trains_on_poisoned_data(federation, loaded):
    attacking = {"attack": "label-flipping", "share": 0.4}
    built_in, outside = federation(**attacking), federation(**attacking, engine="torch-optim")
    selected = built_in.select()
    np.testing.assert_allclose(outside.train(selected), built_in.train(selected), rtol=1e-3, atol=2e-4)


def test_the_engine_of_a_task_is_part_of_its_cell(loaded, tmp_path):
    suite = 'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["fedavg"]\nseeds = [0]\n'
    (tmp_path / "own.toml").write_text(suite + '[overrides]\nrounds = 2\nengine = "torch-optim"\n')
    (record,) = fflbench.run(tmp_path / "own.toml", out=tmp_path, workers=1, plugins=[ENGINE])
    assert record.metrics["accuracy"] > 0.3
    assert record.configuration["task"]["parameters"]["engine"] == "torch-optim"
    assert record.manifest["plugins"] != []


def test_an_engine_that_is_not_registered_is_refused_before_anything_runs(tmp_path):
    suite = 'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["fedavg"]\nseeds = [0]\n'
    (tmp_path / "own.toml").write_text(suite + '[overrides]\nengine = "stackd"\n')
    with pytest.raises(FflbenchError, match='engine "stackd" is not registered; did you mean "stacked"'):
        fflbench.run(tmp_path / "own.toml", out=tmp_path, workers=1)
