"""`python -m tests.fuzz`: run cases, and report every failure with the command that reproduces it."""

# ruff: noqa: T201
import argparse
import os
import signal
import sys
import time
from pathlib import Path

from fflbench.progress import progress_bar
from tests.fuzz import report
from tests.fuzz.campaign import SECONDS, distribute_cases, run_cases
from tests.fuzz.door import CAMPAIGNS, INPUTS, doors
from tests.fuzz.ready import import_everything
from tests.fuzz.worker import Result

ALL = "all"


def main() -> int:
    """Run the command; returns its exit code."""
    options = _options()
    # Whoever ends it leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    campaigns = CAMPAIGNS if options.campaign == ALL or options.door else (options.campaign,)
    known = [door for campaign in campaigns for door in doors(campaign)]
    chosen = [door for door in known if not options.door or door.name in options.door]
    if options.list:
        for door in chosen:
            print(f"{door.name:16} {door.summary}")
        return 0
    if unknown := set(options.door) - {door.name for door in chosen}:
        print(f"there is no door {', '.join(sorted(unknown))} (--list shows them)", file=sys.stderr)
        return 2
    alone = options.case is not None
    if alone and len(chosen) != 1:
        print("--case needs the --door it belongs to", file=sys.stderr)
        return 2
    import_everything()
    tasks = [(chosen[0].name, options.case)] if alone else distribute_cases(chosen, options.cases)
    start = time.monotonic()
    seen: set[str] = set()
    with progress_bar(f"Fuzzing {len(chosen)} doors with {len(tasks)} cases", len(tasks)) as advance:

        def each(result: Result) -> None:
            advance(1)
            if result.failure and not alone and (key := f"{result.door} {result.failure}") not in seen:
                seen.add(key)
                print(report.failure_text(result, options.seed), file=sys.stderr, flush=True)
            if alone:
                print(report.full_log(result))

        tally = run_cases(chosen, tasks, seed=options.seed, workers=options.workers, seconds=options.seconds, each=each)
    if not alone:
        print(report.summary_table(tally, time.monotonic() - start))
    if options.report:
        options.report.write_text(report.failures_as_markdown(tally, options.seed), "utf-8")
    return 1 if tally.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "campaign", nargs="?", choices=(*CAMPAIGNS, ALL), default=INPUTS, help="altered inputs, flipped bits, or both"
    )
    parser.add_argument("--cases", type=int, default=1000, help="how many, over all doors (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other cases")
    parser.add_argument("--door", action="append", default=[], help="only this one; may be given several times")
    parser.add_argument("--case", type=int, help="only the case of this number, with all it prints")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="cases at a time (default: one a core)"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="when a case hangs (default: %(default)s)")
    parser.add_argument("--report", type=Path, help="also write all failures to this Markdown file")
    parser.add_argument("--list", action="store_true", help="show the doors")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
