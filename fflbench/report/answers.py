"""Answers: what a table shows, in a few sentences made from its cells."""

from collections.abc import Iterable, Sequence

from fflbench.report.table_model import RANK, Column, Row, Table, TableCell

MOST_NAMED = 6
"""Rows that a sentence names, at most."""

Place = tuple[Row, TableCell]


def answer_sentences(table: Table) -> list[str]:
    """Return the sentences that a table asks for; none above a sweep, of which no single column stands for all.

    By default, these say who leads in the first column that tests compare, who falls behind, and the range of other
    sections.
    """
    if table.is_sweep:
        return []
    if table.answers == "ranges":
        return [*filter(None, (_range_of_column(table, place) for place in range(len(table.columns))))]
    for place, column in enumerate(table.columns):
        cells = _cells_with_values(table, place)
        if column.name != RANK and any(cell.mark for _, cell in cells):
            ends = [_range_of_column(table, other) for other in _first_columns_of_sections(table, column)]
            return [_leaders(column, cells), *_others(column, cells), *filter(None, ends)]
    return []


def _cells_with_values(table: Table, place: int) -> list[Place]:
    return [(row, row.cells[place]) for row in table.rows if row.cells[place].mean is not None]


def _leaders(column: Column, cells: Sequence[Place]) -> str:
    first = [(row, cell) for row, cell in cells if cell.mark]
    title = _title_in_text(column)
    if first[0][1].mark == "best":
        row, cell = first[0]
        return f"{title}: {row.label} is better than every other, {_value(column, cell)}."
    means = sorted((cell.mean for _, cell in first if cell.mean is not None), reverse=bool(column.higher_is_better))
    values = " to ".join(dict.fromkeys(_with_unit(column, column.format_value(mean)) for mean in (means[0], means[-1])))
    if len(first) == len(cells):
        return f"{title}: no test tells any of the {len(cells)} apart ({values})."
    return f"{title}: {len(first)} of {len(cells)} cannot be told from the best ({values}), {_join(first)}."


def _others(column: Column, cells: Sequence[Place]) -> list[str]:
    """Return the sentence on those that a test distinguishes from the best, the worst of them first."""
    behind = [(row, cell) for row, cell in cells if not cell.mark]
    if not behind:
        return []
    behind.sort(key=lambda place: (place[1].mean or 0.0) * (1 if column.higher_is_better else -1))
    named = "; ".join(f"{row.label} {_value(column, cell)}" for row, cell in behind[:MOST_NAMED])
    rest = f"; and {len(behind) - MOST_NAMED} more" if len(behind) > MOST_NAMED else ""
    return [f"The others, the {'lowest' if column.higher_is_better else 'highest'} first: {named}{rest}."]


def _first_columns_of_sections(table: Table, lead: Column) -> Iterable[int]:
    """Yield the first column with values of every other section of a joined table."""
    seen = {lead.section}
    for place, column in enumerate(table.columns):
        if column.section not in seen and _cells_with_values(table, place):
            seen.add(column.section)
            yield place


def _range_of_column(table: Table, place: int) -> str:
    column = table.columns[place]
    by_value: dict[str, list[Place]] = {}
    for row, cell in sorted(_cells_with_values(table, place), key=lambda each: each[1].mean or 0.0):
        by_value.setdefault(column.format_value(cell.mean or 0.0), []).append((row, cell))
    if len(by_value) < 2:
        return ""
    (low, lowest), *_, (high, highest) = by_value.items()
    low, high = (_with_unit(column, text) for text in (low, high))
    return f"{_title_in_text(column)}: from {low} ({_join(lowest)}) to {high} ({_join(highest)})."


def _join(places: Sequence[Place]) -> str:
    names = [row.label for row, _ in places]
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _title_in_text(column: Column) -> str:
    title = column.title.removesuffix(" %")
    return f"{title[:1].upper()}{title[1:]}"


def _value(column: Column, cell: TableCell) -> str:
    text = _with_unit(column, column.format_value(cell.mean or 0.0))
    return f"{text} ({cell.note})" if cell.note else text


def _with_unit(column: Column, text: str) -> str:
    return f"{text}%" if column.title.endswith(" %") else text
