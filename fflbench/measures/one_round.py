"""One round of a defense with random updates, for cost measures; and checks of a chain before a round.

Cost does not depend on the values of updates, while sizes, parties, messages and every step of a protocol are real.
"""

from dataclasses import replace

import numpy as np

from fflbench.errors import ParameterError
from fflbench.federation import Columns, NoAnswerError, Setting, Transcript, Transport
from fflbench.federation.chain import Chain
from fflbench.federation.views import read_only
from fflbench.tasks import Task
from fflbench.types import Matrix, Vector

EXAMPLES_PER_PARTICIPANT = 100


def require_groupable_count(name: str, count: int, transport: Transport) -> None:
    """Raise a `ParameterError` for a number of participants that the transport cannot group."""
    if count % transport.multiple:
        raise ParameterError(f"{name} = {count} leaves somebody over; take a multiple of {transport.multiple}")


def require_measurable_cost(chain: Chain, updates: int) -> None:
    """Raise a `ParameterError` for a chain that only simulates its protocol, or cannot work with so many updates."""
    if chain.transport.simulated_part:
        raise ParameterError(
            f"its cost cannot be measured with these parameters, which leave out {chain.transport.simulated_part}"
        )
    require_groupable_count("updates", updates, chain.transport)
    chain.validate(updates)


def require_root_examples(task: Task, chain: Chain) -> None:
    """Raise a `ParameterError` for a rule that needs the server's own examples where the task has none."""
    if chain.rule.needs_root_update and not task.root_examples:
        raise ParameterError("its rule trains on the server's own examples: set the task's root_examples, to 100 say")


def worker_momentum_rows(task: Task) -> int:
    """Return the number of updates that worker momentum keeps between rounds: one per participant."""
    return task.participants if task.worker_momentum else 0


def begin_chain(chain: Chain, updates: int, columns: Columns, seed: int) -> Chain:
    """Begin a chain with as many participants as updates, and return it."""
    chain.begin(Setting(updates, updates, np.full(updates, EXAMPLES_PER_PARTICIPANT), columns), seed)
    return chain


def transmit(chain: Chain, round: int, updates: Matrix) -> Transcript:
    """Transmit updates to the server, whose rule gets a random root update if it needs one."""
    selected = chain.select(round)
    transcript = chain.transmit(round, np.zeros(updates.shape[1], np.float32), selected, updates[: len(selected)])
    if chain.rule.needs_root_update:
        root_update = np.random.default_rng(round).standard_normal((updates.shape[1],), dtype=np.float32)
        transcript.server = replace(transcript.server, root_update=read_only(root_update))
    return transcript


def aggregate(chain: Chain, transcript: Transcript) -> Vector:
    """Return the aggregate, or raise an error that says why there is none."""
    try:
        return chain.aggregate(transcript)
    except NoAnswerError as reason:
        raise ParameterError(f"it has no aggregate of random updates: {reason}") from reason
