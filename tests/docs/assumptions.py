"""Robustness by assumptions: what attackers know, and what the server of a defense is given."""

import functools

from fflbench import registry
from fflbench.math_as_text import math_as_text
from fflbench.measures.robustness_tables import joined_columns
from fflbench.records.cell_configuration import defense_parts
from fflbench.registration import KNOWLEDGE
from fflbench.registry import Kind
from fflbench.report.attacker_knowledge import filter_by_attacker_knowledge
from fflbench.report.record_groups import NO_ATTACK, group_records, needs_root_examples, unlabelled_parameters
from fflbench.report.table_formats import escape_markdown
from tests.docs.record_figures import Shown, records

KNOWN = {
    "attackers know their own data": ("own data",),
    "and all updates": ("own data", "attackers' updates", "honest updates"),
    "and simulate the defense": ("own data", "attackers' updates", "honest updates", "defense"),
}
"""Knowledge of attackers, by headings of columns; each has that of the one before it."""
NOTHING, F, ROOT, TUNED, EXCHANGE = GIVEN = (
    "nothing",
    "the number of attackers, f",
    "examples of its own",
    "a parameter tuned beforehand",
    "mixed updates only, by exchange between participants",
)
"""Assumptions: information that a server is given, or that it is left with, besides single updates."""
HOLDS_WITHIN = 0.10
"""Accuracy that a defense may lose against FedAvg without attack where tables say that it holds."""


def attacks_table(board):
    """Return the attacks of a leaderboard's robustness cells, with what they do and what they must know."""
    lines = ["| attack | what attackers do | what they must know |", "|---|---|---|"]
    for name in _attack_names(board):
        entry = registry.get(Kind.ATTACK, name)
        needed = "; ".join(KNOWLEDGE[piece] for piece in entry.knows) or "nothing"
        lines.append(f"| `{name}` | {escape_markdown(math_as_text(entry.summary))} | {escape_markdown(needed)} |")
    return Shown("\n".join(lines))


def accuracy_by_knowledge(board):
    """Return the worst mean accuracy of every defense over untargeted attacks, by what attackers know."""
    lines = [
        _row("the server is given", "defense", *(f"{title} %" for title in KNOWN)),
        _row("---", "---", *["---:"] * 3),
    ]
    columns = worst_columns(board)
    for given, defenses in _defenses_by_assumption(board).items():
        for defense in defenses:
            cells = [_in_bold_if_it_holds(board, filled, defense) for filled in columns]
            lines.append(_row(given, escape_markdown(defense), *cells))
    return Shown("\n".join(lines))


def holding_table(board):
    """Return which defenses hold, with their worst mean accuracy, by what the server is given and attackers know."""
    lines = [_row("the server is given", *KNOWN), _row(*["---"] * 4)]
    columns = worst_columns(board)
    for given, defenses in _defenses_by_assumption(board).items():
        lines.append(_row(given, *(_holding(board, filled, defenses) for filled in columns)))
    return Shown("\n".join(lines))


def _holding(board, filled, defenses):
    """Return those of several defenses that hold, the best first; if none does, the best of them."""
    complete = [name for name in defenses if filled.cells[name].mean is not None]
    ordered = sorted(complete, key=lambda name: -filled.cells[name].mean)
    texts = {name: f"{escape_markdown(name)} {filled.column.format_value(filled.cells[name].mean)}" for name in ordered}
    if holding := [texts[name] for name in ordered if _holds(board, filled.cells[name])]:
        return ", ".join(holding)
    of = f"none of {len(defenses)}; best: " if len(defenses) > 1 else "no: "
    return f"{of}{texts[ordered[0]]}" if ordered else "incomplete"


def _in_bold_if_it_holds(board, filled, defense):
    cell = filled.cells[defense]
    text = escape_markdown(cell.display_text(filled.column))
    return f"**{text}**" if _holds(board, cell) else text


def _holds(board, cell):
    clean = records(board)(measure="robustness", attack=NO_ATTACK, defense="fedavg").value("accuracy")
    return cell.mean is not None and cell.mean >= clean - HOLDS_WITHIN


def robustness_records(board):
    """Return the records of robustness of a leaderboard."""
    return records(board)(measure="robustness").records


def row_records(board):
    """Return the records of robustness behind a leaderboard's rows: without those of rows with another f."""
    (group,) = group_records(robustness_records(board))
    return group.records


def attack_count(board):
    """Return the number of attacks of a leaderboard's robustness cells."""
    return Shown(len(_attack_names(board)))


def defense_count(board):
    """Return the number of defenses of a leaderboard's robustness cells."""
    return Shown(len({record.labels["defense"] for record in row_records(board)}))


def holds_within():
    """Return the points of accuracy that a defense may lose where tables say that it holds."""
    return Shown(f"{100 * HOLDS_WITHIN:.0f}")


def _attack_names(board):
    """Return the attacks of a leaderboard, those that need least knowledge first."""
    names = {record.configuration["attack"]["name"] for record in robustness_records(board)} - {NO_ATTACK}
    return sorted(names, key=lambda name: (len(registry.get(Kind.ATTACK, name).knows), name))


@functools.cache
def worst_columns(board):
    """Return the column of worst cases for each knowledge of attackers."""
    found = []
    for allowed in KNOWN.values():
        columns = joined_columns(filter_by_attacker_knowledge(robustness_records(board), allowed))
        found.append(next(filled for filled in columns if filled.column.name == "worst_accuracy"))
    return found


def _defenses_by_assumption(board):
    """Return the defenses of a leaderboard by what their servers are given."""
    by_assumption = {given: [] for given in GIVEN}
    for label, record in {record.labels["defense"]: record for record in row_records(board)}.items():
        by_assumption[_given_to_the_server(record)].append(label)
    return {given: sorted(labels) for given, labels in by_assumption.items() if labels}


def _given_to_the_server(record):
    if record.configuration["defense"]["transport"]["name"] != "plain":
        return EXCHANGE
    if needs_root_examples(record):
        return ROOT
    if any(part.parameters.get("f") is not None for part in defense_parts(record.configuration["defense"])):
        return F
    return TUNED if unlabelled_parameters(record) else NOTHING


def _row(*cells):
    return f"| {' | '.join(cells)} |"
