"""One cell: its record, and its checkpoints."""

import os
import time
from unittest.mock import Mock

import pytest

import fflbench as package
from fflbench.execution import run_cell as cells
from fflbench.execution.run_cell import CheckpointFile
from fflbench.records.manifest import results_versions
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse


def one_cell(**overrides):
    content = {
        "tasks": ["digits-mlp"],
        "attacks": ["label-flipping"],
        "defenses": ["foolsgold"],
        "seeds": [0],
        "overrides": {"rounds": 6, "average_last": 3, **overrides},
    }
    return plan(parse(content, "own", "own.toml"))[0]


class MemoryCheckpoint:
    """A place that holds these bytes."""

    def __init__(self, content):
        self.content = content

    def read_checkpoint(self):
        return self.content


@pytest.fixture
def checkpoint_every_round(monkeypatch):
    """Cells that checkpoint after every round."""
    monkeypatch.setattr(cells, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(cells, "CHECKPOINT_SHARE", float("inf"))


class Stop(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize("stop", [1, 4, 6])
def test_a_checkpointed_cell_goes_on_to_the_same_bits(tmp_path, checkpoint_every_round, stop):
    cell, file = one_cell(), tmp_path / "own.checkpoint.npz"
    whole = cells.run_cell(cell, "own")
    rounds = []

    def interrupted(step, _):
        rounds.append(step)
        if step == stop:
            raise Stop

    with pytest.raises(Stop):
        cells.run_cell(cell, "own", checkpoint=CheckpointFile(file), report=interrupted)
    assert file.is_file() is (stop > 1)
    again = cells.run_cell(cell, "own", checkpoint=CheckpointFile(file), report=lambda step, _: rounds.append(step))
    assert again.reproducible_content() == whole.reproducible_content()
    # The round in which it stopped was not yet kept.
    assert rounds == [*range(1, stop + 1), *range(stop, 7)]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-40] + b"x" * 40])
def test_a_damaged_checkpoint_is_as_good_as_none(tmp_path, checkpoint_every_round, damage):
    cell, file = one_cell(), tmp_path / "own.checkpoint.npz"
    whole = cells.run_cell(cell, "own", checkpoint=CheckpointFile(file))
    file.write_bytes(damage(file.read_bytes()))
    assert (
        cells.run_cell(cell, "own", checkpoint=CheckpointFile(file)).reproducible_content()
        == whole.reproducible_content()
    )


def test_a_checkpoint_of_other_versions_is_not_used(tmp_path, checkpoint_every_round, monkeypatch):
    cell, file, rounds = one_cell(), tmp_path / "own.checkpoint.npz", []
    cells.run_cell(cell, "own", checkpoint=CheckpointFile(file))
    monkeypatch.setattr("fflbench.records.manifest.RESULTS_VERSION", 99)
    cells.run_cell(cell, "own", checkpoint=CheckpointFile(file), report=lambda step, _: rounds.append(step))
    assert rounds[0] == 1


REMEMBERING = '''
"""Attackers who remember."""
import numpy as np
from fflbench.errors import ParameterError
from fflbench.federation import Attack
from fflbench.registration import attack

@attack("remembering", title="Remembering", knows=["own data"])
class Remembering(Attack):
    """Send the sum of all updates so far, reversed."""

    def poison_data(self, examples, task, round, rng):
        self.memory["begun"] = np.ones(1)
        return examples

    def poison_updates(self, known):
        before = self.memory.get("sum", np.zeros_like(known.weights))
        self.memory["sum"] = before + known.updates[0]
        return -self.memory["sum"][None] * self.memory["begun"].astype(np.float32)

@attack("numbering", title="Numbering", knows=["own data"])
class Numbering(Attack):
    """Keep something for each participant by its number, which a checkpoint would turn into a text."""

    def poison_updates(self, known):
        self.memory[int(known.participants[0])] = np.ones(1)
        return known.updates

@attack("long-winded", title="Long-winded", knows=["own data"])
class LongWinded(Attack):
    """Fail at length."""

    def poison_updates(self, known):
        raise ParameterError("x" * 10**7)

@attack("forgetful", title="Forgetful", knows=["own data"])
class Forgetful(Attack):
    """Keep what no checkpoint can hold."""

    def poison_updates(self, known):
        self.memory["rounds"] = [known.round]
        return known.updates
'''


@pytest.fixture
def own_attacks(tmp_path, own_registry):
    from fflbench import registry

    (tmp_path / "own_attacks.py").write_text(REMEMBERING)
    assert registry.load_named([str(tmp_path / "own_attacks.py")]) == ()


