"""Tables as Markdown, CSV, LaTeX and JSON. The same tables give the same bytes."""

from collections.abc import Sequence

from fflbench.report.answers import answer_sentences
from fflbench.report.table_model import OTHER_PROCESSOR, Board, Table
from fflbench.safe_texts import csv_text, to_printable_line


def to_markdown(table: Table) -> str:
    """Return a table as GitHub Markdown: best in bold, ties with an equals sign."""
    heads = [*table.keys, *(column.title for column in table.columns)]
    lines = [f"### {escape_markdown(table.title)}", ""]
    if answers := answer_sentences(table):
        lines += [escape_markdown(" ".join(answers)), ""]
    lines.append(f"| {' | '.join(map(escape_markdown, heads))} |")
    lines.append("|" + "---|" * len(table.keys) + "---:|" * len(table.columns))
    for row in table.rows:
        cells = [
            cell.apply_mark(escape_markdown(table.cell_text(column, cell)), "**{}**")
            for column, cell in zip(table.columns, row.cells, strict=True)
        ]
        lines.append(f"| {' | '.join([*map(escape_markdown, table.keys_with_flag_numbers(row)), *cells])} |")
    lines += ["", *(line for note in table.footnotes for line in (escape_markdown(note), ""))]
    return "\n".join(lines)


def to_csv(tables: Sequence[Table]) -> str:
    """Return one line per cell of all tables."""
    rows: list[list[object]] = [
        ["table", "row", "defense", "column", "mean", "low_95", "high_95", "seeds", "text", "mark", "note", "flags"]
    ]
    for table in tables:
        for row in table.rows:
            start, end = [table.name, row.label, row.defense], ["; ".join(row.flags)]
            for column, cell in zip(table.columns, row.cells, strict=True):
                elsewhere = f"{OTHER_PROCESSOR}: {cell.other_processor}" if cell.other_processor else ""
                note = "; ".join(filter(None, (cell.note, elsewhere)))
                figures = [cell.mean, cell.low, cell.high, cell.seeds, cell.text, cell.mark, note]
                rows.append([*start, column.name, *figures, *end])
    return csv_text(rows)


def to_latex(table: Table) -> str:
    """Return a table as LaTeX; it needs the package booktabs."""
    heads = [key.capitalize() for key in table.keys] + [column.title for column in table.columns]
    lines = [
        f"% {_escape_latex(table.title)}; needs \\usepackage{{booktabs}}",
        f"\\begin{{tabular}}{{{'l' * len(table.keys)}{'r' * len(table.columns)}}}",
        "\\toprule",
        " & ".join(map(_escape_latex, heads)) + " \\\\",
        "\\midrule",
    ]
    for row in table.rows:
        cells = [
            cell.apply_mark(_escape_latex(table.cell_text(column, cell)), "\\textbf{{{}}}")
            for column, cell in zip(table.columns, row.cells, strict=True)
        ]
        # Braces, since a bracket after a line's end would be taken for its option.
        keys = [f"{{{_escape_latex(key)}}}" for key in row.keys]
        if places := table.flag_numbers(row):
            keys[-1] += f"$^{{{','.join(map(str, places))}}}$"
        lines.append(f"{' & '.join([*keys, *cells])} \\\\")
    lines += ["\\bottomrule", "\\end{tabular}"]
    return "\n".join([*lines, *(f"\\par {_escape_latex(note)}" for note in table.footnotes), ""])


def to_json(board: Board) -> str:
    """Return the board as JSON, after checking that it can be read back."""
    text = board.model_dump_json(indent=1)
    Board.model_validate_json(text)
    return text + "\n"


def escape_markdown(text: str) -> str:
    """Return text from plugins and suites escaped, so that Markdown shows it literally."""
    for character in "\\`*_{}[]<>()#+!|~&$":
        text = text.replace(character, f"\\{character}")
    return to_printable_line(text)


LATEX = {
    "\\": "\\textbackslash{}",
    "&": "\\&",
    "%": "\\%",
    "$": "\\$",
    "#": "\\#",
    "_": "\\_",
    "{": "\\{",
    "}": "\\}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "±": "$\\pm$",
    "<": "$<$",
    ">": "$>$",
    "⚑": "",
    "†": "$^\\dagger$",
}


def _escape_latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in to_printable_line(text))
