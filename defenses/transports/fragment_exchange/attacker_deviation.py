"""Deviations of attackers from the fragment exchange (Jebreel et al., section on security, and docs/ffl.md)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fflbench.plugin import Deviation


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

    @property
    def needs_clean_updates(self) -> bool:
        return self.strategy == 3
