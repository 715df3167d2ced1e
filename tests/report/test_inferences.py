"""Tables and curves of membership and property inference."""

from statistics import fmean

import pytest
from scipy.stats import binomtest

from fflbench.execution.cell import play
from fflbench.records import shapes
from fflbench.report import boards, contents, figures, inferences
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

SUITE = {
    "tasks": ["digits-mlp"],
    "attacks": ["loss-threshold", "loss-difference"],
    "defenses": ["fedavg", "ffl"],
    "seeds": [0, 1],
    "overrides": {"rounds": 3},
    "measure": {"use": "membership", "target": ["own", "pair-sum", "colluding"], "rounds_before": 1},
    "also": [
        {
            "attacks": ["loss-difference"],
            "defenses": ["ideal-secagg"],
            "measure": {"use": "membership", "target": "aggregate", "rounds_before": 1},
        },
        {
            "attacks": ["loss-threshold", "loss-difference"],
            "measure": {"use": "membership", "control": True, "rounds_before": 1},
        },
        {
            "attacks": ["property-inference"],
            "attack": {"property-inference": {"shadows": 20, "trees": 5}},
            "measure": {"use": "property", "groups": 2},
        },
        {"attacks": ["none"], "defenses": ["fedavg", "ffl", "ldp"]},
    ],
}


@pytest.fixture(scope="module")
def records():
    return [play(cell, "test") for cell in plan(parse(SUITE, "test", "test"))]


def panel(board, name):
    return next(panel for panel in board.panels if panel.name == name)


def cells(panel, label):
    (row,) = (row for row in panel.rows if row.label == label)
    return dict(zip((column.name for column in panel.columns), row.cells, strict=True))


def of(records, target="own", *, defense="ffl", attack="loss-difference"):
    """The cells of both seeds that judge members against others."""

    def asked(record):
        measure = record.configuration.get("measure", {"name": ""})
        wanted = {"target": target, "control": False}
        return (
            measure["name"] == "membership"
            and wanted.items() <= measure["parameters"].items()
            and (record.labels["defense"], record.labels["privacy-attack"]) == (defense, attack)
        )

    return [record for record in records if asked(record)]


def test_every_cell_stands_in_a_table_of_the_run(records):
    assert {record.status for record in records} == {"done"}
    made = contents.files("test", records)
    page = made["tables.md"].decode()
    assert "Membership, digits-mlp: members against others, round 2" in page
    assert "members against members, a control" in page
    assert "Property, digits-mlp: whether 10 or 0% of 70 examples have the trait" in page
    assert "2 epochs of batches of 16, sgd, rate 0.1, momentum 0.9" in page
    assert any(name.startswith("roc-membership") and name.endswith(".svg") for name in made)


def test_rates_of_all_seeds_together_have_an_exact_interval(records):
    own = of(records, defense="fedavg")
    assert len(own) == 2
    tried = sum(record.facts["members"] for record in own)
    found = round(sum(record.metrics["tpr_at_fpr_0.01"] * record.facts["members"] for record in own))
    wanted = binomtest(found, tried).proportion_ci(method="exact")
    rate = inferences.pooled(own, 0.01)
    assert (rate.share, rate.low, rate.high) == pytest.approx((found / tried, wanted.low, wanted.high))
    assert inferences.pooled(own, 0.001) is None


def test_the_strongest_attack_by_its_mean_stands_in_the_table(records):
    board = boards.board("test", records)
    found = cells(panel(board, "membership-1"), "ffl")
    means = {
        (attack, target): fmean(record.metrics["auc"] for record in of(records, target, attack=attack))
        for attack in ("loss-threshold", "loss-difference")
        for target in ("own", "pair-sum", "colluding")
    }
    best = max(means, key=means.get)
    assert found["worst"].mean == pytest.approx(means[best])
    assert found["worst"].note == best[0]
    assert found["own"].mean == pytest.approx(max(value for (_, target), value in means.items() if target == "own"))
    assert cells(panel(board, "membership-1"), "ideal-secagg")["own"].mean is None


