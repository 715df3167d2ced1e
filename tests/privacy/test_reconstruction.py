"""What the server can rebuild behind each defense, by each way of looking."""

import io
from dataclasses import replace

import numpy as np
import pytest

from fflbench import aggregate, registry
from fflbench.errors import ParameterError, RecordError
from fflbench.execution.cell import play
from fflbench.federation import Columns, Sent
from fflbench.federation.defense import Setting
from fflbench.privacy.scoring import pixels, ssim
from fflbench.privacy.targets import TARGETS, Seen, find_pairs, looks
from fflbench.privacy.victims import value_range
from fflbench.records.arrays import digest
from fflbench.records.store import Store
from fflbench.registry import Kind
from fflbench.report.board import board
from fflbench.report.figures import figures
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
    partners = getattr(defense, "partner", {})
    return Seen(
        view, selected.tolist(), [], partners, dict(enumerate(updates)), dict.fromkeys(range(PEOPLE), 3)
    ), updates


def test_without_a_defense_a_pseudonym_gives_its_update_away():
    round, updates = seen("fedavg")
    for look in TARGETS["own"].look(round):
        np.testing.assert_array_equal(look.updates[0], updates[look.people[0]])


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_mixing_hides_updates_but_keeps_the_sum_of_two_partners(mode):
    round, updates = seen("ffl", mode=mode)
    for look in TARGETS["own"].look(round):
        same = look.updates[0] == updates[look.people[0]]
        assert 0.3 < same.mean() < 0.7
    pairs = TARGETS["pair-sum"].look(round)
    assert sorted(who for look in pairs for who in look.people) == list(range(PEOPLE))
    for look in pairs:
        np.testing.assert_allclose(look.updates[0], updates[list(look.people)].mean(0), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("name", "mode"), [("ffl", "fast"), ("ffl", "full"), ("ideal-secagg", "")])
def test_a_traitor_tells_all_of_its_partner_whatever_their_sizes(name, mode):
    defense = registry.get(Kind.DEFENSE, name).create(**({"mode": mode} if mode else {}))
    updates = np.random.default_rng(0).standard_normal((PEOPLE, COLUMNS), dtype=np.float32)
    sizes = np.array([3, 5, 2, 7])
    defense.begin(Setting(PEOPLE, PEOPLE, sizes, Columns.plain(COLUMNS), 0))
    selected, sent = defense.select(0), updates.copy()
    view = defense.transmit(0, np.zeros(COLUMNS, np.float32), selected, Sent(sent, sent))
    for look in looks("colluding", defense, view, selected, updates, []):
        rest = np.average(updates[list(look.people)], axis=0, weights=sizes[list(look.people)])
        scale = sizes[look.people[0]] / sizes.mean() if defense.exchanges else 1.0
        np.testing.assert_allclose(look.updates[0], scale * rest, rtol=1e-4, atol=1e-5)


def test_partners_of_those_whose_rows_are_lost_are_not_looked_at():
    defense = registry.get(Kind.DEFENSE, "ffl").create()
    updates = np.random.default_rng(0).standard_normal((PEOPLE, COLUMNS), dtype=np.float32)
    updates[0] = np.nan
    defense.begin(Setting(PEOPLE, PEOPLE, np.full(PEOPLE, 3), Columns.plain(COLUMNS), 0))
    selected, sent = defense.select(0), updates.copy()
    view = defense.transmit(0, np.zeros(COLUMNS, np.float32), selected, Sent(sent, sent)).without_non_finite()
    lost = {0, defense.partner[0]}
    for target in ("pair-sum", "colluding", "aggregate"):
        people = {who for look in looks(target, defense, view, selected, updates, []) for who in look.people}
        assert people
        assert not people & lost
    assert looks("own", defense, replace(view, updates=view.updates[:0]), selected, updates, []) == []


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
    assert find_pairs(view, ["weight"]) == sorted({(min(pair), max(pair)) for pair in defense.partner.items()})


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
        right += sum(defense.partner[one] == other for one, other in find_pairs(view, ["weight"]))
    # One in nine is chance.
    assert right <= 8


