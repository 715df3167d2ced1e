import re
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fflbench import aggregate, registry
from fflbench.arrays import kernels
from fflbench.errors import NotRegisteredError, ParameterError
from fflbench.federation import Transport
from fflbench.registration import rule, transport
from fflbench.registry import Kind

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
    with pytest.raises(ParameterError, match=r'"multi-krum" has no parameter "k".*f \(int \| str, default "20%"\)'):
        aggregate("multi-krum", UPDATES, k=3)


@pytest.mark.parametrize(
    ("rule", "f", "condition"),
    [("trimmed-mean", 5, "f < n/2"), ("multi-krum", 8, "f <= n - 3"), ("krum", 8, "f <= n - 3")],
)
def test_an_f_that_the_rule_cannot_bear_is_refused(rule, f, condition):
    with pytest.raises(ParameterError, match=f'"{rule}" needs {condition}, but f = {f} and n = 10'):
        aggregate(rule, UPDATES, f=f)


@pytest.mark.parametrize("f", [-1, 1.0, "10", "most", True])
def test_an_f_that_is_no_count_is_refused(f):
    with pytest.raises(ParameterError, match="f = "):
        aggregate("trimmed-mean", UPDATES, f=f)


def test_f_is_a_fifth_unless_told_and_bound_is_the_most_the_rule_bears():
    np.testing.assert_array_equal(aggregate("trimmed-mean", UPDATES), aggregate("trimmed-mean", UPDATES, f=2))
    np.testing.assert_array_equal(
        aggregate("trimmed-mean", UPDATES, f="bound"), aggregate("trimmed-mean", UPDATES, f=4)
    )
    np.testing.assert_array_equal(aggregate("multi-krum", UPDATES, f="bound"), aggregate("multi-krum", UPDATES, f=3))


@pytest.mark.parametrize("name", ["handshake", "handshake + median"])
def test_a_protocol_says_in_one_sentence_that_it_needs_more(own_registry, name):
    @transport("handshake", title="Handshake")
    class Handshake(Transport):
        """Needs participants who talk."""

    told = f'^defense "{re.escape(name)}" needs more than a matrix of updates: it is a protocol; use it in a suite$'
    with pytest.raises(ParameterError, match=told):
        aggregate(name, UPDATES)


def test_every_registered_transport_but_the_plain_one_is_refused():
    for entry in registry.entries(Kind.TRANSPORT):
        if entry.name == "plain":
            np.testing.assert_array_equal(aggregate("plain + fedavg", UPDATES), aggregate("fedavg", UPDATES))
        else:
            with pytest.raises(ParameterError, match="it is a protocol; use it in a suite"):
                aggregate(entry.name, UPDATES)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["clipping + median", "nnm + krum", "bucketing + fedavg", "arc + nnm + trimmed-mean"])
def test_a_chain_leaves_the_matrix_alone_and_keeps_its_type(name, dtype):
    updates = np.random.default_rng(0).normal(size=(10, 30)).astype(dtype)
    before = updates.copy()
    result = aggregate(name, updates)
    assert result.dtype == dtype
    assert not np.shares_memory(result, updates)
    np.testing.assert_array_equal(updates, before)
    updates.flags.writeable = False
    np.testing.assert_array_equal(aggregate(name, updates), result)
    np.testing.assert_array_equal(aggregate(name, torch.from_numpy(before)), torch.from_numpy(result))
    np.testing.assert_array_equal(before, updates)


def test_a_chain_without_pre_aggregations_copies_nothing(own_registry):
    seen = []

    @rule("first", title="First")
    def first(updates):
        """Takes the first."""
        seen.append(updates)
        return updates[0].copy()

    aggregate("first", UPDATES)
    assert np.shares_memory(seen[0], UPDATES)
    aggregate("clipping + first", UPDATES)
    assert not np.shares_memory(seen[1], UPDATES)


def test_a_rule_cannot_write_into_the_matrix(own_registry):
    @rule("greedy", title="Greedy")
    def greedy(updates):
        """Writes where it may not."""
        updates[0] = 0
        return updates[0]

    with pytest.raises(ValueError, match="read-only"):
        aggregate("greedy", UPDATES)


