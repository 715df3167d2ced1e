import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from fflbench import registration, registry
from fflbench.errors import DuplicateNameError, FflbenchError, NotRegisteredError, ParameterError
from fflbench.registry import Kind

ROOT = Path(__file__).parents[1]

PLUGIN = '''
"""Half the mean. Nobody et al., A rule for tests, 2026."""
from typing import Annotated
from fflbench.federation import Attack
from fflbench.registration import attack, rule

@rule("half-mean", title="Half mean", tolerates="f = 0", version=3)
def half_mean(updates, factor: Annotated[float, "what the mean is multiplied with"] = 0.5, *, weights=None):
    """The mean of all updates,
    scaled.

    More about it.
    """

@attack("shout", title="Shout", knows=["own data", "defense"])
class Shout(Attack):
    """Sends its update louder."""
    factor: Annotated[float, "how much louder"] = 10.0
'''


@pytest.fixture
def plugin(tmp_path, own_registry):
    def write(text=PLUGIN, name="plugin.py"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_what_is_known_of_a_plugin_is_read_off_its_source(plugin):
    assert registry.load_named([plugin()]) == ()
    rule = registry.get(Kind.RULE, "half-mean")
    assert rule.title == "Half mean"
    assert rule.summary == "The mean of all updates, scaled."
    assert rule.citation == "Half the mean. Nobody et al., A rule for tests, 2026."
    assert (rule.version, rule.tolerates) == (3, "f = 0")
    assert [(p.name, p.type, p.default, p.meaning) for p in rule.parameters] == [
        ("factor", "float", 0.5, "what the mean is multiplied with")
    ]
    shout = registry.get(Kind.ATTACK, "shout")
    assert shout.knows == ("own data", "defense")
    assert shout.create(factor=2.0).factor == 2.0


def test_creating_refuses_bad_parameters_by_the_name_of_the_plugin(plugin):
    registry.load_named([plugin()])
    with pytest.raises(ParameterError, match=r'attack "shout" has no parameter "faktor"; did you mean "factor"\?'):
        registry.get(Kind.ATTACK, "shout").create(faktor=2.0)


def test_an_unknown_name_gets_the_nearest_one(plugin):
    registry.load_named([plugin()])
    with pytest.raises(NotRegisteredError, match=r'did you mean "half-mean"\? \(fflbench list rules; a file'):
        registry.get(Kind.RULE, "halfmean")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import a_module_that_nobody_has", "ModuleNotFoundError: No module named 'a_module_that_nobody_has'"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (PLUGIN.replace('"own data"', '"everything"'), 'unknown knowledge "everything"'),
        (PLUGIN.replace('"half-mean"', '"Half Mean"'), '"Half Mean" cannot be a name'),
        (PLUGIN.replace('"half-mean"', f'"{"h" * 300}"'), "cannot be a name: it has 300 letters, and at most 100 fit"),
        (PLUGIN.replace('"half-mean"', "5"), "the name of a rule must be a text"),
        (PLUGIN.replace('"Half mean"', "5"), 'rule "half-mean": its title must be a text'),
        (
            PLUGIN.replace("version=3", "version='new'"),
            'rule "half-mean": its version must be a whole number from 1',
        ),
        (PLUGIN.replace("version=3", "version=True"), 'rule "half-mean": its version must be a whole number from 1'),
        (
            PLUGIN.replace("Shout(Attack)", "Shout"),
            'attack "shout" must be a subclass of fflbench.plugin.Attack',
        ),
        (PLUGIN.replace("Shout(Attack)", "Shout(dict)"), 'attack "shout" must be a subclass'),
        (PLUGIN.replace('knows=["own data", "defense"]', "knows=None"), "TypeError"),
        (
            'from fflbench.plugin import rule\n@rule("idle", title="Idle")\nclass Idle:\n    pass',
            'rule "idle" must be a subclass of fflbench.plugin.Rule',
        ),
        (
            'from fflbench.plugin import task\n@task("idle", title="Idle")\nclass Idle:\n    pass',
            'task "idle" must be a subclass of fflbench.plugin.Task',
        ),
        (
            'from fflbench.plugin import measure\n@measure("idle", title="Idle")\nclass Idle:\n    pass',
            'measure "idle" must be a subclass of fflbench.plugin.Measure',
        ),
        ("import sys\nsys.exit()", "SystemExit"),
        ("raise KeyError", "KeyError"),
        ("raise type('Odd', (BaseException,), {})('an odd\\nend')", "Odd: an odd end"),
    ],
)
def test_a_broken_plugin_names_itself_and_its_error_and_the_rest_still_works(plugin, text, error):
    broken = plugin(text, "broken.py")
    (failure,) = registry.load_named([broken, plugin(PLUGIN)])
    assert failure.plugin == broken
    assert error in failure.error
    assert registry.get(Kind.RULE, "half-mean")
    assert registry.get(Kind.TASK, "digits-mlp")


