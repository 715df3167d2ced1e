"""Every known variant of a rule is recognised, and a right implementation agrees, whatever array type it takes."""

import numpy as np
import pytest

from fflbench import registry
from fflbench.comparison import compare, find_reference
from fflbench.errors import FflbenchError
from fflbench.function_calls import Arguments, ForeignFunction, load_function
from fflbench.references import REFERENCES, answers
from fflbench.references.krum import KRUM
from fflbench.registry import Kind
from tests.references import krums

VARIANTS = [
    (reference, variant)
    for reference in REFERENCES.values()
    for variant in reference.variants
    # The many combinations of Multi-Krum are those of Krum with other numbers of rows: the single ones are enough.
    if reference.name != "multi-krum" or len(variant.differences) == 1
]


def function_of(reference, define):
    """A function that computes a definition, and takes the last answer where several are allowed."""

    def function(rows, **named):
        found = answers(define, rows.tolist(), named)
        return np.array(found[-1]) if found else np.full(rows.shape[1], np.nan)

    names = ("f", *reference.parameters) if reference.largest_f else tuple(reference.parameters)
    return ForeignFunction("theirs", function, Arguments(names))


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
def test_the_definition_agrees_with_itself(reference):
    found = compare(function_of(reference, reference.define), reference)
    assert found.agrees
    assert found.sentences == found.example == found.notes == []
    assert "40 random" in found.counts


@pytest.mark.parametrize(
    ("reference", "variant"), VARIANTS, ids=[f"{each.name}-{'+'.join(v.differences)[:60]}" for each, v in VARIANTS]
)
def test_a_known_variant_is_named_and_no_other(reference, variant):
    found = compare(function_of(reference, variant.define), reference)
    assert not found.agrees
    assert tuple(found.sentences) == variant.differences
    assert found.example == []


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (krums.unsquared, "distances: yours looks like it adds up distances, the paper's adds up their squares"),
        (krums.one_neighbour_more, "neighbours: yours looks like n - f - 1, the paper's is n - f - 2"),
        (
            krums.fourth_powers,
            "distances: yours looks like it adds up fourth powers, the paper's adds up squares (is it squared twice?)",
        ),
    ],
)
def test_a_wrong_krum_is_recognised(function, sentence):
    found = compare(load_function(f"tests.references.krums:{function.__name__}"), KRUM)
    assert found.sentences[0] == sentence


@pytest.mark.parametrize(
    "name", ["of_numpy", "of_torch", "of_numpy_rows", "of_torch_rows", "of_lists", "OfClass", "Aggregator"]
)
def test_a_right_krum_agrees_whatever_it_takes_and_returns(name):
    found = compare(load_function(f"tests.references.krums:{name}"), KRUM)
    assert found.agrees, found.sentences


def test_where_no_variant_fits_a_matrix_is_shown_that_can_be_worked_out_by_hand():
    found = compare(load_function("tests.references.krums:largest"), KRUM)
    assert found.sentences == ["no known variant gives these answers"]
    assert found.example == [
        "smallest matrix on which they differ (5 rows of whole numbers, f = 1):",
        *("  [7]", "  [3]", "  [0]", "  [-4]", "  [-4]"),
        "right: [-4]",
        "yours: [7]",
    ]


def test_settings_name_arguments_by_values_and_formulas():
    differing = load_function("tests.references.krums:odd_names")
    with pytest.raises(FflbenchError, match=r"has no argument that is known to be f, .* as in --set bad=f"):
        compare(differing, KRUM)
    with pytest.raises(FflbenchError, match="needs power: set it"):
        compare(differing, KRUM, {"bad": "f"})
    assert compare(differing, KRUM, {"bad": "f", "power": 2}).agrees
    assert compare(differing, KRUM, {"bad": "n - (n - f)", "power": 2}).agrees
    assert not compare(differing, KRUM, {"bad": "f", "power": 1}).agrees
    with pytest.raises(FflbenchError, match='has no argument "powe"; did you mean "power"'):
        compare(differing, KRUM, {"bad": "f", "powe": 2})


def test_a_function_without_f_is_compared_with_the_f_that_it_is_said_to_use():
    fixed = load_function("tests.references.krums:with_f_of_two")
    assert compare(fixed, KRUM, {"f": 2}).agrees
    assert not compare(fixed, KRUM, {"f": 1}).agrees
    with pytest.raises(FflbenchError, match="--set f=99: f must be a whole number from 0 to 10"):
        compare(fixed, KRUM, {"f": 99})


def test_a_parameter_of_the_definition_goes_to_both():
    multi = REFERENCES["multi-krum"]
    assert compare(load_function("tests.references.krums:multi"), multi, {"m": "n-f-1"}).agrees
    with pytest.raises(FflbenchError, match="multi-krum is not defined for m = 99 and 5 rows"):
        compare(load_function("tests.references.krums:multi"), multi, {"m": 99})
    assert compare(load_function("tests.references.krums:multi"), multi).sentences == [
        "rows averaged: yours looks like 1 (Krum), and n - f is usual"
    ]


def test_the_nearest_name_is_suggested_for_an_unknown_definition():
    with pytest.raises(FflbenchError, match='there is no reference of "krumm"; did you mean "krum"'):
        find_reference("krumm")


NO_FUNCTION_OF_A_MATRIX = {"fltrust", "signguard"}
"""Rules that need a root update, or count signs in a random window: their slow definitions stand beside their tests."""


def test_every_registered_rule_and_preaggregation_has_a_reference():
    registered = {entry.name for kind in (Kind.RULE, Kind.PREAGGREGATION) for entry in registry.entries(kind)}
    assert registered - NO_FUNCTION_OF_A_MATRIX == set(REFERENCES)
