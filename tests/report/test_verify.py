"""`fflbench verify`: cells of a leaderboard run again, on this processor and on others."""

import shutil

import pytest

from fflbench.execution import verify_leaderboard as verifying
from fflbench.records import collection
from tests.report.record_folders import damage_record_text, invoke_command, read_record_lines, write_record_lines


def test_cells_that_are_run_again_are_the_same_bits(real):
    verdicts, problems = verifying.verify_sample(real, 2, 0, [])
    assert not problems
    assert [verdict.outcome for verdict in verdicts] == ["same bits"] * 2


def copy_with_changed_records(board, tmp_path, change):
    """A copy of a leaderboard with its records changed, digests and all."""
    copy = tmp_path / "copy"
    shutil.copytree(board, copy)
    changed = [record.model_copy(update=change(record)) for record in collection.read_collection(copy).records]
    write_record_lines(copy, [record.json_text().replace("\n", "").encode() + b"\n" for record in changed])
    return copy


def test_a_figure_that_was_made_up_is_found_out(real, tmp_path):
    copy = copy_with_changed_records(real, tmp_path, lambda record: {"metrics": record.metrics | {"accuracy": 0.99}})
    assert [verdict.outcome for verdict in verifying.verify_sample(copy, 1, 0, [])[0]] == ["different"]
    assert invoke_command("verify", copy, "--sample", 1).exit_code == 1


def from_another_processor(record):
    return {"manifest": record.manifest | {"processor": "another"}}


def test_on_another_processor_a_sound_leaderboard_is_reproduced(real, tmp_path):
    board = copy_with_changed_records(real, tmp_path, from_another_processor)
    ((verdict,), _) = verifying.verify_sample(board, 1, 0, [])
    assert verdict.outcome == "reproduced"
    assert "another processor" in verdict.reason
    assert invoke_command("verify", board, "--sample", 1).exit_code == 0


def forged(real, tmp_path, harm):
    """A leaderboard of another processor, in which the metrics of the first cell that is verified were altered."""
    chosen = verifying._sample_records(collection.read_collection(real), 1, 0, reported=False)[0].id

    def change(record):
        return from_another_processor(record) | {
            "metrics": record.metrics | (harm(record.metrics) if record.id == chosen else {})
        }

    return copy_with_changed_records(real, tmp_path, change), chosen


@pytest.mark.parametrize(
    "harm",
    [
        *({"accuracy": 0.0}, {"diverged": True}, {"test_loss": 100.0}),
        {"source_accuracy": None},
    ],
)
def test_a_figure_made_up_for_one_cell_is_found_out_on_another_machine_too(real, tmp_path, harm):
    board, chosen = forged(real, tmp_path, lambda _: harm)
    ((verdict,), _) = verifying.verify_sample(board, 1, 0, [])
    assert verdict.record.id == chosen
    assert verdict.outcome == "different"


@pytest.mark.parametrize("points", [0.1, 0.015])
@pytest.mark.parametrize("metric", ["accuracy", "source_accuracy", "attack_success_rate"])
def test_a_figure_altered_by_some_points_does_not_pass_on_another_processor(real, tmp_path, metric, points):
    def altered(metrics):
        return {metric: metrics[metric] + (points if metrics[metric] < 0.5 else -points)}

    board, chosen = forged(real, tmp_path, altered)
    ((verdict,), _) = verifying.verify_sample(board, 1, 0, [])
    assert verdict.record.id == chosen
    assert verdict.outcome in ("plausible, not reproduced", "different")
    assert metric in verdict.reason
    assert invoke_command("verify", board, "--sample", 1).exit_code == 1


def test_a_figure_beyond_what_processors_differ_by_is_plausible_where_other_seeds_come_to_it(real, tmp_path):
    seen = collection.read_collection(real).records
    spread = {record.id: record.configuration["seed"] % 3 / 10 for record in seen}

    def change(record):
        return from_another_processor(record) | {
            "metrics": record.metrics | {"accuracy": record.metrics["accuracy"] / 2 + spread[record.id]}
        }

    verdicts = verifying.verify_sample(copy_with_changed_records(real, tmp_path, change), 3, 0, [])[0]
    assert "plausible, not reproduced" in [verdict.outcome for verdict in verdicts]
    assert not any(verdict.confirmed for verdict in verdicts)


def test_verify_tells_of_altered_evidence_too(real, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(real, copy)
    first, *others = read_record_lines(copy)
    write_record_lines(copy, [damage_record_text(first.decode(), "altered").encode(), *others])
    found = invoke_command("verify", copy, "--sample", 1)
    assert found.exit_code == 1
    assert "line 1, is damaged: it is not what its digest says" in found.output


@pytest.mark.parametrize("where", [lambda record: {}, from_another_processor], ids=["same", "other"])
def test_the_first_rounds_of_a_cell_are_compared_without_the_others(real, tmp_path, where, monkeypatch):
    def with_accuracy_in(number, value):
        def change(record):
            history = [item | ({"accuracy": value} if item["round"] == number else {}) for item in record.history]
            return where(record) | {"history": history}

        return change

    steps = []
    monkeypatch.setattr(verifying.FirstSteps, "report", lambda self, step, _: steps.append(setattr(self, "done", step)))
    for altered, confirmed in ((2, True), (1, False)):
        board = copy_with_changed_records(real, tmp_path / str(altered), with_accuracy_in(altered, 0.123))
        ((verdict,), _) = verifying.verify_sample(board, 1, 0, [], rounds=1)
        assert verdict.confirmed == confirmed
        assert "1 of 2 rounds" in verdict.reason
    assert len(steps) == 2
    assert "1 of 2 rounds" in invoke_command("verify", board, "--sample", 1, "--rounds", 1).output


ADDED_LATER = ("worst_class_accuracy", "participant_accuracy_10th")


@pytest.mark.parametrize("where", [lambda record: {}, from_another_processor], ids=["same", "other"])
def test_metrics_that_were_added_later_are_not_compared_with_records_without_them(real, tmp_path, where):
    def without(*names):
        def change(record):
            return where(record) | {
                "metrics": {key: value for key, value in record.metrics.items() if key not in names}
            }

        return change

    older = copy_with_changed_records(real, tmp_path, without(*ADDED_LATER))
    assert [verdict.confirmed for verdict in verifying.verify_sample(older, 1, 0, [])[0]] == [True]
    shutil.rmtree(older)
    hidden = copy_with_changed_records(real, tmp_path, without("accuracy"))
    assert [verdict.outcome for verdict in verifying.verify_sample(hidden, 1, 0, [])[0]] == ["different"]


@pytest.mark.parametrize("name", ADDED_LATER)
def test_metrics_that_were_added_later_are_compared_with_records_that_have_them(real, tmp_path, name):
    board, _ = forged(real, tmp_path, lambda metrics: {name: 1 - metrics[name]})
    ((verdict,), _) = verifying.verify_sample(board, 1, 0, [])
    assert not verdict.confirmed
    assert f"{name} was" in verdict.reason
