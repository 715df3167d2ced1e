"""Quality of reconstructions for each transport and observation."""

import io

import numpy as np
import pytest

from fflbench import registration, registry
from fflbench.errors import ParameterError, RecordError
from fflbench.execution.run_cell import run_cell
from fflbench.federation import Rule
from fflbench.federation.chain import defense
from fflbench.measures import Context
from fflbench.privacy import victim_updates
from fflbench.privacy.reconstruction_quality import ssim, to_pixels
from fflbench.privacy.victim_updates import value_range
from fflbench.records.npz_file import arrays_digest
from fflbench.records.store import Store
from fflbench.registry import Kind
from fflbench.report.all_tables import build_board
from fflbench.report.figures import draw_figures
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse, read


def plan_reconstruction_cells(observation, defenses=("fedavg", "ffl", "ideal-secagg"), steps=60, extra=None, **measure):
    content = {
        "tasks": ["digits-cnn"],
        "attacks": ["idlg"],
        "defenses": list(defenses),
        "seeds": [0],
        "attack": {"idlg": {"steps": steps}},
        "measure": {"use": "reconstruction", "observation": observation, "groups": 2, "people": 2} | measure,
    }
    return plan(parse(content | (extra or {}), "own", "own.toml"))


def test_observations_that_make_no_sense_are_left_out():
    assert [cell.labels["defense"] for cell in plan_reconstruction_cells("submission")] == ["fedavg", "ffl"]
    assert [cell.labels["defense"] for cell in plan_reconstruction_cells("pair-sum")] == ["ffl"]
    assert [cell.labels["defense"] for cell in plan_reconstruction_cells("sum")] == ["fedavg", "ffl", "ideal-secagg"]


@pytest.fixture(scope="module")
def records():
    return [
        run_cell(cell, "own")
        for cell in (
            *plan_reconstruction_cells("submission", ["fedavg", "ffl"]),
            *plan_reconstruction_cells("pair-sum"),
        )
    ]


def test_digits_come_back_without_a_defense_and_from_sums_of_two_but_not_from_mixed_updates(records):
    plain, mixed, summed = (record.metrics for record in records)
    assert plain["psnr"] > 40
    assert plain["label_accuracy"] == 1
    assert mixed["psnr"] < mixed["floor_psnr"] + 3
    assert summed["psnr"] > 30
    assert 5 < plain["floor_psnr"] < 15


def test_an_attack_that_is_given_the_labels_gets_the_true_ones_and_says_so():
    attacks = {
        "attacks": ["inverting-gradients"],
        "attack": {"inverting-gradients": {"steps": 8, "known_labels": True}},
    }
    for observation in ("submission", "pair-sum", "unmixed"):
        (cell,) = plan_reconstruction_cells(observation, ["ffl"], extra=attacks, batch=4)
        record = run_cell(cell, "own")
        assert record.metrics["label_accuracy"] == 1
        assert "victims' labels" in record.facts["knows"]
    guessing = {"attacks": ["inverting-gradients"], "attack": {"inverting-gradients": {"steps": 8}}}
    (cell,) = plan_reconstruction_cells("submission", ["ffl"], extra=guessing, batch=4)
    record = run_cell(cell, "own")
    assert record.metrics["label_accuracy"] < 1
    assert "victims' labels" not in record.facts["knows"]


def test_the_same_cell_gives_the_same_figures(records):
    again = run_cell(plan_reconstruction_cells("pair-sum")[0], "own")
    assert again.reproducible_content() == records[2].reproducible_content()
    assert again.packed == records[2].packed


def test_records_tell_who_knew_what(records):
    assert [record.facts["adaptive"] for record in records] == [None, False, True]
    assert "who exchanged with whom" in records[2].facts["knows"]
    assert [record.facts["reconstructions"] for record in records] == [4, 4, 2]


def test_the_table_shows_attack_observation_and_defense(records):
    tables = {table.title: table for table in build_board("own", records).tables}
    rows = tables["digits-cnn, reconstruction under idlg"].rows
    assert [row.keys for row in rows] == [("submission", "fedavg"), ("submission", "ffl"), ("pair-sum", "ffl")]
    assert [bool(row.flags) for row in rows] == [False, True, False]
    by_observation = tables["digits-cnn, reconstruction: PSNR by observation"]
    assert [column.title for column in by_observation.columns][:2] == ["submission, dB", "pair-sum (upper bound), dB"]
    assert any("people = 2, batch = 1, local_steps = 1" in note for note in by_observation.notes)


