"""The structure of the code: imports go downwards, every cell has a measure, and a transport is known by contract."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"fflbench": ROOT / "fflbench", "fflbench.attacks": ROOT / "attacks", "fflbench.defenses": ROOT / "defenses"}

LAYERS = (
    ("errors", "types", "attacker_tolerance", "math_as_text", "safe_texts", "metrics", "source_digest", "references"),
    ("randomness", "terminal", "progress_bars", "untrusted_files", "plugin_parameters"),
    ("progress",),
    ("arrays", "registry"),
    ("registration", "exit_codes", "cli_options", "function_calls", "compared_matrices"),
    ("comparison",),
    ("data",),
    ("tasks.task",),
    ("tasks",),
    ("engines",),
    ("crypto",),
    ("federation",),
    ("records",),
    ("report.statistics",),
    ("report.pairwise_tests",),
    ("report.table_model",),
    ("report.figure_files",),
    ("measures.measure", "measures.one_round", "measures.published_results"),
    ("measures",),
    ("report",),
    ("privacy",),
    ("plugin",),
    ("attacks", "defenses", "engines.builtin_engines", "measures.*", "privacy.observations", "tasks.*"),
    ("suites",),
    ("execution",),
    ("aggregation", "conformance", "list_plugins_and_datasets", "make_leaderboard", "new_plugin", "run_and_report"),
    ("check_plugins", "enter_leaderboard", "poisoned_updates"),
    ("cli_check", "cli_enter"),
    ("cli", "templates"),
    ("__main__",),
)
"""From the bottom; modules of one layer do not import each other. `measures.*` and `tasks.*` are plugins."""

LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def modules():
    """All modules by their dotted names, without the package's public surface."""
    found = {}
    for package, folder in FOLDERS.items():
        for file in folder.rglob("*.py"):
            inside = [*package.split("."), *file.relative_to(folder).with_suffix("").parts]
            found[".".join(inside).removesuffix(".__init__")] = file
    del found["fflbench"]
    return found


MODULES = modules()


def part_of(module):
    """The part of the code that a module belongs to."""
    inside = module.removeprefix("fflbench.")
    first = inside.partition(".")[0]
    return next(part for part in (inside, f"{first}.*", first) if part in LEVEL)


def imported(module, tree):
    """Every module of ours that a file imports, in functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # One dot is the module's own package.
            parents = module.split(".")[: -node.level] if node.level else []
            origin = ".".join([*parents, *filter(None, [node.module])])
            inner = [f"{origin}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else origin for name in inner]
        else:
            continue
        yield from ((name, node.lineno) for name in names if name in MODULES)


def upward(module, source):
    """Imports of a module that do not go downwards."""
    part = part_of(module)
    for name, line in imported(module, ast.parse(source)):
        other = part_of(name)
        # The surface for plugins names what authors of executors need, which it loads on first use.
        if (part, other) == ("plugin", "execution"):
            continue
        if other != part and LEVEL[other] >= LEVEL[part]:
            yield f"{module}:{line} imports {name}"


def test_every_module_has_a_layer():
    assert {part_of(module) for module in MODULES} == set(LEVEL)


def test_imports_go_downwards_only():
    found = chain.from_iterable(upward(module, file.read_text("utf-8")) for module, file in MODULES.items())
    assert list(found) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fflbench.registry", "def create():\n    from fflbench.federation.rule import Rule"),
        ("fflbench.records.manifest", "import fflbench.suites.plan"),
        ("fflbench.report.all_tables", "from fflbench.measures import robustness"),
        ("fflbench.execution.run_suite", "from fflbench import run_and_report"),
        ("fflbench.attacks.poisoning.none", "from fflbench.defenses import ffl"),
        ("fflbench.measures.measure", "from fflbench.measures import Measure"),
        ("fflbench.federation.rounds", "from fflbench import plugin"),
        ("fflbench.arrays.kernels", "from fflbench.tasks import Task"),
    ],
)
def test_an_import_upwards_is_found(module, source):
    assert len(list(upward(module, source))) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fflbench.report.all_tables", "from fflbench.measures.measure import Measure"),
        ("fflbench.measures.robustness", "from fflbench.measures.one_round import begin_chain"),
        ("fflbench.records.manifest", "from fflbench import __version__, registry"),
    ],
)
def test_an_import_downwards_is_let_through(module, source):
    assert list(upward(module, source)) == []


NO_MEASURE = re.compile(
    r"""["']measure["']\s+(not\s+)?in\s+\w*(\.?configuration|\.?labels|chosen|kinds|parts)\b"""
    r"""|Kind\.MEASURE\s+(not\s+)?in\b(?!\s+record\.sweep)"""
    r"""|\b(if|and|or|not)\s+(not\s+)?(\w+\.)*measure\s*(:=|:|\)|\]|\s(else|and|or|is)\b|$)"""
    r"""|\((\w+\.)*measure\s+(and|or)\b"""
    r"""|(?<!registry)\.get\(\s*(["']measure["']|Kind\.MEASURE)""",
    re.MULTILINE,
)
"""Branches on whether a cell, record or suite has a measure."""


