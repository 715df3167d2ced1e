"""Examples on other pages: suites that can be planned, and files that can be loaded."""

import re

import pytest

import fflbench
from fflbench import registry
from fflbench.suites.plan import plan
from fflbench.suites.suite import read
from tests.docs.compatibility import PAGE


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (PAGE.parent / page).read_text("utf-8"), re.DOTALL)


@pytest.fixture
def planned(own_registry, tmp_path):
    """Return a suite's cells, with a plugin loaded if need be."""

    def cells(suite, plugin=""):
        (tmp_path / "plugin.py").write_text(plugin)
        (tmp_path / "own.toml").write_text(suite)
        assert registry.load_named([str(tmp_path / "plugin.py")]) == ()
        return plan(read(str(tmp_path / "own.toml")))

    return cells


def test_the_suite_with_all_keys_can_be_planned(planned):
    smallest, whole, also = blocks("suites.md", "toml")
    assert len(planned(smallest)) == 12
    assert {cell.labels["defense"] for cell in planned(whole)} == {"fedavg", "multi-krum", "krum-bound", "careful"}
    assert len(planned(smallest + also)) > 12


def test_the_suite_of_planted_nan_can_be_planned(planned):
    (plugin,) = blocks("ffl.md", "python")
    _, suite = blocks("ffl.md", "toml")
    assert len(planned(suite, plugin)) == 2 * 2 * 5


def test_the_suite_of_costs_can_be_planned(planned):
    (suite,) = blocks("costs.md", "toml")
    cells = planned(suite)
    assert {cell.configuration["defense"]["transport"]["parameters"].get("mode", "full") for cell in cells} == {"full"}


def test_the_measure_on_its_page_runs(own_registry, tmp_path):
    (plugin,), (suite,) = blocks("measures.md", "python"), blocks("measures.md", "toml")
    (tmp_path / "update_norm.py").write_text(plugin)
    (tmp_path / "own.toml").write_text(suite.replace("[0, 1, 2]", "[0]"))
    file = str(tmp_path / "update_norm.py")
    records = fflbench.run(tmp_path / "own.toml", out=tmp_path / "results", workers=1, plugins=[file])
    assert all(record.metrics["update_norm"] > 0 for record in records)


def test_the_observation_on_its_page_observes(planned, tmp_path):
    _, plugin = blocks("privacy.md", "python")
    suite = 'tasks = ["digits-mlp"]\nattacks = ["analytic"]\ndefenses = ["fedavg", "median", "ffl"]\nseeds = [0]\n'
    measure = '[measure]\nuse = "reconstruction"\nobservation = "loudest"\n'
    (cell,) = planned(suite + measure, plugin)
    assert cell.labels["defense"] == "fedavg"
    assert list(cell.shared_by) == ["median"]
    (record,) = fflbench.run(
        tmp_path / "own.toml", out=tmp_path / "results", workers=1, plugins=[str(tmp_path / "plugin.py")]
    )
    assert record.metrics["psnr"] > 60
