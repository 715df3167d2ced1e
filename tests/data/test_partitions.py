import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fflbench.data import partition
from fflbench.errors import DataError
from fflbench.randomness import stream


@given(
    scheme=st.sampled_from(["iid", "dirichlet", "shards"]),
    participants=st.integers(1, 30),
    extra=st.integers(0, 200),
    classes=st.integers(1, 10),
    alpha=st.sampled_from([1e-4, 1e-2, 0.1, 1.0, 100.0, 1e6]),
    shards=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_every_example_goes_to_exactly_one_participant_and_nobody_is_left_empty(
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


@pytest.mark.parametrize("scheme", ["iid", "dirichlet", "shards"])
def test_the_seed_decides(scheme):
    y = np.arange(1000) % 10

    def parts(seed):
        return [part.tolist() for part in partition(scheme, y, 20, stream(seed, "partition"))]

    assert parts(1) == parts(1)
    assert parts(1) != parts(2)


def test_an_unknown_partition_is_refused():
    with pytest.raises(DataError, match='no partition "itd"'):
        partition("itd", np.zeros(10, np.int64), 2, stream(0))


def test_shards_are_cut_and_dealt_at_random():
    """Without a shuffle inside classes a shard is a run of neighbours; without one of shards, hands are neighbours."""
    y = np.repeat(np.arange(10), 100)
    parts = partition("shards", y, 20, stream(0), shards=2)
    assert not any((np.diff(part[:50]) == 1).all() for part in parts)
    assert sum(abs(y[part][0] - y[part][-1]) > 1 for part in parts) > 5


def test_a_dirichlet_partition_takes_from_all_over_a_class():
    parts = partition("dirichlet", np.zeros(1000, np.int64), 4, stream(0), alpha=5.0)
    assert not any((np.diff(part) == 1).all() for part in parts)


def shares(scheme, **parameters):
    """How much of its data a participant's largest class makes up, on average."""
    y = np.arange(20_000) % 10
    parts = partition(scheme, y, 20, stream(0, "partition"), **parameters)
    return np.mean([np.bincount(y[part]).max() / len(part) for part in parts])


def test_iid_is_even_and_sizes_differ_by_one_at_most():
    assert shares("iid") < 0.15
    sizes = [len(part) for part in partition("iid", np.zeros(1003, np.int64), 20, stream(0))]
    assert max(sizes) - min(sizes) == 1


def test_a_dirichlet_partition_is_the_more_uneven_the_smaller_alpha():
    assert shares("dirichlet", alpha=1e6) < 0.15
    assert 0.25 < shares("dirichlet", alpha=0.5) < shares("dirichlet", alpha=0.05)


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


def test_shards_hold_at_most_as_many_classes_as_dealt_when_classes_divide_evenly():
    y = np.arange(20_000) % 10
    parts = partition("shards", y, 20, stream(0), shards=2)
    assert all(len(np.unique(y[part])) <= 2 for part in parts)
