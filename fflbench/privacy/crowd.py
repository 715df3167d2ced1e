"""Who trained on what: members, and others who are like them in everything but that.

A judge that never saw an update must not be able to tell the two apart. So a set is dealt anew into training and test
part for each seed, since some come with a test part of another kind; rows that repeat are left out of both sides; and
others are dealt by class, since an update shows which classes somebody holds, which is another question.
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
"""One in so many non-members is nobody's suspect: data like the victims', for attacks that declare it."""


def dealt_anew(task: Task, seed: int) -> tuple[Task, Examples]:
    """The same task on examples in another order, of which the first are to learn from; and all of them."""
    data = task.data()
    order = stream(seed, "deal").permutation(len(data.train) + len(data.test))
    x, y = (np.concatenate(parts)[order] for parts in ((data.train.x, data.test.x), (data.train.y, data.test.y)))
    cut = len(data.train)
    dealt = Data(Examples(x[:cut], y[:cut]), Examples(x[cut:], y[cut:]), data.facts)
    task = copy.copy(task)
    # Tasks are frozen, and this one is ours.
    object.__setattr__(task, "data", lambda: dealt)
    return task, Examples(x, y)


@dataclass(frozen=True)
class Crowd:
    """Everybody's examples, by their numbers among all."""

    pool: Examples
    held: list[Indices]
    sizes: list[int]
    """Of those who take part in the round."""
    controlled: list[Indices]
    """What those hold who do the server's bidding, and sit out the round."""
    strangers: Indices
    """Examples that nobody trained on."""
    auxiliary: Indices
    """More of them, which are nobody's suspects."""
    copied: npt.NDArray[np.bool_]
    """Which examples equal another one, class included, that somebody trained on."""
    equal: float
    """The share of non-members that were left out for that."""

    @classmethod
    def of(cls, task: Task, pool: Examples, seed: int, trained: set[int], selected: set[int]) -> "Crowd":
        """Sort everybody's examples by what the model has seen of them."""
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
        # Of equal ones one is enough.
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
        """Of these, those that equal no other one that somebody trained on."""
        return which[~self.copied[which]]


class Dealer:
    """Deals non-members by class, each as seldom as can be."""

    def __init__(self, strangers: Indices, y: Labels, rng: np.random.Generator) -> None:
        self.y = y
        decks = {label: rng.permutation(strangers[y[strangers] == label]) for label in np.unique(y)}
        self.sizes = {label: len(deck) for label, deck in decks.items()}
        self.decks = {label: itertools.cycle(deck) for label, deck in decks.items()}

    def deal(self, members: Indices, wanted: int) -> tuple[Indices, Indices]:
        """About so many others, of each class in proportion to the members; and the members whose class has any."""
        members = members[[self.sizes[label] > 0 for label in self.y[members]]]
        counts = Counter(self.y[members].tolist())
        # Whole multiples are matched exactly, and no look gets anybody twice.
        times = min([wanted / max(len(members), 1), *(self.sizes[label] / count for label, count in counts.items())])
        times = float(int(times)) if times >= 1 else times
        dealt = [next(self.decks[label]) for label, count in counts.items() for _ in range(round(times * count))]
        return members, np.array(dealt, np.int64)


def alike(y: Labels, one: Indices, other: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """As many of one as of the other, of each class."""
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
    """Everybody's members in two, for a control."""
    parted = [np.array_split(own, 2) for own in members]
    return np.concatenate([half[0] for half in parted]), np.concatenate([half[1] for half in parted])
