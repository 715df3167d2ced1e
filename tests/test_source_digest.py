import importlib
import sys

import pytest

from fflbench import registration, registry
from fflbench.registry import Kind

RULE = '''
"""A rule of somebody's."""
from fflbench.registration import rule
{more}

@rule("own-rule", title="Own rule")
def own_rule(updates):
    """The mean."""
    return {value}
'''


@pytest.fixture
def version(tmp_path, own_registry, monkeypatch):
    """The results version of a rule whose file, or package, holds this text."""
    number = iter(range(100))

    def load(text, *, by_path=True, package=False, **beside):
        folder = tmp_path / f"try{next(number)}" / "own_package"
        folder.mkdir(parents=True)
        for name, content in {"rule": text, **({"__init__": ""} if package else {}), **beside}.items():
            (folder / f"{name}.py").write_text(content)
        monkeypatch.setattr(sys, "path", [str(folder.parent), str(folder), *sys.path])
        for name in [name for name in sys.modules if name.partition(".")[0] in ("own_package", "helper")]:
            monkeypatch.delitem(sys.modules, name)
        registry._entries.pop((Kind.RULE, "own-rule"), None)
        importlib.invalidate_caches()
        plugin = str(folder / "rule.py") if by_path else "own_package.rule"
        assert registry.load_named([plugin]) == ()
        return registry.get(Kind.RULE, "own-rule").results_version

    return load


PLAIN = RULE.format(more="", value="updates.mean(0)")


def test_the_version_of_an_outside_plugin_changes_with_its_code(version):
    assert version(PLAIN) != version(PLAIN.replace("updates.mean(0)", "-updates.mean(0)"))


def test_comments_and_layout_do_not_count(version):
    laid_out = PLAIN.replace("return updates.mean(0)", "# A comment.\n    return (\n        updates.mean( 0 )\n    )")
    assert version(PLAIN) == version(laid_out)


@pytest.mark.parametrize(
    ("imports", "named"),
    [
        ("from own_package.helper import half", {"package": True, "by_path": False}),
        ("from own_package.helper import half", {"package": True}),
        ("from helper import half", {}),
    ],
    ids=["a package by its name", "a module of a package by its path", "a loose file and a module beside it"],
)
def test_modules_of_its_own_count_with_a_plugin(version, imports, named):
    text = RULE.format(more=imports, value="half(updates.mean(0))")
    first = version(text, helper="def half(x):\n    return x / 2\n", **named)
    assert first == version(text, helper="def half(x):  # a comment\n    return x / 2\n", **named)
    assert first != version(text, helper="def half(x):\n    return x / 3\n", **named)


def test_files_beside_a_loose_one_that_it_does_not_import_do_not_count(version):
    assert version(PLAIN, other="x = 1\n") == version(PLAIN, other="x = 2\n")


def test_built_ins_are_known_by_their_number_alone():
    assert registry.get(Kind.RULE, "median").results_version == 1


def test_code_that_no_file_holds_has_no_digest(own_registry, monkeypatch):
    import types

    notebook = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)

    def mean(updates):
        """The mean."""

    mean.__module__ = "__main__"
    registration.rule("from-a-notebook", title="From a notebook")(mean)
    assert registry.get(Kind.RULE, "from-a-notebook").results_version == 1
