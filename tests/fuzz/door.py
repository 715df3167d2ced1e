"""Registry of doors."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.case import Case

INPUTS, FLIPS = "inputs", "flips"
CAMPAIGNS = (INPUTS, FLIPS)


@dataclass(frozen=True)
class Door:
    """One way in which input reaches fflbench."""

    name: str
    attempt: Callable[["Case"], None]
    """Makes one altered input and tries it."""
    share: float = 1.0
    """Part of a campaign's cases that it gets, relative to the others: slow doors get less."""
    campaign: str = INPUTS
    isolated: bool = False
    """Whether each case needs a process of its own, because it changes global state."""
    prepare: Callable[[], object] | None = None
    """Makes what all cases share, once, before processes are forked."""

    @property
    def summary(self) -> str:
        """First line of its docstring."""
        return (self.attempt.__doc__ or "").strip().splitlines()[0]


_doors: dict[str, Door] = {}


def door(
    name: str,
    *,
    share: float = 1.0,
    campaign: str = INPUTS,
    isolated: bool = False,
    prepare: Callable[[], object] | None = None,
) -> Callable[[Callable[["Case"], None]], Callable[["Case"], None]]:
    """Register a function as a door."""

    def register(attempt: Callable[["Case"], None]) -> Callable[["Case"], None]:
        assert name not in _doors, f"two doors are called {name}"
        _doors[name] = Door(name, attempt, share, campaign, isolated, prepare)
        return attempt

    return register


def doors(campaign: str = INPUTS) -> list[Door]:
    """All doors of a campaign, by name."""
    from tests.fuzz import doors as folder

    for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
        importlib.import_module(module.name)
    return [found for _, found in sorted(_doors.items()) if found.campaign == campaign]
