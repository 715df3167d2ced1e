"""What is installed, by whom, and where it shows up: with real pip, in real processes."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STRANGER = ROOT / "tests/stranger"


def run(*command, cwd, **environment):
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pip(*arguments, cwd):
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, cwd=cwd)


def listed(what, *, cwd, **environment):
    entries = json.loads(run(sys.executable, "-m", "fflbench", "list", what, "--json", cwd=cwd, **environment))
    return {entry["name"]: entry for entry in entries}


def tracked_copy(source, destination):
    """A copy without build folders, which would otherwise be written into the checkout."""
    return shutil.copytree(
        source, destination, ignore=shutil.ignore_patterns(".*", "*.egg-info", "build", "__pycache__", "results")
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = tracked_copy(ROOT, folder / "source")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source, cwd=folder)
    return next(folder.glob("fflbench-*.whl"))


def test_the_wheel_holds_every_source_file_under_its_import_path(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("fflbench/")}
    expected = {
        prefix + file.relative_to(ROOT).as_posix()
        for folder, prefix in (("fflbench", ""), ("attacks", "fflbench/"), ("defenses", "fflbench/"))
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert names == expected


def test_the_wheel_puts_no_generic_name_on_the_import_path(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fflbench"}


def test_built_ins_are_listed_from_an_installed_wheel(wheel, tmp_path):
    target = tmp_path / "site"
    pip("install", "--no-deps", "--target", target, wheel, cwd=tmp_path)
    tasks = listed("tasks", cwd=tmp_path, PYTHONPATH=str(target))
    assert "digits-mlp" in tasks
    assert all(Path(entry["file"]).is_relative_to(target) for entry in tasks.values())


def test_built_ins_are_listed_from_the_checkout():
    assert "digits-mlp" in listed("tasks", cwd=ROOT)


def test_a_strangers_installed_package_is_listed_with_the_built_ins(tmp_path):
    source = tracked_copy(STRANGER, tmp_path / "source")
    pip("install", "--no-deps", "--no-build-isolation", "--target", tmp_path / "site", source, cwd=tmp_path)
    entry = listed("defenses", cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))["stranger"]
    assert entry["citation"] == "Keeps the model as it is. A stranger, A plugin from outside, 2026."
    assert entry["parameters"] == [
        {"name": "step", "type": "float", "required": False, "default": 0.0, "meaning": "how far the model moves"}
    ]


def test_a_strangers_file_is_listed_when_named(tmp_path):
    file = STRANGER / "stranger_defense/__init__.py"
    table = run(sys.executable, "-m", "fflbench", "list", "defenses", "--plugin", file, cwd=tmp_path)
    assert "Move every coordinate by the same step" in table
    as_module = run(
        sys.executable,
        *("-m", "fflbench", "list", "defenses", "--plugin", "stranger_defense"),
        cwd=tmp_path,
        PYTHONPATH=str(STRANGER),
    )
    assert "stranger" in as_module


def test_a_broken_installed_package_is_named_and_the_rest_is_listed(tmp_path):
    source = tracked_copy(STRANGER, tmp_path / "source")
    (source / "stranger_defense/__init__.py").write_text("import a_module_that_nobody_has")
    pip("install", "--no-deps", "--no-build-isolation", "--target", tmp_path / "site", source, cwd=tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "fflbench", "list", "tasks", "--json"],
        **{"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(tmp_path / "site")}},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "plugin stranger_defense could not be loaded" in done.stderr
    assert "digits-mlp" in done.stdout
