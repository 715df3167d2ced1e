import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange.low_rank_unmixing import infer_owners_by_rank
from hypothesis import given, settings
from hypothesis import strategies as st


def mixed(rows, columns, batch, seed):
    """Two partners' matrices of low rank, what each sends of them, and where the first one kept its own."""
    rng = np.random.default_rng(seed)
    whole = [(rng.normal(size=(rows, batch)) @ rng.normal(size=(batch, columns))).astype(np.float32) for _ in range(2)]
    kept = rng.random((rows, columns)) < 0.5
    sent = np.where(kept, *whole), np.where(kept, *reversed(whole))
    return [part.astype(np.float64) for part in sent], kept


def agreement(found, kept):
    """Up to exchange of the two."""
    share = (found == kept).mean()
    return max(share, 1 - share)


@settings(deadline=None, max_examples=30)
@given(st.integers(8, 20), st.integers(8, 40), st.integers(1, 2), st.integers(0, 2**32))
def test_every_entry_finds_its_owner(rows, columns, batch, seed):
    (one, other), kept = mixed(rows, columns, batch, seed)
    assert agreement(infer_owners_by_rank(one, other, 2 * batch), kept) > 0.999


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5])
def test_a_layer_of_ten_classes_is_undone_for_as_many_examples_as_its_rank_allows(batch):
    (one, other), kept = mixed(10, 193, batch, 7)
    assert agreement(infer_owners_by_rank(one, other, 2 * batch), kept) > 0.999


def test_entries_that_are_alike_disturb_nobody():
    (one, other), kept = mixed(10, 60, 1, 3)
    one[:, ::7] = other[:, ::7] = 0.0
    differ = one != other
    assert agreement(infer_owners_by_rank(one, other, 2)[differ], kept[differ]) == 1


def test_ranks_that_are_no_constraint_tell_nothing():
    (one, other), _ = mixed(10, 193, 6, 0)
    assert infer_owners_by_rank(one, other, 12) is None
    (one, other), _ = mixed(40, 60, 10, 0)
    assert infer_owners_by_rank(one, other, 20) is None


def test_where_there_is_no_structure_it_does_no_better_than_chance():
    (one, other), kept = mixed(10, 193, 10, 1)
    assert agreement(infer_owners_by_rank(one, other, 2), kept) < 0.6
