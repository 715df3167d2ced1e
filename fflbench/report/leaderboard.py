"""`fflbench leaderboard`: from records alone to tables, figures and a page that GitHub shows; nothing runs."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from fflbench.errors import RecordError
from fflbench.records.evidence import RECORDS, SUMS, Evidence, accept, gather, moved, own_files
from fflbench.records.folder import alone, holds, refuse_links, refuse_strange, replace_files
from fflbench.records.names import slug
from fflbench.records.reading import read_bytes, read_json
from fflbench.records.store import write_whole
from fflbench.report import boards, figures, page, panels
from fflbench.report.commands import Commands, commands
from fflbench.report.panels import Board
from fflbench.report.plots import plain_text
from fflbench.report.render import escape

TABLES, FIGURES, PAGE, WEB, DATA = "tables", "figures", "README.md", "index.html", "leaderboard.json"
OURS = {
    TABLES: (".csv", ".tex", ".json"),
    FIGURES: (".csv", ".png", ".svg"),
    RECORDS: (".json", ".npz"),
}
"""Endings of a leaderboard's own files; others are somebody else's."""
BOARDS = Path("leaderboards")
LARGEST = 2**26
"""Bytes that are read of another leaderboard's tables, or of an index page."""
HEADING = "# Leaderboards\n"


def generate(
    folder: Path, out: Path | None, knows: Sequence[str] = (), add: Path | None = None
) -> tuple[Path, Evidence]:
    """Write a leaderboard: all of it, or nothing. Returns where it is, and what could not be used.

    `knows` leaves out attackers who know more; `add` is an entry from outside that is taken into it.
    """
    if add and not (folder / RECORDS).is_dir():
        raise RecordError(f"{folder} is no leaderboard: make one first (fflbench leaderboard {folder})")
    found = gather(folder)
    own = out is None and not (folder / RECORDS).is_dir()
    target = out or (BOARDS / slug(found.suite) if own else folder)
    place = Path(os.path.abspath(target))  # noqa: PTH100 (resolving would follow symbolic links)
    refuse_links(place, *([BOARDS] if own and BOARDS.is_symlink() else []))
    files: dict[str, bytes] = {}
    if place.resolve() != folder.resolve():
        if add:
            raise RecordError(f"--add takes an entry into {folder} itself: leave out --out")
        if place.exists() and (not place.is_dir() or (any(place.iterdir()) and not is_board(place))):
            raise RecordError(f"{target} is there and is no leaderboard: choose another --out")
        found, files = moved(found, place), own_files(found)
    if add:
        found, files = accept(add, found)
    records = boards.within(found.records, knows) if knows else found.records
    board = boards.board(found.suite, records, found.reported)
    if knows:
        told = f"Attackers who must know more than this are left out: {', '.join(knows)}."
        board = board.model_copy(update={"flags": (told, *board.flags)})
    with plain_text():
        drawn = figures.figures(records, board, found.arrays)
    how = commands(found.suite, found.records, found.reported)
    web = page.render(board, records, drawn, how).encode()
    files = {**content(board, drawn, how), WEB: web, **files}
    rooms = [TABLES, FIGURES, *(name.removesuffix(f"/{SUMS}") for name in files if name.endswith(f"/{SUMS}"))]
    refuse_strange(place.parent, (PAGE, WEB) if _is_ours(place.parent) else ())
    try:
        replace_files(place, files, _left_over(place, rooms))
    except OSError as error:
        raise RecordError(
            f"the leaderboard cannot be written to {target}: {error.strerror or error}; nothing of it was changed: "
            "mend that or choose another --out, and run the command again"
        ) from error
    try:
        _list(place, board)
    except OSError as error:
        told = f"the pages that list all leaderboards cannot be written to {place.parent}: {error.strerror or error}"
        found.problems.append(f"{told}; the leaderboard itself is")
    return target, found


def is_board(folder: Path) -> bool:
    """Whether a folder is a leaderboard, whose tables and figures may be made anew."""
    return (folder / TABLES / DATA).is_file()


