"""Generate the tables of docs/chains.md that say which parts of a chain go together."""

from pathlib import Path

from fflbench import registry
from fflbench.federation.chain import Parts, incompatibility
from fflbench.registry import Kind

PAGE = Path(__file__).parents[2] / "docs" / "chains.md"
COMMAND = "python -m tests.docs"
BEGIN, END = f"<!-- made by {COMMAND} -->", "<!-- end -->"

ROWS = {
    "participant": "every update, under its sender's name",
    "mixture": "mixtures of updates, each under the name of who submits it",
    "group": "updates of groups",
    "anonymous": "updates without names",
    "sum": "the sum of all updates",
}
"""Description of the server's view, by the kind of rows that a transport declares."""


def tables() -> str:
    """Return the tables of built-in parts, and the reasons of what does not go together."""
    transports, preaggregations, rules = (
        [entry for entry in registry.entries(kind) if not entry.source]
        for kind in (Kind.TRANSPORT, Kind.PREAGGREGATION, Kind.RULE)
    )
    (plain,) = (entry for entry in transports if entry.name == "plain")
    (mean,) = (entry for entry in rules if entry.name == "fedavg")
    reasons: list[str] = []

    def mark(parts: Parts) -> str:
        # Its first word is the part that cannot work, which the table shows.
        _, _, reason = incompatibility(parts).partition(" ")
        if not reason:
            return "yes"
        if reason not in reasons:
            reasons.append(reason)
        return f"no ({reasons.index(reason) + 1})"

    lines = [_row("transport", "the server sees", "pre-aggregations"), _row(*["---"] * 3)]
    for transport in transports:
        before = {mark(Parts(transport, (each,), mean)) for each in preaggregations}
        lines.append(_row(f"`{transport.name}`", ROWS[transport.target.rows], " ".join(sorted(before))))
    parts = [*transports, *preaggregations]
    lines += ["", _row("rule", *(f"`{part.name}`" for part in parts)), _row(*["---"] * (len(parts) + 1))]
    for rule in rules:
        behind = [mark(Parts(transport, (), rule)) for transport in transports]
        after = [mark(Parts(plain, (each,), rule)) for each in preaggregations]
        lines.append(_row(f"`{rule.name}`", *behind, *after))
    lines += ["", *(f"{number}. It {reason}." for number, reason in enumerate(reasons, start=1))]
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def up_to_date(page: str) -> str:
    """Return a page with newly made tables."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"
