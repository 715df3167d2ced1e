"""Examples on other pages: suites that can be planned, and files that can be loaded."""

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fflbench
from fflbench import registry
from fflbench.cli import app
from fflbench.suites.plan import plan
from fflbench.suites.suite import read
from fflbench.tasks import Task
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
    assert {cell.labels["defense"] for cell in planned(whole)} == {
        "fedavg",
        "multi-krum",
        "krum-bound",
        "krum-oracle",
        "careful",
    }
    assert len(planned(smallest + also)) > 12


@pytest.mark.parametrize("page", ["chains.md", "federation.md", "suites.md"])
def test_commands_on_a_page_can_be_planned(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(blocks("suites.md", "toml")[0])
    commands = [line for block in blocks(page, "sh") for line in block.splitlines() if line.startswith("fflbench run")]
    assert commands
    for command in commands:
        done = CliRunner().invoke(app, [*shlex.split(command, comments=True)[1:], "--dry-run"])
        assert done.exit_code == 0, done.output


def test_the_lines_of_python_on_the_page_of_suites_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(blocks("suites.md", "toml")[0] + "[overrides]\nrounds = 1\n")
    (lines,) = blocks("suites.md", "python")
    pytest.importorskip("pandas")
    exec(lines.replace('"quick"', '"my.toml"'), {})
    assert "digits-mlp" in capsys.readouterr().out


def test_the_attack_and_the_engine_on_the_page_of_the_federation_run(own_registry, tmp_path):
    files = []
    for number, source in enumerate(blocks("federation.md", "python")[1:]):
        files.append(str(tmp_path / f"federation_example_{number}.py"))
        Path(files[-1]).write_text(source)
    (tmp_path / "own.toml").write_text(
        """
tasks = ["digits-mlp", "by-signs"]
attacks = ["none", "stealthy-trigger"]
defenses = ["fedavg"]
seeds = [0]
[overrides]
rounds = 8
[task.by-signs]
use = "digits-mlp"
engine = "sign-gradient"
learning_rate = 0.01
[attack.stealthy-trigger]
share = 0.3
"""
    )
    records = fflbench.run(tmp_path / "own.toml", out=tmp_path / "results", workers=1, plugins=files)
    success = {
        record.labels["attack"]: record.metrics["attack_success_rate"]
        for record in records
        if record.labels["task"] == "digits-mlp"
    }
    assert success["stealthy-trigger"] > success["none"] + 0.3
    assert all(record.metrics["accuracy"] > 0.4 for record in records if record.labels["attack"] == "none")


def test_the_task_and_the_suite_on_the_page_of_tasks_run(own_registry, tmp_path):
    (plugin,), (suite,) = blocks("tasks.md", "python"), blocks("tasks.md", "toml")
    (tmp_path / "blobs.py").write_text(plugin)
    (tmp_path / "own.toml").write_text(suite.replace('tasks = ["digits-mlp",', 'tasks = ["blobs", "digits-mlp",'))
    file = str(tmp_path / "blobs.py")
    records = fflbench.run(tmp_path / "own.toml", out=tmp_path / "results", workers=1, plugins=[file])
    assert len(records) == 3 * 2 * 2
    flipped = {
        (record.labels["task"], *record.configuration["attack"]["parameters"].values())
        for record in records
        if record.labels["attack"] == "label-flipping"
    }
    assert flipped == {("blobs", 0.2, 1, 0), ("digits-mlp", 0.2, 7, 1), ("heterogeneous", 0.2, 7, 1)}
    assert all(record.metrics["accuracy"] > 0.6 for record in records if record.labels["task"] == "blobs")


def test_the_table_of_fields_on_the_page_of_tasks_is_that_of_the_code():
    (table,) = re.findall(r"## Fields\n(.*?)\n\n", (PAGE.parent / "tasks.md").read_text("utf-8"), re.DOTALL)
    shown = {}
    for names, values, _ in re.findall(r"^\| (`.*?) \| (.*?) \| (.*?) \|$", table, re.MULTILINE):
        shown |= dict(zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=True))
    fields = {field.name: field.default for field in dataclasses.fields(Task)}
    assert shown == {
        name: "none" if default is None else f"{default:g}" if isinstance(default, float) else str(default)
        for name, default in fields.items()
    }


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


def test_the_membership_attack_on_its_page_runs(planned, tmp_path):
    plugin, _ = blocks("privacy.md", "python")
    suite = 'tasks = ["digits-mlp"]\nattacks = ["confidence"]\ndefenses = ["fedavg"]\nseeds = [0]\n'
    measure = '[measure]\nuse = "membership"\nrounds_before = 1\n'
    assert len(planned(suite + measure, plugin)) == 1
    (record,) = fflbench.run(
        tmp_path / "own.toml", out=tmp_path / "results", workers=1, plugins=[str(tmp_path / "plugin.py")]
    )
    assert record.metrics["auc"] > 0.5


@pytest.mark.parametrize("page", sorted(page.name for page in PAGE.parent.glob("*.md")))
def test_plugins_on_pages_import_from_fflbench_plugin_alone(page):
    plugins = [source for source in blocks(page, "python") if "\n@" in source]
    assert {name for source in plugins for name in re.findall(r"from (fflbench\S*) import", source)} <= {
        "fflbench.plugin"
    }
