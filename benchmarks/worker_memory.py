"""Peak memory of a run on two workers, relative to one.

Every process counts with its proportional share of each page, so that shared pages count once.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.engines import has_task_data
from benchmarks.timing import Ratio

SUITE = """
tasks = ["mnist-cnn"]
attacks = ["none"]
defenses = ["fedavg"]
seeds = [0, 1]
[overrides]
rounds = 2
"""


def measure_ratios(*, peers: bool) -> Iterator[Ratio]:
    """Yield the memory of one worker as a share of that of two: at least two thirds."""
    if has_task_data("mnist-cnn"):
        load, two, one = os.getloadavg()[0], peak_memory_of_run(2), peak_memory_of_run(1)
        yield Ratio("mnist-cnn, peak memory, 2 workers", "1 worker", one, two, round(1 / 1.5, 3), load, "GB")


def peak_memory_of_run(workers: int) -> float:
    """Return the peak memory, in gigabytes, of a run with all its processes."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "own.toml").write_text(SUITE, "utf-8")
        command = [sys.executable, "-m", "fflbench", "run", "own.toml", "--workers", str(workers)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        run = subprocess.Popen(command, cwd=folder, start_new_session=True, **quiet)
        most = 0
        while run.poll() is None:
            most = max(most, _session_memory(run.pid))
            time.sleep(0.05)
    if run.returncode:
        sys.exit(f"{' '.join(command)} failed with exit code {run.returncode}")
    return most / 1e6


def _session_memory(session: int) -> int:
    """Return the kilobytes of all processes of a session."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == session:
                lines = (process / "smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total
