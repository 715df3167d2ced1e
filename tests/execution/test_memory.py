import subprocess
import sys

import pytest

from fflbench import registry
from fflbench.errors import ParameterError
from fflbench.execution import durations_and_sizes, estimates, local_executor, machine_resources
from fflbench.execution import run_suite as running
from fflbench.execution.jobs_and_events import Finished, Job, RunSettings, Started
from fflbench.records.store import Store
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

GB = 10**9


@pytest.mark.parametrize(
    ("text", "size"),
    [("16GB", 16 * GB), ("1.5 gb", 1.5 * GB), ("500M", 500 * 10**6), ("2000000000", 2 * GB), ("1TB", 1000 * GB)],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert durations_and_sizes.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GB", "0", "0.5", "16 bananas", "1e9", "GB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ParameterError, match="is not a memory size such as 16GB"):
        durations_and_sizes.parse_bytes(text)


def cells(count=4, **content):
    common = {"tasks": ["digits-mlp"], "defenses": ["fedavg"], "seeds": list(range(count))}
    if "measure" not in content:
        common |= {"attacks": ["none"], "overrides": {"rounds": 2}}
    return plan(parse(common | content, "own", "own.toml"))


def execute_and_count_running(tmp_path, jobs, **options):
    """Return all events, and the largest number of cells that ran at the same time."""
    running, most, finished = set(), 0, []
    for event in local_executor.execute(jobs, RunSettings("own", Store(tmp_path), **options)):
        if isinstance(event, Started):
            running.add(event.cell.id)
            most = max(most, len(running))
        if isinstance(event, Finished):
            running.discard(event.cell.id)
            finished.append(event.record)
    return finished, most


def jobs(memory=0, alone=False, **content):
    content = {"overrides": {"rounds": 40}} | content
    return [Job(cell, memory, alone) for cell in cells(**content)]


def test_cells_run_side_by_side_where_they_fit(tmp_path):
    found, most = execute_and_count_running(tmp_path, jobs(memory=4 * GB), workers=2, memory_limit=8 * GB)
    assert [record.status for record in found] == ["done"] * 4
    assert most == 2


def test_cells_that_do_not_fit_together_run_one_after_the_other(tmp_path):
    found, most = execute_and_count_running(tmp_path, jobs(memory=5 * GB), workers=2, memory_limit=8 * GB)
    assert [record.status for record in found] == ["done"] * 4
    assert most == 1


def test_cells_that_want_to_be_alone_are(tmp_path):
    found, most = execute_and_count_running(tmp_path, jobs(alone=True), workers=2)
    assert [record.status for record in found] == ["done"] * 4
    assert most == 1


def test_a_cell_that_can_never_fit_fails_at_once_and_the_others_run(tmp_path):
    small, large = jobs(count=1)[0], jobs(count=2, memory=9 * GB)[1]
    found, _ = execute_and_count_running(tmp_path, [small, large], workers=2, memory_limit=8 * GB)
    assert [record.status for record in found] == ["failed", "done"]
    assert found[0].error == ("needs more memory than there is: about 9.0 GB, and the limit (--memory-limit) is 8.0 GB")
    assert found[0].id == large.cell.id


def test_a_large_model_needs_what_its_updates_take():
    (cell,) = cells(1, tasks=["cifar10-vgg16"], measure={"use": "runtime", "updates": 100})
    (needs,) = estimates.estimate_memory([cell])
    assert 5.9 * GB < needs < 9 * GB
    (small,) = estimates.estimate_memory(cells(1))
    assert small < GB
    per_round = registry.get(Kind.TASK, "cifar10-vgg16").create().per_round
    (training,) = estimates.estimate_memory(cells(1, tasks=["cifar10-vgg16"]))
    assert training > per_round * 4 * 14_736_714


def test_a_container_or_a_batch_job_may_have_less_than_the_machine(tmp_path, monkeypatch):
    whole = machine_resources.usable_memory()
    monkeypatch.setattr(machine_resources, "GROUPS", tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    assert machine_resources.usable_memory() >= whole
    (tmp_path / "memory.max").write_text("1000000000\n")
    assert machine_resources.usable_memory() == GB
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.limit_in_bytes").write_text("500000000\n")
    assert machine_resources.usable_memory() == GB // 2


def test_a_process_may_use_fewer_cores_than_there_are():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    code += "from fflbench.execution.machine_resources import usable_cores; print(usable_cores())"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout == "1\n"


def test_a_cell_that_is_refused_takes_nothing_away(tmp_path):
    (tmp_path / "own.toml").write_text(SUITE)
    (done,) = running.run(str(tmp_path / "own.toml"), tmp_path, workers=1)
    assert done.status == "done"
    checkpoint = tmp_path / "own" / f"{done.id}.checkpoint.npz"
    file = tmp_path / "own" / f"{done.id}.json"
    (refused,) = running.run(str(tmp_path / "own.toml"), tmp_path, workers=1, force=True, memory_limit=1000)
    assert refused.status == "failed"
    assert '"done"' in file.read_text()
    file.unlink()
    checkpoint.write_bytes(b"hours of work")
    running.run(str(tmp_path / "own.toml"), tmp_path, workers=1, memory_limit=1000)
    assert checkpoint.exists()
    assert '"failed"' in file.read_text()


def test_a_checkpoint_that_a_kill_left_beside_a_record_is_removed(tmp_path):
    (tmp_path / "own.toml").write_text(SUITE)
    (done,) = running.run(str(tmp_path / "own.toml"), tmp_path, workers=1)
    checkpoint = tmp_path / "own" / f"{done.id}.checkpoint.npz"
    checkpoint.write_bytes(b"left over")
    running.run(str(tmp_path / "own.toml"), tmp_path, workers=1)
    assert not checkpoint.exists()


SUITE = """
tasks = ["digits-mlp"]
attacks = ["none"]
defenses = ["fedavg"]
seeds = [0]
overrides = { rounds = 1 }
"""
