import pytest

from fflbench.attacker_tolerance import is_tolerated, is_undefined_reason, largest_tolerated, undefined_reason


@pytest.mark.parametrize(
    ("condition", "f", "n", "holds"),
    [
        ("f < n/2", 4, 9, True),
        ("f < n/2", 5, 10, False),
        ("f < (n - 2)/2", 3, 9, True),
        ("f < (n - 2)/2", 4, 10, False),
        ("f <= n - 3", 7, 10, True),
        ("f <= n - 3", 8, 10, False),
    ],
)
def test_conditions_are_read_as_they_stand(condition, f, n, holds):
    assert is_tolerated(condition, f, n) is holds


def test_the_largest_f():
    assert [largest_tolerated("f < n/2", n) for n in (1, 2, 3, 10)] == [0, 0, 1, 4]
    assert largest_tolerated("f < (n - 2)/2", 10) == 3


@pytest.mark.parametrize(
    "nonsense", ["", "n > 2f", "f < n/2; import os", "f < (n - 2", "f < n - 2)/2", "f < n - 2/2", "f <= n/0"]
)
def test_anything_else_is_refused(nonsense):
    with pytest.raises(ValueError, match="is not a condition on f and n"):
        is_tolerated(nonsense, 1, 3)


@pytest.mark.parametrize("condition", ["f < n/2", "f < (n - 2)/2", "f <= n - 3", "f <= (n - 3)/4"])
def test_the_reason_of_an_undefined_rule_is_recognised(condition):
    assert is_undefined_reason(undefined_reason('rule "bulyan"', condition, 5, 20))


@pytest.mark.parametrize("other", ["", "no update was left", "the aggregate was not finite or exploded"])
def test_other_reasons_to_keep_the_model_are_not(other):
    assert not is_undefined_reason(other)
