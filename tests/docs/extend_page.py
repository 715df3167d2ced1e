"""Generate the parts of docs/extend.md that stand in the code: its examples, and the tables of words."""

import re
from pathlib import Path

from fflbench.new_plugin import read_template
from fflbench.registration import FILLED_IN, KNOWLEDGE

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"
EXAMPLE = re.compile(r"<!-- example: ([a-z-]+) -->\n(?:```python\n.*?```\n)?", re.DOTALL)
TABLE = re.compile(r"<!-- table: ([a-z]+) -->\n(?:\|.*\n)*")

GIVES = {
    "own data": "`known.updates`, the examples of `poison_data` and `train`, and `known.loss`",
    "attackers' updates": "all attackers' rows in one call of `poison_updates`",
    "honest updates": "`known.honest`",
    "defense": "`known.simulate`",
    "server view": "what the observation of a privacy measure yields",
    "a participant's view": "an observation's `coalition.participants`, one of them",
    "who exchanged with whom": "the pairs of `fragment-exchange`",
    "auxiliary data": "`observer.auxiliary_examples`, `observer.simulate_rounds`",
    "victims' labels": "`observed.y`",
    "controlled participants": "`observer.controlled_examples`, `observer.simulate_rounds`",
}
"""Access that an attack has by declaring knowledge."""


def up_to_date(page: str) -> str:
    """Return the page with examples and tables of the code."""
    tables = {
        "arguments": [("argument", "value"), *((f"`{name}`", meaning) for name, meaning in FILLED_IN.items())],
        "knowledge": [
            ("`knows`", "meaning", "gives"),
            *((f'"{word}"', meaning, GIVES[word]) for word, meaning in KNOWLEDGE.items()),
        ],
    }
    page = EXAMPLE.sub(lambda found: f"<!-- example: {found[1]} -->\n```python\n{read_template(found[1])}```\n", page)
    return TABLE.sub(lambda found: f"<!-- table: {found[1]} -->\n{_table(tables[found[1]])}", page)


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *rest = [f"| {' | '.join(row)} |\n" for row in rows]
    return "".join([head, "|" + "---|" * len(rows[0]) + "\n", *rest])
