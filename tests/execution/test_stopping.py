"""Runs that are stopped or whose driver dies: real processes, real signals."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time

import pytest

from fflbench.execution.run_suite import stop_on_signals
from tests.execution.conftest import SUITE, all_processes_end, kill_group, result_texts, rounds_done, running_cells


def test_ctrl_c_stops_at_once_keeps_what_is_finished_and_says_how_to_go_on(fflbench):
    fflbench.suite(rounds=300)
    process = fflbench.start("run", "own.toml")
    fflbench.wait_for_records(process, 2)
    kill_group(process, signal.SIGINT)
    # Alone on the machine it takes well under two seconds; what matters here is that it does not wait for a cell.
    assert process.wait(timeout=15) == 130
    _, err = process.communicate(timeout=60)
    assert "are finished and kept; the same command runs the rest" in err
    assert "Traceback" not in err
    kept = fflbench.records()
    assert 2 <= len(kept) < 12
    assert all_processes_end(process)


@pytest.mark.parametrize("delay", [0.3, 0.8, 1.5, 2.5])
def test_ctrl_c_while_starting_is_no_traceback_either(fflbench, delay):
    process = fflbench.start("run", "own.toml")
    time.sleep(delay)
    kill_group(process, signal.SIGINT)
    # Before Python has begun, the signal itself ends it; before the command has, Typer does.
    assert process.wait(timeout=15) in (-signal.SIGINT, 0, 1, 130)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert all_processes_end(process)


def test_workers_end_with_their_driver(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["slow"]'), rounds=1000)
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py")
    fflbench.wait_until(process, lambda: running_cells(fflbench))
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert all_processes_end(process)


def test_stopped_once_cells_keep_their_state_and_go_on_from_there(fflbench):
    text = SUITE.replace('["fedavg", "median", "foolsgold"]', '["slow"]').replace('"none", ', "")
    fflbench.suite(text, rounds=30)
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py", "--workers", "2")
    fflbench.wait_until(process, lambda: rounds_done(fflbench) >= 5)
    kill_group(process, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "stopping: no cell starts any more" in err
    assert err.count("stopped; its state is saved") == 2
    assert "stopped: 0 of 2 cells are finished and kept; the same command runs the rest" in err
    assert len(list((fflbench.folder / "results/own").glob("*.checkpoint.npz"))) == 2
    message, _ = fflbench("status", "results/own")
    assert "results/own: stopped; to resume: fflbench run own.toml --plugin plugin.py --workers 2" in message
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py", "--workers", "2", "--log-json")
    _, err = process.communicate(timeout=120)
    rounds = [message["round"] for message in map(json.loads, err.splitlines()) if message["event"] == "progress"]
    assert rounds[0] > 5
    assert not list((fflbench.folder / "results/own").glob("*.checkpoint.npz"))
    fflbench("run", "own.toml", "--plugin", "plugin.py", "--out", "undisturbed")
    assert result_texts(fflbench.records()) == result_texts(fflbench.records(out="undisturbed"))


def test_a_batch_systems_sigterm_is_as_good_as_ctrl_c(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["slow"]'), rounds=1000)
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py", "--workers", "2")
    fflbench.wait_until(process, lambda: rounds_done(fflbench) >= 2)
    # To all processes of the job, as batch systems do.
    kill_group(process, signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.count("stopped; its state is saved") == 2


class SignalledWhileItIsSet(threading.Event):
    """An event during whose `set`, which holds a lock, another signal arrives."""

    entered = 0

    def set(self):
        self.entered += 1
        signal.raise_signal(signal.SIGTERM)
        super().set()


def test_a_signal_in_the_middle_of_another_does_not_wait_for_it():
    stopping = SignalledWhileItIsSet()
    with stop_on_signals(stopping):
        signal.raise_signal(signal.SIGTERM)
        assert stopping.is_set()
        assert stopping.entered == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def own_terminal():
    """Make the terminal that of the process, which hears of its end even if its parent ignores that."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_terminal_shows_bars_and_may_close(fflbench):
    """It says so once or twice: bash tells its jobs, and the kernel whoever is left."""
    # So many cells that a busy machine cannot have finished them when the terminal closes.
    text = SUITE.replace('["fedavg", "median", "foolsgold"]', '["fedavg", "slow"]').replace("[0, 1]", "[0, 1, 2, 3]")
    fflbench.suite(text, rounds=100)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fflbench", "run", "own.toml", "--plugin", "plugin.py", "--workers", "2"]
    process = subprocess.Popen(
        command,
        cwd=fflbench.folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=own_terminal,
        env=os.environ | {"COLUMNS": "80", "LINES": "20", "TERM": "xterm"},
    )
    fflbench.started.append(process)
    os.close(theirs)
    shown = ""

    def complete():
        nonlocal shown
        while select.select([ours], [], [], 0)[0]:
            shown += re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", os.read(ours, 65536).decode("utf-8", "replace"))
        return all(re.search(part, shown) for part in SHOWN)

    def both_slow():
        """Those come first, as the longest: the second two, once the first two have ended."""
        return (
            complete()
            and rounds_done(fflbench)
            and ["slow" in each.name for each in running_cells(fflbench)] == [True, True]
        )

    fflbench.wait_until(process, both_slow)
    assert both_slow(), shown[-2000:]
    os.close(ours)
    time.sleep(0.005)
    os.kill(process.pid, signal.SIGHUP)
    # Python's own, where its last words find no reader.
    assert process.wait(timeout=20) in (130, 120)
    assert fflbench.status().state == "stopped"
    assert len(list((fflbench.folder / "results/own").glob("*.checkpoint.npz"))) == 2
    assert all_processes_end(process)


SHOWN = (
    r"cells: 2 running +[━╸╺]{13} +\d+/16 +[\w ]+ left",
    r"…( ·)?( robustness ·)? (none|label-flipping) · slow · seed [0-3] +[━╸╺]{13} +\d+/100 accuracy [\d.]+%",
)


def test_stopped_twice_it_stops_at_once(fflbench):
    fflbench.suite(SUITE.replace('["fedavg", "median", "foolsgold"]', '["median", "hangs"]'), rounds=2)
    # What never answers is estimated as the longest, and comes first.
    process = fflbench.start("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", "--workers", "3")
    fflbench.wait_for_records(process, 2)
    kill_group(process, signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=3)
    assert fflbench.status().state == "stopping"
    kill_group(process, signal.SIGINT)
    _, err = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "stopped: 2 of 4 cells are finished and kept" in err
    assert "Traceback" not in err
    assert all_processes_end(process)
    assert len(fflbench.records()) == 2