def test_parameters_of_parts_are_set_by_name_in_three_ways():
    wanted = aggregate("median", UPDATES / np.maximum(1, np.linalg.norm(UPDATES, axis=1, keepdims=True)))
    for bound in ({"clipping.bound": 1.0}, {"clipping": {"bound": 1.0}}, {"bound": 1.0}):
        np.testing.assert_allclose(aggregate("clipping + median", UPDATES, **bound), wanted, rtol=1e-5)
    # A part's own parameter is stronger than the one for all.
    np.testing.assert_array_equal(
        aggregate("nnm + trimmed-mean", UPDATES, f=3, **{"nnm.f": 1}),
        aggregate("nnm + trimmed-mean", UPDATES, nnm={"f": 1}, **{"trimmed-mean.f": 3}),
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"clipping.bond": 1.0}, r'"clipping" has no parameter "bond"; did you mean "bound"'),
        ({"cliping.bound": 1.0}, r'has no parameter "cliping"; did you mean "clipping"'),
        ({"clipping": 1.0}, r"clipping must be a table of its parameters"),
        ({"clipping.bound": 0.0}, r"bound = 0.0 "),
        ({"median.bound": 1.0}, r'rule "median" has no parameter "bound"'),
    ],
)
def test_a_wrong_parameter_of_a_part_is_named(given, told):
    with pytest.raises(ParameterError, match=told) as refused:
        aggregate("clipping + median", UPDATES, **given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("clipping", "must end with a rule"),
        ("median + clipping", "must end with a rule"),
        ("median + median", r'rule "median" must stand last'),
        ("nnm + nnm + median", "names nnm twice"),
        ("bucketing + foolsgold", "behind bucketing rows have no sender"),
    ],
)
def test_a_chain_that_cannot_be_one_is_refused_in_a_sentence(name, told):
    with pytest.raises(ParameterError, match=told):
        aggregate(name, UPDATES)


def test_an_unknown_part_gets_the_right_one():
    with pytest.raises(NotRegisteredError, match='did you mean "clipping"'):
        aggregate("cliping + median", UPDATES)


def test_a_rule_is_given_what_it_asks_for_by_name(own_registry):
    @rule("curious", title="Curious")
    def curious(updates, *, weights, participants, columns, rng):
        """Looks at everything."""
        assert weights.tolist() == list(range(1, 11))
        assert participants.tolist() == list(range(10))
        assert columns.parameters == slice(0, 3)
        return rng.normal(size=3)

    first, second = (aggregate("curious", UPDATES, weights=range(1, 11)) for _ in range(2))
    assert first.tolist() == second.tolist()


def test_a_rule_with_f_must_say_what_it_tolerates(own_registry):
    with pytest.raises(ValueError, match='rule "boastful" has a parameter f: say how many it tolerates'):

        @rule("boastful", title="Boastful")
        def boastful(updates, f: int):
            """Says nothing of its limits."""


def quantized():
    return torch.quantize_per_tensor(torch.ones(3, 2), 0.1, 0, torch.qint8)


NO_NUMBERS = {
    "ragged": [[1, 2], [3]],
    "text": "updates",
    "texts": [["1", "2"], ["3", "4"]],
    "a dictionary": {"a": [1, 2]},
    "rows that are dictionaries": [{"a": 1}, {"a": 2}],
    "nothing": None,
    "nothing inside": [[1.0, None], [2.0, 3.0]],
    "complex numbers": np.ones((3, 2), complex),
    "complex numbers of torch": torch.ones(3, 2, dtype=torch.complex64),
    "booleans": np.ones((3, 2), bool),
    "booleans of torch": torch.ones(3, 2, dtype=torch.bool),
    "objects": [[Fraction(1, 2)], [Fraction(1, 3)]],
    "numbers beyond all types": [[10**400, 1], [1, 2]],
    "bytes": b"1234",
    "dates": np.zeros((3, 2), "datetime64[s]"),
    "records": np.zeros((3, 2), [("a", "f4")]),
    "a tensor without values": torch.ones(3, 2, device="meta"),
    "a sparse tensor": torch.ones(3, 2).to_sparse(),
    "a module": torch.nn.Linear(2, 3),
    "a data type": torch.float32,
    "a class": np.ndarray,
    "a generator": (row for row in UPDATES),
    "a set": {1.0, 2.0},
}


@pytest.mark.parametrize("what", NO_NUMBERS)
def test_what_holds_no_real_numbers_is_refused_in_a_sentence(what):
    with pytest.raises(ParameterError, match=r"^updates must be a matrix of real numbers.*") as refused:
        aggregate("median", NO_NUMBERS[what])
    assert "\n" not in str(refused.value)
    with pytest.raises(ParameterError, match="weights must be 10 numbers"):
        aggregate("fedavg", UPDATES, weights=NO_NUMBERS[what] if what != "nothing" else [None] * 10)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_quantized_tensor_is_refused_in_a_sentence():
    with pytest.raises(ParameterError, match=r"^updates must be a matrix of real numbers"):
        aggregate("median", quantized())


class Unreadable:
    def __array__(self, *_, **__):
        raise OSError("the disk\nis gone")


def test_an_object_that_fails_to_become_an_array_is_refused_in_a_sentence():
    with pytest.raises(
        ParameterError, match=r"^updates must be a matrix of real numbers \(OSError: the disk is gone\)$"
    ):
        aggregate("median", Unreadable())


@pytest.mark.parametrize(
    "weights",
    [
        "1111111111",
        ["1"] * 10,
        [1j] * 10,
        [True] * 10,
        [[1] * 10],
        [[1]] * 10,
        [1, [2]] + [1] * 8,
        [None] * 10,
        5,
        {"a": 1},
        torch.ones(10, device="meta"),
        torch.ones(10, dtype=torch.complex64),
        torch.ones(9),
        [10**400] * 10,
    ],
)
def test_weights_of_the_wrong_kind_are_refused(weights):
    with pytest.raises(ParameterError, match=r"^weights must be 10 numbers from 0, one for each row, and not all zero"):
        aggregate("fedavg", UPDATES, weights=weights)


