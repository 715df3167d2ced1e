"""What a participant sends and receives in a round, counted from real messages, and how long that takes.

Jebreel et al., Enhanced security and privacy via fragmented federated learning, IEEE TNNLS 2022, appendix
"Communication cost of FFL".
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt

from fflbench.cost.network import Network, Seconds, time_taken
from fflbench.cost.play import begun, require_real, round_of_messages
from fflbench.federation import Defense
from fflbench.federation.ledger import Way
from fflbench.measures import PROCESS_BYTES, Measure, Outcome, columns_of
from fflbench.registry import measure
from fflbench.tasks import Task

VECTORS = ("global model", "update", "mixed update", "masked vector")
"""Kinds of content that are as long as the model."""

NOT_THE_PAPERS = ("mac", "framing")
"""Kinds that the paper does not count."""

PAPERS_FLIGHTS_BETWEEN = 4
"""Latencies the paper charges for an exchange between partners, which takes three messages."""

PAPERS_ROUNDING = 100
"""Bytes to which the paper rounds the size of a model: 0.0001 MB."""


@measure("communication", title="Communication", version=2)
class Communication(Measure):
    """Send every message of one round for real, count its bytes, and reckon the time on a network."""

    needs_data = False
    metrics = ("seconds", "seconds_before_macs_and_framing", "seconds_the_papers_way", "bytes", "server_bytes")

    updates: Annotated[int, Ge(2), "participants whose messages are sent for real"] = 2
    participants: Annotated[int, Ge(2), "participants in the system, where a protocol's cost depends on them"] = 100_000
    download: Annotated[float, Gt(0), "megabits a second from the server"] = 31.01
    upload: Annotated[float, Gt(0), "megabits a second to the server and to others"] = 8.66
    latency: Annotated[float, Ge(0), "milliseconds that each message takes besides"] = 29.0

    def check(self, task: Task, defense: Defense) -> None:
        require_real(defense, self.updates)

    def steps(self) -> int:
        return 1

    def memory(self, task: Task) -> int:
        return PROCESS_BYTES + 4 * columns_of(task).count * (self.updates + 16)

    def estimate(self, task: Task, defense: Defense, attack: Any = None) -> float:
        return 3.0

    def play(
        self,
        task: Task,
        defense: Defense,
        seed: int,
        tell: Callable[[int], None],
        attack: Any = None,
        device: str = "cpu",
    ) -> Outcome:
        columns = columns_of(task)
        begun(defense, self.updates, columns, seed)
        updates = np.random.default_rng(seed).standard_normal((self.updates, columns.count), dtype=np.float32)
        ledger = round_of_messages(defense, updates)
        tell(1)
        sizes, flights = ledger.per_participant(self.updates)
        parameters = 4 * (columns.parameters.stop - columns.parameters.start)
        vectors = {way: sum(kinds.get(kind, 0) for kind in VECTORS) for way, kinds in sizes.items()}
        counted = {
            way: sum(size for kind, size in kinds.items() if kind not in NOT_THE_PAPERS) for way, kinds in sizes.items()
        }

        def with_model_of(model: float) -> dict[Way, float]:
            """Bytes without MACs and framing, if a model had so many."""
            return {way: counted[way] - vectors[way] + vectors[way] / (4 * columns.count) * model for way in counted}

        rounded = PAPERS_ROUNDING * round(parameters / PAPERS_ROUNDING)
        papers_flights = {**flights, "between": PAPERS_FLIGHTS_BETWEEN if flights["between"] else 0}
        network = Network(self.download, self.upload, self.latency)
        ways = {
            "papers_way": time_taken(network, with_model_of(rounded), papers_flights),
            "rounded": time_taken(network, with_model_of(rounded), flights),
            "parameters": time_taken(network, with_model_of(parameters), flights),
            "sent": time_taken(network, {way: sum(kinds.values()) for way, kinds in sizes.items()}, flights),
        }
        total = sum(sum(kinds.values()) for kinds in sizes.values())
        return Outcome(
            metrics={
                "seconds": ways["sent"].total,
                "seconds_before_macs_and_framing": ways["parameters"].total,
                "seconds_the_papers_way": ways["papers_way"].total,
                "bytes": total,
                "server_bytes": self.participants * sum(sum(sizes[way].values()) for way in ("down", "up")),
            },
            history=[],
            facts={
                "bytes_per_participant": {way: dict(kinds) for way, kinds in sizes.items()},
                "messages_per_participant": flights,
                "model_bytes": parameters,
                "model_bytes_the_papers_way": rounded,
                "columns": columns.count,
                "seconds": {name: _parts(found) for name, found in ways.items()},
            },
        )


def _parts(found: Seconds) -> Mapping[str, Any]:
    return {
        "server": found.server,
        "between": found.between,
        "latency": found.latency,
        "total": found.total,
    }
