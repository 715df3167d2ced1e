"""Checks of poisoning attacks."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fflbench.conformance.check_registry import (
    comparable_bits,
    register_check,
    require,
    require_array,
    require_finite,
    require_same_bits,
    require_unchanged,
)
from fflbench.conformance.small_federation import small_federation
from fflbench.data import Examples
from fflbench.federation.attack import Attack, Goal, Known, LocalTraining
from fflbench.federation.rounds import Federation
from fflbench.federation.views import read_only
from fflbench.registry import Entry, Kind
from fflbench.types import Matrix, Vector


def overrides_hook(hook: str) -> Callable[[Entry], bool]:
    """Return a function that says whether an attack has a hook of its own."""
    return lambda entry: getattr(entry.target, hook) is not getattr(Attack, hook)


def train_and_poison(federation: Federation) -> Matrix:
    """Return the rows of a round after attackers have replaced theirs."""
    selected = federation.select()
    updates = federation.train(selected)
    federation.poison(selected, updates)
    return updates


@register_check(Kind.ATTACK)
def check_poisoned_updates(entry: Entry) -> None:
    """Check that attackers send float32 rows, as many as there are attackers, finite unless declared otherwise."""
    federation = small_federation(entry)
    hook = federation.attack.poison_updates

    def checked_hook(known: Known) -> Matrix:
        expected = known.updates.shape
        sent = hook(known)
        require_array(entry, "attackers' rows", sent, expected)
        _require_finite_rows(entry, sent)
        return sent

    # On the object, so that the federation calls it in place of the hook.
    federation.attack.__dict__["poison_updates"] = checked_hook
    train_and_poison(federation)


@register_check(Kind.ATTACK)
def check_honest_updates_unchanged(entry: Entry) -> None:
    """Check that honest updates, the model and the data set stay as they are."""
    federation = small_federation(entry)
    hook, data = federation.attack.poison_updates, federation.participants.examples

    def checked_hook(known: Known) -> Matrix:
        honest = known.honest if "honest updates" in known._declared else np.empty(0)
        with require_unchanged(entry, **{"honest updates": honest}):
            return hook(known)

    federation.attack.__dict__["poison_updates"] = checked_hook
    with require_unchanged(entry, model=federation.weights, **{"training inputs": data.x, "training labels": data.y}):
        selected = federation.select()
        updates = federation.train(selected)
        honest = ~np.isin(selected, federation.attackers)
        before = comparable_bits(updates[honest])
        federation.poison(selected, updates)
    require(comparable_bits(updates[honest]) == before, entry, "changed the honest updates, which must stay as before")


@register_check(Kind.ATTACK)
def check_declared_knowledge(entry: Entry) -> None:
    """Check that the attack uses no knowledge that it does not declare."""
    try:
        train_and_poison(small_federation(entry))
    except PermissionError as error:
        require(False, entry, f"uses knowledge that it does not declare ({error})")


@register_check(Kind.ATTACK)
def check_determinism(entry: Entry) -> None:
    """Check that the same round and generators give the same bits."""

    def run(seed: int) -> Matrix:
        return train_and_poison(small_federation(entry, seed))

    require_same_bits(entry, lambda: run(0), lambda: run(1))


@register_check(Kind.ATTACK, applies=lambda entry: "defense" in entry.knows)
def check_server_without_answer(entry: Entry) -> None:
    """Check that attackers send rows also where `known.simulate` gives None, since the server would keep its model."""
    federation = small_federation(entry)
    federation.__dict__["_simulate"] = lambda selected, updates, **known: None
    train_and_poison(federation)


@register_check(Kind.ATTACK, applies=lambda entry: "honest updates" in entry.knows)
def check_round_of_attackers_alone(entry: Entry) -> None:
    """Check that attackers send rows in a round without honest participants, finite unless declared otherwise."""
    federation = small_federation(entry)
    federation.participants.attackers = np.arange(federation.task.participants)
    # Means of no rows warn, and are no error by themselves.
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        _require_finite_rows(entry, train_and_poison(federation))


def _require_finite_rows(entry: Entry, rows: Matrix) -> None:
    """Require finite rows of an attack that does not declare to send others."""
    if entry.target.sends_finite_rows:
        require_finite(entry, "attackers' rows", rows)


@register_check(Kind.ATTACK, applies=overrides_hook("poison_data"))
def check_poisoned_data(entry: Entry) -> None:
    """Check that poisoned examples are as many as the clean ones, of their shape, finite, and of the task's classes."""
    federation = small_federation(entry)
    own, data = federation.participants.indices[int(federation.attackers[0])], federation.participants.examples
    clean = Examples(data.x[own], data.y[own])
    handed = Examples(read_only(clean.x), read_only(clean.y))
    with require_unchanged(entry, inputs=clean.x, labels=clean.y):
        given = federation.attack.poison_data(handed, federation.task, 0, np.random.default_rng(0))
    _require_examples(entry, "poisoned", given, clean, len(clean), len(federation.task.classes))


