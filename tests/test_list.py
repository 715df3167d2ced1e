"""`fflbench list`: formulas as text, shared parameters once, and terminals of 80 columns."""

import json
import re

import pytest

from fflbench import list_plugins_and_datasets, registry
from fflbench.federation import Attack
from fflbench.math_as_text import math_as_text
from fflbench.registration import attack
from fflbench.registry import Kind
from fflbench.terminal import console

LATEX = re.compile(r"\\|\$")
LISTED = [kind for kind in Kind if kind is not Kind.TASK]


@pytest.fixture
def print_plugins(capsys, monkeypatch):
    """Return the output of `fflbench list` in a terminal of so many columns."""

    def printed(kind, width=200, **options):
        monkeypatch.setattr(list_plugins_and_datasets, "_wide_console", lambda: console(width=width))
        problems = list_plugins_and_datasets.print_plugins(kind, **{"as_json": False, **options})
        assert problems == []
        return capsys.readouterr().out

    return printed


@pytest.mark.parametrize("kind", LISTED)
def test_no_listed_text_is_latex(print_plugins, kind):
    assert not LATEX.search(print_plugins(kind))
    for entry in json.loads(print_plugins(kind, as_json=True)):
        texts = [entry["summary"], entry["citation"], *(each["meaning"] for each in entry["parameters"])]
        assert not LATEX.search(" ".join(texts))


def test_the_formula_of_an_attack_is_listed_as_text(print_plugins):
    shown = " ".join(print_plugins(Kind.PRIVACY_ATTACK, width=80).split())
    assert "members whose loss the update reduced: ℓ(x; w) - ℓ(x; w + Δ)." in shown


def test_every_formula_of_every_plugin_can_be_shown_as_text():
    for kind in Kind:
        for entry in registry.entries(kind):
            text = getattr(entry.target, "__doc__", None) or ""
            assert not LATEX.search(math_as_text(text)), entry


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"$\frac{1}{n-2f} \sum_{j=f+1}^{n-f} x_{(j),i}$", "1/(n-2f) ∑_{j=f+1}^{n-f} x_{(j),i}"),
        (r"$$ \tfrac{1}{2} \left( a + b \right) $$", "1/2 (a + b)"),
        (r"score $\lVert x_k - x_j \rVert^2$, squared", "score ‖x_k - x_j‖^2, squared"),
        (r"$\frac{\lVert x \rVert}{2}$", "(‖x‖)/2"),
        (r"$\unheardof x$", "unheardof x"),
        (r"$\mathrm{softmax}(y) \in [0, 1]$", "softmax(y) ∈ [0, 1]"),
        ("20% of $5 and $6", "20% of $5 and $6"),
        ("$HOME or $FFLBENCH_DATA", "$HOME or $FFLBENCH_DATA"),
        ("no formula at all: 100% _as_ {it} is", "no formula at all: 100% _as_ {it} is"),
        (r"$\frac$ and $x$", r"\frac and x"),
    ],
)
def test_formulas_become_text_and_nothing_else_does(latex, text):
    assert math_as_text(latex) == text


@pytest.mark.parametrize("formula", ["{" * 5000, r"\input{/etc/passwd}", r"\begin{matrix}", "}", r"\left", "%"])
def test_a_formula_that_is_none_stops_nothing(formula, caplog):
    assert math_as_text(f"before ${formula}$ after").startswith("before ")
    assert "root" not in math_as_text(f"${formula}$")


def test_a_parameter_of_all_attacks_is_listed_once(print_plugins):
    shown = print_plugins(Kind.ATTACK)
    once = "All attacks, unless listed otherwise: share (float, default 0.2): part of the participants that attack"
    assert once in shown
    # The one attack with another default says so itself.
    assert re.findall(r"share \(float, default \d\.\d\)", shown) == [
        "share (float, default 0.0)",
        "share (float, default 0.2)",
    ]
    listed = {entry["name"]: entry for entry in json.loads(print_plugins(Kind.ATTACK, as_json=True))}
    assert [each["name"] for each in listed["gaussian-noise"]["parameters"]] == ["share", "sigma"]


@pytest.mark.parametrize("kind", [Kind.RULE, Kind.PRIVACY_ATTACK, Kind.MEASURE, Kind.TRANSPORT])
def test_parameters_that_only_some_have_stay_with_them(print_plugins, kind):
    shown = print_plugins(kind)
    assert "unless listed otherwise" not in shown
    for entry in registry.entries(kind):
        assert all(f"{each.name} (" in shown for each in entry.parameters)


def test_a_parameter_of_another_meaning_is_not_shared(own_registry, print_plugins):
    @attack("own-share", title="Own share", knows=[])
    class OwnShare(Attack):
        """Means something else by its share."""

        share: float = 0.5

    shown = print_plugins(Kind.ATTACK)
    assert "unless listed otherwise" not in shown
    assert len(re.findall(r"share \(float, default", shown)) == len(registry.entries(Kind.ATTACK))


@pytest.mark.parametrize("kind", LISTED)
def test_eighty_columns_hold_all_of_a_list_without_narrow_columns(print_plugins, kind):
    shown = print_plugins(kind, width=80)
    assert max(map(len, shown.splitlines())) <= 80
    # Names stand at the beginning of a line, and everything about them below, over the whole width.
    entries = list_plugins_and_datasets._entries_to_list(kind)
    first_words = [line.split()[0] for line in shown.splitlines() if line[:1].strip()]
    assert [word for word in first_words if registry.find(kind, word) or kind is Kind.DEFENSE][: len(entries)] == [
        entry.name for entry in entries
    ]
    for entry in entries:
        assert " ".join(math_as_text(entry.summary).split()) in " ".join(shown.split())
