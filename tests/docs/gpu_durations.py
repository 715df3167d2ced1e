"""Durations of the paper's full suites on a GPU, from their numbers of training steps."""

import math

from fflbench import registry
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import read
from tests.docs.record_figures import Shown

SUITES = {"paper-cifar10": (50_000, 10), "paper-imdb": (40_000, 10), "paper-reconstruction-full": (None, 30)}
"""Suites with the numbers of training examples of their data sets, for which reconstruction has the attack's steps, and
assumed milliseconds of a step: small batches are bound by the calls to the GPU, and inversion differentiates twice."""


def steps_of(cell, examples):
    """Return the steps of gradient descent in a cell."""
    if examples is None:
        return cell.attack.steps * cell.attack.restarts
    task = cell.create(Kind.TASK)
    return task.rounds * task.per_round * task.local_epochs * math.ceil(examples / task.participants / task.batch_size)


def gpu_durations():
    """Return a table of steps and hours, one row per suite."""
    registry.load_installed()
    lines = [
        "| suite | seeds | cells | steps per cell | a step | one cell | the whole suite |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, (examples, milliseconds) in SUITES.items():
        cells = plan(read(name))
        (steps,) = {steps_of(cell, examples) for cell in cells}
        hours = steps * milliseconds / 1000 / 3600
        seeds = len({cell.seed for cell in cells})
        row = [f"`{name}`", seeds, len(cells), f"{steps:,}", f"{milliseconds} ms"]
        row += [f"{60 * hours:.0f} minutes", f"{len(cells) * hours:.0f} hours"]
        lines.append(f"| {' | '.join(map(str, row))} |")
    assumed = "The duration of a step is assumed, not measured; cells run one at a time, with one core for the defense."
    return Shown("\n".join([*lines, "", assumed]))