def content(board: Board, drawn: Mapping[str, bytes], how: Commands) -> dict[str, bytes]:
    """Every file of a leaderboard but its records, by name."""
    # By this file a folder is known as a leaderboard, so it comes first.
    made = {f"{TABLES}/{DATA}": panels.to_json(board).encode(), PAGE: _page(board, drawn, how).encode()}
    for panel in board.panels:
        made[f"{TABLES}/{panel.name}.csv"] = panels.to_csv(panel).encode()
        made[f"{TABLES}/{panel.name}.tex"] = panels.to_latex(panel).encode()
    return made | {f"{FIGURES}/{name}": file for name, file in drawn.items()}


def _page(board: Board, drawn: Mapping[str, bytes], how: Commands) -> str:
    lines = [f"# {escape(board.title)}", "", escape(board.description), ""]
    lines += [
        f"Made by `{how.run}` and `{how.make}` from the records in `{RECORDS}/`; `{how.make_again}` makes it again, "
        f"and `{how.verify}` runs some of its cells again and compares.",
        "",
        "Mean over seeds ± half of the 95% interval (Student's t). Bold: better than every other in its column by "
        "paired t tests, Holm-corrected; an equals sign marks those that no test tells from the best.",
        "",
    ]
    if board.flags:
        lines += ["Mind:", *(f"- {escape(flag)}" for flag in board.flags), ""]
    for section, title in page.SECTIONS.items():
        of_section = [panel for panel in board.panels if panel.section == section]
        if of_section:
            lines += [f"## {title}", ""]
            lines += [line for panel in of_section for line in (panels.to_markdown(panel), "")]
            lines += [
                f"![{name}]({FIGURES}/{name})\n"
                for name in drawn
                if figures.section(name) == section and page.is_shown(name)
            ]
    lines += ["## What the columns mean", ""]
    meanings = {column.title: column.meaning for panel in board.panels for column in panel.columns}
    lines += [f"- **{escape(title)}**: {escape(meaning)}" for title, meaning in meanings.items()]
    return "\n".join(lines) + "\n"


def _left_over(board: Path, rooms: Iterable[str]) -> Iterator[str]:
    """Files of ours in a leaderboard's rooms, some of which may no longer be made."""
    for room in rooms:
        for file in sorted((board / room).glob("*")):
            if file.suffix in OURS[Path(room).name] and file.is_file():
                yield f"{room}/{file.name}"


def _list(place: Path, board: Board) -> None:
    """Write the pages that list all leaderboards of a folder, unless they are somebody else's."""
    with alone(place.parent, wait=True):
        # One after the other, so that of leaderboards made at the same time the last lists all.
        for name, made in (_index(place, board) if _is_ours(place.parent) else {}).items():
            if not holds(place.parent / name, made):
                write_whole(place.parent / name, made)


def _index(place: Path, board: Board) -> dict[str, bytes]:
    """The pages that list all leaderboards of a folder, this one included."""
    root = place.parent
    found = {place.name: board}
    for file in root.glob(f"*/{TABLES}/{DATA}"):
        with suppress(RecordError, ValidationError):
            found.setdefault(file.parent.parent.name, Board.model_validate(read_json(file, LARGEST)))
    lines = [HEADING, "Each is made from the records beside it, and can be made and checked again.", ""]
    listed = [(quote(name), found[name]) for name in sorted(found)]
    lines += [f"- [{escape(of.title)}]({name}/{PAGE}): {escape(of.description)}" for name, of in listed]
    return {PAGE: ("\n".join(lines) + "\n").encode(), WEB: page.index(listed).encode()}


def _is_ours(root: Path) -> bool:
    """Whether the page of a folder lists leaderboards, or is yet to be made."""
    try:
        return not os.path.lexists(root / PAGE) or read_bytes(root / PAGE, LARGEST).startswith(HEADING.encode())
    except RecordError:
        return False
