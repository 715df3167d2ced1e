"""One round of a defense with made-up updates, for the sake of what it costs.

Values do not matter to what is measured; sizes, parties, messages and every step of a protocol are real.
"""

import numpy as np

from fflbench.crypto.messages import SERVER
from fflbench.errors import ParameterError
from fflbench.federation import Columns, Defense, Sent, ServerView
from fflbench.federation.defense import NoAnswerError, Setting
from fflbench.federation.ledger import GlobalModel, Ledger
from fflbench.types import Matrix, Vector

EXAMPLES = 100


def require_real(defense: Defense, updates: int) -> None:
    """Refuse a defense that only simulates its protocol, or that cannot work with so many updates."""
    if defense.leaves_out:
        raise ParameterError(f"its cost cannot be measured as it is set: that leaves out {defense.leaves_out}")
    if defense.exchanges and updates % 2:
        raise ParameterError(f"updates = {updates} leaves one participant without a partner; take an even number")
    defense.validate(updates)


def begun(defense: Defense, updates: int, columns: Columns, seed: int) -> Defense:
    """A defense before its first round, with as many participants as updates."""
    defense.begin(Setting(updates, updates, np.full(updates, EXAMPLES), columns, seed))
    return defense


def round_of_messages(defense: Defense, updates: Matrix) -> Ledger:
    """All messages of one round, from the global model to what the server answers."""
    ledger = defense.ledger = Ledger()
    weights = np.zeros(updates.shape[1], np.float32)
    selected = defense.select(0)
    for who in selected:
        ledger.enter(GlobalModel(0, SERVER, int(who), weights.data))
    rows = updates[: len(selected)]
    view = defense.transmit(0, weights, selected, Sent(rows, rows))
    aggregated(defense, view)
    if not ledger.messages["up"]:
        raise ParameterError("its messages cannot be counted: none to the server was entered in the ledger")
    return ledger


def aggregated(defense: Defense, view: ServerView) -> Vector:
    """The aggregate, or an error that says why there is none."""
    try:
        return defense.aggregate(view)
    except NoAnswerError as reason:
        raise ParameterError(f"it has no answer to random updates: {reason}") from reason