@pytest.mark.parametrize(
    "line",
    [
        'kinds = ["measure" if "measure" in record.configuration else "attack"]',
        "if cell.measure:",
        "if measure := cell.measure:",
        'record.configuration.get("measure", {})',
        "return not self.measure or self.measure.needs_data",
        "threads = cell.measure.threads if cell.measure else 1",
        "cells = [cell for cell in cells if not cell.measure]",
        "return bool(cell.measure and cell.measure.alone)",
        "self.create(kind) if Kind.MEASURE in self.configuration else None",
        "for cell in _measured(part) if part.measure else _attacked(part):",
    ],
)
def test_a_branch_on_having_a_measure_is_found(line):
    assert NO_MEASURE.search(line)


def test_no_code_branches_on_whether_a_cell_has_a_measure():
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in sorted(MODULES.values())
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
        if NO_MEASURE.search(line)
    ]
    assert found == []


OF_THE_EXCHANGE = re.compile(r"partner|mixing|unmix|pair[ _-]?sum|\bstrateg(y|ies)[ _-]*(?=$|[\d{(\\])", re.IGNORECASE)
"""Words of one transport, numbered strategies too; everything else knows transports by their contract alone."""


def words(tree):
    """Yield identifiers and texts of a file with their lines; texts that only document are left out."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value, node.lineno
        for field in ("id", "attr", "arg", "name", "asname"):
            if isinstance(word := getattr(node, field, None), str):
                yield word, getattr(node, "lineno", 0)


def test_no_other_part_speaks_of_the_exchange():
    exchange = ROOT / "defenses" / "transports" / "fragment_exchange"
    found = [
        f"{file.relative_to(ROOT)}:{line}: {word}"
        for file in sorted(MODULES.values())
        if exchange not in file.parents
        for word, line in words(ast.parse(file.read_text("utf-8")))
        if OF_THE_EXCHANGE.search(word)
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "partner = 1",
        "def undo_mixing(): ...",
        "view.mixing_seconds",
        "rule(unmixed=1)",
        "def add(pair_sum): ...",
        'title = "Sum of partners"',
        'title = f"{defense}, strategy {number}"',
        'label = re.sub(r", strategy \\d+$", "", label)',
        'column = "strategy"',
        "from fflbench import unmixing as other",
    ],
)
def test_a_word_of_the_exchange_is_found(source):
    assert any(OF_THE_EXCHANGE.search(word) for word, _ in words(ast.parse(source)))


@pytest.mark.parametrize(
    "source", ['"""Partners exchange."""', "def undo():\n    '''Undo the mixing.'''", "scheduling_strategy = 1"]
)
def test_other_words_are_let_through(source):
    assert not any(OF_THE_EXCHANGE.search(word) for word, _ in words(ast.parse(source)))


def docstrings(tree):
    """Docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.value.value, statement.lineno


def test_no_docstring_is_a_riddle():
    """One that begins with "What" says that there is something, and leaves the reader to find out which."""
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in sorted(MODULES.values())
        for text, line in docstrings(ast.parse(file.read_text("utf-8")))
        if isinstance(text, str) and text.startswith("What ")
    ]
    assert found == []


def public_classes(modules):
    """Public classes by name, with the modules that define them."""
    homes = {}
    for module, file in modules.items():
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    return homes


def test_no_two_public_classes_share_a_name():
    assert {name: homes for name, homes in public_classes(MODULES).items() if len(homes) > 1} == {}


def test_a_name_of_two_classes_is_found(tmp_path):
    files = {name: tmp_path / f"{name}.py" for name in ("one", "other")}
    for file in files.values():
        file.write_text("class Same: ...")
    assert public_classes(files) == {"Same": ["one", "other"]}


MOST_LINES = 400


def test_no_module_is_too_long():
    files = [*MODULES.values(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    lengths = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in files}
    assert {file: lines for file, lines in lengths.items() if lines > MOST_LINES} == {}
