"""Tables on a terminal of any width: too many columns continue in further blocks, and no word is broken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from fflbench.report.answers import answer_sentences
from fflbench.report.table_model import Table

SPACE = 3
"""Letters between two columns; one less than at both edges together."""


def print_tables(tables: Sequence[Table], console: Console) -> None:
    """Print tables; names are printed literally, without markup."""
    for table in tables:
        console.print(Text(table.title, style="bold"))
        if answers := answer_sentences(table):
            console.print(Text(" ".join(answers)))
        for block in _split_into_blocks(table, console.width):
            console.print(_draw_block(block, console.width))
        for note in table.footnotes:
            console.print(Text(note, style="dim"))
        if table.footnotes:
            console.print()


@dataclass(frozen=True)
class _TerminalColumn:
    heading: Text
    cells: list[Text]
    justify: JustifyMethod
    most: int
    """Width beyond which cells are wrapped where not all columns fit side by side."""

    @property
    def full_width(self) -> int:
        """Width in which nothing is wrapped."""
        return max(text.cell_len for text in (self.heading, *self.cells))

    @property
    def word_width(self) -> int:
        """Width of its longest word."""
        return max((cell_len(word) for text in (self.heading, *self.cells) for word in text.plain.split()), default=1)

    @property
    def readable_width(self) -> int:
        """Width in which headings may be wrapped, and only very long cells."""
        longest = max((text.cell_len for text in self.cells), default=1)
        return max(self.word_width, min(longest, self.most))


def _split_into_blocks(table: Table, width: int) -> Iterator[list[_TerminalColumn]]:
    """Yield columns that fit side by side, each time after those that name the rows."""
    names = zip(*(table.keys_with_flag_numbers(row) for row in table.rows), strict=True)
    keys = [
        _TerminalColumn(Text(key), [*map(Text, texts)], "left", width // 3)
        for key, texts in zip(table.keys, names if table.rows else [()] * len(table.keys), strict=True)
    ]
    block = keys
    for place, column in enumerate(table.columns):
        cells = [
            Text(cell.apply_mark(table.cell_text(column, cell), "{}"), style="bold" if cell.mark == "best" else "")
            for cell in (row.cells[place] for row in table.rows)
        ]
        added = [*block, _TerminalColumn(Text(column.title), cells, "right", width // 2)]
        if len(block) > len(keys) and sum(each.readable_width for each in added) > _room(len(added), width):
            yield block
            added = [*keys, added[-1]]
        block = added
    yield block


def _draw_block(block: Sequence[_TerminalColumn], width: int) -> RichTable:
    widths, room = [column.full_width for column in block], _room(len(block), width)
    for least in ([column.readable_width for column in block], [column.word_width for column in block]):
        widths = _shrink_widest(widths, least, room)
    drawn = RichTable(box=box.SIMPLE_HEAD)
    for column, own in zip(block, widths, strict=True):
        drawn.add_column(column.heading, justify=column.justify, overflow="fold", width=own)
    for row in zip(*(column.cells for column in block), strict=True):
        drawn.add_row(*row)
    return drawn


def _room(columns: int, width: int) -> int:
    """Return the letters that a terminal has for the content of columns."""
    return width - SPACE * columns - 1


def _shrink_widest(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return widths that fit into the room, made from the widest ones, none below its least."""
    made = list(widths)
    while sum(made) > room and (wider := [place for place, own in enumerate(made) if own > least[place]]):
        made[max(wider, key=made.__getitem__)] -= 1
    return made
