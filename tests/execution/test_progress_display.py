"""Bars of a run on terminals of several widths."""

import io
import re

import pytest

from fflbench.execution.jobs_and_events import Progress
from fflbench.execution.progress_display import open_display
from fflbench.execution.run_status import FailedCell, RunningCell, RunStatus
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

LONG = "digits-mlp · robustness · gaussian-noise · fragment-exchange + clipping + median · strategy = 2 · seed 0"
BAR = "[━╸╺]"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def bars(monkeypatch):
    """Return the last lines that a run displays at a width: all cells, one with a long name, one with a short one."""

    def shown(width):
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        for name, value in {"COLUMNS": str(width), "LINES": "24", "TERM": "xterm"}.items():
            monkeypatch.setenv(name, value)
        content = {"tasks": ["digits-mlp"], "attacks": ["none"], "defenses": ["fedavg"], "seeds": [0]}
        (cell,) = plan(parse(content, "own", "own.toml"))
        running = [
            RunningCell(cell=name, name=name, where="worker 1", rounds=100)
            for name in (LONG, "digits-mlp · runtime · ffl · seed 0")
        ]
        running.append(RunningCell(cell=cell.id, name=str(cell), where="worker 3", rounds=100))
        now = RunStatus(
            **{"suite": "own", "command": "", "host": "", "process": 1, "cells": 1200, "before": 0, "done": 1000},
            running=running,
            failed=[FailedCell(cell="c", name="c", reason="r", command="")],
            **{"seconds": 6000.0, "left": 8.0},
        )
        with open_display() as display:
            display.show(None, now)
            display.show(Progress(cell, 50, 0.931), now)
            display.bars.refresh()
        text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", terminal.getvalue())
        lines = [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]
        return lines[-4:]

    return shown


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_bar_count_and_time_left_stay_at_any_width_and_no_word_is_broken(bars, width):
    total, long, short, last = bars(width)
    assert all(len(line) <= width for line in (total, long, short, last))
    bar = f"{BAR}{{{min(40, width // 6)}}}"
    assert re.search(rf" {bar} 1001/1200 (10.0 per minute, )?a few seconds left", total)
    assert re.search(rf" {bar} +50/100 +accuracy 93.1%", last)
    for line, name in (
        (total, "cells: 3 running, 1 failed"),
        (long, LONG),
        (short, "digits-mlp · runtime · ffl · seed 0"),
    ):
        description = re.split(f" +{BAR}", line)[0].strip()
        assert description == name or (description.startswith("… ") and name.endswith(description[1:]))


def test_a_wide_terminal_also_shows_whole_names_the_pace_and_the_time_of_each(bars):
    total, long, *_ = bars(200)
    assert total.startswith("cells: 3 running, 1 failed ")
    assert "10.0 per minute, a few seconds left" in total
    assert long.startswith(f"  {LONG} ")
    assert re.search(r" worker 1 +0:00:00$", long)


def test_at_80_columns_a_name_is_as_long_as_fits(bars):
    total, long, short, _ = bars(80)
    assert re.split(f" +{BAR}", total)[0] == "cells: 3 running, 1 failed"
    assert re.split(f" +{BAR}", long)[0] == "… + median · strategy = 2 · seed 0"
    assert re.split(f" +{BAR}", short)[0] == "  digits-mlp · runtime · ffl · seed 0"
