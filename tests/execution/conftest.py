"""Real processes: the command as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fflbench.execution import run_status

SUITE = """
tasks = ["digits-mlp"]
attacks = ["none", "label-flipping"]
defenses = ["fedavg", "median", "foolsgold"]
seeds = [0, 1]
[overrides]
rounds = {rounds}
"""

PLUGIN = '''
"""Rules that misbehave."""
import os, signal, time
import numpy as np
from fflbench.errors import ParameterError
from fflbench.federation import Rule
from fflbench.registration import rule

@rule("raises", title="Raises")
def raises(updates):
    """Raises."""
    raise RuntimeError("this rule\\nalways fails")

@rule("dies", title="Dies")
def dies(updates):
    """Takes its process down."""
    os.kill(os.getpid(), signal.SIGKILL)

@rule("slow", title="Slow")
def slow(updates):
    """Takes its time."""
    time.sleep(0.1)
    return updates.mean(0)

@rule("slower", title="Slower")
def slower(updates):
    """Takes more than a second a round, unless there is a hurry."""
    time.sleep(0 if "HURRY" in os.environ else 1.2)
    return updates.mean(0)

@rule("hangs", title="Hangs")
def hangs(updates):
    """Never answers."""
    while True:
        pass

@rule("hungry", title="Hungry")
def hungry(updates):
    """Eats all memory."""
    eaten = []
    while True:
        eaten.append(np.ones(10**7))

@rule("unspeakable", title="Unspeakable")
class Unspeakable(Rule):
    """Tells what JSON cannot hold."""
    def aggregate(self, view, rng):
        return view.rows.mean(0)
    def flags(self):
        return [float("nan")]

@rule("undecodable", title="Undecodable")
def undecodable(updates):
    """Stumbles over a file name that is no text."""
    raise ValueError(os.fsdecode(b"caf\\xe9.csv"))

@rule("wordless", title="Wordless")
def wordless(updates):
    """Fails without a word."""
    raise ParameterError("")

@rule("explodes", title="Explodes")
def explodes(updates):
    """Throws the model far away."""
    return np.full(updates.shape[1], 1e18, np.float32)
'''


class Command:
    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, []
        self.suite()
        (folder / "plugin.py").write_text(PLUGIN)

    def suite(self, text=SUITE, rounds=2, name="own"):
        (self.folder / f"{name}.toml").write_text(text.format(rounds=rounds))

    def start(self, *arguments, before=lambda: None, **environment):
        """Start the command in its own process group; `before` is called there first."""

        def begin():
            # Tests that run in the background inherit that Ctrl-C is ignored; a user's terminal does not ignore it.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            before()

        process = subprocess.Popen(
            [sys.executable, "-m", "fflbench", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=begin,
            env=os.environ | environment,
        )
        self.started.append(process)
        return process

    def clean_up(self):
        """Kill all processes that the test started."""
        for process in self.started:
            with suppress(ProcessLookupError):
                kill_group(process)
            process.communicate()

    def __call__(self, *arguments, code=0, **options):
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=240)
        assert process.returncode == code, f"exit code {process.returncode}\n{out}\n{err}"
        assert "Traceback" not in err
        return out, err

    def records(self, suite="own", out="results"):
        from fflbench import load

        return {record.id: record for record in load(self.folder / out / suite)}

    def wait_for_records(self, process, count, out="results"):
        """Wait until a run has written a number of records."""
        self.wait_until(process, lambda: len(list((self.folder / out / "own").glob("*.json"))) >= count)

    def wait_until(self, process, happened):
        """Wait until a condition holds, or the command has ended."""
        end = time.monotonic() + 120
        while time.monotonic() < end and process.poll() is None:
            if happened():
                return
            time.sleep(0.02)

    def status(self, out="results"):
        """The status that the run has written."""
        return run_status.read_run_status(self.folder / out / "own")


def result_texts(records):
    """Results of records as text, which must not depend on how cells were run."""
    return {record.id: json.dumps(record.reproducible_content()) for record in records.values()}


def kill_group(process, number=signal.SIGKILL):
    os.killpg(process.pid, number)


def running_cells(fflbench):
    """The cells that are running now."""
    now = fflbench.status()
    return now.running if now else []


def rounds_done(fflbench):
    """The number of rounds that every running cell has done."""
    return min((each.round for each in running_cells(fflbench)), default=0)


def all_processes_end(process):
    """Whether every process that a command started is gone soon."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            kill_group(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def fflbench(tmp_path):
    command = Command(tmp_path)
    yield command
    command.clean_up()
