"""Real processes: the command as a user runs it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
from fflbench.federation import Defense
from fflbench.registry import defense

@defense("raises", title="Raises")
def raises(updates):
    """Raises."""
    raise RuntimeError("this rule always fails")

@defense("dies", title="Dies")
def dies(updates):
    """Takes its process down."""
    os.kill(os.getpid(), signal.SIGKILL)

@defense("slow", title="Slow")
def slow(updates):
    """Takes its time."""
    time.sleep(0.3)
    return updates.mean(0)

@defense("unspeakable", title="Unspeakable")
class Unspeakable(Defense):
    """Tells what JSON cannot hold."""
    def aggregate(self, view):
        return view.updates.mean(0)
    def flags(self):
        return [float("nan")]

@defense("wordless", title="Wordless")
def wordless(updates):
    """Fails without a word."""
    raise ParameterError("")

@defense("explodes", title="Explodes")
def explodes(updates):
    """Throws the model far away."""
    return np.full(updates.shape[1], 1e18, np.float32)
'''


class Command:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.suite()
        (folder / "plugin.py").write_text(PLUGIN)

    def suite(self, text=SUITE, rounds=2, name="own"):
        (self.folder / f"{name}.toml").write_text(text.format(rounds=rounds))

    def start(self, *arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "fflbench", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Tests that run in the background inherit that Ctrl-C is ignored; a user's terminal does not ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def __call__(self, *arguments, code=0):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=240)
        assert process.returncode == code, f"exit code {process.returncode}\n{out}\n{err}"
        assert "Traceback" not in err
        return out, err

    def records(self, suite="own", out="results"):
        from fflbench.records import load

        return {record.id: record for record in load(self.folder / out / suite)}

    def wait_for(self, process, count, suite="own"):
        """Until so many records stand."""
        end = time.monotonic() + 120
        while time.monotonic() < end and process.poll() is None:
            if len(list((self.folder / "results" / suite).glob("*.json"))) >= count:
                return
            time.sleep(0.02)


def kill_group(process, number=signal.SIGKILL):
    os.killpg(process.pid, number)


@pytest.fixture
def fflbench(tmp_path):
    return Command(tmp_path)
