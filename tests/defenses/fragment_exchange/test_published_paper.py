"""Figures and claims of the FFL paper: every one is the paper's, under names that exist here."""

import re
from collections import Counter
from pathlib import Path

import pytest

from fflbench import registry
from fflbench.measures import published_results
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import read
from tests.defenses.fragment_exchange.paper_tables import figures

NOT_HERE = {"brea", "pefl", "shieldfl"}
SOURCES = [folder / "shared/paper/ffl.tex" for folder in Path(__file__).parents]
"""Places of the paper's source, which is not part of the repository."""
SOURCE = next((file for file in SOURCES if file.exists()), None)
needs_paper = pytest.mark.skipif(SOURCE is None, reason="the paper's source is not here")


@pytest.fixture(scope="module")
def paper():
    registry.load_installed()
    (found,) = published_results.papers()
    return found


def order(text):
    """An order of growth without its spelling."""
    return re.sub(r"[\\{}()\s]", "", text.replace("^2", "²").replace("\\delta", "δ"))


@needs_paper
def test_every_figure_is_the_papers(paper):
    ours = [
        (each.table, each.row, each.column, each.benchmark, each.updates and str(each.updates), each.value)
        for each in paper.figures
    ]
    theirs = [(*place, updates or None, value) for *place, updates, value in figures(SOURCE.read_text("utf-8"))]
    assert [each[:5] for each in ours] == [each[:5] for each in theirs]
    assert [order(each[5]) for each in ours] == [order(each[5]) for each in theirs]


@needs_paper
def test_every_claim_is_from_a_section_of_the_paper(paper):
    source = SOURCE.read_text("utf-8")
    assert {claim.section for claim in paper.claims if claim.section not in source} == set()


def test_every_table_is_whole(paper):
    assert Counter(figure.table for figure in paper.figures) == {
        "tab:datasets_models": 4 * 2,
        "tab:robustness_gn": 8 * 4 * 2,
        "tab:robustness_lf": 8 * 4 * 3,
        "tab:runtime": 3 * 6 * 4 * 3,
        "tab:communication_time": 3 * 2 * 4,
        "tab:computation_overhead": 6 * 2,
        "tab:communication_overhead": 5 * 2,
    }
    assert set(paper.tables) == {figure.table for figure in paper.figures}


def test_figures_have_the_units_of_records(paper):
    (accuracy,) = published_results.find_figures(
        task="adult-mlp", defense="ffl", deviation="strategy = 2", metric="accuracy"
    )
    assert accuracy.number == pytest.approx(0.8286)
    sizes = {figure.row: figure.number for figure in paper.figures if figure.unit == "parameters"}
    assert sizes == {"MLP": 5e3, "CNN": 22e3, "VGG16": 15e6, "BiLSTM": 13e6}


def test_our_names_of_figures_are_registered(paper):
    for kind, name in ((Kind.TASK, "task"), (Kind.MEASURE, "measure"), (Kind.ATTACK, "attack")):
        names = {getattr(figure, name) for figure in paper.figures} - {""}
        assert names
        assert names <= {entry.name for entry in registry.entries(kind)}
    defenses = {figure.defense for figure in paper.figures} - {""} - NOT_HERE
    assert defenses <= {entry.name for kind in (Kind.RULE, Kind.DEFENSE) for entry in registry.entries(kind)}
    for figure in paper.figures:
        if figure.measure and figure.unit != "order" and "." not in figure.metric:
            metrics = registry.get(Kind.MEASURE, figure.measure).target.metrics
            assert figure.metric in {metric.name for metric in metrics}


def test_tasks_and_attacks_have_the_papers_parameters_by_default(paper):
    for name, stated in paper.settings.items():
        entry = registry.get(Kind.TASK, name)
        assert stated.items() <= entry.check({}).items()
        for attack, parameters in paper.attacks[name].items():
            if attack != "inverting-gradients":
                defaults = entry.target.attack_defaults.get(attack, {})
                assert parameters.items() <= registry.get(Kind.ATTACK, attack).check(defaults).items()


def test_every_claim_has_a_test_or_a_reason_and_names_what_exists(paper):
    assert len({claim.id for claim in paper.claims}) == len({claim.sentence for claim in paper.claims})
    tasks = {entry.name for entry in registry.entries(Kind.TASK)}
    known = {figure.defense for figure in paper.figures}
    known |= {cell.labels["defense"] for cell in plan(read("paper-choices"))}
    for claim in paper.claims:
        assert claim.tests or claim.reason, claim.id
        assert bool(claim.tests) <= bool(claim.tasks), claim.id
        assert set(claim.tasks) <= tasks
        assert {claim.table, *(test.table for test in claim.tests), *(test.than_table for test in claim.tests)} <= {
            "",
            *paper.tables,
        }
        for test in claim.tests:
            assert set(test.tasks) <= set(claim.tasks)
            assert (test.predicate == "within") == (test.low is not None or test.high is not None), claim.id
            assert (test.predicate == "within") != bool(test.than or test.than_table), claim.id
            rows = {row for name in (*test.rows, *test.than) for row in paper.groups.get(name, (name,))}
            assert {re.split(r", | \(", row)[0] for row in rows} <= known
