import json

import pytest

from benchmarks import committed_ratios
from benchmarks.timing import Ratio, compare


@pytest.fixture
def own_folder(monkeypatch, tmp_path):
    for name in ("RESULTS", "PAGE", "FIGURE"):
        monkeypatch.setattr(committed_ratios, name, tmp_path / getattr(committed_ratios, name).name)
    return tmp_path


FAST = Ratio("median", "ByzFL", theirs=8.0, ours=1.0, at_least=6.0)
SLOW = Ratio("krum", "ByzFL", theirs=3.0, ours=1.0, at_least=4.0)


def test_ratios_are_written_as_table_figure_and_numbers(own_folder):
    committed_ratios.write_ratios([FAST, SLOW])
    (section,) = json.loads((own_folder / "results.json").read_text()).values()
    assert section["ratios"]["median | ByzFL"]["ratio"] == 8
    page = (own_folder / "README.md").read_text()
    assert "| median | ByzFL | 8.0000 s | 1.0000 s | 8.00 | 6 |" in page
    assert "| 3.00 | 4, missed |" in page
    assert "<svg" in (own_folder / "ratios.svg").read_text()


def test_a_ratio_below_three_quarters_of_the_committed_one_fails(own_folder, capsys):
    committed_ratios.write_ratios([FAST, SLOW])
    assert committed_ratios.compare_with_committed([Ratio("median", "ByzFL", 6.1, 1.0)]) == 0
    assert "not measured: krum | ByzFL" in capsys.readouterr().err
    assert committed_ratios.compare_with_committed([Ratio("median", "ByzFL", 5.9, 1.0), SLOW]) == 1
    assert "too low: median against ByzFL: 5.90x, committed 8.00x" in capsys.readouterr().err


def test_nothing_to_compare_is_a_failure(own_folder):
    committed_ratios.write_ratios([FAST])
    assert committed_ratios.compare_with_committed([SLOW]) == 1
    (own_folder / "results.json").unlink()
    with pytest.raises(SystemExit, match="python -m benchmarks --peers --write"):
        committed_ratios.compare_with_committed([FAST])


def test_a_benchmark_that_runs_alone_keeps_the_ratios_of_others_of_the_same_versions_only(own_folder, monkeypatch):
    committed_ratios.write_ratios([FAST])
    committed_ratios.write_ratios([SLOW])
    assert set(committed_ratios.read_of_this_processor()) == {"median | ByzFL", "krum | ByzFL"}
    monkeypatch.setattr(committed_ratios, "version", lambda _: "another")
    committed_ratios.write_ratios([SLOW])
    assert set(committed_ratios.read_of_this_processor()) == {"krum | ByzFL"}


def test_each_processor_has_a_table_and_is_compared_with_itself(own_folder, monkeypatch):
    committed_ratios.write_ratios([FAST])
    monkeypatch.setattr(committed_ratios, "processor_name", lambda: "Another 1 2")
    with pytest.raises(SystemExit, match="no ratios of this processor, Another 1 2"):
        committed_ratios.compare_with_committed([FAST])
    committed_ratios.write_ratios([Ratio("median", "ByzFL", theirs=2.0, ours=1.0)])
    assert committed_ratios.compare_with_committed([Ratio("median", "ByzFL", theirs=1.5, ours=1.0)]) == 0
    page = (own_folder / "README.md").read_text()
    assert "## Another 1 2\n" in page
    assert page.count("| median | ByzFL |") == 2


def test_the_best_of_five_runs_counts_and_the_first_only_warms_up():
    times = iter([1.0, 2.0, 5.0, 8.0, 6.0, 9.0, 3.0, 9.0, 4.0, 7.0, 5.0, 8.0])
    (found,) = compare("own", lambda: next(times), {"other": (lambda: next(times), 2.0)})
    assert next(times, None) is None
    assert (found.ours, found.theirs, found.at_least) == (3.0, 7.0, 2.0)
    assert found.ratio == pytest.approx(7 / 3)


def test_the_committed_page_is_that_of_the_committed_ratios():
    assert committed_ratios.PAGE.read_text("utf-8") == committed_ratios.render_page(
        committed_ratios.read_by_processor()
    )


def test_committed_ratios_include_every_target():
    for section in committed_ratios.read_by_processor().values():
        wanted = {name.split(",")[0] for name, each in section["ratios"].items() if each["at_least"]}
        assert {"median", "trimmed-mean", "multi-krum", "adult-mlp", "mnist-cnn"} <= wanted
        assert {"FFL exchange", "FFL server", "a suite of 16 equal cells"} <= wanted