def test_controls_stand_apart_a_column_an_attack(records):
    control = panel(boards.board("test", records), "membership-2")
    assert [column.name for column in control.columns] == ["loss-difference", "loss-threshold"]
    assert "a control" in control.title


def test_one_row_joins_accuracy_epsilon_and_membership(records):
    overall = next(found for found in boards.board("test", records).panels if found.section == "overall")
    names = [column.name for column in overall.columns]
    assert names == ["clean", "clean_cost", "epsilon", "membership_alone", "membership_with_help"]
    assert cells(overall, "ldp")["epsilon"].mean > 5
    assert cells(overall, "fedavg")["epsilon"].text == "none"
    alone = [record.metrics["auc"] for record in of(records, defense="fedavg")]
    assert cells(overall, "fedavg")["membership_alone"].mean >= fmean(alone)


def test_a_failed_cell_is_told_and_spoils_its_place(records):
    spoiled = of(records, attack="loss-threshold")[0]
    failed = spoiled.model_copy(update={"status": "failed", "error": "oops", "metrics": {}, "facts": {}, "history": []})
    found = boards.board("test", [failed if record is spoiled else record for record in records])
    assert cells(panel(found, "membership-1"), "ffl")["own"].text == "1 of 4 failed"
    assert cells(panel(found, "membership-1"), "ffl")["worst"].mean is None
    assert cells(panel(found, "membership-1"), "fedavg")["own"].mean is not None


def test_a_failed_traitor_says_nothing_of_what_a_server_does_alone(records):
    (spoiled, _) = of(records, "colluding")
    failed = spoiled.model_copy(update={"status": "failed", "error": "oops", "metrics": {}, "facts": {}, "history": []})
    found = boards.board("test", [failed if record is spoiled else record for record in records])
    overall = next(panel for panel in found.panels if panel.section == "overall")
    assert cells(overall, "ffl")["membership_alone"].mean is not None
    assert cells(overall, "ffl")["membership_with_help"].text == "1 of 8 failed"


def test_settings_that_differ_stand_apart(records):
    own = of(records)
    other = own[0].model_copy(deep=True)
    other.configuration["measure"]["parameters"]["members"] = 7
    titles = inferences.settings([*own, other], "membership")
    assert [len(of_title) for of_title in titles.values()] == [2, 1]
    assert any(title.endswith("members = 7") for title in titles)


def test_a_promise_that_is_none_is_no_promise(records):
    (record, _) = (record for record in records if record.labels.get("defense") == "ldp")
    bare = record.model_copy(update={"facts": {**record.facts, "guarantee": None}})
    shapes.check(bare)
    overall = next(panel for panel in boards.board("test", [bare]).panels if panel.section == "overall")
    assert "epsilon" not in [column.name for column in overall.columns]


def test_a_curve_is_the_mean_over_seeds(records):
    made = figures.curves(records)
    name = next(name for name in made if "members-against-others" in name and name.endswith(".csv"))
    lines = [line.split(",") for line in made[name].decode().splitlines()[1:]]
    own = of(records)
    wanted = {told["fpr"]: [] for told in own[0].history}
    for record in own:
        for told in record.history:
            wanted[told["fpr"]].append(told["tpr"])
    chosen = ["loss-difference", "ffl", "own"]
    found = {float(x): float(y) for *row, x, y, _ in lines if row == chosen}
    assert found == pytest.approx({level: fmean(values) for level, values in wanted.items()})
    assert figures.section(name) == "privacy"


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("metrics", {"auc": 2.0}),
        ("metrics", {"auc": None}),
        ("metrics", {"tpr_at_fpr_0.01": "most"}),
        ("facts", {"members": 0}),
        ("facts", {"members": 10**400}),
        ("facts", {"training": None}),
        ("history", [{"fpr": 0.1}]),
    ],
)
def test_a_record_that_tables_cannot_use_is_refused(records, part, change):
    record = of(records)[0]
    shapes.check(record)
    changed = change if isinstance(change, list) else {**getattr(record, part), **change}
    with pytest.raises(ValueError, match="no record of membership"):
        shapes.check(record.model_copy(update={part: changed}))
