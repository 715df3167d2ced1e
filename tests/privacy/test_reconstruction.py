"""What the server can rebuild behind each defense, by each way of looking."""

from dataclasses import replace

import numpy as np
import pytest

from fflbench import aggregate, registry
from fflbench.errors import ParameterError
from fflbench.execution.cell import play
from fflbench.federation import Columns, Sent
from fflbench.federation.defense import Setting
from fflbench.privacy.targets import TARGETS, Seen, find_pairs
from fflbench.registry import Kind
from fflbench.report import contents, leaks
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse, read

PEOPLE, COLUMNS = 4, 300


def seen(name, **parameters):
    """A round of random updates behind a defense, and the updates themselves."""
    defense = registry.get(Kind.DEFENSE, name).create(**parameters)
    updates = np.random.default_rng(0).standard_normal((PEOPLE, COLUMNS), dtype=np.float32)
    defense.begin(Setting(PEOPLE, PEOPLE, np.full(PEOPLE, 3), Columns.plain(COLUMNS), 0))
    selected, sent = defense.select(0), updates.copy()
    view = defense.transmit(0, np.zeros(COLUMNS, np.float32), selected, Sent(sent, sent))
    return Seen(view, selected.tolist(), getattr(defense, "partner", {})), updates


def test_without_a_defense_a_pseudonym_gives_its_update_away():
    round, updates = seen("fedavg")
    for look in TARGETS["own"].look(round):
        np.testing.assert_array_equal(look.update, updates[look.people[0]])


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_mixing_hides_updates_but_keeps_the_sum_of_two_partners(mode):
    round, updates = seen("ffl", mode=mode)
    for look in TARGETS["own"].look(round):
        same = look.update == updates[look.people[0]]
        assert 0.3 < same.mean() < 0.7
    pairs = TARGETS["pair-sum"].look(round)
    assert sorted(who for look in pairs for who in look.people) == list(range(PEOPLE))
    for look in pairs:
        np.testing.assert_allclose(look.update, updates[list(look.people)].mean(0), rtol=1e-6, atol=1e-7)


def linear_updates(people, batch, rows=10, columns=40, seed=0):
    """Gradients of a linear layer: as many outer products as there are examples."""
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=(rows, batch)) @ rng.normal(size=(batch, columns)) for _ in range(people)]
    return np.stack([matrix.ravel() for matrix in made]).astype(np.float32)


@pytest.mark.parametrize(("people", "batch"), [(2, 1), (4, 1), (10, 1), (10, 2), (6, 4)])
def test_pairs_are_found_from_the_rank_of_their_sums(people, batch):
    updates = linear_updates(people, batch)
    columns = replace(Columns.plain(400), spans={"weight": slice(0, 400)}, shapes={"weight": (10, 40)})
    defense = registry.get(Kind.DEFENSE, "ffl").create()
    defense.begin(Setting(people, people, np.full(people, batch), columns, 3))
    view = defense.transmit(0, np.zeros(400, np.float32), defense.select(0), Sent(updates, updates))
    assert find_pairs(view) == sorted({(min(pair), max(pair)) for pair in defense.partner.items()})


def test_no_pairs_are_found_where_ranks_tell_nothing():
    people, batch = 10, 12
    updates = linear_updates(people, batch)
    columns = replace(Columns.plain(400), spans={"weight": slice(0, 400)}, shapes={"weight": (10, 40)})
    right = 0
    for seed in range(5):
        defense = registry.get(Kind.DEFENSE, "ffl").create()
        defense.begin(Setting(people, people, np.full(people, batch), columns, seed))
        sent = updates.copy()
        view = defense.transmit(0, np.zeros(400, np.float32), defense.select(0), Sent(sent, sent))
        right += sum(defense.partner[one] == other for one, other in find_pairs(view))
    # One in nine is chance.
    assert right <= 8


