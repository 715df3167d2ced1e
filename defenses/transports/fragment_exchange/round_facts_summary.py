"""Facts about all rounds of an exchange, for records: abstentions, refusals, framed participants and chosen victims."""

from collections.abc import Mapping, Sequence
from typing import Any

from fflbench.plugin import Indices

SIDES = ("honest", "attackers")

History = Sequence[Mapping[str, Any]]


def summarise_rounds(history: History, attackers: Indices, participants: int) -> dict[str, Any]:
    """Return facts about all rounds, from the facts of each round's transcript."""
    framed = [who for item in history for who in item["framed"] if who not in attackers]
    return {
        "share_of_abstentions": sum(len(item["abstained"]) for item in history)
        / sum(item["selected"] for item in history),
        "faults": sum(len(item["faults"]) for item in history),
        "lone_submissions": sum(len(item["lone"]) for item in history),
        **{f"share_of_{side}_refused": _share_refused(history, side) for side in SIDES},
        "framed_rows": len(framed),
        "share_of_honest_framed": len(set(framed)) / max(participants - len(attackers), 1),
        **_victims_and_exclusions(history, attackers, participants),
    }


def _share_refused(history: History, side: str) -> float | None:
    """Return how often honest participants refuse one side over all rounds; None where they decide nothing."""
    # A checkpoint of an earlier version may have rounds without decisions.
    counts = [item["partner_decisions"][side] for item in history if "partner_decisions" in item]
    decisions = sum(sum(count.values()) for count in counts)
    return sum(count["refused"] for count in counts) / decisions if decisions else None


def _victims_and_exclusions(history: History, attackers: Indices, participants: int) -> dict[str, Any]:
    """Return who was attacked as a chosen victim, and shares of victims and of other honest ones excluded at the end.

    It is empty unless attackers choose victims.
    """
    if "attacked_victims" not in history[-1]:
        return {}
    victims = {who for item in history for who in item["attacked_victims"]}
    facts: dict[str, Any] = {"victims": sorted(victims)}
    if "excluded" in history[-1]:
        excluded, others = set(history[-1]["excluded"]), set(range(participants)) - victims - set(attackers.tolist())
        facts["share_of_victims_excluded"] = len(excluded & victims) / len(victims) if victims else None
        facts["share_of_other_honest_excluded"] = len(excluded & others) / len(others) if others else None
    return facts