def own_attack(name):
    content = {"tasks": ["digits-mlp"], "attacks": [name], "defenses": ["median"], "seeds": [0]}
    return plan(parse({**content, "overrides": {"rounds": 6}}, "own", "own.toml"))[0]


def test_an_attack_goes_on_with_its_memory(tmp_path, own_attacks):
    cell, file, rounds = own_attack("remembering"), tmp_path / "own.checkpoint.npz", []
    with pytest.raises(cells.StoppedError):
        cells.run_cell(
            cell,
            "own",
            checkpoint=CheckpointFile(file),
            report=lambda step, _: rounds.append(step),
            stopping=lambda: len(rounds) == 3,
        )
    again = cells.run_cell(cell, "own", checkpoint=CheckpointFile(file))
    assert again.status == "done", again.error
    assert again.reproducible_content() == cells.run_cell(cell, "own").reproducible_content()


def test_memory_that_a_checkpoint_cannot_hold_is_refused_in_the_first_round(own_attacks):
    record = cells.run_cell(own_attack("forgetful"), "own")
    assert record.reason == 'the attack\'s memory["rounds"] must be an array of numbers'
    record = cells.run_cell(own_attack("numbering"), "own")
    assert record.reason.endswith("] must have a text as its name")


def test_an_error_at_length_is_cut_so_that_its_record_can_be_kept(own_attacks):
    assert len(cells.run_cell(own_attack("long-winded"), "own").json_text()) < 10**5


def test_a_named_pipe_in_the_place_of_a_checkpoint_is_as_good_as_none(tmp_path):
    os.mkfifo(tmp_path / "own.checkpoint.npz")
    assert (
        cells.run_cell(one_cell(rounds=1), "own", checkpoint=CheckpointFile(tmp_path / "own.checkpoint.npz")).status
        == "done"
    )


