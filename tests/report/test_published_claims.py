"""Claims of papers: verdicts by records and by the paper's own tables."""

import pytest

from fflbench import registry
from fflbench.measures import published_results
from fflbench.measures.published_results import PublishedClaim
from fflbench.report.claims_table import claims_table
from fflbench.report.published_claims import judge_on_records, judge_on_tables, records_by_setting
from fflbench.report.table_formats import to_markdown
from tests.report.synthetic_records import find_cell, robustness_record, runtime_record


@pytest.fixture(scope="module")
def paper():
    registry.load_installed()
    (found,) = published_results.papers()
    return found


def claim_on(test, tasks=("adult-mlp",), table="tab:robustness_gn", **fields):
    test = {"metrics": ["accuracy"], "rows": ["median"]} | test
    given = {"id": "own", "sentence": "It is so.", "section": "Results", "table": table, "tasks": tasks}
    return PublishedClaim.model_validate(given | {"tests": [test]} | fields)


BETTER = {"predicate": "better", "than": ["fedavg"]}


def records(gaps, base=0.5, **fields):
    """The median's accuracy above FedAvg's under Gaussian noise on Adult, seed by seed."""
    names = {"attack": "gaussian-noise", "task": "adult-mlp", **fields}
    for seed, gap in enumerate(gaps):
        yield robustness_record(defense="fedavg", seed=seed, accuracy=base + seed / 100, **names)
        yield robustness_record(defense="median", seed=seed, accuracy=base + seed / 100 + gap, **names)


def judged(paper, claim, given):
    (found,) = judge_on_records(paper, claim, records_by_setting(paper, given))
    return found


def verdict(paper, test, gaps):
    return judged(paper, claim_on(test), records(gaps)).verdict


CLEAR, UNCLEAR = (0.10, 0.11, 0.12), (0.10, -0.09, 0.02)


@pytest.mark.parametrize(
    ("test", "gaps", "expected"),
    [
        (BETTER, CLEAR, "holds"),
        (BETTER, [-gap for gap in CLEAR], "does not hold"),
        (BETTER, UNCLEAR, "tied"),
        (BETTER, (0, 0, 0), "tied"),
        (BETTER | {"by": 0.05}, CLEAR, "holds"),
        (BETTER | {"by": 0.2}, CLEAR, "does not hold"),
        (BETTER | {"predicate": "not-worse", "by": 0.02}, (-0.010, -0.011, -0.009), "holds"),
        (BETTER | {"predicate": "not-worse", "by": 0.02}, (-0.050, -0.051, -0.049), "does not hold"),
        (BETTER | {"predicate": "not-worse", "by": 0.02}, UNCLEAR, "tied"),
        (BETTER | {"predicate": "similar", "by": 0.02}, (0.004, -0.003, 0.001), "holds"),
        (BETTER | {"predicate": "similar", "by": 0.02}, CLEAR, "does not hold"),
        (BETTER | {"predicate": "similar", "by": 0.02}, [-gap for gap in CLEAR], "does not hold"),
        ({"predicate": "within", "low": 0.5}, CLEAR, "holds"),
        ({"predicate": "within", "high": 0.5}, CLEAR, "does not hold"),
        ({"predicate": "within", "high": 1.5, "relative_to": "fedavg"}, CLEAR, "holds"),
        ({"predicate": "within", "high": 1.1, "relative_to": "fedavg"}, CLEAR, "does not hold"),
        ({"predicate": "within", "low": 0.9, "metrics": ["accuracy + test_loss"]}, CLEAR, "holds"),
        ({"predicate": "within", "low": 0.9, "metrics": ["accuracy - test_loss"]}, CLEAR, "does not hold"),
    ],
)
def test_a_predicate_holds_fails_or_is_tied(paper, test, gaps, expected):
    assert verdict(paper, test, gaps) == expected


def test_lower_losses_are_better(paper):
    assert verdict(paper, BETTER | {"metrics": ["test_loss"]}, CLEAR) == "holds"


def test_one_comparison_that_fails_is_enough_and_is_named(paper):
    given = [*records(CLEAR)]
    given += [
        robustness_record("gaussian-noise", "foolsgold", seed, accuracy=0.99 - seed / 1000, task="adult-mlp")
        for seed in range(3)
    ]
    found = judged(paper, claim_on(BETTER | {"than": ["fedavg", "foolsgold"]}), given)
    assert found.verdict == "does not hold"
    assert "accuracy: median 62.00%, foolsgold 98.90%, p = " in found.test
    assert found.test.startswith("3 seeds, 9 cells; ")
    assert len(found.records) == 9


def test_p_values_of_several_comparisons_are_corrected(paper):
    gaps = (0.03, 0.05, 0.04)
    assert verdict(paper, BETTER, gaps) == "holds"
    # The same comparison six times over.
    assert verdict(paper, BETTER | {"than": ["fedavg"] * 6}, gaps) == "tied"


def test_one_seed_decides_by_its_value_and_is_marked(paper):
    found = judged(paper, claim_on(BETTER), records([0.1]))
    assert (found.verdict, found.remark) == ("holds", "1 seed")
    assert found.test.startswith("1 seed, 2 cells, no test; ")
    assert ", p =" not in found.test


