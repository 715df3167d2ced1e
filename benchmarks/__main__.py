"""Run all benchmarks, or some: `python -m benchmarks --help`."""

import argparse
import os
import sys
from importlib.util import find_spec

from benchmarks import (
    committed_ratios,
    engines,
    fragment_exchange,
    reconstructions,
    rules,
    server_memory,
    whole_rounds,
    worker_memory,
)
from benchmarks.timing import Ratio

BENCHMARKS = {
    "rules": rules,
    "engines": engines,
    "whole-rounds": whole_rounds,
    "worker-memory": worker_memory,
    "fragment-exchange": fragment_exchange,
    "server-memory": server_memory,
    "reconstructions": reconstructions,
}


def main() -> int:
    """Run benchmarks, print their ratios, compare or write them as asked, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Speed of fflbench relative to other libraries, measured alternately in one run, and its memory.",
    )
    parser.add_argument("names", nargs="*", metavar="BENCHMARK", help=f"some of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument(
        "--peers", action="store_true", help="compare with ByzFL and pfl-research too (pip install 'fflbench[peers]')"
    )
    mode = parser.add_mutually_exclusive_group()
    # argparse reads a percent sign as the start of a placeholder, unless it is doubled.
    share = f"{committed_ratios.SHARE:.0%}".replace("%", "%%")
    mode.add_argument("--check", action="store_true", help=f"fail where a ratio is below {share} of the committed one")
    mode.add_argument("--write", action="store_true", help="write ratios, tables and figure to the repository")
    given = parser.parse_args()
    unknown = set(given.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    if given.peers and not (find_spec("byzfl") and find_spec("pfl")):
        parser.error("--peers needs ByzFL and pfl-research: pip install 'fflbench[peers]'")
    if given.check:
        committed_ratios.read_of_this_processor()
    measured: list[Ratio] = []
    print(f"load before the first measurement: {os.getloadavg()[0]:.2f}", file=sys.stderr)
    for name in given.names or BENCHMARKS:
        measured += BENCHMARKS[name].measure_ratios(peers=given.peers)
        if given.write:
            # After every benchmark, so that an interruption loses little.
            committed_ratios.write_ratios(measured)
    committed_ratios.print_table(measured)
    return committed_ratios.compare_with_committed(measured) if given.check else 0


sys.exit(main())
