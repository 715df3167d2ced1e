"""Updates that attackers send beside given honest ones, by any registered attack on updates."""

from collections.abc import Sequence
from typing import Any, NoReturn, cast

import numpy as np

from fflbench.aggregation import MOST_PARTICIPANTS, Aggregator, check_updates, check_whole_number, like, to_real_numbers
from fflbench.arrays.columns import Columns
from fflbench.errors import ParameterError, name_plugin_in_errors
from fflbench.federation import attack_chain
from fflbench.federation.attack import Attack, AttackSetting, poison_rows
from fflbench.randomness import stream
from fflbench.registry import Entry
from fflbench.tasks import Task
from fflbench.types import Matrix, Vector


def poison(
    name: str,
    honest: Any,
    /,
    *,
    attackers: int,
    own: Any = None,
    model: Any = None,
    defense: str | Aggregator | None = None,
    seed: int = 0,
    **parameters: Any,
) -> Any:
    """Return the updates that attackers send beside honest ones, a matrix with one row per attacker.

    Numpy in, numpy out; torch in, torch out. The attack computes in single precision, as in a suite, and gets only what
    it declares that it must know. Those that only work on data or on local training are refused, and those that also
    do need the result of that: `own`. Rows that are not finite are returned as they are.

    `own` are the attackers' updates before poisoning, one row for each (default: the mean of the honest updates),
    `model` is the global model (default: zeros). `defense` is for attacks that declare "defense": a chain, or an
    `Aggregator` with its parameters and its memory, which stays as it is. An attack with a memory starts with an empty
    one. The other parameters are those of the attack.

        poisoned = fflbench.poison("gaussian-noise", honest, attackers=2, sigma=0.5)
        fflbench.aggregate("multi-krum", np.vstack([honest, poisoned]), f=2)
    """
    if not isinstance(name, str):
        raise ParameterError(f"the name of an attack must be a text, not {type(name).__name__}")
    entries = attack_chain.parse(name)
    entry = entries[0]
    count = check_whole_number("attackers", attackers, 1, MOST_PARTICIPANTS)
    seed = check_whole_number("seed", seed, 0, 2**63 - 1)
    given = check_updates(honest, "honest updates")
    n, d = given.shape
    rows = _single_precision(given, "honest updates")
    attack = _create_attack(entries, parameters, count / (n + count))
    if own is None and (attack.overrides("poison_data") or attack.overrides("train")):
        raise ParameterError(f"{entry} also changes data or local training: give own, the attackers' updates after it")
    columns = Columns.of_length(d)
    # In double precision, in which the sum of the largest numbers is finite.
    mean = rows.mean(0, dtype=np.float64).astype(np.float32)
    updates = np.vstack([rows, np.tile(mean, (count, 1)) if own is None else _check_own(own, count, d)])
    weights = np.zeros(d, np.float32) if model is None else _check_model(model, d)
    simulated = _check_defense(entry, attack.needed_knowledge, defense)
    who = np.arange(n, n + count)
    missing = _NoTask(entry)
    task = cast(Task, missing)
    with name_plugin_in_errors(entry):
        attack.begin(AttackSetting(task, who, columns, stream(seed, "attack", "begin")))
        poison_rows(
            attack,
            updates,
            selected=np.arange(n + count),
            attackers=who,
            round=simulated.round,
            weights=weights,
            columns=columns,
            task=task,
            seed=seed,
            simulate=simulated.simulate,
            loss=lambda weights, who: missing.refuse(),
        )
    return like(updates[n:].astype(given.dtype, copy=False), honest)


class _NoTask:
    """Stand-in for the task of a federation, which a matrix of updates does not have."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def __getattr__(self, name: str) -> Any:
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise an error that names the attack."""
        raise ParameterError(
            f"{self._entry} needs more than a matrix of updates: it asks for a task; use it in a suite"
        )


def _create_attack(entries: Sequence[Entry], parameters: dict[str, Any], share: float) -> Attack:
    entry = entries[0]
    if "share" in parameters:
        raise ParameterError(f"{entry}: leave out share, since attackers says how many there are")
    attack: Attack = entry.create(**attack_chain.configure(entries, {**parameters, "share": share})["parameters"])
    if not attack.overrides("poison_updates"):
        raise ParameterError(f"{entry} does not change updates after local training: use it in a suite")
    return attack


def _check_defense(entry: Entry, knows: Sequence[str], defense: str | Aggregator | None) -> Aggregator:
    if "defense" in knows and defense is None:
        raise ParameterError(f'{entry} must know the defense: give one, as in defense="median"')
    if "defense" not in knows and defense is not None:
        raise ParameterError(f"{entry} does not declare that it knows the defense: leave out defense")
    return defense if isinstance(defense, Aggregator) else Aggregator("fedavg" if defense is None else defense)


def _check_own(own: Any, count: int, d: int) -> Matrix:
    rows = _single_precision(check_updates(own, "own updates"), "own updates")
    if rows.shape != (count, d):
        raise ParameterError(f"own must be the updates of {count} attackers, a matrix of shape {(count, d)}")
    return rows


def _check_model(model: Any, d: int) -> Vector:
    wanted = f"model must be a vector of {d} finite numbers"
    with np.errstate(over="ignore"):
        weights = to_real_numbers(model, wanted).astype(np.float32)
    if weights.shape != (d,) or not np.isfinite(weights).all():
        raise ParameterError(wanted)
    return weights


def _single_precision(matrix: Matrix, name: str) -> Matrix:
    """Return a matrix in single precision, or raise an error for values that are too large for it."""
    with np.errstate(over="ignore"):
        rows: Matrix = matrix.astype(np.float32, copy=False)
    if not np.isfinite(rows).all():
        raise ParameterError(f"{name} hold values that are too large for single precision: scale them down")
    return rows
