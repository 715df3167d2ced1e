"""All tables of a run or leaderboard, and what a reader must be warned of."""

import pytest

from fflbench.report.all_tables import STALE, build_board
from fflbench.report.attacker_knowledge import filter_by_attacker_knowledge
from fflbench.report.table_formats import to_csv, to_json, to_latex, to_markdown
from tests.report.synthetic_records import (
    WHOLE,
    as_failed,
    as_sweep_value,
    change_records_with_labels,
    find_cell,
    find_table,
    make_record,
    membership_record,
    reconstruction_record,
    records_with_labels,
    robustness_record,
    runtime_record,
)

EVERY = [
    *WHOLE,
    *(
        membership_record(defense="ffl", seed=s, observation=t)
        for s in range(3)
        for t in ("submission", "colluding-participant")
    ),
    *(reconstruction_record(observation=t) for t in ("submission", "pair-sum")),
    *(runtime_record(name) for name in ("fedavg", "median")),
    *(
        as_sweep_value(robustness_record("sign-flipping", seed=s), "attack", "share", v, "sign-flipping")
        for s in range(3)
        for v in (0.1, 0.2)
    ),
]


def with_manifest(record, **manifest):
    return record.model_copy(update={"manifest": record.manifest | manifest})


def with_results_version(record, kind, version):
    return with_manifest(record, results=record.manifest["results"] | {kind: version})


def flags_by_row(board, name="digits-mlp-summary"):
    return {row.label: row.flags for row in find_table(board, name).rows}


def test_a_record_of_older_code_is_flagged_with_its_row():
    assert not any("older results" in flag for flag in build_board("own", WHOLE).flags)
    stale = build_board("own", [with_results_version(WHOLE[0], "core", 1), *WHOLE[1:]])
    assert any("1 record of older results versions" in flag for flag in stale.flags)
    assert flags_by_row(stale) == {"fedavg": (STALE,), "median": ()}


@pytest.mark.parametrize("kind", ["attack", "transport", "rule", "task", "measure"])
def test_a_record_of_an_older_part_is_stale(kind):
    assert flags_by_row(build_board("own", [with_results_version(WHOLE[0], kind, 0), *WHOLE[1:]]))["fedavg"] == (STALE,)


def test_a_stale_deviation_flags_the_row_of_its_defense():
    label = {"deviation": {"strategy": 1}}
    old = with_results_version(robustness_record("gaussian-noise", "ffl", **label), "core", 1)
    found = build_board("own", [*WHOLE, robustness_record(defense="ffl"), old])
    assert STALE in flags_by_row(found)["ffl"]
    assert flags_by_row(found)["median"] == ()
    assert STALE in flags_by_row(found, "digits-mlp-robustness-gaussian-noise")["ffl, strategy = 1"]


def test_plugins_that_are_not_here_are_not_stale():
    theirs = with_results_version(robustness_record(defense="theirs"), "rule", "1+aaaa")
    assert flags_by_row(build_board("own", [*WHOLE, theirs]))["theirs"] == ()


def test_records_from_outside_are_flagged_until_they_are_run_again():
    record = "reported by They, not run again"
    found = build_board("own", WHOLE, {records_with_labels(WHOLE, defense="median")[0].id: record})
    assert flags_by_row(found) == {"fedavg": (), "median": (record,)}


def test_a_mixture_of_two_sources_of_a_plugin_is_flagged():
    one = [with_results_version(robustness_record(defense="theirs", seed=seed), "rule", "1+aaaa") for seed in range(3)]
    assert not any("mixture" in flag for flag in build_board("own", [*WHOLE, *one]).flags)
    mixed = build_board("own", [*WHOLE, *one[:2], with_results_version(one[2], "rule", "1+bbbb")])
    (message,) = (flag for flag in mixed.flags if "mixture" in flag)
    assert 'rule "theirs": 2 of version 1+aaaa, 1 of version 1+bbbb' in message


@pytest.mark.parametrize("part", ["processor", "fflbench", "libraries", "python"])
def test_records_of_another_machine_or_version_are_flagged(part):
    same = [with_manifest(each, **{part: "one"}) for each in WHOLE]
    assert not any("another" in flag for flag in build_board("own", same).flags)
    other = build_board("own", [with_manifest(same[0], **{part: "two"}), *same[1:]])
    assert any(f"1 record made with another {part} than the others" in flag for flag in other.flags)


def test_failed_cells_are_listed_with_their_reason():
    found = build_board("own", change_records_with_labels(WHOLE, as_failed, attack="gaussian-noise", defense="median"))
    assert any("3 cells failed" in flag and "boom" in flag for flag in found.flags)


def test_what_a_rule_does_not_tolerate_is_flagged_with_its_row():
    bold = robustness_record(defense="multi-krum", facts={"flags": ["f = 5 is more than it tolerates"]})
    found = find_table(build_board("own", [*WHOLE, bold]), "digits-mlp-summary")
    assert "⚑1 f = 5 is more than it tolerates" in to_markdown(found)