def test_a_loss_that_is_not_finite_is_worse_than_any_other(paper):
    given = list(records(CLEAR))
    diverged = {"test_loss": None, "diverged": True}
    given = [
        each.model_copy(update={"metrics": each.metrics | diverged}) if each.labels["defense"] == "fedavg" else each
        for each in given
    ]
    found = judged(paper, claim_on(BETTER | {"metrics": ["test_loss"]}), given)
    assert found.verdict == "holds"
    assert "fedavg diverged" in found.test


def test_without_records_of_every_row_there_is_no_verdict(paper):
    assert verdict(paper, BETTER | {"than": ["foolsgold"]}, CLEAR) == "no records yet"
    assert judged(paper, claim_on(BETTER, tasks=["mnist-cnn"]), records(CLEAR)).verdict == "no records yet"


def test_a_reason_stands_instead_of_a_verdict(paper):
    found = judged(paper, claim_on(BETTER, reason="nobody knows"), records(CLEAR))
    assert (found.verdict, found.test) == ("cannot be tested here", "nobody knows")


def test_of_several_settings_those_nearest_to_the_papers_count(paper):
    reduced = list(records([-gap for gap in CLEAR], parameters={"task": {"rounds": 15}}))
    found = judged(paper, claim_on(BETTER), reduced)
    assert (found.verdict, found.remark) == ("does not hold", "reduced: rounds = 15 instead of 100")
    found = judged(paper, claim_on(BETTER), [*reduced, *records(CLEAR, parameters={"task": {"rounds": 100}})])
    assert (found.verdict, found.remark) == ("holds", "")


def test_choices_that_the_paper_leaves_open_are_judged_side_by_side(paper):
    given = [*records(CLEAR), *records(CLEAR, parameters={"task": {"decision_threshold": 0.6225}})]
    found = judge_on_records(paper, claim_on(BETTER), records_by_setting(paper, given))
    assert [each.remark for each in found] == ["defaults of the task", "decision_threshold = 0.6225"]


def test_a_cell_of_two_leaderboards_counts_once(paper):
    given = list(records(CLEAR))
    assert len(judged(paper, claim_on(BETTER), [*given, *given]).records) == 6


def test_growth_is_compared_by_updates_and_by_task(paper):
    seconds = {"median": {10: 1.0, 100: 20.0}, "ffl": {10: 1.0, 100: 5.0}}
    given = [
        runtime_record(name, n, 2 * value if task == "mnist-cnn" and name == "ffl" else value, task=task)
        for task in ("mnist-cnn", "cifar10-vgg16")
        for name, values in seconds.items()
        for n, value in values.items()
    ]
    test = {"predicate": "better", "metrics": ["seconds"], "rows": ["ffl"], "than": ["median"]}
    by_updates = claim_on(test | {"growth": {"updates": [10, 100]}}, ["cifar10-vgg16"], "tab:runtime")
    found = judged(paper, by_updates, given)
    assert found.verdict == "holds"
    assert found.remark == ""
    assert "server, updates 100 over 10: ffl 5, median 20" in found.test
    by_task = test | {"growth": {"task": ["mnist-cnn", "cifar10-vgg16"]}, "parameters": {"updates": 100}}
    found = judged(paper, claim_on(by_task, ["cifar10-vgg16"], "tab:runtime"), given)
    assert found.verdict == "holds"
    assert "ffl 0.5, median 1" in found.test


def printed(paper, name):
    (claim,) = (claim for claim in paper.claims if claim.id == name)
    return {each.task: each for each in judge_on_tables(paper, claim)}


def test_the_paper_contradicts_itself_on_the_fastest_method_for_vgg16(paper):
    found = printed(paper, "runtime-vgg16")["cifar10-vgg16"]
    assert found.verdict == "does not hold"
    # Its table: FFL 0.372 + 2.308, FoolsGold 0.497.
    assert found.remark == "server's seconds, updates = 10: ffl 2.68, foolsgold 0.497"


def test_the_paper_prints_two_errors_of_one_baseline_on_imdb(paper):
    found = printed(paper, "one-baseline")
    assert [task for task, each in found.items() if each.verdict != "holds"] == ["imdb-bilstm"]
    assert "0.475" in found["imdb-bilstm"].remark
    assert "0.519" in found["imdb-bilstm"].remark


def test_equal_printed_figures_are_tied(paper):
    found = printed(paper, "noise-lowest-error")
    assert {task: each.verdict for task, each in found.items()} == {
        "adult-mlp": "tied",
        "mnist-cnn": "holds",
        "cifar10-vgg16": "holds",
    }


def test_the_table_has_every_claim_with_both_verdicts(paper):
    given = [robustness_record("none", "fedavg", seed, task="adult-mlp", accuracy=0.8 + seed / 100) for seed in (0, 1)]
    given += [robustness_record("gaussian-noise", "fedavg", seed, task="adult-mlp", accuracy=0.5) for seed in (0, 1)]
    table = claims_table(paper, given)
    assert len(table.rows) == len(paper.claims)
    sentence = "The attack has a significant negative impact on FedAvg's test error and overall accuracy."
    assert find_cell(table, sentence, "tables").text == "holds: adult-mlp, mnist-cnn, cifar10-vgg16, imdb-bilstm"
    assert find_cell(table, sentence, "records").text == (
        "holds: adult-mlp; no records yet: mnist-cnn, cifar10-vgg16, imdb-bilstm"
    )
    assert len(find_cell(table, sentence, "records").records) == 4
    assert to_markdown(table).count("\n| ") == len(paper.claims) + 1
