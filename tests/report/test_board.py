"""All tables of a run or leaderboard, and what a reader must be warned of."""

import pytest

from fflbench.report.board import STALE, board, within
from fflbench.report.formats import to_csv, to_json, to_latex, to_markdown
from tests.report.synthetic import (
    WHOLE,
    cell,
    changed,
    chosen,
    failed,
    membership,
    rebuilt,
    record,
    robust,
    swept,
    table,
    timed,
)

EVERY = [
    *WHOLE,
    *(
        membership(defense="ffl", seed=s, observation=t)
        for s in range(3)
        for t in ("submission", "colluding-participant")
    ),
    *(rebuilt(observation=t) for t in ("submission", "pair-sum")),
    *(timed(name) for name in ("fedavg", "median")),
    *(
        swept(robust("sign-flipping", seed=s), "attack", "share", v, "sign-flipping")
        for s in range(3)
        for v in (0.1, 0.2)
    ),
]


def made_with(each, **manifest):
    return each.model_copy(update={"manifest": each.manifest | manifest})


def of_version(each, kind, version):
    return made_with(each, results=each.manifest["results"] | {kind: version})


def flags(found, name="digits-mlp-summary"):
    return {row.label: row.flags for row in table(found, name).rows}


def test_a_record_of_older_code_is_flagged_with_its_row():
    assert not any("older results" in flag for flag in board("own", WHOLE).flags)
    stale = board("own", [of_version(WHOLE[0], "core", 1), *WHOLE[1:]])
    assert any("1 record of older results versions" in flag for flag in stale.flags)
    assert flags(stale) == {"fedavg": (STALE,), "median": ()}


@pytest.mark.parametrize("kind", ["attack", "transport", "rule", "task", "measure"])
def test_a_record_of_an_older_part_is_stale(kind):
    assert flags(board("own", [of_version(WHOLE[0], kind, 0), *WHOLE[1:]]))["fedavg"] == (STALE,)


def test_a_stale_deviation_flags_the_row_of_its_defense():
    label = {"deviation": {"strategy": 1}}
    old = of_version(robust("gaussian-noise", "ffl", **label), "core", 1)
    found = board("own", [*WHOLE, robust(defense="ffl"), old])
    assert STALE in flags(found)["ffl"]
    assert flags(found)["median"] == ()
    assert STALE in flags(found, "digits-mlp-robustness-gaussian-noise")["ffl, strategy = 1"]


def test_plugins_that_are_not_here_are_not_stale():
    theirs = of_version(robust(defense="theirs"), "rule", "1+aaaa")
    assert flags(board("own", [*WHOLE, theirs]))["theirs"] == ()


def test_records_from_outside_are_flagged_until_they_are_run_again():
    told = "reported by They, not run again"
    found = board("own", WHOLE, {chosen(WHOLE, defense="median")[0].id: told})
    assert flags(found) == {"fedavg": (), "median": (told,)}


def test_a_mixture_of_two_sources_of_a_plugin_is_flagged():
    one = [of_version(robust(defense="theirs", seed=seed), "rule", "1+aaaa") for seed in range(3)]
    assert not any("mixture" in flag for flag in board("own", [*WHOLE, *one]).flags)
    mixed = board("own", [*WHOLE, *one[:2], of_version(one[2], "rule", "1+bbbb")])
    (told,) = (flag for flag in mixed.flags if "mixture" in flag)
    assert 'rule "theirs": 2 of version 1+aaaa, 1 of version 1+bbbb' in told


@pytest.mark.parametrize("part", ["processor", "fflbench", "libraries", "python"])
def test_records_of_another_machine_or_version_are_flagged(part):
    same = [made_with(each, **{part: "one"}) for each in WHOLE]
    assert not any("another" in flag for flag in board("own", same).flags)
    other = board("own", [made_with(same[0], **{part: "two"}), *same[1:]])
    assert any(f"1 record made with another {part} than the others" in flag for flag in other.flags)


def test_failed_cells_are_listed_with_their_reason():
    found = board("own", changed(WHOLE, failed, attack="gaussian-noise", defense="median"))
    assert any("3 cells failed" in flag and "boom" in flag for flag in found.flags)


def test_what_a_rule_does_not_tolerate_is_flagged_with_its_row():
    bold = robust(defense="multi-krum", facts={"flags": ["f = 5 is more than it tolerates"]})
    found = table(board("own", [*WHOLE, bold]), "digits-mlp-summary")
    assert "⚑1 f = 5 is more than it tolerates" in to_markdown(found)


def test_a_threat_model_leaves_out_who_knows_more():
    alone = within(EVERY, ["server view", "own data"])
    left_out = [each for each in EVERY if each not in alone]
    assert left_out == [each for each in EVERY if "colluding-participant" in each.labels["measure"]]
    # By the plugin where the record does not say: noise is shaped after what an attacker's own data gives.
    noise = robust("gaussian-noise")
    assert within([noise], ["server view"]) == []
    assert within([noise], ["own data"]) == [noise]
    names = [column.name for column in table(board("own", alone), "overall-digits-mlp").columns]
    assert "membership-auc-with-help" not in names


def test_every_figure_names_the_records_behind_it():
    known = {each.id: each for each in EVERY}
    count = 0
    for found in board("own", EVERY).tables:
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
    records = [record("theirs", {"warmth": 20.0 + seed, "good": True}, seed=seed) for seed in (0, 1)]
    for each in records:
        each.json_text()
    found = board("own", [*WHOLE, *records])
    shown = table(found, "digits-mlp-theirs-all")
    assert shown.section == "Other measures"
    assert [column.title for column in shown.columns] == ["warmth"]
    assert cell(shown, "fedavg", "warmth").mean == 20.5
    assert cell(table(found, "overall-digits-mlp"), "fedavg", "theirs-warmth").mean == 20.5


def test_the_order_of_records_changes_no_figure():
    def figures(found):
        return {
            (each.name, row.label, column.name): place
            for each in found.tables
            for row in each.rows
            for column, place in zip(each.columns, row.cells, strict=True)
        }

    assert figures(board("own", EVERY)) == figures(board("own", EVERY[::-1]))


def test_a_board_of_no_records_is_empty():
    found = board("own", [])
    assert (found.tables, found.flags) == ((), ())
    assert to_json(found)


@pytest.mark.parametrize("task", ["../../evil", "$\\bad{$", "=HYPERLINK(1)", "[x]", "a" * 190, "/", "größe"])
def test_names_of_tables_are_only_names(task):
    records = [robust(task=task, seed=s) for s in range(2)] + [timed(task=task), rebuilt(task=task)]
    names = [each.name for each in board("own", records).tables]
    assert len(set(names)) == len(names)
    assert all(name.isprintable() and "/" not in name and not name.startswith(".") for name in names)


def test_tables_of_tasks_whose_names_come_down_to_one_are_told_apart():
    records = [robust(task=task) for task in ("a b", "a-b", "a_b")]
    names = [each.name for each in board("own", records).tables]
    assert len(set(names)) == len(names)


def test_every_table_of_every_measure_has_every_format():
    found = board("own", EVERY)
    assert to_json(found)
    for each in found.tables:
        assert to_markdown(each).startswith("### ")
        assert "\\bottomrule" in to_latex(each)
        assert to_csv([each]).count("\n") == 1 + len(each.rows) * len(each.columns)
