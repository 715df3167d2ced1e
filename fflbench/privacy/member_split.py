"""Split of examples into members and non-members for membership inference.

Without seeing an update, nobody must be able to distinguish the two. So a dataset is split anew into training and test
set for each seed, since some come with a test set of another distribution; duplicates are left out of both sides; and
non-members are drawn by class, since an update shows which classes a participant holds, which is another question.
"""

import copy
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fflbench.data import Data, Examples
from fflbench.errors import ParameterError
from fflbench.randomness import stream
from fflbench.tasks import Task
from fflbench.types import Indices, Labels

SPARE = 3
"""Divisor of non-members: one in so many is auxiliary data for attacks that declare it, and never a suspect."""


def dealt_anew(task: Task, seed: int) -> tuple[Task, Examples]:
    """Return the task on shuffled examples, of which the first are the training set, and the pool of all examples."""
    data = task.data()
    order = stream(seed, "deal").permutation(len(data.train) + len(data.test))
    x, y = (np.concatenate(parts)[order] for parts in ((data.train.x, data.test.x), (data.train.y, data.test.y)))
    cut = len(data.train)
    dealt = Data(Examples(x[:cut], y[:cut]), Examples(x[cut:], y[cut:]), data.facts)
    task = copy.copy(task)
    # Tasks are frozen, and this one is our copy.
    object.__setattr__(task, "data", lambda: dealt)
    return task, Examples(x, y)


@dataclass(frozen=True)
class MemberSplit:
    """Members, non-members and auxiliary data, as indices into the pool of all examples."""

    pool: Examples
    held: list[Indices]
    sizes: list[int]
    """Numbers of examples of the round's participants."""
    controlled: list[Indices]
    """Examples of colluding participants, who are not selected in the round."""
    strangers: Indices
    """Examples that nobody trained on."""
    auxiliary: Indices
    """Further examples that nobody trained on, which are never suspects."""
    copied: npt.NDArray[np.bool_]
    """Whether each example equals another one, label included, that somebody trained on."""
    equal: float
    """Share of non-members that were left out as duplicates."""

    @classmethod
    def of(cls, task: Task, pool: Examples, seed: int, trained: set[int], selected: set[int]) -> "MemberSplit":
        """Split the pool by who trained on which examples."""
        train, rng = len(task.data().train), stream(seed, "crowd")
        held = task.divide(pool.y[:train], seed)
        resting = rng.permutation([who for who in range(task.participants) if who not in selected])
        controlled = sorted(int(who) for who in resting[: len(selected)])
        idle = set(range(task.participants)) - trained - set(controlled)
        touched = np.concatenate([held[who] for who in range(task.participants) if who not in idle])
        free = np.setdiff1d(np.arange(len(pool)), touched)
        digests = list(_digests(pool))
        known = Counter(digests[row] for row in touched)
        copied = np.array([known[digest] for digest in digests]) > np.isin(np.arange(len(pool)), touched)
        # Of equal examples only the first is kept.
        first = {digests[row]: row for row in reversed(free)}
        order = rng.permutation(np.array([row for row in free if not copied[row] and first[digests[row]] == row]))
        spare = len(order) // SPARE
        if spare == 0:
            raise ParameterError("every example was trained on, so there are no non-members")
        return cls(
            pool=pool,
            held=held,
            sizes=[len(held[who]) for who in sorted(selected)],
            controlled=[held[who] for who in controlled],
            strangers=order[spare:],
            auxiliary=order[:spare],
            copied=copied,
            equal=float(copied[free].mean()),
        )

    def single(self, which: Indices) -> Indices:
        """Return those of the given examples that equal no other one that somebody trained on."""
        return which[~self.copied[which]]


class Dealer:
    """Draws non-members by class, reusing each as rarely as possible."""

    def __init__(self, strangers: Indices, y: Labels, rng: np.random.Generator) -> None:
        self.y = y
        decks = {label: rng.permutation(strangers[y[strangers] == label]) for label in np.unique(y)}
        self.sizes = {label: len(deck) for label, deck in decks.items()}
        self.decks = {label: itertools.cycle(deck) for label, deck in decks.items()}

    def deal(self, members: Indices, wanted: int) -> tuple[Indices, Indices]:
        """Return members whose class has non-members, and about `wanted` non-members in the same proportions."""
        members = members[[self.sizes[label] > 0 for label in self.y[members]]]
        counts = Counter(self.y[members].tolist())
        # Whole multiples match class proportions exactly, and no draw holds an example twice.
        times = min([wanted / max(len(members), 1), *(self.sizes[label] / count for label, count in counts.items())])
        times = float(int(times)) if times >= 1 else times
        dealt = [next(self.decks[label]) for label, count in counts.items() for _ in range(round(times * count))]
        return members, np.array(dealt, np.int64)


def alike(y: Labels, one: Indices, other: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Return as many examples of one set as of the other, class by class."""
    kept: tuple[list[Indices], list[Indices]] = ([], [])
    for label in np.unique(y[one]):
        of_both = [part[y[part] == label] for part in (one, other)]
        count = min(map(len, of_both))
        for side, part in zip(kept, of_both, strict=True):
            side.append(rng.choice(part, count, replace=False))
    return np.concatenate(kept[0]), np.concatenate(kept[1])


def _digests(examples: Examples) -> Iterator[bytes]:
    for x, y in zip(examples.x, examples.y, strict=True):
        yield hashlib.blake2b(x.tobytes() + int(y).to_bytes(8), digest_size=16).digest()


def halves(members: Sequence[Indices]) -> tuple[Indices, Indices]:
    """Return two halves of everybody's members, for a control."""
    parted = [np.array_split(own, 2) for own in members]
    return np.concatenate([half[0] for half in parted]), np.concatenate([half[1] for half in parted])
