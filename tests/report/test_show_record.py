"""One record as text, and drawn."""

import pytest

from fflbench.errors import RecordError
from fflbench.records import Store
from fflbench.report.show_record import draw_history, find_record, record_text, text_plot
from tests.report.synthetic_records import as_failed, make_record, membership_record, robustness_record, runtime_record

TRUST = [
    {"round": 1, "accuracy": 0.5, "honest_trust_of_all": 0.3, "attacker_trust_of_all": 0.0},
    {"round": 2, "accuracy": 0.6, "honest_trust_of_all": 0.6, "attacker_trust_of_all": None},
    {"round": 3, "accuracy": None, "honest_trust_of_all": None, "attacker_trust_of_all": 0.1},
]


@pytest.fixture
def kept(tmp_path):
    def keep(made):
        store = Store(tmp_path / "results" / "own")
        store.write(made)
        return store.record_file(made.id)

    return keep


def test_a_curve_in_text():
    rising = text_plot([i / 100 for i in range(101)], True, (1, 101))
    lines = rising.splitlines()
    assert lines[0].startswith("  99.5% ┤")
    assert lines[0].rstrip().endswith("•")
    assert lines[9].split("┤")[1].startswith("•")
    assert lines[-1].split() == ["1", "101"]
    assert text_plot([0.5], True, (1, 1)).count("•") == 1
    assert text_plot([1.0, 3.0], False, (1, 2)).splitlines()[0].startswith("      3 ┤")


def test_a_curve_of_rounds_that_were_evaluated_ends_at_their_numbers(kept):
    history = [{"round": number, **({"accuracy": 0.5} if number % 5 == 0 else {})} for number in range(1, 31)]
    curve = record_text(kept(robustness_record(history=history))).split("accuracy over rounds\n")[1].split("\n\n")[0]
    assert curve.splitlines()[-1].split() == ["5", "30"]
    assert curve.count("•") == 6


def test_a_record_shows_configuration_metrics_facts_curve_and_command(kept):
    made = robustness_record("gaussian-noise", "trimmed-mean", 3, parameters={"defense": {"f": 2}})
    file = kept(made)
    text = record_text(file)
    assert text.startswith("digits-mlp · robustness · gaussian-noise · trimmed-mean · seed 3\n")
    for part in (
        "measure: robustness",
        "rule: trimmed-mean\n  f = 2",
        "  accuracy: 0.9000",
        "  targeted: False",
        "accuracy over rounds\n",
    ):
        assert part in text
    assert f"fflbench run {file} --force" in text


def test_every_measure_has_its_own_curves(kept):
    assert "ROC curve" in record_text(kept(membership_record()))
    assert "over rounds" not in record_text(kept(runtime_record()))
    text = record_text(kept(robustness_record(history=TRUST)))
    assert "honest average trust of all participants" in text
    assert "attackers average trust of all participants" in text


def test_a_measure_whose_plugin_is_not_here_is_shown(kept):
    assert "  warmth: 20.0000" in record_text(kept(make_record("theirs", {"warmth": 20.0})))


def test_a_failed_record_shows_why(kept):
    assert "failed:\nboom" in record_text(kept(as_failed(robustness_record())))


def test_a_record_is_found_by_its_file_or_the_first_letters_of_its_id(kept, tmp_path):
    one = kept(robustness_record())
    assert find_record(str(one), tmp_path / "results") == one
    assert find_record(one.stem[:6], tmp_path / "results") == one
    kept(robustness_record(seed=1))
    with pytest.raises(RecordError, match="no record under"):
        find_record("zzzz", tmp_path / "results")


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize("history", [TRUST, [{"round": 1, "accuracy": 0.5}]])
def test_a_record_is_drawn(kept, tmp_path, ending, history):
    picture = tmp_path / f"picture.{ending}"
    draw_history(kept(robustness_record(history=history)), picture)
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    if ending == "svg":
        assert (b"<!-- trust -->" in content) is (history is TRUST)
        assert b"<!-- accuracy, % -->" in content


def test_a_record_that_cannot_be_drawn_is_refused_in_a_sentence(kept, tmp_path):
    with pytest.raises(RecordError, match="there is nothing to draw"):
        draw_history(kept(as_failed(robustness_record())), tmp_path / "x.png")
    with pytest.raises(RecordError, match="holds no curve to draw"):
        draw_history(kept(runtime_record()), tmp_path / "x.png")
    with pytest.raises(RecordError, match="cannot be written"):
        draw_history(kept(robustness_record(seed=1)), tmp_path / "x.nothing")
