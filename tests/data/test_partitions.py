import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import dirichlet_multinomial

from fflbench import registry
from fflbench.data import partition
from fflbench.errors import DataError, ParameterError
from fflbench.randomness import stream
from fflbench.registry import Kind


@given(
    scheme=st.sampled_from(["iid", "dirichlet", "shards"]),
    participants=st.integers(1, 30),
    extra=st.integers(0, 200),
    classes=st.integers(1, 10),
    alpha=st.sampled_from([1e-4, 1e-2, 0.1, 1.0, 100.0, 1e6]),
    shards=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_every_example_goes_to_exactly_one_participant_and_each_has_one(
    scheme, participants, extra, classes, alpha, shards, seed
):
    y = stream(seed, "labels").integers(classes, size=participants * shards + extra)
    parts = partition(scheme, y, participants, stream(seed, "partition"), alpha=alpha, shards=shards)
    assert len(parts) == participants
    assert all(len(part) for part in parts)
    assert sorted(np.concatenate(parts)) == list(range(len(y)))
    assert all((np.diff(part) > 0).all() for part in parts)


@given(
    scheme=st.sampled_from(["iid", "dirichlet", "shards"]), participants=st.integers(2, 10), shards=st.integers(1, 4)
)
def test_the_impossible_is_an_error(scheme, participants, shards):
    too_few = participants * (shards if scheme == "shards" else 1) - 1
    with pytest.raises(DataError, match=f"{too_few} examples cannot be divided among {participants} participants"):
        partition(scheme, np.zeros(too_few, np.int64), participants, stream(0), shards=shards)


@pytest.mark.parametrize("scheme", ["iid", "dirichlet", "dirichlet-equal", "shards"])
def test_the_seed_decides(scheme):
    y = np.arange(1000) % 10

    def parts(seed):
        return [part.tolist() for part in partition(scheme, y, 20, stream(seed, "partition"))]

    assert parts(1) == parts(1)
    assert parts(1) != parts(2)


def test_an_unknown_partition_is_refused():
    with pytest.raises(DataError, match='no partition "itd"'):
        partition("itd", np.zeros(10, np.int64), 2, stream(0))


def test_shards_are_cut_and_assigned_at_random():
    """Without a shuffle inside classes, or of shards, participants would hold runs of neighbouring examples."""
    y = np.repeat(np.arange(10), 100)
    parts = partition("shards", y, 20, stream(0), shards=2)
    assert not any((np.diff(part[:50]) == 1).all() for part in parts)
    assert sum(abs(y[part][0] - y[part][-1]) > 1 for part in parts) > 5


def test_a_dirichlet_partition_takes_from_all_over_a_class():
    parts = partition("dirichlet", np.zeros(1000, np.int64), 4, stream(0), alpha=5.0)
    assert not any((np.diff(part) == 1).all() for part in parts)


def mean_share_of_largest_class(scheme, **parameters):
    """Mean share of participants' largest class."""
    y = np.arange(20_000) % 10
    parts = partition(scheme, y, 20, stream(0, "partition"), **parameters)
    return np.mean([np.bincount(y[part]).max() / len(part) for part in parts])


def test_iid_is_even_and_sizes_differ_by_one_at_most():
    assert mean_share_of_largest_class("iid") < 0.15
    sizes = [len(part) for part in partition("iid", np.zeros(1003, np.int64), 20, stream(0))]
    assert max(sizes) - min(sizes) == 1


def test_a_dirichlet_partition_is_the_more_uneven_the_smaller_alpha():
    assert mean_share_of_largest_class("dirichlet", alpha=1e6) < 0.15
    assert (
        0.25
        < mean_share_of_largest_class("dirichlet", alpha=0.5)
        < mean_share_of_largest_class("dirichlet", alpha=0.05)
    )


def test_dirichlet_shares_have_the_mean_and_variance_of_their_distribution():
    """Var p = (1/n)(1 - 1/n) / (n alpha + 1) for the symmetric Dirichlet over n."""
    n, alpha, y = 5, 0.7, np.zeros(2000, np.int64)
    drawn = np.array(
        [
            [len(part) / len(y) for part in partition("dirichlet", y, n, stream(seed), alpha=alpha)]
            for seed in range(2000)
        ]
    )
    np.testing.assert_allclose(drawn.mean(0), 1 / n, atol=0.015)
    np.testing.assert_allclose(drawn.var(0), (1 / n) * (1 - 1 / n) / (n * alpha + 1), rtol=0.12)


def test_participants_hold_at_most_as_many_classes_as_shards_when_classes_divide_evenly():
    y = np.arange(20_000) % 10
    parts = partition("shards", y, 20, stream(0), shards=2)
    assert all(len(np.unique(y[part])) <= 2 for part in parts)


# Equal sizes, and a number of examples per participant


@given(
    participants=st.integers(1, 20),
    examples=st.integers(1, 20),
    extra=st.integers(0, 100),
    classes=st.integers(1, 10),
    alpha=st.sampled_from([1e-4, 0.1, 1.0, 1e6]),
    seed=st.integers(0, 2**32),
)
def test_dirichlet_equal_gives_all_as_many_distinct_examples(participants, examples, extra, classes, alpha, seed):
    y = stream(seed, "labels").integers(classes, size=participants * examples + extra)
    parts = partition("dirichlet-equal", y, participants, stream(seed, "partition"), alpha=alpha, examples=examples)
    assert [len(part) for part in parts] == [examples] * participants
    assert len(np.unique(np.concatenate(parts))) == participants * examples
    assert all((np.diff(part) > 0).all() for part in parts)


def test_dirichlet_equal_divides_all_examples_by_default():
    parts = partition("dirichlet-equal", np.arange(103) % 4, 10, stream(0))
    assert [len(part) for part in parts] == [10] * 10


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5.0])
def test_dirichlet_equal_draws_classes_from_a_dirichlet_multinomial(alpha):
    """Classes are not exhausted here. Concentrations are alpha where classes are equally frequent."""
    sizes, examples, draws = np.array([100, 200, 300]), 20, 4000
    y = np.repeat(np.arange(3), sizes)
    rng = stream(0, "partition")
    counts = np.array(
        [
            np.bincount(y[partition("dirichlet-equal", y, 1, rng, alpha=alpha, examples=examples)[0]], minlength=3)
            for _ in range(draws)
        ]
    )
    expected = dirichlet_multinomial(alpha * 3 * sizes / sizes.sum(), examples)
    error = np.sqrt(expected.var() / draws)
    np.testing.assert_array_less(np.abs(counts.mean(0) - expected.mean()), 4 * error)
    np.testing.assert_allclose(np.cov(counts.T), expected.cov(), rtol=0.12)


