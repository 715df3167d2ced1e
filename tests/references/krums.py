"""Krums of strangers, right and wrong, in several styles."""

import numpy as np
import torch


def selected(rows, f, power=2.0, more=0):
    """The row that a Krum of numpy selects."""
    n = len(rows)
    distances = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(-1)) ** power
    return rows[np.sort(distances, 1)[:, 1 : n - f - 1 + more].sum(1).argmin()]


def unsquared(updates, n_byzantine):
    return selected(updates, n_byzantine, 1.0)


def one_neighbour_more(updates, f):
    return selected(updates, f, more=1)


def fourth_powers(updates, num_malicious):
    return selected(updates, num_malicious, 4.0)


def of_numpy(updates, f):
    return selected(updates, f)


def of_torch(updates, nb_byz):
    n = len(updates)
    squares = (updates.unsqueeze(0) - updates.unsqueeze(1)).pow(2).sum(dim=-1)
    scores = torch.sort(squares, dim=1).values[:, 1 : n - nb_byz - 1].sum(dim=1)
    return updates[scores.argmin()]


def of_numpy_rows(updates, f):
    if not isinstance(updates, list):
        raise TypeError("a list of rows is wanted")
    return selected(np.stack(updates), f)


def of_torch_rows(updates, f):
    return of_torch(torch.stack(updates), f), {"facts": 1}


def of_lists(updates, f):
    if updates[0] * 2 != updates[0] + updates[0] or not isinstance(updates[0], list):
        raise TypeError("lists are wanted")
    return selected(np.array(updates), f).tolist()


class OfClass:
    def __init__(self, f=0):
        self.f = f

    def __call__(self, vectors):
        return selected(vectors, self.f)


class Aggregator:
    def __init__(self, **options):
        self.f = options["f"]

    def aggregate(self, rows):
        return selected(rows, self.f)[None]


def largest(updates, f):
    return updates.max(0)


def odd_names(updates, bad, power):
    return selected(updates, int(bad), power)


def with_f_of_two(updates):
    return selected(updates, 2)


def multi(updates, f, m=1):
    n = len(updates)
    distances = ((updates[:, None] - updates[None]) ** 2).sum(-1)
    scores = np.sort(distances, 1)[:, 1 : n - f - 1].sum(1)
    return updates[scores.argsort()[:m]].mean(0)
