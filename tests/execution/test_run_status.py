"""Status of a run, on a clock of the test's own."""

import pytest

from fflbench.execution import run_status
from fflbench.execution.jobs_and_events import Finished, Interrupted, Progress, Started, Stopped
from fflbench.execution.run_cell import make_record
from fflbench.execution.run_status import StatusTracker
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(run_status.time, "monotonic", lambda: now[0])

    def pass_(seconds):
        now[0] += seconds

    return pass_


def cells(count):
    content = {"tasks": ["digits-mlp"], "attacks": ["none"], "defenses": ["fedavg"], "seeds": list(range(count))}
    return plan(parse(content, "own", "own.toml"))


def status_tracker(tmp_path, cells, rounds=10):
    each = [cell.id for cell in cells]
    return StatusTracker(
        "own", "fflbench run own", len(cells) + 5, dict.fromkeys(each, rounds), tmp_path / run_status.FILE
    )


def failed(cell):
    facts = {"run_alone": "fflbench run it"}
    return Finished(cell, make_record(cell, "own", "cpu", (), status="failed", error="because", facts=facts))


def test_cells_are_counted_and_the_time_left_tracker_from_what_is_done(tmp_path, clock):
    first, second, third = cells(3)
    tracker = status_tracker(tmp_path, [first, second, third])
    tracker.update(Started(first, "worker 1"))
    tracker.update(Started(second, "worker 2"))
    tracker.update(Progress(first, 1, None))
    tracker.update(Progress(second, 1, None))
    clock(10)
    now = tracker.update(Progress(first, 5, 0.5))
    assert (now.cells, now.before, now.waiting, len(now.running)) == (8, 5, 1, 2)
    now = tracker.update(failed(second))
    # One and a half of three took ten seconds.
    assert now.left == pytest.approx(10)
    assert now.per_minute == pytest.approx(6)
    assert [failure.reason for failure in now.failed] == ["because"]
    assert run_status.read_run_status(tmp_path) == now
    assert str(now) == "1 running, 1 failed, 6.0 per minute, 10 seconds left"


def test_rounds_that_were_played_before_do_not_make_it_look_fast(tmp_path, clock):
    (cell,) = cells(1)
    tracker = status_tracker(tmp_path, [cell], rounds=1000)
    tracker.update(Started(cell, "worker 1"))
    tracker.update(Progress(cell, 901, None))
    clock(50)
    assert tracker.update(Progress(cell, 950, None)).left == pytest.approx(50)


def test_a_cell_that_comes_back_is_waiting_again(tmp_path, clock):
    (cell,) = cells(1)
    tracker = status_tracker(tmp_path, [cell])
    tracker.update(Started(cell, "node a"))
    now = tracker.update(Interrupted(cell, "node a is gone"))
    assert (now.waiting, now.running) == (1, [])
    # What it says later counts for nobody.
    tracker.update(Progress(cell, 3, 0.5))
    assert tracker.now.running == []


def test_a_run_that_never_began_leaves_what_the_last_one_said(tmp_path, clock):
    tracker = status_tracker(tmp_path, cells(1))
    assert run_status.read_run_status(tmp_path).state == "starting"
    tracker.end("stopped")
    assert run_status.read_run_status(tmp_path) is None
    begun = status_tracker(tmp_path, cells(1))
    begun.update(None)
    assert run_status.read_run_status(tmp_path).state == "running"
    begun.end("finished")
    status_tracker(tmp_path, cells(2)).end("stopped")
    assert (run_status.read_run_status(tmp_path).state, run_status.read_run_status(tmp_path).waiting) == ("finished", 1)


def test_cells_that_are_expected_to_take_long_weigh_more(tmp_path, clock):
    short, long = cells(2)
    tracker = status_tracker(tmp_path, [short, long])
    # What came before the first cell is not the cells' time.
    clock(60)
    tracker.expect({short.id: 1.0, long.id: 9.0})
    tracker.update(Started(short, "worker 1"))
    clock(10)
    assert tracker.update(failed(short)).left == pytest.approx(90)


def test_a_stop_says_whether_the_state_is_kept():
    assert str(Stopped(True)) == "stopped; its state is saved"
    assert str(Stopped(False)) == "stopped; its state could not be saved"