@pytest.mark.parametrize("name", ["fedavg", "ideal-secagg", "ffl"])
def test_the_aggregate_is_everybodys_mean(name):
    round, updates = seen(name)
    (look,) = TARGETS["aggregate"].look(round)
    assert sorted(look.people) == list(range(PEOPLE))
    np.testing.assert_allclose(look.update, updates.mean(0), rtol=1e-5, atol=1e-6)


def test_ideal_secure_aggregation_shows_one_row_and_learns_as_fedavg_does():
    round, updates = seen("ideal-secagg")
    assert round.view.updates.shape == (1, COLUMNS)
    defense = registry.get(Kind.DEFENSE, "ideal-secagg").create()
    np.testing.assert_allclose(defense.aggregate(round.view), aggregate("fedavg", updates), rtol=1e-5, atol=1e-6)


def cells(target, defenses=("fedavg", "ffl", "ideal-secagg"), **measure):
    content = {
        "tasks": ["digits-cnn"],
        "attacks": ["idlg"],
        "defenses": list(defenses),
        "seeds": [0],
        "attack": {"idlg": {"steps": 60}},
        "measure": {"use": "reconstruction", "target": target, "groups": 2, "people": 2} | measure,
    }
    return plan(parse(content, "own", "own.toml"))


def test_ways_of_looking_that_make_no_sense_are_left_out():
    assert [cell.labels["defense"] for cell in cells("own")] == ["fedavg", "ffl"]
    assert [cell.labels["defense"] for cell in cells("pair-sum")] == ["ffl"]
    assert [cell.labels["defense"] for cell in cells("aggregate")] == ["fedavg", "ffl", "ideal-secagg"]


@pytest.fixture(scope="module")
def records():
    return [play(cell, "own") for cell in (*cells("own", ["fedavg", "ffl"]), *cells("pair-sum"))]


def test_digits_come_back_without_a_defense_and_from_sums_of_partners_but_not_from_mixed_updates(records):
    plain, mixed, summed = (record.metrics for record in records)
    assert plain["psnr"] > 40
    assert plain["label_accuracy"] == 1
    assert mixed["psnr"] < mixed["floor_psnr"] + 3
    assert summed["psnr"] > 30
    assert 5 < plain["floor_psnr"] < 15


def test_the_same_cell_gives_the_same_figures(records):
    again = play(cells("pair-sum")[0], "own")
    assert again.history == records[2].history
    assert again.result()["metrics"] | {"seconds": 0} == records[2].result()["metrics"] | {"seconds": 0}


def test_records_tell_who_knew_what(records):
    assert [record.facts["adaptive"] for record in records] == [False, False, True]
    assert "who exchanged with whom" in records[2].facts["knows"]
    assert [record.facts["reconstructions"] for record in records] == [4, 4, 2]


def test_the_table_shows_attack_target_and_defense(records):
    (sheet,) = leaks.sheets(records)
    assert [row[:3] for row in sheet.rows] == [
        ("idlg", "own", "fedavg"),
        ("idlg", "own", "ffl"),
        ("idlg", "pair-sum", "ffl"),
    ]
    assert [row[-1] for row in sheet.rows] == ["no", "no", "yes"]
    page = contents.files("Own", records)["tables.md"].decode()
    assert "2 people a round, 1 examples each" in page


def test_nobody_may_be_left_without_a_partner():
    finding = registry.get(Kind.MEASURE, "reconstruction").create(people=3)
    task = registry.get(Kind.TASK, "digits-cnn").create()
    with pytest.raises(ParameterError, match="people = 3 leaves one without a partner"):
        finding.check(task, registry.get(Kind.DEFENSE, "ffl").create())


def test_several_local_steps_still_give_labels_away():
    (cell,) = cells("own", ["fedavg"], local_steps=3)
    assert play(cell, "own").metrics["label_accuracy"] == 1


def test_the_shipped_suite_meets_every_defense_in_every_way_that_applies():
    found = plan(read("privacy-quick"))
    looks = {(cell.configuration["measure"]["parameters"]["target"], cell.labels["defense"]) for cell in found}
    assert ("pair-sum", "ffl") in looks
    assert ("own", "ideal-secagg") not in looks
    assert len(found) == 3 * 3 * 11