@pytest.mark.parametrize("name", ["fedavg", "ideal-secagg", "ffl"])
def test_the_aggregate_is_everybodys_mean(name):
    round, updates = seen(name)
    (look,) = TARGETS["aggregate"].look(round)
    assert sorted(look.people) == list(range(PEOPLE))
    np.testing.assert_allclose(look.updates[0], updates.mean(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_a_traitor_exposes_its_partner_to_the_bit(mode):
    round, updates = seen("ffl", mode=mode)
    looks = TARGETS["colluding"].look(round)
    assert len(looks) == PEOPLE / 2
    for look in looks:
        np.testing.assert_array_equal(look.updates[0], updates[look.people[0]])


def test_a_traitor_takes_only_itself_out_of_a_secure_sum():
    round, updates = seen("ideal-secagg")
    (look,) = TARGETS["colluding"].look(round)
    traitor = (set(range(PEOPLE)) - set(look.people)).pop()
    assert len(look.people) == PEOPLE - 1
    np.testing.assert_allclose(look.updates[0], np.delete(updates, traitor, 0).mean(0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_two_partners_are_told_apart_in_a_linear_layer(batch):
    people, rows, inputs = 6, 10, 40
    updates = linear_updates(people, batch, rows, inputs + 1)
    # The last column of each matrix is the bias, which stands behind the weights.
    whole = updates.reshape(people, rows, inputs + 1)
    updates = np.concatenate([whole[:, :, :-1].reshape(people, -1), whole[:, :, -1]], 1)
    columns = replace(
        Columns.plain(updates.shape[1]),
        spans={"weight": slice(0, rows * inputs), "bias": slice(rows * inputs, updates.shape[1])},
        shapes={"weight": (rows, inputs), "bias": (rows,)},
    )
    defense = registry.get(Kind.DEFENSE, "ffl").create()
    defense.begin(Setting(people, people, np.full(people, batch), columns, 3))
    sent = updates.copy()
    view = defense.transmit(0, np.zeros(updates.shape[1], np.float32), defense.select(0), Sent(sent, sent))
    round = Seen(view, list(range(people)), ["weight"])
    for look in TARGETS["unmixed"].look(round):
        assert defense.partner[look.people[0]] == look.people[1]
        true = updates[list(look.people)]
        found = np.stack(look.updates)
        assert (found == true).all() or (found == true[::-1]).all()


def test_ideal_secure_aggregation_shows_one_row_and_learns_as_fedavg_does():
    round, updates = seen("ideal-secagg")
    assert round.view.updates.shape == (1, COLUMNS)
    defense = registry.get(Kind.DEFENSE, "ideal-secagg").create()
    np.testing.assert_allclose(defense.aggregate(round.view), aggregate("fedavg", updates), rtol=1e-5, atol=1e-6)


def cells(target, defenses=("fedavg", "ffl", "ideal-secagg"), steps=60, extra=None, **measure):
    content = {
        "tasks": ["digits-cnn"],
        "attacks": ["idlg"],
        "defenses": list(defenses),
        "seeds": [0],
        "attack": {"idlg": {"steps": steps}},
        "measure": {"use": "reconstruction", "target": target, "groups": 2, "people": 2} | measure,
    }
    return plan(parse(content | (extra or {}), "own", "own.toml"))


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
    assert again.result() == records[2].result()
    assert again.packed == records[2].packed


def test_records_tell_who_knew_what(records):
    assert [record.facts["adaptive"] for record in records] == [None, False, True]
    assert "who exchanged with whom" in records[2].facts["knows"]
    assert [record.facts["reconstructions"] for record in records] == [4, 4, 2]


def test_the_table_shows_attack_target_and_defense(records):
    tables = {table.title: table for table in board("own", records).tables}
    rows = tables["digits-cnn, reconstruction under idlg"].rows
    assert [row.keys for row in rows] == [("own", "fedavg"), ("own", "ffl"), ("pair-sum", "ffl")]
    assert [bool(row.flags) for row in rows] == [False, True, False]
    by_observation = tables["digits-cnn, reconstruction: PSNR by observation"]
    assert [column.title for column in by_observation.columns][:2] == ["own, dB", "pair-sum (upper bound), dB"]
    assert any("people = 2, batch = 1, local_steps = 1" in note for note in by_observation.notes)


@pytest.mark.parametrize(
    ("target", "defense", "attacked"),
    [("own", "fedavg", 7), ("own", "ffl", 6), ("found-pair-sum", "ffl", 3), ("aggregate", "fedavg", 1)],
)
def test_rows_that_are_not_finite_are_dropped_as_in_every_measure(target, defense, attacked, monkeypatch):
    """One of the first group of four; where it mixes, both it and its partner may send what is not finite."""
    from fflbench.privacy import victims

    whole, groups = victims.trained, []

    def spoiled(*arguments):
        group = whole(*arguments)
        if not groups:
            group.updates[1, ::2] = np.nan
        groups.append(group)
        return group

    monkeypatch.setattr(victims, "trained", spoiled)
    record = play(cells(target, [defense], steps=1, people=4)[0], "own")
    assert record.status == "done", record.error
    assert record.facts["dropped_rows"] == (2 if defense == "ffl" else 1)
    assert record.facts["reconstructions"] == attacked
    assert np.isfinite(record.metrics["psnr"])


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
    told = [cell.configuration["measure"]["parameters"] for cell in found]
    looks = {(of.get("target"), cell.labels["defense"]) for of, cell in zip(told, found, strict=True)}
    assert {target for target, _ in looks} - {None} == set(TARGETS)
    assert ("own", "ideal-secagg") not in looks
    attacks = {cell.labels["privacy-attack"] for cell in found}
    assert attacks == {entry.name for entry in registry.entries(Kind.PRIVACY_ATTACK)}
    settings = {tuple(of.get(name) for name in ("batch", "local_steps", "model_epochs")) for of in told}
    assert {(1, 1, 0), (8, 1, 0), (1, 5, 0), (1, 1, 5)} <= settings


def test_masks_are_undone_on_real_gradients_and_images_come_back():
    (cell,) = cells("unmixed", ["ffl"], people=10)
    found = play(cell, "own").metrics
    assert found["pair_accuracy"] == 1
    assert found["mask_accuracy"] == 1
    assert found["psnr"] > 40


def test_labels_of_two_partners_are_told_from_their_mean_where_only_another_layer_was_separated():
    content = {"tasks": ["digits-mlp"], "attacks": ["analytic"], "attack": {}}
    (cell,) = cells("unmixed", ["ffl"], extra=content, people=10)
    found = play(cell, "own").metrics
    assert found["psnr"] > 100
    assert found["label_accuracy"] > 0.95


def test_where_ranks_tell_nothing_pairs_are_guessed_and_no_mask_is_told():
    (cell,) = cells("unmixed", ["ffl"], people=20, groups=1, batch=8, steps=5)
    found = play(cell, "own").metrics
    assert found["pair_accuracy"] < 0.5
    assert found["mask_accuracy"] is None


@pytest.mark.parametrize("target", list(TARGETS))
def test_a_target_is_handed_what_it_declares_and_nothing_more(target, monkeypatch):
    seen, it = [], TARGETS[target]

    def look(round):
        seen.append(round)
        return it.look(round)

    monkeypatch.setitem(TARGETS, target, replace(it, look=look))
    (cell,) = cells(target, ["ideal-secagg" if target == "aggregate" else "ffl"], people=4, groups=1, steps=1)
    assert play(cell, "own").status == "done"
    (round,) = seen
    assert bool(round.partners) == (target in ("pair-sum", "colluding"))
    assert len(round.brought) == (2 if target == "colluding" else 0)


def test_where_nobody_pairs_there_is_nothing_to_attack():
    content = {"defense": {"ffl": {"acceptance": "literal"}}}
    (cell,) = cells("own", ["ffl"], extra=content)
    assert play(cell, "own").error.startswith("nobody found a partner")


def test_a_trained_model_has_seen_no_victim_and_still_gives_them_away():
    (cell,) = cells("own", ["fedavg"], steps=200, model_epochs=1)
    assert play(cell, "own").metrics["psnr"] > 40


def test_models_without_a_linear_layer_have_no_ranks_to_look_at():
    from torch import nn

    class Other(type(registry.get(Kind.TASK, "digits-cnn").create())):
        def model(self):
            return nn.Sequential(nn.Conv2d(1, 2, 8), nn.Flatten())

    finding = registry.get(Kind.MEASURE, "reconstruction").create(target="unmixed")
    with pytest.raises(ParameterError, match="needs a model with a linear layer"):
        finding.check(Other(), registry.get(Kind.DEFENSE, "ffl").create())


def test_originals_and_reconstructions_stand_beside_the_record(records, tmp_path):
    store = Store(tmp_path)
    for record in records:
        store.write(record)
    plain, mixed, summed = (store.arrays(store.read(record.id)) for record in records)
    assert plain["originals"].shape == plain["found"].shape == (2, 2, 1, 1, 8, 8)
    np.testing.assert_allclose(plain["found"], plain["originals"], atol=1e-3)
    np.testing.assert_allclose(summed["found"], plain["originals"], atol=1e-2)
    assert np.abs(mixed["found"] - plain["originals"]).mean() > 0.1


@pytest.mark.parametrize("harm", ["missing", "altered", "emptied"])
def test_arrays_that_are_not_their_records_are_refused(records, tmp_path, harm):
    store = Store(tmp_path)
    store.write(records[0])
    file = store.arrays_file(records[0].id)
    content = file.read_bytes()
    if harm == "missing":
        file.unlink()
    else:
        file.write_bytes(content[:-1] + b"x" if harm == "altered" else b"")
    with pytest.raises(RecordError, match=file.name):
        store.arrays(records[0])


def test_a_file_of_arrays_with_objects_in_it_is_never_opened(records, tmp_path):
    stream = io.BytesIO()
    np.savez(stream, found=np.array([{"code": 1}], object))
    with pytest.raises(ValueError, match="something else than numbers"):
        records[0].carrying(stream.getvalue())
    store, altered = Store(tmp_path), records[0].model_copy(update={"arrays": digest(stream.getvalue())})
    store.write(altered)
    store.arrays_file(altered.id).write_bytes(stream.getvalue())
    with pytest.raises(RecordError, match="damaged"):
        store.arrays(store.read(altered.id))


def test_a_grid_shows_originals_and_every_row_and_is_the_same_each_time(records, tmp_path):
    store = Store(tmp_path)
    for record in records:
        store.write(record)
    grids = [picture for picture in figures(records, board("own", records), store.arrays) if "grid" in picture.name]
    (grid,) = grids
    assert grid.shown == "grid-digits-cnn-reconstruction-by-idlg.png"
    assert grid.files["png"][:4] == b"\x89PNG"
    again = figures(records, board("own", records), store.arrays)
    assert next(picture for picture in again if picture.name == grid.name).files == grid.files


def test_pixels_are_those_before_normalising():
    x = np.random.default_rng(0).normal(size=(50, 3, 4, 4)).astype(np.float32)
    low, high = value_range(x)
    seen = pixels(x, low, high)
    assert low.shape == (3, 1, 1)
    np.testing.assert_allclose([seen.min((0, 2, 3)), seen.max((0, 2, 3))], [[0] * 3, [1] * 3], atol=1e-6)


def slow_ssim(one, other, window=5):
    """As Wang et al. have it, window by window, over reflected borders."""
    pad = window // 2
    a, b = (np.pad(image.astype(np.float64), pad, mode="reflect") for image in (one, other))
    found = []
    for row in range(one.shape[0]):
        for column in range(one.shape[1]):
            p, q = (image[row : row + window, column : column + window] for image in (a, b))
            covariance = (p * q).mean() - p.mean() * q.mean()
            light = (2 * p.mean() * q.mean() + 0.01**2) / (p.mean() ** 2 + q.mean() ** 2 + 0.01**2)
            found.append(light * (2 * covariance + 0.03**2) / (p.var() + q.var() + 0.03**2))
    return np.mean(found)


def test_structural_similarity_is_the_published_one():
    rng = np.random.default_rng(0)
    x = rng.random((3, 1, 8, 8)).astype(np.float32)
    other = np.clip(x + rng.normal(scale=0.2, size=x.shape), 0, 1).astype(np.float32)
    assert ssim(x, other) == pytest.approx([slow_ssim(a[0], b[0]) for a, b in zip(x, other, strict=True)], abs=1e-4)
    assert ssim(x, x) == pytest.approx([1.0] * 3)
