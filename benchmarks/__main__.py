"""Run all benchmarks, or some: `python -m benchmarks --help`."""

import argparse
import os
import sys
from importlib.util import find_spec

from benchmarks import cells, committed, engines, exchange, memory, reconstructions, rules, shared
from benchmarks.timing import Ratio

ROOMS = {
    "rules": rules,
    "engines": engines,
    "cells": cells,
    "shared": shared,
    "exchange": exchange,
    "memory": memory,
    "reconstructions": reconstructions,
}


def main() -> int:
    """Measure, print, and compare or write as asked; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="How many times faster than others we are, the sides taking turns, and what workers share.",
    )
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"some of {', '.join(ROOMS)} (default: all)")
    parser.add_argument(
        "--peers", action="store_true", help="also ByzFL and pfl-research (pip install 'fflbench[peers]')"
    )
    does = parser.add_mutually_exclusive_group()
    # argparse reads a percent sign as the start of a placeholder, unless it is doubled.
    share = f"{committed.SHARE:.0%}".replace("%", "%%")
    does.add_argument("--check", action="store_true", help=f"fail where a ratio is below {share} of the committed one")
    does.add_argument(
        "--write", action="store_true", help="write the table, the picture and the ratios to be committed"
    )
    given = parser.parse_args()
    unknown = set(given.rooms) - set(ROOMS)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(ROOMS)}")
    if given.peers and not (find_spec("byzfl") and find_spec("pfl")):
        parser.error("--peers needs them installed: pip install 'fflbench[peers]'")
    if given.check:
        committed.read()
    found: list[Ratio] = []
    print(f"load before the first measurement: {os.getloadavg()[0]:.2f}", file=sys.stderr)
    for name in given.rooms or ROOMS:
        found += ROOMS[name].ratios(peers=given.peers)
        if given.write:
            # After every room, so that what is measured is not lost.
            committed.write(found)
    committed.show(found)
    return committed.check(found) if given.check else 0


sys.exit(main())
