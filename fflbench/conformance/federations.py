"""Checks of plugins in a federation of a few rounds."""

from typing import Any

from fflbench.conformance.check_registry import comparable_bits, register_check, require
from fflbench.conformance.small_federation import small_federation
from fflbench.federation.rounds import Federation
from fflbench.registry import Entry, Kind

ROUNDS = 4


@register_check(Kind.ATTACK, Kind.RULE, Kind.TRANSPORT, Kind.DEFENSE)
def check_resuming(entry: Entry) -> None:
    """Check that a run that is stopped and resumed ends with the same model, history and memory."""
    whole = small_federation(entry)
    state = None
    for number in range(ROUNDS):
        if number == ROUNDS // 2:
            state = whole.state()
        whole.run_round()
    assert state is not None
    resumed = small_federation(entry)
    resumed.restore(state)
    while resumed.round < ROUNDS:
        resumed.run_round()
    for what, one, other in zip(
        ("model", "history", "memory"), _comparable_state(whole), _comparable_state(resumed), strict=True
    ):
        require(
            one == other,
            entry,
            f"led to another {what} after the run was stopped and resumed: what lasts from round to round must stand "
            "in its memory",
        )


def _comparable_state(federation: Federation) -> list[Any]:
    """Return the bits of the model, the history and the memories."""
    arrays, facts = federation.state()
    memories = {name: array for name, array in arrays.items() if "/" in name}
    return [comparable_bits(arrays["weights"]), comparable_bits(facts["history"]), comparable_bits(memories)]
