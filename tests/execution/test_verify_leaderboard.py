"""Cells that are run again are compared as their measures declare."""

import pytest

from fflbench import registry
from fflbench.execution import verify_leaderboard as verifying
from fflbench.execution.run_cell import run_cell
from fflbench.records import Store
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

OWN = '''
"""A measure with a metric of each way of being compared."""
from fflbench.measures import Measure, Metric, Outcome
from fflbench.registration import measure

@measure("own", title="Own")
class Own(Measure):
    """Report the seed in several ways."""

    metrics = (
        Metric(name="known", title="known", meaning="x", drift=lambda value: 0.1 * value),
        Metric(name="unknown", title="unknown", meaning="x"),
        Metric(name="exact", title="exact", meaning="x", exact=True, drift=5.0),
    )
    exact_facts = ("fact",)

    def run(self, context):
        value = 10.0
        return Outcome({"known": value, "unknown": value, "exact": value}, [], {"fact": 3, "loose": 3})
'''


@pytest.fixture
def verify_record_of_other_processor(tmp_path, own_registry):
    """Verify a record of another processor with these changes to what was found here."""
    (tmp_path / "own.py").write_text(OWN)
    assert registry.load_named([str(tmp_path / "own.py")]) == ()
    content = {"tasks": ["digits-mlp"], "defenses": ["fedavg"], "seeds": [0], "measure": {"use": "own"}}
    (cell,) = plan(parse(content, "own", "own.toml"))
    record = run_cell(cell, "own")

    def verdict(metrics=(), facts=(), processor="another"):
        changes = {
            "metrics": record.metrics | dict(metrics),
            "facts": record.facts | dict(facts),
            "manifest": record.manifest | ({"processor": processor} if processor else {}),
        }
        Store(tmp_path / "own").write(record.model_copy(update=changes))
        ((found,), problems) = verifying.verify_sample(tmp_path / "own", 1, 0, [])
        assert not problems
        return found

    return verdict


def test_a_cell_of_the_same_machine_must_be_the_same_bits(verify_record_of_other_processor):
    assert verify_record_of_other_processor(processor="").outcome == "same bits"
    assert verify_record_of_other_processor({"known": 10.000001}, processor="").outcome == "different"


@pytest.mark.parametrize(
    ("metrics", "facts", "how"),
    [
        ({}, {}, "reproduced"),
        ({"known": 10.9}, {}, "reproduced"),
        ({"known": 11.1}, {}, "different"),
        ({"unknown": 10.1}, {}, "cannot be compared"),
        ({"undeclared": 10.1}, {}, "different"),
        ({"exact": 10.1}, {}, "different"),
        ({}, {"fact": 4}, "different"),
        ({}, {"loose": 4}, "reproduced"),
    ],
)
def test_on_another_processor_figures_are_held_to_the_declaration(
    verify_record_of_other_processor, metrics, facts, how
):
    assert verify_record_of_other_processor(metrics, facts).outcome == how
