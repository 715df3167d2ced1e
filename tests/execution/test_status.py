"""What a run says of itself, on a clock of the test's own."""

import pytest

from fflbench.execution import status
from fflbench.execution.cell import record_of
from fflbench.execution.jobs import Finished, Progress, Returned, Started, Stopped
from fflbench.execution.status import Watch
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(status.time, "monotonic", lambda: now[0])

    def pass_(seconds):
        now[0] += seconds

    return pass_


def cells(count):
    content = {"tasks": ["digits-mlp"], "attacks": ["none"], "defenses": ["fedavg"], "seeds": list(range(count))}
    return plan(parse(content, "own", "own.toml"))


def watch(tmp_path, cells, rounds=10):
    each = [cell.id for cell in cells]
    return Watch("own", "fflbench run own", len(cells) + 5, dict.fromkeys(each, rounds), tmp_path / status.FILE)


def failed(cell):
    facts = {"run_alone": "fflbench run it"}
    return Finished(cell, record_of(cell, "own", "cpu", (), status="failed", error="because", facts=facts))


def test_cells_are_counted_and_the_time_left_follows_from_what_is_done(tmp_path, clock):
    first, second, third = cells(3)
    follows = watch(tmp_path, [first, second, third])
    follows.hear(Started(first, "worker 1"))
    follows.hear(Started(second, "worker 2"))
    follows.hear(Progress(first, 1, None))
    follows.hear(Progress(second, 1, None))
    clock(10)
    now = follows.hear(Progress(first, 5, 0.5))
    assert (now.cells, now.before, now.waiting, len(now.running)) == (8, 5, 1, 2)
    now = follows.hear(failed(second))
    # One and a half of three took ten seconds.
    assert now.left == pytest.approx(10)
    assert now.per_minute == pytest.approx(6)
    assert [failure.reason for failure in now.failed] == ["because"]
    assert status.read(tmp_path) == now
    assert str(now) == "1 running, 1 failed, 6.0 a minute, 10 seconds left"


def test_rounds_that_were_played_before_do_not_make_it_look_fast(tmp_path, clock):
    (cell,) = cells(1)
    follows = watch(tmp_path, [cell], rounds=1000)
    follows.hear(Started(cell, "worker 1"))
    follows.hear(Progress(cell, 901, None))
    clock(50)
    assert follows.hear(Progress(cell, 950, None)).left == pytest.approx(50)


def test_a_cell_that_comes_back_is_waiting_again(tmp_path, clock):
    (cell,) = cells(1)
    follows = watch(tmp_path, [cell])
    follows.hear(Started(cell, "node a"))
    now = follows.hear(Returned(cell, "node a is gone"))
    assert (now.waiting, now.running) == (1, [])
    # What it says later counts for nobody.
    follows.hear(Progress(cell, 3, 0.5))
    assert follows.now.running == []


def test_a_run_that_never_began_leaves_what_the_last_one_said(tmp_path, clock):
    follows = watch(tmp_path, cells(1))
    assert status.read(tmp_path).state == "starting"
    follows.end("stopped")
    assert status.read(tmp_path) is None
    begun = watch(tmp_path, cells(1))
    begun.hear(None)
    assert status.read(tmp_path).state == "running"
    begun.end("finished")
    watch(tmp_path, cells(2)).end("stopped")
    assert (status.read(tmp_path).state, status.read(tmp_path).waiting) == ("finished", 1)


def test_cells_that_are_expected_to_take_long_weigh_more(tmp_path, clock):
    short, long = cells(2)
    follows = watch(tmp_path, [short, long])
    # What came before the first cell is not the cells' time.
    clock(60)
    follows.expect({short.id: 1.0, long.id: 9.0})
    follows.hear(Started(short, "worker 1"))
    clock(10)
    assert follows.hear(failed(short)).left == pytest.approx(90)


def test_a_stop_says_whether_the_state_is_kept():
    assert str(Stopped(True)) == "stopped, and its state is kept"
    assert str(Stopped(False)) == "stopped; its state could not be kept"
