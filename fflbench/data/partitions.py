"""Partitions of the training part among participants: every example goes to exactly one, and none stays empty."""

from typing import Literal, TypeAlias

import numpy as np

from fflbench.errors import DataError
from fflbench.types import Indices, Labels

Scheme: TypeAlias = Literal["iid", "dirichlet", "shards"]


def partition(
    scheme: Scheme, y: Labels, participants: int, rng: np.random.Generator, *, alpha: float = 0.5, shards: int = 2
) -> list[Indices]:
    """Return the indices of each participant's examples, in ascending order."""
    needed = participants * (shards if scheme == "shards" else 1)
    if len(y) < needed:
        raise DataError(f"{len(y)} examples cannot be divided among {participants} participants, who need {needed}")
    if scheme == "iid":
        parts = np.array_split(rng.permutation(len(y)), participants)
    elif scheme == "dirichlet":
        parts = _dirichlet(y, participants, rng, alpha)
    elif scheme == "shards":
        parts = _shards(y, participants, rng, shards)
    else:
        raise DataError(f'there is no partition "{scheme}" (iid, dirichlet or shards)')
    return [np.sort(part) for part in parts]


def _dirichlet(y: Labels, participants: int, rng: np.random.Generator, alpha: float) -> list[Indices]:
    r"""Divide each class c by shares $p_c \sim \mathrm{Dir}(\alpha)$ (Hsu et al., arXiv:1909.06335, by class).

    A small alpha leaves some participants without any example. Each of them gets one from the participant with most,
    which changes the distribution less than drawing again until none is empty (and, unlike that, always ends).
    """
    parts: list[list[Indices]] = [[] for _ in range(participants)]
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        shares = rng.dirichlet(np.full(participants, alpha))
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(int)
        for held, piece in zip(parts, np.split(members, cuts), strict=True):
            held.append(piece)
    joined = [np.concatenate(held) for held in parts]
    for poor in [k for k, held in enumerate(joined) if len(held) == 0]:
        rich = max(range(participants), key=lambda k: len(joined[k]))
        joined[poor], joined[rich] = joined[rich][-1:], joined[rich][:-1]
    return joined


def _shards(y: Labels, participants: int, rng: np.random.Generator, shards: int) -> list[Indices]:
    """Sort by class, cut into equal shards, assign `shards` to each (McMahan et al., AISTATS 2017, section 3)."""
    by_class = rng.permutation(len(y))
    by_class = by_class[np.argsort(y[by_class], kind="stable")]
    pieces = np.array_split(by_class, participants * shards)
    dealt = rng.permutation(len(pieces)).reshape(participants, shards)
    return [np.concatenate([pieces[piece] for piece in hand]) for hand in dealt]
