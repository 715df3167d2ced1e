"""Examples on other pages: suites that can be planned, and files that can be loaded."""

import dataclasses
import re
import shlex

import pytest
from typer.testing import CliRunner

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
    smallest, whole, also, _ = blocks("suites.md", "toml")
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


def test_the_suite_on_the_page_of_tasks_can_be_planned(planned):
    (suite,) = blocks("tasks.md", "toml")
    cells = planned(suite)
    assert {cell.labels["task"] for cell in cells} == {"digits-mlp", "heterogeneous"}


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


def test_the_suite_of_costs_can_be_planned(planned):
    (suite,) = blocks("costs.md", "toml")
    cells = planned(suite)
    assert {cell.configuration["defense"]["transport"]["parameters"].get("mode", "full") for cell in cells} == {"full"}


@pytest.mark.parametrize("page", sorted(page.name for page in PAGE.parent.glob("*.md")))
def test_plugins_on_pages_import_from_fflbench_plugin_alone(page):
    plugins = [source for source in blocks(page, "python") if "\n@" in source]
    assert {name for source in plugins for name in re.findall(r"from (fflbench\S*) import", source)} <= {
        "fflbench.plugin"
    }


def test_the_lines_of_python_on_the_page_of_python_run():
    (lines,) = blocks("api-python.md", "python")
    names = {}
    exec(lines, names)
    assert names["change"].shape == (100,)
