"""FFL at D = 14,728,266: an exchange beside the keystreams it needs, and its server beside the median, on one core.

`python -m benchmarks.fragment_exchange` prints the seconds of every part.
"""

import argparse
import hashlib
import hmac
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from fflbench.defenses.transports.fragment_exchange.parties import Acceptor, ExchangeServer, Initiator
from rich.console import Console
from rich.table import Table

from benchmarks.timing import Ratio, Side, compare
from fflbench.arrays import kernels
from fflbench.crypto import keystream
from fflbench.crypto.entropy import Entropy
from fflbench.federation import Columns, chain
from fflbench.measures.one_round import begin_chain
from fflbench.measures.runtime import time_rounds
from fflbench.progress import track_progress
from fflbench.types import Vector

D = 14_728_266
LAST_LAYER = 5_130
REPEATS = 5
UPDATES = 100


def measure_ratios(*, peers: bool) -> Iterator[Ratio]:
    """Yield ratios of an exchange to its keystreams, at least a quarter, and of FFL's server to the median."""
    with kernels.threads(1):
        yield Ratio(
            f"FFL exchange, D = {D:,}, MACs apart",
            "the two AES keystreams it needs",
            (seconds := time_exchange_parts())["two AES keystreams"],
            seconds["a participant's exchange, MACs included"] - seconds["MACs"],
            0.25,
        )
        updates = np.random.default_rng(0).standard_normal((UPDATES, D), dtype=np.float32)
        columns = Columns({}, {}, slice(0, D), slice(D - LAST_LAYER, D), D)

        def server_timer(name: str, **parameters: str) -> Side:
            timed_rounds = time_rounds(begin_chain(chain.defense(name, **parameters), UPDATES, columns, 0), updates)

            def run_side() -> float:
                seconds = next(timed_rounds)
                return seconds["decryption"] + seconds["aggregation"]

            return run_side

        what = f"FFL server, {UPDATES} x {D:,}, decryption included, 1 thread"
        yield from compare(what, server_timer("ffl", mode="full"), {"median": (server_timer("median"), 1.0)})


def time_call(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def time_exchange_parts() -> dict[str, float]:
    """Return the least seconds of each part of an exchange, all measured in the same run."""
    key = ExchangeServer(Entropy(0))
    updates = [np.random.default_rng(seed).standard_normal(D, dtype=np.float32) for seed in (0, 1)]
    runs = [time_one_exchange(key, *updates) for _ in track_progress(range(REPEATS), "Exchanging")]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def time_one_exchange(key: ExchangeServer, one: Vector, other: Vector) -> dict[str, float]:
    """Return the seconds of each part of one exchange."""
    key._heard = (-1, set())
    words, opened = np.zeros(D, np.uint32), np.zeros(D, np.float32)
    streams = time_call(
        lambda: (keystream.fill_keystream(b"a" * 32, words), keystream.fill_keystream(b"b" * 32, words))
    )[0]
    mac = time_call(lambda: hmac.new(b"k", keystream.as_bytes(words), hashlib.sha256).digest())[0]
    party = {"round": 1, "server": key.public, "entropy": Entropy(1)}
    started, initiator = time_call(lambda: Initiator(one, name=5, partner=9, **party))
    acceptor = Acceptor(other, name=9, partner=5, **party)
    first, offer = time_call(initiator.make_offer)
    answer = acceptor.answer_offer(offer)
    second, reply = time_call(lambda: initiator.reply_to_answer(answer))
    acceptor.finish_exchange(reply)
    opening = time_call(lambda: ExchangeServer.decrypt_submission(key, initiator.submission(), 1, 5, opened))[0]
    return {
        "two AES keystreams": streams,
        # Four vectors: two of one's own are authenticated, two of the partner's verified.
        "MACs": 4 * mac,
        "a participant's exchange, MACs included": started + first + second,
        "opening one mixed update": opening,
    }


def main() -> None:
    """Print the seconds of each part."""
    argparse.ArgumentParser(description="Seconds that each step of FFL's exchange takes.").parse_args()
    with kernels.threads(1):
        seconds = time_exchange_parts()
    table = Table("what", "seconds", title=f"FFL at D = {D:,}, one core, best of {REPEATS}")
    for name, value in seconds.items():
        table.add_row(name, f"{value:.4f}")
    Console().print(table)


if __name__ == "__main__":
    main()
