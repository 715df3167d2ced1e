"""Tables on refusals, exclusions, framing and trust, from records of real cells."""

import pytest

from fflbench.execution.run_cell import run_cell
from fflbench.report.all_tables import build_board
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse
from tests.report.synthetic_records import WHOLE, find_cell, find_table


def run_cells(*attacks, rounds=4, **deviation):
    content = {
        "tasks": ["digits-mlp"],
        "attacks": list(attacks),
        "defenses": ["fedavg", "ffl"],
        "seeds": [0, 1],
        "overrides": {"rounds": rounds},
        "deviation": {"fragment-exchange": deviation or {"strategy": [1, 3]}},
    }
    return [run_cell(cell, "own") for cell in plan(parse(content, "own", "own.toml"))]


@pytest.fixture(scope="module")
def records():
    return run_cells("none", "gaussian-noise")


def of_row(records, deviation):
    return [record for record in records if record.labels.get("deviation") == deviation]


def test_refusals_by_participants_stand_beside_exclusions_by_the_server(records):
    table = find_table(build_board("own", records), "digits-mlp-exclusions")
    assert [row.keys for row in table.rows] == [
        *(("no attack", "ffl"),),
        *(("gaussian-noise", f"ffl, strategy = {number}") for number in (1, 3)),
    ]
    for number in (1, 3):
        own = of_row(records, f"strategy = {number}")
        assert len(own) == 2
        label = f"gaussian-noise, ffl, strategy = {number}"
        refused = [record.facts["share_of_attackers_refused"] for record in own]
        assert find_cell(table, label, "attackers_refused").mean == pytest.approx(sum(refused) / 2)
        shares = [len(set(record.facts["excluded"]) & set(record.facts["attackers"])) / 4 for record in own]
        assert find_cell(table, label, "attackers_excluded").mean == pytest.approx(sum(shares) / 2)
        shares = [record.facts["honest_excluded"] / 16 for record in own]
        assert find_cell(table, label, "honest_excluded").mean == pytest.approx(sum(shares) / 2)
    assert find_cell(table, "no attack, ffl", "attackers_refused").mean is None


def test_trust_is_shown_after_the_first_rounds_and_the_last(records):
    table = find_table(build_board("own", records), "digits-mlp-trust-by-round")
    assert [column.title for column in table.columns] == [f"round {number}" for number in (1, 2, 3, 4)]
    assert [row.keys for row in table.rows] == [
        ("no attack", "ffl", "honest"),
        *(("gaussian-noise", f"ffl, strategy = {n}", side) for n in (1, 3) for side in ("attackers", "honest")),
    ]
    own = of_row(records, "strategy = 1")
    for number in (1, 4):
        for side, key in {"honest": "honest_trust_of_all", "attackers": "attacker_trust_of_all"}.items():
            trusts = [record.history[number - 1][key] for record in own]
            cell = find_cell(table, f"gaussian-noise, ffl, strategy = 1, {side}", f"round_{number}")
            assert cell.mean == pytest.approx(sum(trusts) / 2)


def test_tables_on_papers_and_trust_stand_after_the_tables_of_metrics(records):
    names = [table.name for table in build_board("own", records).tables]
    assert names[0] == "digits-mlp-summary"
    assert names.index("digits-mlp-exclusions") > max(place for place, name in enumerate(names) if "robustness" in name)


def test_framed_participants_have_a_table_where_somebody_was_framed(records):
    nan = run_cells("non-finite")
    table = find_table(build_board("own", [*records, *nan]), "digits-mlp-framing")
    assert {row.keys[1].partition(",")[0] for row in table.rows} == {"ffl"}
    own, label = of_row(nan, "strategy = 3"), "non-finite, ffl, strategy = 3"
    framed = [[who for item in record.history for who in item["framed"]] for record in own]
    assert all(framed)
    assert find_cell(table, label, "framed_rows").mean == sum(map(len, framed)) / 2
    assert find_cell(table, label, "honest_framed").mean == sum(len(set(each)) for each in framed) / 2 / 16
    selected = [record.history[3]["attackers_selected"] for record in own]
    assert find_cell(table, label, "attackers_in_last_round").mean == sum(selected) / 2
    assert find_cell(table, label, "lone_submissions").mean == 0
    assert not any("framing" in table.name for table in build_board("own", records).tables)


def by_hand(record, rounds):
    """Share of trust, relative trust and honest participants excluded, in the first rounds of a record."""
    attackers, shares, excluded, sums = record.facts["attackers"], [], [], [0.0, 0.0]
    for item in record.history[:rounds]:
        hostile = sum(item["trust"].get(str(who), 0.0) for who in attackers)
        total = sum(item["trust"].values())
        senders = sum(str(who) in item["trust"] for who in attackers)
        shares.append(hostile / total if total else senders / len(item["trust"]))
        sums = [sums[0] + item["attacker_trust_of_all"], sums[1] + item["honest_trust_of_all"]]
        excluded.append(sum(who not in attackers for who in item["excluded"]))
    return sum(shares) / rounds, sums[0] / sums[1], sum(excluded) / rounds


def test_trust_in_attackers_is_shown_for_the_first_rounds_and_for_all():
    records = run_cells("none", "noise-control", rounds=12, strategy=2)
    table = find_table(build_board("own", records), "digits-mlp-trust-in-attackers")
    assert [row.keys for row in table.rows] == [("no attack", "ffl"), ("noise-control", "ffl, strategy = 2")]
    own = of_row(records, "strategy = 2")
    for period, rounds in (("first_10", 10), ("all", 12)):
        expected = [sum(values) / 2 for values in zip(*(by_hand(record, rounds) for record in own), strict=True)]
        for name, value in zip(("share_of_trust", "relative_trust", "honest_excluded"), expected, strict=True):
            found = find_cell(table, "noise-control, ffl, strategy = 2", f"{name}_{period}").mean
            assert found == pytest.approx(value)
        accuracy = sum(record.history[rounds - 1]["accuracy"] for record in own) / 2
        assert find_cell(table, "noise-control, ffl, strategy = 2", f"accuracy_{period}").mean == accuracy
    assert 0 < expected[0] < 0.5
    assert find_cell(table, "no attack, ffl", "share_of_trust_all").mean is None
    assert find_cell(table, "no attack, ffl", "honest_excluded_all").mean > 0


def test_short_runs_have_no_first_rounds_apart(records):
    table = find_table(build_board("own", records), "digits-mlp-trust-in-attackers")
    assert [column.name for column in table.columns] == [
        *("accuracy_all", "share_of_trust_all", "relative_trust_all", "honest_excluded_all"),
    ]


def test_chosen_victims_stand_beside_other_honest_participants():
    records = run_cells("non-finite", strategy=3, victims=4)
    table = find_table(build_board("own", records), "digits-mlp-framing")
    for side in ("victims", "other_honest"):
        shares = [record.facts[f"share_of_{side}_excluded"] for record in records if "victims" in record.facts]
        found = find_cell(table, "non-finite, ffl, strategy = 3, victims = 4", f"{side}_excluded").mean
        assert found == pytest.approx(sum(shares) / 2)


def test_records_without_refusals_and_trust_get_no_such_tables():
    names = [table.name for table in build_board("own", WHOLE).tables]
    assert not any("exclusions" in name or "trust" in name for name in names)
