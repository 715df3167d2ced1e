"""Tables on refusals, exclusions, framing and trust, from records of real cells."""

import pytest

from fflbench.execution.run_cell import run_cell
from fflbench.report.all_tables import build_board
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse
from tests.report.synthetic_records import WHOLE, find_cell, find_table


def run_cells(*attacks):
    content = {
        "tasks": ["digits-mlp"],
        "attacks": list(attacks),
        "defenses": ["fedavg", "ffl"],
        "seeds": [0, 1],
        "overrides": {"rounds": 4},
        "deviation": {"fragment-exchange": {"strategy": [1, 3]}},
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


def test_records_without_refusals_and_trust_get_no_such_tables():
    names = [table.name for table in build_board("own", WHOLE).tables]
    assert not any("exclusions" in name or "trust" in name for name in names)