@pytest.mark.parametrize("flips", range(0, 400, 40))
def test_a_checkpoint_with_any_bit_flipped_is_as_good_as_none(tmp_path, flips):
    """Both what is stored and the archive's own directory, which numpy does not check."""
    cell, file, rounds = one_cell(rounds=3), tmp_path / "own.checkpoint.npz", []
    with pytest.raises(cells.StoppedError):
        cells.run_cell(
            cell,
            "own",
            checkpoint=CheckpointFile(file),
            report=lambda step, _: rounds.append(step),
            stopping=lambda: len(rounds) == 2,
        )
    content = file.read_bytes()

    def restored(content):
        restore = Mock()
        versions = {"cell": cell.id, **results_versions(cell.configuration)}
        cells._Checkpoint(MemoryCheckpoint(content), versions).resume(restore)
        return restore.called

    assert restored(content)
    for flip in range(flips, flips + 40):
        damaged = bytearray(content)
        damaged[flip * len(content) // 400] ^= 1 << (flip % 8)
        assert not restored(bytes(damaged))


COUNTING = '''
"""A measure that counts to ten."""
import numpy as np
from fflbench.measures import Measure, Metric, Outcome
from fflbench.registration import measure
from fflbench.types import State

@measure("counting", title="Counting")
class Counting(Measure):
    """Add up steps, and offer the sum after each."""

    metrics = (Metric(name="sum", title="sum", meaning="Of all steps."),)

    def step_count(self, task):
        return 10

    def run(self, context):
        self.__dict__["reached"], self.__dict__["sum"] = 0, np.zeros(1)

        def restore(state):
            if state.facts["step"] == 7:
                raise ValueError("bad luck")
            self.__dict__.update(reached=state.facts["step"], sum=state.arrays["sum"])

        context.resume(restore)
        for step in range(self.reached + 1, 11):
            self.__dict__["sum"] = self.sum + step
            context.report_step(step, state=lambda: State({"sum": self.sum}, {"step": step}))
        return Outcome(metrics={"sum": float(self.sum[0])}, history=[], facts={})
'''


@pytest.mark.parametrize(("stop", "first"), [(3, 4), (7, 1)])
def test_any_measure_resumes_from_what_it_kept_unless_restoring_fails(tmp_path, own_registry, stop, first):
    from fflbench import registry

    (tmp_path / "counting.py").write_text(COUNTING)
    assert registry.load_named([str(tmp_path / "counting.py")]) == ()
    content = {"tasks": ["digits-mlp"], "defenses": ["median"], "seeds": [0], "measure": {"use": "counting"}}
    cell, file = plan(parse(content, "own", "own.toml"))[0], tmp_path / "own.checkpoint.npz"
    steps = []

    def report(step, _):
        steps.append(step)

    with pytest.raises(cells.StoppedError):
        cells.run_cell(cell, "own", checkpoint=CheckpointFile(file), report=report, stopping=lambda: len(steps) == stop)
    record = cells.run_cell(cell, "own", checkpoint=CheckpointFile(file), report=report)
    assert record.metrics == {"sum": 55.0}, record.error
    assert steps == [*range(1, stop + 1), *range(first, 11)]


def test_the_seconds_of_a_cell_include_those_before_it_was_stopped(tmp_path):
    cell, file, rounds = one_cell(), tmp_path / "own.checkpoint.npz", []

    def report(step, _):
        rounds.append(step)
        if len(rounds) == 2:
            time.sleep(1.0)

    with pytest.raises(cells.StoppedError):
        cells.run_cell(cell, "own", checkpoint=CheckpointFile(file), report=report, stopping=lambda: len(rounds) == 3)
    assert cells.run_cell(cell, "own", checkpoint=CheckpointFile(file)).seconds["total"] > 1.0
    assert cells.run_cell(cell, "own").seconds["total"] < 1.0


def test_a_checkpoint_of_another_cell_is_not_used(tmp_path, checkpoint_every_round):
    file, rounds = tmp_path / "own.checkpoint.npz", []
    cells.run_cell(one_cell(), "own", checkpoint=CheckpointFile(file))
    cells.run_cell(
        one_cell(batch_size=7), "own", checkpoint=CheckpointFile(file), report=lambda step, _: rounds.append(step)
    )
    assert rounds == [1, 2, 3, 4, 5, 6]


def test_short_cells_do_not_checkpoint(tmp_path):
    cells.run_cell(one_cell(), "own", checkpoint=CheckpointFile(tmp_path / "own.checkpoint.npz"))
    assert not list(tmp_path.iterdir())


def test_the_manifest_says_with_what_it_was_made():
    made = cells.run_cell(one_cell(rounds=1), "own").manifest
    assert made["results"] == {
        "core": 2,
        "task": 1,
        "measure": 4,
        "attack": 1,
        "transport": 1,
        "rule": 1,
        "engine": 1,
    }
    assert made["fflbench"] == package.__version__
    assert {"numpy", "torch"} <= set(made["libraries"])
    assert made["threads"] == 1
    assert made["processor"]


def test_a_cell_that_is_asked_to_stop_keeps_its_state_and_goes_on_from_there(tmp_path):
    cell, file, rounds = one_cell(), tmp_path / "own.checkpoint.npz", []

    def report(step, _):
        rounds.append(step)

    with pytest.raises(cells.StoppedError):
        cells.run_cell(cell, "own", checkpoint=CheckpointFile(file), report=report, stopping=lambda: len(rounds) == 3)
    again = cells.run_cell(cell, "own", checkpoint=CheckpointFile(file), report=report)
    assert rounds == [1, 2, 3, 4, 5, 6]
    assert again.reproducible_content() == cells.run_cell(cell, "own").reproducible_content()


def test_a_cell_that_is_asked_to_stop_in_its_last_round_ends(tmp_path):
    rounds = []
    record = cells.run_cell(
        one_cell(),
        "own",
        checkpoint=CheckpointFile(tmp_path / "own.checkpoint.npz"),
        report=lambda step, _: rounds.append(step),
        stopping=lambda: len(rounds) == 6,
    )
    assert record.status == "done"


def test_a_cell_whose_state_cannot_be_kept_goes_on(checkpoint_every_round):
    class Full:
        def read_checkpoint(self):
            raise FileNotFoundError

        def write_checkpoint(self, content):
            raise OSError(28, "No space left on device")

    with pytest.warns(UserWarning, match="could not be saved: No space left"):
        record = cells.run_cell(one_cell(), "own", checkpoint=Full())
    assert record.reproducible_content() == cells.run_cell(one_cell(), "own").reproducible_content()


def test_checkpoints_that_take_long_become_rare(tmp_path, monkeypatch):
    """Each takes ten seconds, a round one: one in twenty seconds of work would be half the time."""
    monkeypatch.setattr(cells, "CHECKPOINT_SECONDS", 20.0)
    now, written = [0.0], []
    monkeypatch.setattr(cells.time, "monotonic", lambda: now[0])

    class Slow:
        def read_checkpoint(self):
            raise FileNotFoundError

        def write_checkpoint(self, content):
            now[0] += 10
            written.append(now[0])

    def report(step, _):
        now[0] += 1

    cells.run_cell(one_cell(rounds=500), "own", checkpoint=Slow(), report=report)
    assert written == [30.0, 240.0, 450.0]
