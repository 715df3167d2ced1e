import json

import pytest

from benchmarks import committed
from benchmarks.timing import Ratio, race


@pytest.fixture
def own_folder(monkeypatch, tmp_path):
    for name in ("RESULTS", "PAGE", "PICTURE"):
        monkeypatch.setattr(committed, name, tmp_path / getattr(committed, name).name)
    return tmp_path


FAST = Ratio("median", "ByzFL", theirs=8.0, ours=1.0, at_least=6.0)
SLOW = Ratio("krum", "ByzFL", theirs=3.0, ours=1.0, at_least=4.0)


def test_ratios_are_written_as_table_picture_and_numbers(own_folder):
    committed.write([FAST, SLOW])
    (section,) = json.loads((own_folder / "results.json").read_text()).values()
    assert section["ratios"]["median | ByzFL"]["ratio"] == 8
    page = (own_folder / "README.md").read_text()
    assert "| median | ByzFL | 8.0000 s | 1.0000 s | 8.00 | 6 |" in page
    assert "| 3.00 | 4, missed |" in page
    assert "<svg" in (own_folder / "ratios.svg").read_text()


def test_a_ratio_below_three_quarters_of_the_committed_one_fails(own_folder, capsys):
    committed.write([FAST, SLOW])
    assert committed.check([Ratio("median", "ByzFL", 6.1, 1.0)]) == 0
    assert "not measured: krum | ByzFL" in capsys.readouterr().err
    assert committed.check([Ratio("median", "ByzFL", 5.9, 1.0), SLOW]) == 1
    assert "behind: median against ByzFL: 5.90x, committed 8.00x" in capsys.readouterr().err


def test_nothing_to_compare_is_a_failure(own_folder):
    committed.write([FAST])
    assert committed.check([SLOW]) == 1
    (own_folder / "results.json").unlink()
    with pytest.raises(SystemExit, match="--write puts it there"):
        committed.check([FAST])


def test_a_room_that_runs_alone_keeps_the_others_of_the_same_versions_only(own_folder, monkeypatch):
    committed.write([FAST])
    committed.write([SLOW])
    assert set(committed.read()) == {"median | ByzFL", "krum | ByzFL"}
    monkeypatch.setattr(committed, "version", lambda _: "another")
    committed.write([SLOW])
    assert set(committed.read()) == {"krum | ByzFL"}


def test_each_processor_has_a_table_and_is_compared_with_itself(own_folder, monkeypatch):
    committed.write([FAST])
    monkeypatch.setattr(committed, "processor", lambda: "Another 1 2")
    with pytest.raises(SystemExit, match="nothing of this processor, Another 1 2"):
        committed.check([FAST])
    committed.write([Ratio("median", "ByzFL", theirs=2.0, ours=1.0)])
    assert committed.check([Ratio("median", "ByzFL", theirs=1.5, ours=1.0)]) == 0
    page = (own_folder / "README.md").read_text()
    assert "## Another 1 2\n" in page
    assert page.count("| median | ByzFL |") == 2


def test_the_best_of_five_turns_counts_and_the_first_only_warms_up():
    times = iter([1.0, 2.0, 5.0, 8.0, 6.0, 9.0, 3.0, 9.0, 4.0, 7.0, 5.0, 8.0])
    (found,) = race("own", lambda: next(times), {"other": (lambda: next(times), 2.0)})
    assert next(times, None) is None
    assert (found.ours, found.theirs, found.at_least) == (3.0, 7.0, 2.0)
    assert found.ratio == pytest.approx(7 / 3)


def test_what_is_committed_names_every_target():
    for section in committed.sections().values():
        wanted = {name.split(",")[0] for name, each in section["ratios"].items() if each["at_least"]}
        assert {"median", "trimmed-mean", "multi-krum", "adult-mlp", "mnist-cnn"} <= wanted
        assert {"FFL exchange", "FFL server", "a suite of 16 equal cells"} <= wanted
