"""Members and non-members: duplicates, classes, and who trained on what."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict

from fflbench import registry
from fflbench.data import Examples
from fflbench.privacy.member_split import (
    MemberSplit,
    NonMemberSampler,
    _hash_examples,
    equalise_class_counts,
    reshuffle_train_test,
)
from fflbench.privacy.roc import chance_auc_half_width, roc_curve
from fflbench.registry import Kind


def split_task(name, trained=20, **fields):
    task, pool = reshuffle_train_test(registry.get(Kind.TASK, name).create(**fields), 0)
    return MemberSplit.from_participation(task, pool, 0, set(range(trained)), set(range(10)))


@pytest.fixture(scope="module")
def adult_split(real_data):
    return split_task("adult-mlp")


def examples_at(split, indices):
    return Examples(split.pool.x[indices], split.pool.y[indices])


def test_the_seed_decides_the_new_split_and_no_example_is_lost():
    task = registry.get(Kind.TASK, "digits-mlp").create()
    before = task.data()
    (one, pool), (other, _) = (reshuffle_train_test(task, seed) for seed in (0, 1))
    assert len(one.data().train) == len(before.train)
    assert sorted(_hash_examples(pool)) == sorted([*_hash_examples(before.train), *_hash_examples(before.test)])
    assert list(_hash_examples(one.data().test)) != list(_hash_examples(other.data().test))
    assert task.data() is before


def test_non_members_equal_no_training_example(adult_split):
    held = np.concatenate(adult_split.held)
    digests = set(_hash_examples(examples_at(adult_split, held)))
    for chosen in (adult_split.non_members, adult_split.auxiliary):
        assert not any(digest in digests for digest in _hash_examples(examples_at(adult_split, chosen)))
        assert not set(chosen) & set(held)
    # Almost a quarter of the test examples do.
    assert 0.23 < adult_split.duplicate_share < 0.25


def test_duplicates_are_neither_members_nor_non_members(adult_split):
    held = np.concatenate(adult_split.held)
    digests = list(_hash_examples(adult_split.pool))
    members = adult_split.without_duplicates(held)
    assert len({digests[row] for row in members}) == len(members) < len(held)
    others = [*adult_split.non_members, *adult_split.auxiliary]
    assert len({digests[row] for row in others}) == len(others)


def test_members_and_non_members_are_indistinguishable_without_an_update(adult_split):
    """Otherwise duplicates, which are never non-members, would look like leaks."""
    rng = np.random.default_rng(0)
    members = rng.permutation(adult_split.without_duplicates(np.concatenate(adult_split.held)))[:4000]
    members, others = NonMemberSampler(adult_split.non_members, adult_split.pool.y, rng).sample_by_class(members, 4000)
    order = rng.permutation(len(members) + len(others))
    both = examples_at(adult_split, np.concatenate([members, others])[order])
    truth = order < len(members)
    blind = np.column_stack([both.x, both.y])
    scores = cross_val_predict(
        HistGradientBoostingClassifier(random_state=0, max_iter=30), blind, truth, cv=4, method="predict_proba"
    )
    assert abs(roc_curve(scores[:, 1], truth).auc - 0.5) < chance_auc_half_width(len(members), len(others)) + 0.005


def test_non_members_have_the_classes_of_members():
    y = np.repeat([0, 1, 2], [30, 30, 0])
    y = np.append(y, [2] * 5)
    sampler = NonMemberSampler(np.arange(10, 60), y, np.random.default_rng(0))
    members, others = sampler.sample_by_class(np.array([0, 1, 2, 3, 60]), 9)
    # No non-member of the third class is left.
    assert members.tolist() == [0, 1, 2, 3]
    assert y[others].tolist() == [0] * 8
    assert len(set(others)) == 8
    members, others = sampler.sample_by_class(np.array([0, 1, 2, 30, 31, 32]), 10**6)
    assert np.bincount(y[others]).tolist() == [18, 18]


def test_matched_sets_have_as_many_examples_of_each_class():
    y = np.array([0, 0, 0, 1, 1, 2, 0, 1, 1, 1])
    one, other = equalise_class_counts(y, np.arange(6), np.arange(6, 10), np.random.default_rng(0))
    assert y[one].tolist() == y[other].tolist() == [0, 1, 1]


def test_examples_of_participants_who_never_trained_are_non_members():
    found = split_task("digits-mlp", participants=100)
    held = {row for who in range(20) for row in found.held[who]} | {row for own in found.controlled for row in own}
    assert not held & {*found.non_members.tolist(), *found.auxiliary.tolist()}
    assert not set(found.non_members) & set(found.auxiliary)
    idle = {row for who in range(100) for row in found.held[who]} - held
    assert idle & set(found.non_members.tolist())


def test_the_servers_own_examples_are_neither_members_nor_non_members():
    task, pool = reshuffle_train_test(registry.get(Kind.TASK, "digits-mlp").create(root_examples=200), 0)
    split = MemberSplit.from_participation(task, pool, 0, set(range(20)), set(range(10)))
    root = set(task.root_indices(task.data().train.y, 0).tolist())
    assert len(root) == 200
    assert not root & {*split.non_members.tolist(), *split.auxiliary.tolist(), *np.concatenate(split.held).tolist()}
