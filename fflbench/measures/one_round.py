"""Common parts of measures that run one round: checks, and a chain before its first round.

Where only cost is measured, updates are made up: values do not matter, while sizes, parties, messages and every step of
a protocol are real.
"""

import numpy as np

from fflbench.errors import ParameterError
from fflbench.federation import Columns, NoAnswerError, Setting, Transcript, Transport
from fflbench.federation.chain import Chain
from fflbench.types import Vector

EXAMPLES = 100


def require_multiple(name: str, count: int, transport: Transport) -> None:
    """Raise a `ParameterError` for a number of participants that the transport cannot group."""
    if count % transport.multiple:
        raise ParameterError(f"{name} = {count} leaves somebody over; take a multiple of {transport.multiple}")


def require_real(chain: Chain, updates: int) -> None:
    """Raise a `ParameterError` for a chain that only simulates its protocol, or cannot work with so many updates."""
    if chain.transport.leaves_out:
        raise ParameterError(f"its cost cannot be measured as it is set: that leaves out {chain.transport.leaves_out}")
    require_multiple("updates", updates, chain.transport)
    chain.validate(updates)


def begun(chain: Chain, updates: int, columns: Columns, seed: int) -> Chain:
    """Return a chain before its first round, with as many participants as updates."""
    chain.begin(Setting(updates, updates, np.full(updates, EXAMPLES), columns), seed)
    return chain


def aggregated(chain: Chain, transcript: Transcript) -> Vector:
    """Return the aggregate, or raise an error that says why there is none."""
    try:
        return chain.aggregate(transcript)
    except NoAnswerError as reason:
        raise ParameterError(f"it has no answer to random updates: {reason}") from reason