def test_a_parameter_that_was_tuned_is_flagged_unless_the_label_shows_it():
    tuned = {"parameters": {"defense": {"tau": 1.0}}, "defense": "centered-clipping"}
    board = build_board("own", [*WHOLE, robustness_record(**tuned)])
    assert "was tuned: tau = 1.0 instead of 100.0" in to_markdown(find_table(board, "digits-mlp-summary"))
    named = robustness_record(**tuned, labels={"defense": "centered-clipping (tau = 1.0)"})
    usual = robustness_record(defense="centered-clipping", parameters={"defense": {"tau": 100.0}})
    for record in (named, usual):
        assert "was tuned" not in to_markdown(find_table(build_board("own", [*WHOLE, record]), "digits-mlp-summary"))


def test_the_number_of_attackers_is_not_a_tuned_parameter():
    told = robustness_record(defense="multi-krum", parameters={"defense": {"f": 3}})
    assert "was tuned" not in to_markdown(find_table(build_board("own", [*WHOLE, told]), "digits-mlp-summary"))


def test_columns_of_attacks_say_what_attackers_must_know():
    table = find_table(build_board("own", [*WHOLE, robustness_record("min-max")]), "digits-mlp-robustness-accuracy")
    meanings = {column.name: column.meaning for column in table.columns}
    assert "must know: own data and attackers' updates and honest updates" in meanings["min-max"]
    assert "must know" not in meanings["none"]


def test_a_threat_model_leaves_out_who_knows_more():
    alone = filter_by_attacker_knowledge(EVERY, ["server view", "own data"])
    left_out = [each for each in EVERY if each not in alone]
    assert left_out == [each for each in EVERY if "colluding-participant" in each.labels["measure"]]
    # By the plugin where the record does not say: noise is shaped after what an attacker's own data gives.
    noise = robustness_record("gaussian-noise")
    assert filter_by_attacker_knowledge([noise], ["server view"]) == []
    assert filter_by_attacker_knowledge([noise], ["own data"]) == [noise]
    # By its parameters where they matter: with partial knowledge it needs no honest updates.
    of_own, of_honest = (
        robustness_record("min-max", parameters={"attack": {"knowledge": k}}) for k in ("partial", "full")
    )
    assert filter_by_attacker_knowledge([of_own, of_honest], ["own data", "attackers' updates"]) == [of_own]
    names = [column.name for column in find_table(build_board("own", alone), "overall-digits-mlp").columns]
    assert "membership-auc-with-help" not in names


def test_every_figure_names_the_records_behind_it():
    known = {each.id: each for each in EVERY}
    count = 0
    for found in build_board("own", EVERY).tables:
        for row in found.rows:
            for place in row.cells:
                if place.mean is None:
                    continue
                count += 1
                assert place.records, (found.name, row.label)
                behind = [known[name] for name in place.records]
                assert row.defense in {each.labels["defense"] for each in behind}, (found.name, row.label)
                if place.seeds > 1:
                    assert len({each.seed for each in behind}) >= place.seeds
    assert count > 100


def test_a_measure_whose_plugin_is_not_here_is_shown_plainly():
    records = [make_record("theirs", {"warmth": 20.0 + seed, "good": True}, seed=seed) for seed in (0, 1)]
    for each in records:
        each.json_text()
    found = build_board("own", [*WHOLE, *records])
    shown = find_table(found, "digits-mlp-theirs-all")
    assert shown.section == "Other measures"
    assert [column.title for column in shown.columns] == ["warmth"]
    assert find_cell(shown, "fedavg", "warmth").mean == 20.5
    assert find_cell(find_table(found, "overall-digits-mlp"), "fedavg", "theirs-warmth").mean == 20.5


def test_the_order_of_records_changes_no_figure():
    def figures(found):
        return {
            (each.name, row.label, column.name): place
            for each in found.tables
            for row in each.rows
            for column, place in zip(each.columns, row.cells, strict=True)
        }

    assert figures(build_board("own", EVERY)) == figures(build_board("own", EVERY[::-1]))


def test_a_board_of_no_records_is_empty():
    found = build_board("own", [])
    assert (found.tables, found.flags) == ((), ())
    assert to_json(found)


@pytest.mark.parametrize("task", ["../../evil", "$\\bad{$", "=HYPERLINK(1)", "[x]", "a" * 190, "/", "größe"])
def test_names_of_tables_are_only_names(task):
    records = [robustness_record(task=task, seed=s) for s in range(2)] + [
        runtime_record(task=task),
        reconstruction_record(task=task),
    ]
    names = [each.name for each in build_board("own", records).tables]
    assert len(set(names)) == len(names)
    assert all(name.isprintable() and "/" not in name and not name.startswith(".") for name in names)


def test_tables_of_tasks_with_the_same_slug_have_different_names():
    records = [robustness_record(task=task) for task in ("a b", "a-b", "a_b")]
    names = [each.name for each in build_board("own", records).tables]
    assert len(set(names)) == len(names)


def test_every_table_of_every_measure_has_every_format():
    found = build_board("own", EVERY)
    assert to_json(found)
    for each in found.tables:
        assert to_markdown(each).startswith("### ")
        assert "\\bottomrule" in to_latex(each)
        assert to_csv([each]).count("\n") == 1 + len(each.rows) * len(each.columns)
