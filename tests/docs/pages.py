"""Pages whose numbers come from records: `docs/_pages/*.md` are the Jinja templates of `docs/*.md` and of README.md."""

import functools
import re
import textwrap

import jinja2

from fflbench import registry
from fflbench.records.collection import read_collection
from fflbench.report.all_tables import build_board
from fflbench.report.answers import answer_sentences
from fflbench.report.table_formats import escape_markdown, to_markdown
from tests.docs import assumptions, extremes, record_figures
from tests.docs.claims import BOARDS, ROOT, as_markdown
from tests.docs.gpu_durations import gpu_durations
from tests.docs.record_figures import Shown

DOCS = ROOT / "docs"
TEMPLATES = DOCS / "_pages"
PAGES = sorted(template.name for template in TEMPLATES.glob("*.md"))
README = "README.md"
"""Template whose page is at the root of the checkout, with links that start there."""
START, END = "\ue000", "\ue001"
"""Characters around texts that expressions wrote, while a page is made."""
WRITTEN = re.compile(f"{START}[^{END}]*{END}")
NOT_PROSE = re.compile(
    r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)|^#+ [^\n]*$|^\d+\. |<[^>\n]*>|\bRFC \d+", re.DOTALL | re.MULTILINE
)
"""Code, targets of links, headings, numbers of list items, tags and names of standards."""
NUMBER = re.compile(r"(?<![\w.^-])[-+]?\d[\d,.]*(?![\w-])")
"""Numbers, but not those in names such as VGG16, SHA-256 or CIFAR-10."""

FUNCTIONS = {
    record_figures: (
        "records",
        "core_hours",
        "cell_count",
        "planned_count",
        "is_complete",
        "number",
        "percent",
        "given",
        "paper",
        "claim_count",
        "verdict_count",
    ),
    assumptions: (
        "attacks_table",
        "attack_count",
        "defense_count",
        "holds_within",
        "holding_table",
        "accuracy_by_knowledge",
    ),
    extremes: ("lowest", "highest", "largest_gap", "unchanged_count", "worst_attacks", "weak_attacks"),
}
"""Functions that templates may call, by module."""

WIDTH = 130
"""Characters per line of a page."""


class UnsupportedNumberError(Exception):
    """A page shows a number without anything behind it."""


def page_file(name):
    """Return the file that a template is rendered to."""
    return (ROOT if name == README else DOCS) / name


def render(name):
    """Return a page, with the figures that the leaderboards' records have now."""
    text = _environment().from_string((TEMPLATES / name).read_text("utf-8")).render()
    if found := NUMBER.findall(NOT_PROSE.sub(" ", WRITTEN.sub(" ", text))):
        raise UnsupportedNumberError(f"docs/_pages/{name} has numbers without records: {', '.join(found)}")
    folder = "docs/_pages" if name == README else "_pages"
    source = f"\n<!-- Written by python -m tests.docs from {folder}/{name}: edit that one. -->\n"
    return _wrapped(text.replace(START, "").replace(END, "")) + source


def _wrapped(text):
    """Return a page with paragraphs and list items wrapped again, since expressions are longer than what they write."""
    blocks = re.split(r"(^```.*?^```\n|^[|#!<][^\n]*\n|^\n)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(_wrapped_block(block) if place % 2 == 0 else block for place, block in enumerate(blocks))


def _wrapped_block(block):
    items = [
        re.sub(r"\s*\n\s*", " ", item.strip()) for item in re.split(r"^(?=(?:-|\d+\.) )", block, flags=re.MULTILINE)
    ]
    return "".join(f"{_wrapped_item(item)}\n" for item in items if item)


def _wrapped_item(item):
    indent = " " * len(re.match(r"(?:(?:-|\d+\.) )?", item)[0])
    whole_code = re.sub("`[^`]*`", lambda code: code[0].replace(" ", START), item)
    lines = textwrap.fill(whole_code, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return lines.replace(START, " ")


def pictures(page):
    """Return the pictures that a page shows, with the files of leaderboards that they are copies of."""
    found = re.findall(r"\]\((pictures/([\w-]+)/([\w.-]+))\)", page)
    return {DOCS / path: BOARDS / board / "figures" / file for path, board, file in found}


def write_pages():
    """Write all pages and their pictures."""
    for name in PAGES:
        page = render(name)
        page_file(name).write_text(page, "utf-8")
        for copy, original in pictures(page).items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(original.read_bytes())


def _environment():
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        finalize=_marked,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.globals = {name: getattr(module, name) for module, names in FUNCTIONS.items() for name in names} | {
        "claims": lambda: Shown(as_markdown()),
        "gpu_durations": gpu_durations,
        "table": table,
        "sentences": sentences,
        "row_count": row_count,
    }
    # For blocks: Jinja does not pass their output to finalize.
    environment.filters["given"] = lambda text: _marked(record_figures.given(text))
    return environment


def _marked(value):
    if not isinstance(value, Shown):
        raise UnsupportedNumberError(f"{value!r} is not a text made from records: use mean, interval, number or given")
    return f"{START}{value}{END}"


@functools.cache
def _tables(board):
    collection = read_collection(BOARDS / board)
    return {table.name: table for table in build_board(collection.suite, collection.displayed_records).tables}


def table(board, name, columns=None, rows=None, *, top=None, intervals=True, notes=True, flags=True):
    """Return a table of a leaderboard without its title and sentences: all of it, or a part; with its notes.

    The part has the named columns, and the first rows, `top` of them, and the named ones; its cells may lack intervals,
    its rows their flags.
    """
    whole = _table(board, name)
    places = [place for place, each in enumerate(whole.columns) if columns is None or each.name in columns]
    left_out = {} if intervals else {"low": None, "high": None}
    part = whole.model_copy(
        update={
            "columns": tuple(whole.columns[place] for place in places),
            "rows": tuple(
                row.model_copy(
                    update={
                        "cells": tuple(row.cells[place].model_copy(update=left_out) for place in places),
                        "flags": row.flags if flags else (),
                    }
                )
                for number, row in enumerate(whole.rows)
                if top is rows is None or number < (top or 0) or row.label in (rows or ())
            ),
            "notes": whole.notes if notes else (),
        }
    )
    lines = to_markdown(part).split("\n")
    first = next(place for place, line in enumerate(lines) if line.startswith("|"))
    return Shown("\n".join(lines[first:]).strip())


def sentences(board, name):
    """Return the sentences that a leaderboard has above a table; none without tests, which need two seeds."""
    return Shown(escape_markdown(" ".join(answer_sentences(_table(board, name)))))


def row_count(board, name):
    """Return the number of rows of a table."""
    return Shown(len(_table(board, name).rows))


def _table(board, name):
    registry.load_installed()
    return _tables(board)[name]
