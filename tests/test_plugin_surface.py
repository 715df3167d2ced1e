"""fflbench.plugin is all that plugins import of this package, the built-in ones included."""

import ast
import importlib
import inspect
import itertools
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from fflbench import plugin

ROOT = Path(__file__).parents[1]
CONTRACTS = ("tasks/task.py", "measures/measure.py", "measures/one_round.py", "measures/published_results.py")
"""Modules beside the built-ins that the surface takes names from."""


def built_ins():
    """Files of built-in plugins by the names of their modules; packages register nothing."""
    inside = ROOT / "fflbench"
    files = {
        *(ROOT / "attacks").rglob("*.py"),
        *(ROOT / "defenses").rglob("*.py"),
        *(inside / "tasks").glob("*.py"),
        *(inside / "measures").glob("*.py"),
        inside / "privacy/observations.py",
        inside / "engines/builtin_engines.py",
        inside / "execution/executors.py",
        inside / "suites/shipped_suites.py",
    } - {inside / contract for contract in CONTRACTS}
    for file in sorted(files):
        place = file.relative_to(inside if inside in file.parents else ROOT).with_suffix("")
        if file.name != "__init__.py":
            yield ".".join(("fflbench", *place.parts)), file


BUILT_INS = dict(built_ins())


def imported(module, source):
    """Modules that a file imports, in functions too; a relative import has the name that it stands for."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: -node.level] if node.level else []
            origin = ".".join([*parents, *filter(None, [node.module])])
            # A package stands for the modules that are imported from it.
            whole = (ROOT / origin.replace(".", "/")).is_dir() and origin != "fflbench.plugin"
            yield from (f"{origin}.{alias.name}" for alias in node.names) if whole else (origin,)


def foreign(module, source):
    """Imports of ours that are neither the surface nor a module in the folder of the plugin itself."""
    folder = module.rpartition(".")[0]
    for name in imported(module, source):
        ours = name.partition(".")[0] == "fflbench"
        if ours and name != "fflbench.plugin" and (name.rpartition(".")[0] != folder or is_contract(name)):
            yield name


def is_contract(module):
    return module.removeprefix("fflbench.").replace(".", "/") + ".py" in CONTRACTS


@pytest.mark.parametrize("module", BUILT_INS)
def test_built_ins_import_nothing_else_of_ours(module):
    assert list(foreign(module, BUILT_INS[module].read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fflbench.defenses.rules.median", "from fflbench.types import Matrix"),
        ("fflbench.defenses.rules.median", "import fflbench.registry"),
        ("fflbench.defenses.rules.median", "from fflbench import registry"),
        ("fflbench.defenses.rules.median", "from ..transports import plain"),
        (
            "fflbench.attacks.privacy.dlg",
            "def run():\n    from fflbench.privacy.gradient_inversion import invert_gradients",
        ),
        ("fflbench.measures.runtime", "from fflbench.measures.measure import Measure"),
        ("fflbench.measures.runtime", "from fflbench.measures import one_round"),
    ],
)
def test_another_import_is_found(module, source):
    assert len(list(foreign(module, source))) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fflbench.defenses.rules.median", "from fflbench.plugin import rule\nimport numpy as np"),
        ("fflbench.defenses.rules.median", "from fflbench import plugin"),
        ("fflbench.defenses.rules.reputation", "from .median import median"),
        ("fflbench.measures.reconstruction", "from fflbench.measures import reconstruction_image_grids"),
        ("fflbench.tasks.imdb_bilstm", "def model():\n    from fflbench.tasks._bilstm import BiLSTM"),
    ],
)
def test_the_surface_and_modules_of_the_same_folder_are_let_through(module, source):
    assert list(foreign(module, source)) == []


def homes():
    """Module and name under which each name of the surface is defined."""
    tree = ast.parse(Path(plugin.__file__).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, (node.module, alias.name)) for alias in node.names)


HOMES = dict(homes())


def has_docstring(name):
    """Whether a class, function or module documents itself, or a text follows the assignment of a constant."""
    value = getattr(plugin, name)
    if inspect.ismodule(value) or inspect.isroutine(value) or inspect.isclass(value):
        # A dataclass without a docstring has its signature as one.
        return bool(value.__doc__) and not value.__doc__.startswith(f"{name}(")
    module, original = HOMES[name]
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for statement, following in itertools.pairwise(body):
        if isinstance(statement, ast.Assign | ast.AnnAssign) and original in ast.unparse(statement).partition(" = ")[0]:
            return isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
    return False


@pytest.mark.parametrize("name", plugin.__all__)
def test_every_name_of_the_surface_is_documented_or_a_type_alias(name):
    assert typing.get_origin(getattr(plugin, name)) is not None or has_docstring(name)


def test_no_name_stands_twice_in_the_surface():
    assert len(set(plugin.__all__)) == len(plugin.__all__)


def test_names_that_need_torch_come_from_where_type_checkers_find_them():
    assert {name: resolved.replace(":", ".") for name, resolved in plugin.LOADED_ON_FIRST_USE.items()} == {
        name: ".".join(HOMES[name]) for name in plugin.LOADED_ON_FIRST_USE
    }


@pytest.mark.parametrize(
    "module",
    [
        "fflbench.plugin",
        "fflbench.tasks.digits_mlp",
        "fflbench.tasks.cifar10_vgg16",
        "fflbench.measures.robustness",
        "fflbench.privacy.observations",
        "fflbench.engines.builtin_engines",
        "fflbench.execution.executors",
        "fflbench.suites.shipped_suites",
        "fflbench.attacks.privacy.dlg",
        "fflbench.defenses.transports.fragment_exchange.transport",
    ],
)
def test_each_can_be_imported_first_and_loads_no_torch(module):
    code = f"import sys, {module}; sys.exit(bool({{'torch', 'torchvision', 'matplotlib'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