@pytest.mark.parametrize(
    ("observation", "name", "attacked"),
    [("submission", "fedavg", 7), ("submission", "ffl", 6), ("found-pair-sum", "ffl", 3), ("sum", "fedavg", 1)],
)
def test_rows_that_are_not_finite_are_dropped_as_in_every_measure(observation, name, attacked, monkeypatch):
    """One of the first group of four; where rows are mixed, two may send what is not finite."""

    whole, groups = victim_updates.train_victims, []

    def spoiled(*arguments):
        group = whole(*arguments)
        if not groups:
            group.updates[1, ::2] = np.nan
        groups.append(group)
        return group

    monkeypatch.setattr(victim_updates, "train_victims", spoiled)
    record = run_cell(plan_reconstruction_cells(observation, [name], steps=1, people=4)[0], "own")
    assert record.status == "done", record.error
    assert record.facts["dropped_rows"] == (2 if name == "ffl" else 1)
    assert record.facts["reconstructions"] == attacked
    assert np.isfinite(record.metrics["psnr"])


def test_the_number_of_participants_must_be_a_multiple_of_the_groups():
    measure = registry.get(Kind.MEASURE, "reconstruction").create(people=3)
    task = registry.get(Kind.TASK, "digits-cnn").create()
    with pytest.raises(ParameterError, match="people = 3 leaves somebody over; take a multiple of 2"):
        measure.check(task, defense("ffl"))
    measure.check(task, defense("fedavg"))


def test_all_participants_take_part_whomever_a_rule_would_select(own_registry):
    @registration.rule("picky", title="Picky")
    class Picky(Rule):
        """Selects nobody but the first participant."""

        def select(self, round, rng):
            return np.array([0])

    task, attack = (
        registry.get(Kind.TASK, "digits-mlp").create(),
        registry.get(Kind.PRIVACY_ATTACK, "analytic").create(),
    )
    measure = registry.get(Kind.MEASURE, "reconstruction").create(groups=2, people=4)
    outcomes = [measure.run(Context(task, defense(text), 0, attack)) for text in ("picky", "fedavg")]
    assert outcomes[0].facts["reconstructions"] == 8
    assert outcomes[0].metrics == outcomes[1].metrics


def test_several_local_steps_still_give_labels_away():
    (cell,) = plan_reconstruction_cells("submission", ["fedavg"], local_steps=3)
    assert run_cell(cell, "own").metrics["label_accuracy"] == 1


def test_the_shipped_suite_meets_every_defense_in_every_way_that_applies():
    found = plan(read("privacy-quick"))
    parameters = [cell.configuration["measure"]["parameters"] for cell in found]
    observations = {(of.get("observation"), cell.labels["defense"]) for of, cell in zip(parameters, found, strict=True)}
    of_one_round = {entry.name for entry in registry.entries(Kind.OBSERVATION) if entry.target.rounds == 1}
    assert {name for name, _ in observations} - {None} == of_one_round
    assert ("submission", "ideal-secagg") not in observations
    attacks = {cell.labels["privacy-attack"] for cell in (*found, *plan(read("privacy-batches")))}
    assert attacks == {entry.name for entry in registry.entries(Kind.PRIVACY_ATTACK)}
    settings = {tuple(of.get(name) for name in ("batch", "local_steps", "model_epochs")) for of in parameters}
    assert {(1, 1, 0), (8, 1, 0), (1, 5, 0), (1, 1, 5)} <= settings


def test_a_trained_model_has_seen_no_victim_and_still_gives_them_away():
    (cell,) = plan_reconstruction_cells("submission", ["fedavg"], steps=200, model_epochs=1)
    assert run_cell(cell, "own").metrics["psnr"] > 40


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
        records[0].with_arrays(stream.getvalue())
    store, altered = Store(tmp_path), records[0].model_copy(update={"arrays": arrays_digest(stream.getvalue())})
    store.write(altered)
    store.arrays_file(altered.id).write_bytes(stream.getvalue())
    with pytest.raises(RecordError, match="damaged"):
        store.arrays(store.read(altered.id))


def test_a_grid_shows_originals_and_every_row_and_is_the_same_each_time(records, tmp_path):
    store = Store(tmp_path)
    for record in records:
        store.write(record)
    grids = [
        picture
        for picture in draw_figures(records, build_board("own", records), store.arrays)
        if "grid" in picture.name
    ]
    (grid,) = grids
    assert grid.page_file_name == "grid-digits-cnn-reconstruction-by-idlg.png"
    assert grid.files["png"][:4] == b"\x89PNG"
    again = draw_figures(records, build_board("own", records), store.arrays)
    assert next(picture for picture in again if picture.name == grid.name).files == grid.files


def test_pixels_are_those_before_normalising():
    x = np.random.default_rng(0).normal(size=(50, 3, 4, 4)).astype(np.float32)
    low, high = value_range(x)
    seen = to_pixels(x, low, high)
    assert low.shape == (3, 1, 1)
    np.testing.assert_allclose([seen.min((0, 2, 3)), seen.max((0, 2, 3))], [[0] * 3, [1] * 3], atol=1e-6)


def reference_ssim(one, other, window=5):
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
    assert ssim(x, other) == pytest.approx(
        [reference_ssim(a[0], b[0]) for a, b in zip(x, other, strict=True)], abs=1e-4
    )
    assert ssim(x, x) == pytest.approx([1.0] * 3)