def test_a_plugin_that_breaks_half_way_leaves_nothing_behind(plugin):
    (failure,) = registry.load_named([plugin(PLUGIN + "\n1 / 0")])
    assert "ZeroDivisionError" in failure.error
    with pytest.raises(NotRegisteredError):
        registry.get(Kind.RULE, "half-mean")


def test_a_file_or_module_that_does_not_exist_is_a_failure_that_says_so(own_registry):
    failures = registry.load_named(["nowhere.py", "no.such.module"])
    assert "there is no such file" in failures[0].error
    assert "No module named 'no'" in failures[1].error


def test_two_plugins_with_one_name_are_an_error_that_names_both(plugin, tmp_path):
    with pytest.raises(DuplicateNameError) as caught:
        registry.load_named([plugin(name="first.py"), plugin(name="second.py")])
    assert 'rule "half-mean" is registered twice' in str(caught.value)
    assert str(tmp_path / "first.py") in str(caught.value)
    assert str(tmp_path / "second.py") in str(caught.value)


def test_two_in_one_file_with_one_name_are_an_error_too(plugin):
    twice = (
        PLUGIN
        + '''
@rule("half-mean", title="Another")
def another(updates):
    """Another one."""
'''
    )
    with pytest.raises(DuplicateNameError, match=r"by half_mean in .* and by another in"):
        registry.load_named([plugin(twice)])


def test_a_module_may_call_anything_its_path(plugin):
    (failure,) = registry.load_named([plugin("__path__ = 3\n", "pathless.py")])
    assert "TypeError" in str(failure)


def test_a_plugin_that_was_mended_loads(plugin):
    assert registry.load_named([plugin("1 / 0")])
    assert registry.load_named([plugin(PLUGIN)]) == ()
    assert registry.get(Kind.RULE, "half-mean")


def test_a_file_named_as_a_module_gets_a_hint(own_registry):
    (failure,) = registry.load_named(["my_rule"])
    assert failure.error.endswith("(a file is named by its path: --plugin ./my_rule.py)")


def test_a_package_may_be_named_by_its_file(plugin, tmp_path):
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/__init__.py").write_text("")
    (tmp_path / "rules/inner.py").write_text(PLUGIN)
    assert registry.load_named([str(tmp_path / "rules/__init__.py")]) == ()
    assert registry.get(Kind.RULE, "half-mean")


