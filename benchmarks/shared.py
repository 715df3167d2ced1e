"""What workers share: the most memory that a run on two of them takes, beside one.

Every process counts with its share of each page, so that what two processes share counts once.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.engines import available
from benchmarks.timing import Ratio

SUITE = """
tasks = ["mnist-cnn"]
attacks = ["none"]
defenses = ["fedavg"]
seeds = [0, 1]
[overrides]
rounds = 2
"""


def ratios(*, peers: bool) -> Iterator[Ratio]:
    """Yield the memory of one worker as a share of that of two: at least two thirds."""
    if available("mnist-cnn"):
        load, two, one = os.getloadavg()[0], peak(2), peak(1)
        yield Ratio("mnist-cnn, peak memory, 2 workers", "1 worker", one, two, round(1 / 1.5, 3), load, "GB")


def peak(workers: int) -> float:
    """Return the most memory, in gigabytes, that a run and all its processes take at a time."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "own.toml").write_text(SUITE, "utf-8")
        command = [sys.executable, "-m", "fflbench", "run", "own.toml", "--workers", str(workers)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        run = subprocess.Popen(command, cwd=folder, start_new_session=True, **quiet)
        most = 0
        while run.poll() is None:
            most = max(most, _memory_of_group(run.pid))
            time.sleep(0.05)
    if run.returncode:
        sys.exit(f"{' '.join(command)} failed with exit code {run.returncode}")
    return most / 1e6


def _memory_of_group(group: int) -> int:
    """Kilobytes of all processes of a session."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == group:
                lines = (process / "smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total