def _require_examples(entry: Entry, what: str, given: Any, clean: Examples, count: int, classes: int) -> None:
    """Require examples of a task's shape and classes."""
    require(isinstance(given, Examples), entry, f"returned {type(given).__name__} for the {what} examples")
    require_array(entry, f"{what} inputs", given.x, (count, *clean.x.shape[1:]), str(clean.x.dtype))
    require_finite(entry, f"{what} inputs", given.x)
    _require_labels(entry, f"{what} labels", given.y, count, classes)


def _require_labels(entry: Entry, what: str, labels: Any, count: int, classes: int) -> None:
    require_array(entry, what, labels, (count,), "int64")
    known = ((labels >= 0) & (labels < classes)).all()
    require(known, entry, f"returned {what} that are no classes of the task, which are numbered 0 to {classes - 1}")


@register_check(Kind.ATTACK, applies=overrides_hook("declared_examples"))
def check_declared_examples(entry: Entry) -> None:
    """Check that attackers declare positive whole numbers of examples, one for each attacker, whatever they hold."""
    federation = small_federation(entry)
    for held in (federation.participants.sizes[federation.attackers], np.ones(len(federation.attackers), np.int64)):
        with require_unchanged(entry, **{"numbers of examples": held}):
            declared = federation.attack.declared_examples(held)
        require_array(entry, "declared numbers of examples", declared, held.shape, "int64")
        require((declared >= 1).all(), entry, "declares fewer than one example")


@register_check(Kind.ATTACK, applies=overrides_hook("train"))
def check_attacker_training(entry: Entry) -> None:
    """Check that an attacker's own training gives a finite float32 update."""
    federation = small_federation(entry)
    hook = federation.attack.train

    def checked_hook(local: LocalTraining) -> Vector:
        update = hook(local)
        require_array(entry, "the update of its own training", update, federation.weights.shape)
        require_finite(entry, "the update of its own training", update)
        return update

    federation.attack.__dict__["train"] = checked_hook
    federation.train(federation.select())


@register_check(Kind.ATTACK, applies=overrides_hook("goal"))
def check_goal(entry: Entry) -> None:
    """Check that the goal has examples of the task's shape, with one wanted label for each, where there is one."""
    federation = small_federation(entry)
    task = federation.task
    test = task.data().test
    with require_unchanged(entry, **{"test inputs": test.x, "test labels": test.y}):
        given = federation.attack.goal(Examples(read_only(test.x), read_only(test.y)), task)
    if given is None:
        return
    require(isinstance(given, Goal), entry, f"returned {type(given).__name__} for its goal, and must return a Goal")
    require(len(given.examples), entry, "has a goal without examples, which cannot be scored")
    classes = len(task.classes)
    _require_examples(entry, "its goal's", given.examples, test, len(given.examples), classes)
    _require_labels(entry, "its goal's wanted labels", given.labels, len(given.examples), classes)
