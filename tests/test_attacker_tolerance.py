import pytest

from fflbench.attacker_tolerance import is_tolerated, largest_tolerated


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
