"""Partitions of the training set among participants, who share no example and have at least one each."""

from typing import Literal, TypeAlias

import numpy as np

from fflbench.errors import DataError
from fflbench.types import Indices, Labels

Scheme: TypeAlias = Literal["iid", "dirichlet", "dirichlet-equal", "shards"]


def partition(
    scheme: Scheme,
    y: Labels,
    participants: int,
    rng: np.random.Generator,
    *,
    alpha: float = 0.5,
    shards: int = 2,
    examples: int | None = None,
) -> list[Indices]:
    """Return the indices of each participant's examples, ascending.

    All examples are assigned, unless `examples` sets how many each gets; equal Dirichlet sizes leave a remainder out.
    """
    least = max(examples or 1, shards if scheme == "shards" else 1)
    if len(y) < participants * least:
        raise DataError(
            f"{len(y)} examples cannot be divided among {participants} participants, who need {participants * least}"
        )
    if examples is not None and scheme != "dirichlet-equal":
        # A random subset, so that the rest of the work is the same as with a smaller data set.
        chosen = np.sort(rng.choice(len(y), participants * examples, replace=False))
        return [chosen[part] for part in partition(scheme, y[chosen], participants, rng, alpha=alpha, shards=shards)]
    if scheme == "iid":
        parts = np.array_split(rng.permutation(len(y)), participants)
    elif scheme == "dirichlet":
        parts = _partition_by_dirichlet(y, participants, rng, alpha)
    elif scheme == "dirichlet-equal":
        parts = _partition_by_dirichlet_in_equal_sizes(y, participants, rng, alpha, examples or len(y) // participants)
    elif scheme == "shards":
        parts = _partition_by_shards(y, participants, rng, shards)
    else:
        raise DataError(f'there is no partition "{scheme}" (iid, dirichlet, dirichlet-equal or shards)')
    return [np.sort(part) for part in parts]


def _partition_by_dirichlet(y: Labels, participants: int, rng: np.random.Generator, alpha: float) -> list[Indices]:
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
    for empty in [k for k, held in enumerate(joined) if len(held) == 0]:
        largest = max(range(participants), key=lambda k: len(joined[k]))
        joined[empty], joined[largest] = joined[largest][-1:], joined[largest][:-1]
    return joined


def _partition_by_dirichlet_in_equal_sizes(
    y: Labels, participants: int, rng: np.random.Generator, alpha: float, examples: int
) -> list[Indices]:
    r"""Give each participant as many examples, of classes in shares $q_k \sim \mathrm{Dir}(\alpha C p)$.

    p are the shares of the C classes in the data, as in Hsu et al. (arXiv:1909.06335, section 3), whose alpha is C
    times ours. Counts are multinomial; where a class has run out, the participant draws its remaining examples from
    the other classes by its shares.
    """
    pools = [list(rng.permutation(np.flatnonzero(y == label))) for label in np.unique(y)]
    prior = np.array([len(pool) for pool in pools]) / len(y)
    parts = []
    for _ in range(participants):
        shares = rng.dirichlet(np.maximum(alpha * len(pools) * prior, np.finfo(float).tiny))
        held: list[int] = []
        while len(held) < examples:
            left = np.array([len(pool) for pool in pools])
            # A class without examples left has no share; the smallest number keeps shares that underflow above 0.
            open_shares = np.where(left > 0, np.maximum(shares, np.finfo(float).tiny), 0)
            wanted = rng.multinomial(examples - len(held), open_shares / open_shares.sum())
            for pool, count in zip(pools, np.minimum(wanted, left), strict=True):
                held += [pool.pop() for _ in range(count)]
        parts.append(np.array(held, np.int64))
    return parts


def _partition_by_shards(y: Labels, participants: int, rng: np.random.Generator, shards: int) -> list[Indices]:
    """Sort by class, cut into equal shards, assign `shards` to each (McMahan et al., AISTATS 2017, section 3)."""
    by_class = rng.permutation(len(y))
    by_class = by_class[np.argsort(y[by_class], kind="stable")]
    pieces = np.array_split(by_class, participants * shards)
    assigned = rng.permutation(len(pieces)).reshape(participants, shards)
    return [np.concatenate([pieces[piece] for piece in own]) for own in assigned]
