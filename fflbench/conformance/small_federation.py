"""Small rows, tasks and federations that plugins are checked on."""

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt
from torch import nn

from fflbench import registry
from fflbench.arrays.columns import Columns
from fflbench.conformance.check_registry import NotCheckedError
from fflbench.data import Data, Examples, digits
from fflbench.federation.attack import Attack
from fflbench.federation.chain import MEAN, PLAIN, Chain
from fflbench.federation.rounds import Federation
from fflbench.federation.views import View
from fflbench.registry import Entry, Kind
from fflbench.tasks import Task
from fflbench.types import Matrix

if TYPE_CHECKING:
    from fflbench.plugin_parameters import Parameter

PARTICIPANTS, SELECTED = 12, 8
COLUMNS = Columns(
    spans={
        "first.weight": slice(0, 4),
        "last.weight": slice(4, 8),
        "last.bias": slice(8, 10),
        "norm.running_var": slice(10, 12),
    },
    shapes={"first.weight": (2, 2), "last.weight": (2, 2), "last.bias": (2,), "norm.running_var": (2,)},
    parameters=slice(0, 10),
    last_layer=slice(4, 10),
    count=12,
)
"""Columns of a model of two layers, with buffers."""
MODEL = np.linspace(-1, 1, COLUMNS.count, dtype=np.float32)


HUGE = float(np.finfo(np.float32).max) / 16
"""Value whose square overflows, while updates that are weighted by numbers of examples stay finite."""


# Rows


def random_updates(n: int = SELECTED, columns: Columns = COLUMNS, seed: int = 0) -> Matrix:
    """Return random updates that have a direction in common."""
    return np.random.default_rng(seed).standard_normal((n, columns.count), np.float32) + np.float32(0.5)


def random_server_view(n: int = SELECTED, columns: Columns = COLUMNS, seed: int = 0) -> View:
    """Return a server's view of n random updates of participants with different numbers of examples."""
    rng = np.random.default_rng(seed)
    participants = np.sort(rng.choice(PARTICIPANTS, n, replace=False))
    sizes = rng.integers(5, 50, n)
    return View(
        round=0,
        model=np.linspace(-1, 1, columns.count, dtype=np.float32),
        rows=random_updates(n, columns, seed),
        weights=sizes,
        columns=columns,
        selected=SELECTED,
        participants=participants,
        sizes=sizes,
        root_update=random_updates(1, columns, seed + 1)[0],
    )


def hostile_updates(n: int) -> dict[str, Matrix]:
    """Return updates that attackers may send or that training may end with, under a description."""
    normal = random_updates(n)

    def with_one_value(value: float) -> Matrix:
        rows = normal.copy()
        rows[0, 1] = value
        return rows

    return {
        "NaN": with_one_value(np.nan),
        "infinity": with_one_value(np.inf),
        "nothing but NaN": np.full_like(normal, np.nan),
        "a huge value": with_one_value(HUGE),
        "huge values of both signs": np.where(normal > 0, HUGE, -HUGE).astype(np.float32),
        "tiny values": np.full_like(normal, np.finfo(np.float32).smallest_subnormal),
        "identical rows": np.repeat(normal[:1], n, 0),
        "zeros": np.zeros_like(normal),
    }


# Parts of a federation


def create_default_part(kind: Kind) -> Any:
    """Return the default transport or rule."""
    return registry.get(kind, PLAIN if kind is Kind.TRANSPORT else MEAN).create()


def chain_with_plugin(entry: Entry, **given: Any) -> Chain:
    """Return the chain of one part, with the default parts around it."""
    if entry.kind is Kind.DEFENSE:
        from fflbench.federation.chain import defense

        return defense(entry.name)
    require_installed(entry)
    part = entry.create(**given)
    return Chain(
        part if entry.kind is Kind.TRANSPORT else create_default_part(Kind.TRANSPORT),
        [part] if entry.kind is Kind.PREAGGREGATION else [],
        part if entry.kind is Kind.RULE else create_default_part(Kind.RULE),
    )


def require_installed(entry: Entry) -> None:
    """Raise a `NotCheckedError` for a transport whose libraries are not installed."""
    if entry.kind is Kind.TRANSPORT and (missing := entry.target.missing_dependency()):
        raise NotCheckedError(f"{entry} cannot be checked: {missing}")


