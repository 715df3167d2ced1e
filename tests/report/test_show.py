"""One record as text, and drawn."""

import pytest

from fflbench.errors import RecordError
from fflbench.records import Store
from fflbench.report.show import draw, find, plot, show
from tests.report.synthetic import failed, membership, record, robust, timed

TRUST = [
    {"round": 1, "accuracy": 0.5, "honest_trust": 0.3, "attacker_trust": 0.0},
    {"round": 2, "accuracy": 0.6, "honest_trust": 0.6, "attacker_trust": None},
    {"round": 3, "accuracy": None, "honest_trust": None, "attacker_trust": 0.1},
]


@pytest.fixture
def kept(tmp_path):
    def keep(made):
        store = Store(tmp_path / "results" / "own")
        store.write(made)
        return store.file(made.id)

    return keep


def test_a_curve_in_text():
    rising = plot([i / 100 for i in range(101)])
    lines = rising.splitlines()
    assert lines[0].startswith("  99.5% ┤")
    assert lines[0].rstrip().endswith("•")
    assert lines[9].split("┤")[1].startswith("•")
    assert lines[-1].split() == ["1", "101"]
    assert plot([0.5]).count("•") == 1
    assert plot([1.0, 3.0], percent=False).splitlines()[0].startswith("      3 ┤")


def test_a_record_shows_configuration_metrics_facts_curve_and_command(kept):
    made = robust("gaussian-noise", "trimmed-mean", 3, parameters={"defense": {"f": 2}})
    file = kept(made)
    text = show(file)
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
    assert "ROC curve" in show(kept(membership()))
    assert "over rounds" not in show(kept(timed()))
    text = show(kept(robust(history=TRUST)))
    assert "honest average trust over rounds" in text
    assert "attackers average trust over rounds" in text


def test_a_measure_whose_plugin_is_not_here_is_shown(kept):
    assert "  warmth: 20.0000" in show(kept(record("theirs", {"warmth": 20.0})))


def test_a_failed_record_shows_why(kept):
    assert "failed:\nboom" in show(kept(failed(robust())))


def test_a_record_is_found_by_its_file_or_the_first_letters_of_its_id(kept, tmp_path):
    one = kept(robust())
    assert find(str(one), tmp_path / "results") == one
    assert find(one.stem[:6], tmp_path / "results") == one
    kept(robust(seed=1))
    with pytest.raises(RecordError, match="no record under"):
        find("zzzz", tmp_path / "results")


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize("history", [TRUST, [{"round": 1, "accuracy": 0.5}]])
def test_a_record_is_drawn(kept, tmp_path, ending, history):
    picture = tmp_path / f"picture.{ending}"
    draw(kept(robust(history=history)), picture)
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    if ending == "svg":
        assert (b"<!-- trust -->" in content) is (history is TRUST)
        assert b"<!-- accuracy, % -->" in content


def test_what_cannot_be_drawn_is_told(kept, tmp_path):
    with pytest.raises(RecordError, match="there is nothing to draw"):
        draw(kept(failed(robust())), tmp_path / "x.png")
    with pytest.raises(RecordError, match="holds no curve to draw"):
        draw(kept(timed()), tmp_path / "x.png")
    with pytest.raises(RecordError, match="cannot be written"):
        draw(kept(robust(seed=1)), tmp_path / "x.nothing")
