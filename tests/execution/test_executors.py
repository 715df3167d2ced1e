"""Executors as plugins: one file with one decorator, chosen by `--executor`."""

import json

from tests.execution.conftest import result_texts

SUITE = """
tasks = ["digits-mlp"]
attacks = ["label-flipping"]
defenses = ["fedavg", "median"]
seeds = [0]
[overrides]
rounds = 2
[[also]]
attacks = []
defenses = ["fedavg"]
[also.measure]
use = "runtime"
updates = 4
repeats = 1
"""

OWN = '''
"""Executors of somebody's own."""
from fflbench.plugin import Finished, Started, executor, run_cell

@executor("in-process", title="In this process")
def in_process(jobs, settings):
    """Run one cell after the other in the process of the command."""
    for job in jobs:
        yield Started(job.cell, f"in process for {settings.workers} workers")
        yield Finished(job.cell, run_cell(job.cell, settings.suite, plugins=settings.plugins))

@executor("forgetful", title="Forgetful")
def forgetful(jobs, settings):
    """Run the first cell only."""
    return in_process(jobs[:1], settings)
'''


def prepare(fflbench):
    fflbench.suite(SUITE)
    (fflbench.folder / "executors.py").write_text(OWN)


def test_an_executor_in_one_file_runs_a_suite_to_the_same_bits(fflbench):
    prepare(fflbench)
    own = ("--plugin", "executors.py", "--executor", "in-process", "--workers", "2", "--log-json")
    _, err = fflbench("run", "own.toml", *own, "--out", "theirs")
    fflbench("run", "own.toml", "--plugin", "executors.py")
    theirs, ours = (
        {key: record for key, record in fflbench.records(out=out).items() if record.labels["measure"] == "robustness"}
        for out in ("theirs", "results")
    )
    assert len(theirs) == 2
    assert result_texts(theirs) == result_texts(ours)
    started = [event for event in map(json.loads, err.splitlines()) if event["event"] == "started"]
    # A cell that measures time needs this machine to itself.
    places = {"runtime" in event["name"]: event["where"] for event in started}
    assert places == {True: "worker 1", False: "in process for 2 workers"}


def test_an_executor_that_leaves_cells_out_is_reported(fflbench):
    prepare(fflbench)
    _, err = fflbench("run", "own.toml", "--plugin", "executors.py", "--executor", "forgetful", code=2)
    assert 'executor "forgetful" must yield a result for each cell; it gave none for 1 cell' in err.splitlines()[-1]


def test_an_unknown_executor_gets_the_nearest_name(fflbench):
    prepare(fflbench)
    _, err = fflbench("run", "own.toml", "--plugin", "executors.py", "--executor", "in-proces", code=2)
    assert 'executor "in-proces" is not registered; did you mean "in-process"? (fflbench list executors' in err
    assert not (fflbench.folder / "results").exists()


def test_executors_and_engines_are_listed_with_what_they_do(fflbench):
    prepare(fflbench)
    out, _ = fflbench("list", "executors", "--plugin", "executors.py")
    for text in ("in-process", "This machine", "Run one cell after the other", "local", "ray"):
        assert text in out
    out, _ = fflbench("list", "engines", "--json")
    assert [(engine["kind"], engine["name"]) for engine in json.loads(out)] == [
        ("engine", "compiled"),
        ("engine", "loop"),
        ("engine", "stacked"),
    ]


def test_an_unknown_engine_is_refused_before_anything_runs(fflbench):
    prepare(fflbench)
    _, err = fflbench("run", "own.toml", "--set", "engine=stakked", code=2)
    assert 'engine "stakked" is not registered; did you mean "stacked"? (fflbench list engines' in err.splitlines()[-1]