def smallest_parameters(entry: Entry, size: int = 1) -> dict[str, Any]:
    """Return the whole numbers among a plugin's parameters, no larger than `size` where their bounds allow that."""
    counts = [each for each in entry.parameters if type(each.default) is int]
    return {each.name: min(each.default, max(size, _lower_bound(each))) for each in counts}


def _lower_bound(parameter: "Parameter") -> int:
    """Return the lower bound of a parameter."""
    bounds = getattr(parameter.annotation, "__metadata__", ())
    least = [int(bound.ge) for bound in bounds if isinstance(bound, Ge)]  # type: ignore[call-overload]
    above = [int(bound.gt) + 1 for bound in bounds if isinstance(bound, Gt)]  # type: ignore[call-overload]
    return max([*least, *above], default=0)


# Federations


@dataclass(frozen=True, kw_only=True)
class SmallDigits(Task):
    """A few hundred handwritten digits and a small perceptron."""

    classes = tuple("0123456789")
    trait_class: ClassVar[int] = 7

    def data(self) -> Data:
        """Return a part of the digits."""
        return _load_few_digits()

    def model(self) -> nn.Module:
        """Return a perceptron that every engine can train."""
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))


@dataclass(frozen=True, kw_only=True)
class NormalisedDigits(SmallDigits):
    """The same digits and a perceptron with batch normalisation, so that updates have buffers."""

    def model(self) -> nn.Module:
        """Return a perceptron with buffers."""
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))


@dataclass(frozen=True, kw_only=True)
class DropoutDigits(SmallDigits):
    """The same digits and a perceptron with dropout, which draws random numbers."""

    def model(self) -> nn.Module:
        """Return a perceptron with dropout."""
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 10))


@dataclass(frozen=True, kw_only=True)
class BinaryDigits(SmallDigits):
    """Whether a digit is at least five, and a perceptron with one output."""

    classes = ("low", "high")
    loss: Literal["cross-entropy", "binary-cross-entropy"] = "binary-cross-entropy"

    def data(self) -> Data:
        """Return a part of the digits, in two classes."""
        parts = (_load_few_digits().train, _load_few_digits().test)
        train, test = (Examples(part.x, (part.y >= 5).astype(part.y.dtype)) for part in parts)
        return Data(train, test)

    def model(self) -> nn.Module:
        """Return a perceptron with one output."""
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 1))


@functools.cache
def _load_few_digits() -> Data:
    whole = digits.load()
    train, test = (Examples(part.x[:count], part.y[:count]) for part, count in ((whole.train, 320), (whole.test, 80)))
    return Data(train, test)


def small_task(task: type[SmallDigits] = SmallDigits, **fields: Any) -> SmallDigits:
    """Return a task of four rounds, in which half of the participants are selected unless `fields` say otherwise."""
    settings: dict[str, Any] = {
        "participants": 8,
        "per_round": 4,
        "rounds": 4,
        "batch_size": 10,
        "learning_rate": 0.1,
        "root_examples": 16,
    }
    return task(**{**settings, **fields})


def small_federation(entry: Entry, seed: int = 0) -> Federation:
    """Return a federation in which a plugin is the attack or a part of the defense, with attackers in every round."""
    task = small_task(NormalisedDigits, per_round=6)
    if entry.kind is Kind.ATTACK:
        attack, defense = (
            entry.create(share=0.5),
            Chain(create_default_part(Kind.TRANSPORT), [], create_default_part(Kind.RULE)),
        )
    else:
        attack, defense = SignFlipping(share=0.5), chain_with_plugin(entry)
    return Federation(task, attack, defense, seed)


@dataclass(kw_only=True)
class SignFlipping(Attack):
    """Attack that sends the opposite of the honest update."""

    def poison_updates(self, known: Any) -> Matrix:
        """Return the attackers' updates with their signs reversed."""
        reversed_updates: Matrix = -known.updates
        return reversed_updates


def permute_rows(view: View, order: Any) -> View:
    """Return a view with its rows, and all that belongs to them, in another order."""
    assert view.participants is not None
    assert view.sizes is not None
    return replace(
        view,
        rows=view.rows[order],
        weights=view.weights[order],
        participants=view.participants[order],
        sizes=view.sizes[order],
    )
