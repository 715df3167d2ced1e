"""What FFL costs at D = 14,728,266 on one core: a participant's exchange, opening at the server, and scoring.

`python -m benchmarks.exchange`, and with `--memory` the peak for 100 updates.
"""

import hashlib
import hmac
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fflbench import kernels, registry
from fflbench.crypto import pads
from fflbench.crypto.entropy import Entropy
from fflbench.crypto.exchange import Acceptor, Initiator, Server
from fflbench.federation.columns import Columns
from fflbench.federation.defense import Setting
from fflbench.federation.views import ServerView
from fflbench.progress import track
from fflbench.registry import Kind
from fflbench.types import Vector

D = 14_728_266
LAST_LAYER = 5_130
REPEATS = 5
SIZES = [(10, 1_000_000), (10, 5_000_000), (10, D), (50, 5_000_000), (100, 5_000_000)]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came out."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def exchange() -> dict[str, float]:
    """The least seconds of each part of an exchange, all measured in the same run."""
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


def scoring(n: int, d: int) -> float:
    """Seconds to score and aggregate n mixed updates."""
    columns = Columns({}, {}, slice(0, d), slice(d - LAST_LAYER, d), d)
    defense = registry.get(Kind.DEFENSE, "ffl").create()
    sizes = np.full(n, 100)
    defense.begin(Setting(n, n, sizes, columns, 0))
    updates = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    defense.partner = {who: who ^ 1 for who in range(n)}
    view = ServerView(0, np.zeros(d, np.float32), np.arange(n), updates, sizes, columns, n)
    return min(timed(lambda: defense.aggregate(view))[0] for _ in range(3))


def memory(n: int = 100) -> None:
    """Peak memory of scoring and aggregating n updates of full size, in times of their matrix; takes 6 GB."""
    seconds = scoring(n, D)
    peak, matrix = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, n * D * 4
    times = f"{peak / matrix:.3f} times its matrix of {matrix / 1e9:.2f} GB"
    print(f"{n} x {D:,}: {seconds:.2f} s, peak {peak / 1e9:.2f} GB, {times}")


def _exponent(seconds: dict[int, float]) -> float:
    return float(np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0])


def main() -> None:
    """Print the figures, and how they grow."""
    with kernels.threads(1):
        found = exchange()
        without = found["a participant's exchange, MACs included"] - found["MACs"]
        grown = {(n, d): scoring(n, d) for n, d in track(SIZES, "Scoring")}
    table = Table("what", "seconds", title=f"FFL at D = {D:,}, one core, best of {REPEATS}")
    for name, value in found.items():
        table.add_row(name, f"{value:.4f}")
    table.add_row("a participant's exchange, MACs apart", f"{without:.4f}")
    table.add_row("... in times of the two keystreams", f"{without / found['two AES keystreams']:.2f}")
    for (n, d), value in grown.items():
        table.add_row(f"scoring and aggregating {n} x {d:,}", f"{value:.4f}")
    in_n = _exponent({n: seconds for (n, d), seconds in grown.items() if d == 5_000_000})
    in_d = _exponent({d: seconds for (n, d), seconds in grown.items() if n == 10})
    table.add_row("fitted exponent in n (10 to 100, D = 5M) and in D (1M to 14.7M, n = 10)", f"{in_n:.2f}, {in_d:.2f}")
    Console().print(table)


if __name__ == "__main__":
    memory() if sys.argv[1:] == ["--memory"] else main()