@pytest.mark.parametrize("kind", [list, torch.tensor, lambda each: torch.tensor(each).double().requires_grad_()])
def test_weights_may_be_a_list_or_a_tensor(kind):
    weights = kind([1.0, *[2.0] * 9])
    np.testing.assert_array_equal(
        aggregate("fedavg", UPDATES, weights=weights), aggregate("fedavg", UPDATES, weights=[1, *[2] * 9])
    )


def test_weights_whose_sum_is_beyond_their_type_are_weights_all_the_same():
    np.testing.assert_array_equal(
        aggregate("fedavg", UPDATES, weights=np.full(10, 2**62)), aggregate("fedavg", UPDATES)
    )


@pytest.mark.parametrize("name", [5, None, ["median"], b"median"])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(ParameterError, match=r"^the name of a defense must be a text"):
        aggregate(name, UPDATES)


def test_a_parameter_called_self_is_as_unknown_as_any_other():
    with pytest.raises(ParameterError, match='has no parameter "self"'):
        aggregate("median", UPDATES, **{"self": 3})


RULES = [entry.name for entry in registry.entries(Kind.RULE) if not entry.root_update]
CHANGE_LENGTH_OR_SIGN = {"centered-clipping", "norm-clipping", "robust-learning-rate", "sign-majority"}
"""Rules whose aggregate of equal rows is not that row."""
CHAINS = ["nnm + median", "bucketing + fedavg", "clipping + fedavg", "arc + krum", "clipping + nnm + trimmed-mean"]
LARGEST = {np.float32: float(np.finfo(np.float32).max), np.float64: float(np.finfo(np.float64).max)}


@st.composite
def huge(draw):
    """A matrix whose values are at the largest number of its type, near it, small or zero."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    top = LARGEST[dtype]
    values = st.sampled_from([top, -top, top / 2, -top / 3, top**0.5, 1.0, 0.0])
    shape = draw(st.tuples(st.integers(1, 12), st.integers(0, 6)))
    return draw(arrays.arrays(dtype, shape, elements=values))


@pytest.mark.parametrize("name", [*RULES, *CHAINS])
@given(updates=huge(), data=st.data())
def test_the_largest_numbers_give_a_finite_aggregate_or_a_refusal(name, updates, data):
    weights = data.draw(st.lists(st.floats(0.1, 1e6), min_size=len(updates), max_size=len(updates)))
    try:
        found = aggregate(name, updates, weights=weights)
    except ParameterError:
        return
    assert found.shape == updates.shape[1:]
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", [name for name in RULES if name not in CHANGE_LENGTH_OR_SIGN])
@pytest.mark.parametrize("n", [3, 5, 7, 10, 30])
def test_equal_rows_at_the_largest_number_of_single_precision_give_that_row(name, n):
    top = np.finfo(np.float32).max
    rows = np.tile(np.array([top, -top, 1], np.float32), (n, 1))
    if name == "foolsgold":
        rows[0] = [-top, -top, 1]
    takes_f = any(parameter.name == "f" for parameter in registry.get(Kind.RULE, name).parameters)
    found = aggregate(name, rows, weights=np.linspace(1, 3, n), **({"f": 0} if takes_f else {}))
    np.testing.assert_allclose(found[1:], rows[0, 1:], rtol=1e-6)
    assert np.isfinite(found).all()


def test_numbers_whose_squares_double_precision_cannot_hold_are_refused_with_the_limit():
    with pytest.raises(ParameterError, match=r"^updates hold values beyond 1e\+145 .* scale them down$"):
        aggregate("foolsgold", np.full((4, 3), 1e300) * np.eye(4, 3))


def test_ordinary_rows_are_averaged_to_the_bit_as_before():
    rng = np.random.default_rng(0)
    updates, weights = rng.normal(size=(9, 1000)).astype(np.float32), rng.integers(1, 50, 9)
    updates[:, 0] = np.finfo(np.float32).max
    shares = (weights / weights.sum()).astype(np.float32)
    assert (kernels.weighted_mean(updates, weights)[1:] == (shares @ updates)[1:]).all()


def test_a_rule_that_gives_no_vector_or_no_finite_one_is_named(own_registry):
    @rule("nothing-at-all", title="Nothing")
    def nothing(updates):
        """Nothing."""

    @rule("infinite", title="Infinite")
    def infinite(updates):
        """Infinity."""
        return np.full(updates.shape[1], np.inf)

    with pytest.raises(ParameterError, match='rule "nothing-at-all" must return the change of the model'):
        aggregate("nothing-at-all", UPDATES)
    with pytest.raises(ParameterError, match='defense "infinite" gave values that are not finite'):
        aggregate("infinite", UPDATES)


@pytest.mark.parametrize("given", [{"seed": 5}, {"participants": 50}])
def test_what_only_an_aggregator_has_is_refused(given):
    with pytest.raises(ParameterError, match="use Aggregator"):
        aggregate("median", np.eye(3), **given)
