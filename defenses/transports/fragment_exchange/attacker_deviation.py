"""Deviations of attackers from the fragment exchange (Jebreel et al., section on security, and docs/ffl.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import AddedLater, Deviation, ParameterError, Upload


@dataclass(frozen=True, kw_only=True)
class ExchangeDeviation(Deviation):
    """Behaviour of attackers in the exchange; they accept every partner, whatever its reputation."""

    strategy: Annotated[
        Literal[1, 2, 3], "1 exchange as agreed, 2 submit all poison instead, 3 give poison away and submit clean"
    ] = 1
    avoid_each_other: Annotated[bool, "attackers never exchange with attackers"] = False
    lone_sender: Annotated[
        bool, "an attacker who finds no partner submits its own row, under its own pad, instead of abstaining"
    ] = False
    abort: Annotated[bool, "attackers break off exchanges with honest participants, so that neither submits"] = False
    only_each_other: Annotated[bool, AddedLater(), "attackers exchange with attackers only"] = False
    victims: Annotated[
        Annotated[int, Ge(1)] | None,
        AddedLater(),
        "attack the honest ones among so many first participants, asking them first, and exchange clean updates as "
        "agreed with all others; none attacks everybody",
    ] = None

    def __post_init__(self) -> None:
        if self.avoid_each_other and self.only_each_other:
            raise ParameterError("attackers who avoid each other cannot exchange with only_each_other")
        if self.only_each_other and self.victims is not None:
            raise ParameterError("attackers who exchange with only_each_other have no victims")

    @property
    def needs_clean_updates(self) -> bool:
        return self.strategy == 3 or self.victims is not None

    def rules_out_exchange(self, one_attacks: bool, other_attacks: bool) -> bool:
        """Return whether attackers never exchange in such a pair."""
        if self.only_each_other:
            return one_attacks != other_attacks
        return self.avoid_each_other and one_attacks and other_attacks


def attack_victims_only(
    upload: Upload, pairs: Sequence[tuple[int, int]], first: int
) -> tuple[npt.NDArray[np.bool_], list[int]]:
    """Return which attackers exchange with victims, and these; rows of other attackers become those of clean data.

    Victims are the honest ones among so many first participants; pairs are those of places in the upload.
    """
    attackers, participants = upload.attackers, upload.participants
    victims = ~attackers & (participants < first)
    both_ways = [*pairs, *((other, one) for one, other in pairs)]
    attacked = {one: other for one, other in both_ways if attackers[one] and victims[other]}
    attacking = np.isin(np.arange(len(participants)), list(attacked))
    if (sparing := attackers & ~attacking).any():
        assert upload.clean is not None
        upload.rows[sparing] = upload.clean(participants[sparing])
    return attacking, sorted(participants[list(attacked.values())].tolist())
