"""Wrong plugins, each with the check that refuses it and the sentence that says why."""

from collections.abc import Callable
from typing import NamedTuple

from fflbench.registry import Kind


class WrongPlugin(NamedTuple):
    kind: Kind
    check: str
    sentence: str
    register: Callable[[], None]


WRONG: list[WrongPlugin] = []


def refused(kind, check, sentence):
    """Add a function that registers a wrong plugin under the name "wrong"."""

    def add(register):
        WRONG.append(WrongPlugin(kind, check, sentence, register))
        return register

    return add
