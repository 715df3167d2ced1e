import numpy as np
import pytest
import torch

from fflbench import aggregate
from fflbench.errors import NotRegisteredError, ParameterError
from fflbench.federation import Defense
from fflbench.registry import defense

UPDATES = np.arange(30, dtype=np.float32).reshape(10, 3)


def test_torch_in_torch_out():
    result = aggregate("median", torch.from_numpy(UPDATES))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == torch.float32
    np.testing.assert_array_equal(result.numpy(), aggregate("median", UPDATES))
    assert aggregate("median", torch.from_numpy(UPDATES).double().requires_grad_()).dtype == torch.float64
    assert aggregate("median", torch.tensor([[1, 2], [2, 5]])).tolist() == [1.5, 3.5]
    assert aggregate("median", torch.from_numpy(UPDATES).bfloat16()).dtype == torch.bfloat16


def test_plain_lists_of_numbers_will_do():
    assert aggregate("median", [[1, 2], [3, 4], [5, 6]]).tolist() == [3, 4]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    updates = UPDATES.copy()
    updates[3, 1] = bad
    with pytest.raises(ParameterError, match="not finite"):
        aggregate("median", updates)


@pytest.mark.parametrize("updates", [np.zeros(3), np.zeros((0, 3)), np.zeros((2, 3, 4)), 5.0])
def test_what_is_no_matrix_is_refused(updates):
    with pytest.raises(ParameterError, match="must be a matrix with at least one row"):
        aggregate("median", updates)


@pytest.mark.parametrize("weights", [[1, 2], [-1] + [1] * 9, [0] * 10, [np.nan] * 10, [np.inf] + [1] * 9, [1e308] * 10])
def test_weights_that_make_no_sense_are_refused(weights):
    with pytest.raises(ParameterError, match="weights must be 10 numbers"):
        aggregate("fedavg", UPDATES, weights=weights)


def test_a_bad_name_or_parameter_gets_the_right_one():
    with pytest.raises(NotRegisteredError, match='did you mean "multi-krum"'):
        aggregate("multikrum", UPDATES)
    with pytest.raises(
        ParameterError, match=r'"multi-krum" has no parameter "k".*f \(int \| "20%" \| "bound", default "20%"\)'
    ):
        aggregate("multi-krum", UPDATES, k=3)


@pytest.mark.parametrize(
    ("rule", "f", "condition"),
    [("trimmed-mean", 5, "f < n/2"), ("multi-krum", 8, "f <= n - 3"), ("krum", 8, "f <= n - 3")],
)
def test_an_f_that_the_rule_cannot_bear_is_refused(rule, f, condition):
    with pytest.raises(ParameterError, match=f'"{rule}" needs {condition}, but f = {f} and n = 10'):
        aggregate(rule, UPDATES, f=f)


@pytest.mark.parametrize("f", [-1, 1.0, "10%", True])
def test_an_f_that_is_no_count_is_refused(f):
    with pytest.raises(ParameterError, match="f = "):
        aggregate("trimmed-mean", UPDATES, f=f)


def test_f_is_a_fifth_unless_told_and_bound_is_the_most_the_rule_bears():
    np.testing.assert_array_equal(aggregate("trimmed-mean", UPDATES), aggregate("trimmed-mean", UPDATES, f=2))
    np.testing.assert_array_equal(
        aggregate("trimmed-mean", UPDATES, f="bound"), aggregate("trimmed-mean", UPDATES, f=4)
    )
    np.testing.assert_array_equal(aggregate("multi-krum", UPDATES, f="bound"), aggregate("multi-krum", UPDATES, f=3))


def test_a_protocol_says_in_one_sentence_that_it_needs_more(own_registry):
    @defense("handshake", title="Handshake")
    class Handshake(Defense):
        """Needs participants who talk."""

        aggregates_alone = False

    with pytest.raises(ParameterError, match=r'^defense "handshake" needs more than a matrix of updates: .*suite$'):
        aggregate("handshake", UPDATES)


def test_a_rule_is_given_what_it_asks_for_by_name(own_registry):
    @defense("curious", title="Curious")
    def curious(updates, *, weights, participants, columns, rng):
        """Looks at everything."""
        assert weights.tolist() == list(range(1, 11))
        assert participants.tolist() == list(range(10))
        assert columns.parameters == slice(0, 3)
        return rng.normal(size=3)

    first, second = (aggregate("curious", UPDATES, weights=range(1, 11)) for _ in range(2))
    assert first.tolist() == second.tolist()


def test_a_rule_with_f_must_say_what_it_tolerates(own_registry):
    with pytest.raises(ValueError, match="is not a condition on f and n"):

        @defense("boastful", title="Boastful")
        def boastful(updates, f: int):
            """Says nothing of its limits."""
