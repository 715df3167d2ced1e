"""Failures and counts for whoever reads them."""

from tests.fuzz.campaign import Tally
from tests.fuzz.worker import Result

CODES = ("0", "1", "2", "130")


def reproduce_command(result: Result, seed: int) -> str:
    """The command that runs a case alone."""
    return f"python -m tests.fuzz --door {result.door} --seed {seed} --case {result.number}"


def failure_text(result: Result, seed: int) -> str:
    """A failure with its command and the end of its output."""
    assert result.failure
    lines = [f"{result.door}: {result.failure}", f"  {reproduce_command(result, seed)}"]
    lines += [f"  | {line}" for line in result.failure.short.splitlines()]
    return "\n".join(lines)


def full_log(result: Result) -> str:
    """A case with all that it ran and printed."""
    lines = [*result.log, f"{result.door} {result.number}: {result.outcome}, {result.seconds:.2f} s"]
    if result.failure:
        lines += [str(result.failure), result.failure.detail]
    return "\n".join(lines)


def summary_table(tally: Tally, seconds: float) -> str:
    """Counts by door, then failures that are alike."""
    heads = ("door", "cases", *(f"exit {code}" for code in CODES), "failures", "a core-second", "slowest, s")
    rows = [heads]
    for name, counts in sorted(tally.outcomes.items()):
        cases, spent = counts.total(), tally.work[name]
        codes = [str(counts[code]) for code in CODES]
        pace = f"{cases / spent:.1f}" if spent else ""
        rows.append((name, str(cases), *codes, str(counts["failed"]), pace, f"{tally.slowest[name].seconds:.1f}"))
    total = sum(counts.total() for counts in tally.outcomes.values())
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    work = sum(tally.work.values())
    lines.append(f"{total} cases in {seconds:.0f} s ({work:.0f} core-seconds), {len(tally.failed)} failures")
    lines += [f"{len(group):6}  {group[0].door}: {group[0].failure}" for group in tally.groups()]
    return "\n".join(lines)


def failures_as_markdown(tally: Tally, seed: int) -> str:
    """All failures that differ, with how often each was found."""
    lines = [f"# Failures, seed {seed}", ""]
    for group in tally.groups():
        first = group[0]
        assert first.failure
        lines += [f"## {len(group)} x {first.door}: {first.failure}", "", f"`{reproduce_command(first, seed)}`", ""]
        lines += ["```", *first.log[-2:-1], first.failure.short, "```", ""]
    return "\n".join(lines)
