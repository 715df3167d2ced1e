"""FFL at D = 14,728,266: an exchange beside the keystreams it needs, and its server beside the median, on one core.

`python -m benchmarks.exchange` prints the seconds of every part.
"""

import argparse
import hashlib
import hmac
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from fflbench.defenses.transports.fragment_exchange.parties import Acceptor, Initiator, Server
from rich.console import Console
from rich.table import Table

from benchmarks.timing import Ratio, Side, race
from fflbench.arrays import kernels
from fflbench.crypto import pads
from fflbench.crypto.entropy import Entropy
from fflbench.federation import Columns, chain
from fflbench.measures.one_round import begun
from fflbench.measures.runtime import rounds
from fflbench.progress import track
from fflbench.types import Vector

D = 14_728_266
LAST_LAYER = 5_130
REPEATS = 5
UPDATES = 100


def ratios(*, peers: bool) -> Iterator[Ratio]:
    """Higher is better here as elsewhere: at most four times the keystreams' time is at least a quarter of a ratio."""
    with kernels.threads(1):
        yield Ratio(
            f"FFL exchange, D = {D:,}, MACs apart",
            "the two AES keystreams it needs",
            (found := exchange())["two AES keystreams"],
            found["a participant's exchange, MACs included"] - found["MACs"],
            0.25,
        )
        updates = np.random.default_rng(0).standard_normal((UPDATES, D), dtype=np.float32)
        columns = Columns({}, {}, slice(0, D), slice(D - LAST_LAYER, D), D)

        def server(name: str, **parameters: str) -> Side:
            played = rounds(begun(chain.defense(name, **parameters), UPDATES, columns, 0), updates)

            def play() -> float:
                told = next(played)
                return told["decryption"] + told["aggregation"]

            return play

        what = f"FFL server, {UPDATES} x {D:,}, decryption included, 1 thread"
        yield from race(what, server("ffl", mode="full"), {"median": (server("median"), 1.0)})


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came out."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def exchange() -> dict[str, float]:
    """Return the least seconds of each part of an exchange, all measured in the same run."""
    key = Server(Entropy(0))
    updates = [np.random.default_rng(seed).standard_normal(D, dtype=np.float32) for seed in (0, 1)]
    runs = [one_exchange(key, *updates) for _ in track(range(REPEATS), "Exchanging")]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def one_exchange(key: Server, one: Vector, other: Vector) -> dict[str, float]:
    """Seconds of each part of one exchange."""
    key._heard = (-1, set())
    words, opened = np.zeros(D, np.uint32), np.zeros(D, np.float32)
    streams = timed(lambda: (pads.pad(b"a" * 32, words), pads.pad(b"b" * 32, words)))[0]
    mac = timed(lambda: hmac.new(b"k", pads.as_bytes(words), hashlib.sha256).digest())[0]
    party = {"round": 1, "server": key.public, "entropy": Entropy(1)}
    started, initiator = timed(lambda: Initiator(one, name=5, partner=9, **party))
    acceptor = Acceptor(other, name=9, partner=5, **party)
    first, offer = timed(initiator.offer)
    answer = acceptor.take(offer)
    second, reply = timed(lambda: initiator.take(answer))
    acceptor.finish(reply)
    opening = timed(lambda: Server.open(key, initiator.submission(), 1, 5, opened))[0]
    return {
        "two AES keystreams": streams,
        # Four vectors: two of one's own are signed, two of the partner's checked.
        "MACs": 4 * mac,
        "a participant's exchange, MACs included": started + first + second,
        "opening one mixed update": opening,
    }


def main() -> None:
    """Print the seconds."""
    argparse.ArgumentParser(description="Seconds that each step of FFL's exchange takes.").parse_args()
    with kernels.threads(1):
        found = exchange()
    table = Table("what", "seconds", title=f"FFL at D = {D:,}, one core, best of {REPEATS}")
    for name, value in found.items():
        table.add_row(name, f"{value:.4f}")
    Console().print(table)


if __name__ == "__main__":
    main()