def test_a_small_alpha_gives_each_participant_few_classes_and_a_large_one_all():
    y = np.arange(5000) % 10

    def most_common(alpha):
        parts = partition("dirichlet-equal", y, 20, stream(0), alpha=alpha, examples=50)
        return np.mean([np.bincount(y[part]).max() / 50 for part in parts])

    assert most_common(0.01) > 0.8
    assert most_common(1000) < 0.25


@pytest.mark.parametrize("scheme", ["iid", "dirichlet-equal", "shards"])
def test_examples_is_the_number_that_each_participant_holds(scheme):
    y = np.arange(1000) % 10
    parts = partition(scheme, y, 12, stream(0), shards=2, examples=30)
    assert [len(part) for part in parts] == [30] * 12
    assert len(np.unique(np.concatenate(parts))) == 360


@pytest.mark.parametrize("scheme", ["iid", "shards"])
def test_examples_are_a_random_part_of_the_data(scheme):
    y = np.repeat(np.arange(10), 100)
    held = np.concatenate(partition(scheme, y, 10, stream(0), examples=30))
    assert np.bincount(y[held], minlength=10).min() > 15
    assert held.max() > 900


@pytest.mark.parametrize("scheme", ["iid", "dirichlet-equal", "shards"])
def test_more_examples_than_there_are_is_refused(scheme):
    with pytest.raises(DataError, match="99 examples cannot be divided among 10 participants, who need 100"):
        partition(scheme, np.zeros(99, np.int64), 10, stream(0), examples=10)


# The server's own examples


def create_digits_task(**fields):
    return registry.get(Kind.TASK, "digits-mlp").create(**fields)


@given(root=st.integers(1, 400), seed=st.integers(0, 2**32), scheme=st.sampled_from(["iid", "dirichlet", "shards"]))
def test_the_server_shares_no_example_with_participants(root, seed, scheme):
    task, y = create_digits_task(root_examples=root, partition=scheme), np.arange(600) % 10
    own, held = task.root_indices(y, seed), np.concatenate(task.divide(y, seed))
    assert len(own) == root
    assert sorted([*own, *held]) == list(range(600))


def test_the_seed_decides_which_examples_the_server_holds():
    task, y = create_digits_task(root_examples=50), np.arange(600) % 10
    assert task.root_indices(y, 1).tolist() == task.root_indices(y, 1).tolist()
    assert task.root_indices(y, 1).tolist() != task.root_indices(y, 2).tolist()


def test_without_root_examples_participants_divide_all():
    y = np.arange(600) % 10
    task = create_digits_task()
    expected = partition(task.partition, y, task.participants, stream(3, "partition"))
    assert [part.tolist() for part in task.divide(y, 3)] == [part.tolist() for part in expected]
    assert len(task.root_indices(y, 3)) == 0


def test_more_root_examples_than_there_are_is_refused():
    with pytest.raises(ParameterError, match="root_examples = 601 is more than the 600 training examples"):
        create_digits_task(root_examples=601).root_indices(np.zeros(600, np.int64), 0)


def test_a_task_refuses_a_number_of_examples_where_the_partition_decides_it():
    with pytest.raises(ParameterError, match="dirichlet-equal"):
        create_digits_task(partition="dirichlet", examples=10)