def test_a_package_that_fails_leaves_none_of_its_modules(plugin, tmp_path, monkeypatch):
    (tmp_path / "failing").mkdir()
    (tmp_path / "failing/__init__.py").write_text("from . import inner\n1 / 0")
    (tmp_path / "failing/inner.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.load_named(["failing"])
    with pytest.raises(NotRegisteredError):
        registry.get(Kind.RULE, "half-mean")


def test_a_class_from_a_notebook_can_be_registered(own_registry):
    cell = {"__name__": "a_notebook"}
    sys.modules["a_notebook"] = type(sys)("a_notebook")
    try:
        exec(PLUGIN, cell)
    finally:
        del sys.modules["a_notebook"]
    assert registry.get(Kind.ATTACK, "shout").create().factor == 10


def test_a_new_default_keeps_type_and_meaning_whatever_the_parents_annotations_are(plugin):
    text = '''from __future__ import annotations
"""A family. Nobody, 2026."""
from dataclasses import dataclass
from typing import Annotated
from fflbench.federation import Attack
from fflbench.registration import attack

@dataclass(kw_only=True)
class Parent(Attack):
    factor: Annotated[float, "how much louder"] = 10.0

@attack("child", title="Child", knows=[])
class Child(Parent):
    """Louder than its parent."""
    factor = 20.0
'''
    assert registry.load_named([plugin(text)]) == ()
    *_, factor = registry.get(Kind.ATTACK, "child").parameters
    assert (factor.type, factor.default, factor.meaning) == ("float", 20.0, "how much louder")


def test_the_same_plugin_twice_is_one_plugin(plugin):
    assert registry.load_named([plugin(), plugin()]) == ()


def test_every_module_of_a_package_is_loaded_but_the_private_ones(plugin, tmp_path, monkeypatch):
    package = tmp_path / "many_rules"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "good.py").write_text(PLUGIN)
    (package / "bad.py").write_text("1 / 0")
    (package / "_private.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    failures = registry.load_named(["many_rules"])
    assert [failure.plugin for failure in failures] == ["many_rules.bad"]
    assert registry.get(Kind.RULE, "half-mean").module == "many_rules.good"


def test_a_reloaded_module_replaces_its_plugin(plugin, tmp_path, monkeypatch):
    source = tmp_path / "changing_rule.py"
    source.write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    registry.load_named(["changing_rule"])
    source.write_text(PLUGIN.replace("0.5", "0.25"))
    importlib.reload(sys.modules["changing_rule"])
    assert registry.get(Kind.RULE, "half-mean").parameters[0].default == 0.25


def test_importing_the_folders_by_their_bare_names_registers_nothing_twice():
    """From the checkout `attacks` and `defenses` are importable too; that must not make a second set of plugins."""
    code = """
import importlib, pkgutil, sys
from fflbench import registry
for folder in ("attacks", "defenses"):
    package = importlib.import_module(folder)
    for found in pkgutil.walk_packages(package.__path__, f"{folder}."):
        importlib.import_module(found.name)
for kind in registry.Kind:
    for entry in registry.entries(kind):
        print(f"{kind}/{entry.name}")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = done.stdout.splitlines()
    assert len(set(names)) == len(names) > 100


def test_one_file_under_two_module_names_is_one_plugin(plugin, tmp_path, monkeypatch):
    for package in ("outer", "outer/inner"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "outer/inner/rule.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "outer")
    assert registry.load_named(["outer.inner.rule", "inner.rule"]) == ()
    assert registry.get(Kind.RULE, "half-mean").module == "outer.inner.rule"


def test_suites_are_registered_by_the_folder(own_registry, tmp_path):
    (tmp_path / "tiny.toml").write_text('title = "Tiny"\ndescription = "A small one."\n')
    registration.suites_in(tmp_path)
    suite = registry.get(Kind.SUITE, "tiny")
    assert (suite.title, suite.summary, suite.target) == ("Tiny", "A small one.", tmp_path / "tiny.toml")


def test_a_suite_file_that_is_not_toml_is_named(own_registry, tmp_path):
    (tmp_path / "bad.toml").write_text("= =")
    with pytest.raises(FflbenchError, match=r"bad\.toml is not a suite file"):
        registration.suites_in(tmp_path)


def test_built_ins_explain_all_their_parameters():
    for kind in Kind:
        for entry in registry.entries(kind):
            for parameter in entry.parameters:
                assert parameter.meaning, f"{entry} does not say what {parameter.name} means"
                assert "\n" not in parameter.meaning
            assert entry.summary
            assert entry.citation or kind is Kind.SUITE


STRANGE = '''
"""Strange ones."""
import sys
from typing import Annotated
import numpy as np
from fflbench.federation import Attack
from fflbench.registration import attack, rule

class Odd(BaseException):
    """An exception that nobody expects."""

@rule("unchecked", title="Unchecked")
def unchecked(updates, images: Annotated[np.ndarray, "a type that nobody can check"] = None):
    """Takes an array."""

@rule("unspeakable-type", title="Unspeakable")
def unspeakable(updates, where: frozenset[int] = frozenset()):
    """Takes what no record can hold."""

@attack("raises-it", title="Raises", knows=[])
class Raises(Attack):
    """Raises what it is told to."""
    what: str = "RuntimeError"
    def __post_init__(self):
        if self.what == "exit":
            sys.exit("goodbye\\nand farewell")
        kinds = {"RuntimeError": RuntimeError, "KeyError": KeyError, "AssertionError": AssertionError}
        raise kinds[self.what]("no\\nway")
'''


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("RuntimeError", "RuntimeError: no way"),
        ("KeyError", "KeyError: 'no\\nway'"),
        ("AssertionError", "AssertionError: no way"),
        ("exit", "SystemExit: goodbye and farewell"),
    ],
)
def test_whatever_creating_a_plugin_raises_is_one_sentence(plugin, what, told):
    assert registry.load_named([plugin(STRANGE)]) == ()
    with pytest.raises(ParameterError) as refused:
        registry.get(Kind.ATTACK, "raises-it").create(what=what)
    assert str(refused.value) == f'attack "raises-it": {told}'


def test_a_type_that_cannot_be_checked_is_one_sentence(plugin):
    registry.load_named([plugin(STRANGE)])
    with pytest.raises(ParameterError, match=r'rule "unchecked": images = none cannot be checked \(Pydantic.*\)$'):
        registry.get(Kind.RULE, "unchecked").create()


def test_a_value_that_no_record_can_hold_is_one_sentence(plugin):
    from fflbench.errors import SuiteError
    from fflbench.suites.plan import plan
    from fflbench.suites.suite import parse

    registry.load_named([plugin(STRANGE)])
    content = {"tasks": ["digits-mlp"], "attacks": ["none"], "defenses": ["unspeakable-type"], "seeds": [0]}
    with pytest.raises(SuiteError, match='defense "unspeakable-type": no record can hold its parameters'):
        plan(parse(content, "own", "own.toml"))


def test_a_plugin_behind_a_loop_of_links_is_a_failure(own_registry, tmp_path):
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    (failure,) = registry.load_named([str(tmp_path / "loop.py")])
    assert "loop.py" in failure.plugin
    assert "\n" not in str(failure)
