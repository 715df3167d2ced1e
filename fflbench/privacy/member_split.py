"""Split of examples into members and non-members for membership inference.

Without an update, the two must be indistinguishable. So each seed splits a dataset again into training and test set,
since some come with a test set of another distribution; duplicates are removed from both sides; and non-members are
drawn by class, since an update also reveals which classes a participant holds, which is another question.
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

AUXILIARY_FRACTION = 3
"""Divisor of non-members: one in so many is auxiliary data for attacks that declare it, and never a candidate."""


def reshuffle_train_test(task: Task, seed: int) -> tuple[Task, Examples]:
    """Return the task with its training and test examples shuffled and split again, and the pool of all examples."""
    data = task.data()
    order = stream(seed, "deal").permutation(len(data.train) + len(data.test))
    x, y = (np.concatenate(parts)[order] for parts in ((data.train.x, data.test.x), (data.train.y, data.test.y)))
    cut = len(data.train)
    shuffled = Data(Examples(x[:cut], y[:cut]), Examples(x[cut:], y[cut:]), data.facts)
    task = copy.copy(task)
    # Tasks are frozen, and this one is our copy.
    object.__setattr__(task, "data", lambda: shuffled)
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
    non_members: Indices
    """Examples that nobody trained on."""
    auxiliary: Indices
    """Further examples that nobody trained on, which are never candidates."""
    duplicated: npt.NDArray[np.bool_]
    """Whether each example equals another one, label included, that somebody trained on."""
    duplicate_share: float
    """Share of non-members that were left out as duplicates."""

    @classmethod
    def from_participation(
        cls, task: Task, pool: Examples, seed: int, trained: set[int], selected: set[int]
    ) -> "MemberSplit":
        """Split the pool by who trained on which examples."""
        train, rng = len(task.data().train), stream(seed, "crowd")
        held = task.divide(pool.y[:train], seed)
        unselected = rng.permutation([who for who in range(task.participants) if who not in selected])
        controlled = sorted(int(who) for who in unselected[: len(selected)])
        idle = set(range(task.participants)) - trained - set(controlled)
        trained_by = [held[who] for who in range(task.participants) if who not in idle]
        # The server's own examples are neither members nor non-members.
        used = np.concatenate([*trained_by, task.root_indices(pool.y[:train], seed)])
        unused = np.setdiff1d(np.arange(len(pool)), used)
        digests = list(_hash_examples(pool))
        trained_on = Counter(digests[row] for row in used)
        duplicated = np.array([trained_on[digest] for digest in digests]) > np.isin(np.arange(len(pool)), used)
        # Of equal examples only the first is kept.
        first = {digests[row]: row for row in reversed(unused)}
        order = rng.permutation(np.array([row for row in unused if not duplicated[row] and first[digests[row]] == row]))
        auxiliary = len(order) // AUXILIARY_FRACTION
        if auxiliary == 0:
            raise ParameterError("every example was trained on, so there are no non-members")
        return cls(
            pool=pool,
            held=held,
            sizes=[len(held[who]) for who in sorted(selected)],
            controlled=[held[who] for who in controlled],
            non_members=order[auxiliary:],
            auxiliary=order[:auxiliary],
            duplicated=duplicated,
            duplicate_share=float(duplicated[unused].mean()),
        )

    def without_duplicates(self, indices: Indices) -> Indices:
        """Return those of the given examples that equal no other one that somebody trained on."""
        return indices[~self.duplicated[indices]]


class NonMemberSampler:
    """Draws non-members by class, reusing each as rarely as possible."""

    def __init__(self, non_members: Indices, y: Labels, rng: np.random.Generator) -> None:
        self.y = y
        by_class = {label: rng.permutation(non_members[y[non_members] == label]) for label in np.unique(y)}
        self.sizes = {label: len(examples) for label, examples in by_class.items()}
        self.queues = {label: itertools.cycle(examples) for label, examples in by_class.items()}

    def sample_by_class(self, members: Indices, wanted: int) -> tuple[Indices, Indices]:
        """Return members whose class has non-members, and about `wanted` non-members in the same proportions."""
        members = members[[self.sizes[label] > 0 for label in self.y[members]]]
        counts = Counter(self.y[members].tolist())
        # Whole multiples match class proportions exactly, and no draw holds an example twice.
        ratio = min([wanted / max(len(members), 1), *(self.sizes[label] / count for label, count in counts.items())])
        ratio = float(int(ratio)) if ratio >= 1 else ratio
        drawn = [next(self.queues[label]) for label, count in counts.items() for _ in range(round(ratio * count))]
        return members, np.array(drawn, np.int64)


def equalise_class_counts(y: Labels, one: Indices, other: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Return as many examples of one set as of the other, class by class."""
    kept: tuple[list[Indices], list[Indices]] = ([], [])
    for label in np.unique(y[one]):
        of_both = [part[y[part] == label] for part in (one, other)]
        count = min(map(len, of_both))
        for side, part in zip(kept, of_both, strict=True):
            side.append(rng.choice(part, count, replace=False))
    return np.concatenate(kept[0]), np.concatenate(kept[1])


def _hash_examples(examples: Examples) -> Iterator[bytes]:
    for x, y in zip(examples.x, examples.y, strict=True):
        yield hashlib.blake2b(x.tobytes() + int(y).to_bytes(8), digest_size=16).digest()


def split_in_halves(members: Sequence[Indices]) -> tuple[Indices, Indices]:
    """Return two halves of each participant's members, for a control."""
    pairs = [np.array_split(own, 2) for own in members]
    return np.concatenate([half[0] for half in pairs]), np.concatenate([half[1] for half in pairs])
