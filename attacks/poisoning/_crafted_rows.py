"""Statistics of the updates that attackers know, and rows that they send, for attacks that share them."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Attack, Known, Matrix, Vector, finite_rows, over_columns, weighted_mean

LARGEST = np.finfo(np.float32).max

Numbers: TypeAlias = npt.NDArray[np.float64]
Memory: TypeAlias = dict[str, npt.NDArray[Any]]

Knowledge: TypeAlias = Annotated[
    Literal["full", "partial"],
    "updates that attackers know: those of honest participants, or only their own before poisoning "
    "(one attacker alone then sends its own unchanged, except in fang-krum)",
]
Direction: TypeAlias = Annotated[
    Literal["unit", "sign", "std"],
    "opposite of the mean, of its signs, or of the standard deviations of coordinates",
]


@dataclass(kw_only=True)
class AttackByKnowledge(Attack):
    """An attack that needs no honest updates with partial knowledge."""

    knowledge: Knowledge = "full"

    @property
    def needed_knowledge(self) -> tuple[str, ...]:
        unused = "honest updates" if self.knowledge == "partial" else ""
        return tuple(each for each in super().needed_knowledge if each != unused)


def known_rows(known: Known, knowledge: str = "full") -> Matrix:
    """Return the parameters of honest updates; of the attackers' own with partial knowledge, or if nobody is honest.

    Rows that are not finite are left out, unless no others are known.
    """
    rows = finite_honest_updates(known) if knowledge == "full" else known.updates[:0]
    rows = rows if len(rows) else _only_finite(known.updates)
    return (rows if len(rows) else known.updates)[:, known.columns.parameters]


def finite_honest_updates(known: Known) -> Matrix:
    """Return the honest updates without those that hold NaN or infinity, which the server drops as well."""
    return _only_finite(known.honest)


def _only_finite(rows: Matrix) -> Matrix:
    finite = finite_rows(rows)
    return rows if finite.all() else rows[finite]


def mean_of_rows(rows: Matrix) -> Numbers:
    """Return the mean of the rows."""
    return weighted_mean(rows, np.ones(len(rows))).astype(np.float64)


def deviation_of_rows(rows: Matrix) -> Numbers:
    """Return the standard deviation of every coordinate, with n in the denominator."""
    deviation = over_columns(rows, lambda block: block.std(0, dtype=np.float64))
    return deviation.astype(np.float64)


def inner_products(rows: Matrix, vector: Numbers) -> Numbers:
    """Return the inner product of every row with a vector, in double precision."""
    return np.array([row.astype(np.float64) @ vector for row in rows])


def unit(vector: Numbers) -> Numbers:
    """Return a vector scaled to length 1, or zeros."""
    largest = np.abs(vector).max(initial=0)
    scaled = vector / largest if largest else vector
    return scaled / max(float(np.linalg.norm(scaled)), 1.0)


def opposite_direction(direction: str, rows: Matrix, mean: Numbers) -> Numbers:
    """Return a direction away from the mean of the rows, of any length."""
    if direction == "std":
        return -deviation_of_rows(rows)
    return -np.sign(mean) if direction == "sign" else -mean


def distances_to_mean(products: Numbers) -> Numbers:
    """Return the squared distances of rows to their mean, given the inner products of all rows."""
    distances: Numbers = np.maximum(products.diagonal() - 2 * products.mean(1) + products.mean(), 0)
    return distances


def send_same_row(known: Known, row: Numbers) -> Matrix:
    """Return the attackers' updates with the same parameters in every row; buffers stay as trained."""
    known.updates[:, known.columns.parameters] = in_single_precision(row)
    return known.updates


def send_without_data(known: Known, parameters: npt.NDArray[Any]) -> Matrix:
    """Return updates with these parameters that change no buffers, for attackers who do not train."""
    rows = np.zeros_like(known.updates)
    rows[:, known.columns.parameters] = in_single_precision(parameters)
    return rows


def in_single_precision(values: npt.NDArray[Any]) -> Vector:
    """Return values as float32, those beyond its range as its largest number."""
    with np.errstate(over="ignore"):
        limited: Vector = values.astype(np.float32)
    return np.clip(limited, -LARGEST, LARGEST, out=limited)


def last_global_change(memory: Memory, known: Known) -> Vector:
    """Return how parameters of the global model changed since the last earlier round with attackers, at first zeros.

    Attackers share the memory: all calls in a round return the same change.
    """
    model = known.weights[known.columns.parameters]
    if is_new_round(memory, known):
        memory["change"] = model - memory.get("model", model)
        memory["model"], memory["round"] = model.copy(), np.array(known.round)
    return memory["change"]


def is_new_round(memory: Memory, known: Known) -> bool:
    """Return whether no attacker has asked for the last global change in this round yet."""
    return "round" not in memory or int(memory["round"]) != known.round


def count_round(memory: Memory, void: bool) -> None:
    """Count a round, and whether the attack was void in it."""
    memory["rounds"] = memory.get("rounds", np.zeros(2, np.int64)) + np.array([void, True])


def void_rounds_flag(memory: Memory, meaning: str) -> list[str]:
    """Return a warning about the rounds in which the attack was void, if there were any."""
    void = void_rounds(memory)
    return [f"in {void} of {memory['rounds'][1]} rounds {meaning}"] if void else []


def void_rounds(memory: Memory) -> int:
    """Return the number of rounds in which the attack was void."""
    return int(memory["rounds"][0]) if "rounds" in memory else 0
