"""Attacks from outside, each in one file: with a memory, with a trigger, with a training of its own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import fflbench
from fflbench import registry
from fflbench.federation.chain import defense
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind

HERE = Path(__file__).parent
TEMPLATES = Path(fflbench.__file__).parent / "templates"
FILES = [
    str(file)
    for file in (TEMPLATES / "attack_with_memory.py", HERE / "trigger_backdoor.py", HERE / "training_attacks.py")
]
ATTACKS = ("accumulated-reversal", "badnets", "projected-gradient", "gradient-ascent")

SUITE = """
tasks = ["digits-mlp"]
attacks = ["none", {attacks}]
defenses = ["fedavg"]
seeds = [0]
[overrides]
rounds = {rounds}
[attack.badnets]
target = 3
share = 0.3
"""


@pytest.fixture(scope="module")
def loaded():
    """The registry with these attacks, until the last of these tests."""
    registry.load_installed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_entries", dict(registry._entries))
        assert registry.load_named(FILES) == ()
        yield


def federation(attack, rule="fedavg", seed=0, goals=(), parameters=None, **fields):
    task = registry.get(Kind.TASK, "digits-mlp").create(**{"rounds": 4} | fields)
    return Federation(task, create(attack, **parameters or {}), defense(rule), seed, goals=goals)


def create(attack, **parameters):
    return registry.get(Kind.ATTACK, attack).create(**parameters)


@pytest.mark.parametrize("file", FILES)
def test_a_file_imports_nothing_but_the_plugin_module_of_fflbench(file):
    lines = Path(file).read_text().splitlines()
    imported = {line.split()[1] for line in lines if line.lstrip().startswith(("import ", "from "))}
    assert {name for name in imported if name.startswith(("fflbench", "attacks", "defenses", "tests"))} == {
        "fflbench.plugin"
    }


def test_attacks_of_ones_own_run_in_a_suite_from_the_command_line(loaded, tmp_path):
    suite = tmp_path / "own.toml"
    suite.write_text(SUITE.format(attacks=", ".join(f'"{name}"' for name in ATTACKS), rounds=10))
    plugins = [word for file in FILES for word in ("--plugin", file)]
    words = ["run", str(suite), "--out", str(tmp_path), "--workers", "1", *plugins]
    done = subprocess.run([sys.executable, "-m", "fflbench", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    records = {record.labels["attack"]: record for record in fflbench.load(tmp_path)}
    assert set(records) == {"none", *ATTACKS}
    clean, backdoored = records.pop("none"), records.pop("badnets")
    for name, record in records.items():
        assert record.metrics["accuracy"] < clean.metrics["accuracy"], name
        assert record.metrics["attack_success_rate"] is None
    (goal,) = clean.configuration["goals"]
    assert goal["parameters"]["target"] == 3
    assert clean.metrics["attack_success_rate"] < 0.1
    assert backdoored.metrics["attack_success_rate"] > clean.metrics["attack_success_rate"] + 0.5
    assert backdoored.metrics["accuracy"] > 0.85
    assert "BadNets" in done.stdout or "badnets" in done.stdout


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("stop", [1, 3])
def test_an_attack_goes_on_from_a_checkpoint_to_the_same_bits(loaded, name, stop):
    whole, first, second = (federation(name, parameters={"share": 0.4}) for _ in range(3))
    whole.run()
    for _ in range(stop):
        first.run_round()
    state = first.state()
    first.run_round()  # Later rounds must not change a state that was taken before them.
    second.restore(state)
    second.run()
    assert second.weights.tobytes() == whole.weights.tobytes()
    assert second.history == whole.history
    assert {key: array.tobytes() for key, array in second.attack.memory.items()} == {
        key: array.tobytes() for key, array in whole.attack.memory.items()
    }


# With a memory


def test_the_memory_holds_what_attackers_saw_in_all_rounds(loaded):
    cell = federation("accumulated-reversal", parameters={"share": 0.4, "factor": 2.0})
    total = np.zeros(cell.model.columns.count)
    for _ in range(3):
        selected = cell.select()
        updates = cell.train(selected)
        hostile = np.isin(selected, cell.attackers)
        assert hostile.any()
        total += updates[hostile].mean(0)
        cell.poison(selected, updates)
        np.testing.assert_allclose(updates[hostile], np.tile(-2 * total, (hostile.sum(), 1)), rtol=1e-5, atol=1e-7)
        cell.round += 1
    np.testing.assert_allclose(cell.attack.memory["sum"], total, rtol=1e-6, atol=1e-9)


def test_a_second_federation_with_the_same_attack_begins_with_an_empty_memory(loaded):
    attack = create("accumulated-reversal", share=0.4)
    task = registry.get(Kind.TASK, "digits-mlp").create(rounds=2)
    cells = []
    for _ in range(2):
        cells.append(Federation(task, attack, defense("fedavg"), 0))
        cells[-1].run()
    assert cells[0].weights.tobytes() == cells[1].weights.tobytes()


# With a trigger


@pytest.mark.parametrize("task", ["digits-mlp", "digits-cnn"])
def test_only_attackers_train_on_stamped_images_and_the_data_set_stays_as_it_is(loaded, task):
    whole = registry.get(Kind.TASK, task).create(rounds=2)
    before = whole.data()
    images, labels = before.train.x.copy(), before.train.y.copy()
    cell = Federation(whole, create("badnets", share=0.4), defense("fedavg"), 0)
    honest = Federation(whole, create("none"), defense("fedavg"), 0)
    selected = cell.select()
    hostile = np.isin(selected, cell.attackers)
    updates, clean = cell.train(selected), honest.train(selected)
    np.testing.assert_array_equal(updates[~hostile], clean[~hostile])
    assert (updates[hostile] != clean[hostile]).any(1).all()
    pool, mine = cell.participants.data, np.concatenate([cell.participants.indices[who] for who in selected[hostile]])
    others = np.setdiff1d(np.arange(len(labels)), mine)
    stamped = (pool.x.numpy()[:, 0, -2:, -2:] == 1).all((1, 2))
    assert 0.4 < stamped[mine].mean() < 0.6
    np.testing.assert_array_equal(pool.x.numpy()[others], images[others])
    np.testing.assert_array_equal(pool.y.numpy()[others], labels[others])
    cell.run()
    for data in (cell.task.data(), before):
        np.testing.assert_array_equal(data.train.x, images)
        np.testing.assert_array_equal(data.train.y, labels)


def test_the_goal_is_stamped_images_of_other_classes_with_the_target_label(loaded):
    cell = federation("badnets", parameters={"target": 3, "share": 0.4})
    test = cell.task.data().test
    ((x, true, wanted),) = cell.evaluation.goals
    assert len(x) == (test.y != 3).sum()
    assert (x[..., -2:, -2:] == 1).all()
    assert (wanted == 3).all()
    assert not (true == 3).any()
    np.testing.assert_array_equal(x[..., :-2, :].numpy(), test.x[test.y != 3][..., :-2, :])


def test_a_model_without_attackers_is_scored_for_the_same_goal(loaded):
    goal = create("badnets", target=3)
    clean, attacked = federation("none", goals=[goal]), federation("badnets", parameters={"target": 3})
    for theirs, own in zip(clean.evaluation.goals[0], attacked.evaluation.goals[0], strict=True):
        assert torch.equal(theirs, own)


# With a training of its own


def test_updates_of_projected_training_stay_in_the_ball_and_others_do_not(loaded):
    cell = federation("projected-gradient", parameters={"share": 0.4, "radius": 0.3})
    selected = cell.select()
    norms = np.linalg.norm(cell.train(selected), axis=1)
    hostile = np.isin(selected, cell.attackers)
    np.testing.assert_allclose(norms[hostile], 0.3, rtol=1e-4)
    assert norms[~hostile].min() > 0.6


def test_projected_training_with_a_wide_ball_is_that_of_honest_participants_on_its_data(loaded):
    cell = federation("projected-gradient", parameters={"share": 0.4, "radius": 1e6})
    selected = cell.select()
    updates = cell.train(selected)
    np.testing.assert_allclose(
        updates, cell.participants.engine.train(cell.weights, selected, cell.round), rtol=1e-3, atol=2e-4
    )


def test_a_loop_of_ones_own_leads_to_the_update_that_it_computed(loaded):
    cell = federation("gradient-ascent", parameters={"share": 0.4, "steps": 1, "step": 0.7})
    selected = cell.select()
    updates = cell.train(selected)
    (place, *_) = np.flatnonzero(np.isin(selected, cell.attackers))
    train, own = cell.task.data().train, cell.participants.indices[selected[place]]
    cell.model.load(cell.weights)
    loss = F.cross_entropy(cell.model.model(torch.tensor(train.x[own])), torch.tensor(train.y[own]))
    gradient = torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(cell.model.model.parameters()))])
    np.testing.assert_allclose(updates[place], 0.7 * gradient / gradient.norm(), rtol=1e-3, atol=1e-6)


def test_training_of_ones_own_leaves_other_participants_alone(loaded):
    cells = [federation(name, parameters={"share": 0.4}) for name in ("gradient-ascent", "projected-gradient")]
    clean = federation("gaussian-noise", parameters={"share": 0.4})
    selected = clean.select()
    honest = ~np.isin(selected, clean.attackers)
    expected = clean.participants.engine.train(clean.weights, selected[honest], 0)
    for cell in cells:
        np.testing.assert_array_equal(cell.train(selected)[honest], expected)
