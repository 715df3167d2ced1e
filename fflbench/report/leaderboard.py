"""`fflbench leaderboard`: tables, figures and pages from records alone; nothing runs."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from fflbench.errors import RecordError
from fflbench.progress import track
from fflbench.reading import read_bytes, read_json
from fflbench.records import packed
from fflbench.records.evidence import Evidence, accept, gather, moved, own_files
from fflbench.records.folder import alone, holds, refuse_links, refuse_strange, replace_files
from fflbench.records.store import write_whole
from fflbench.report import page
from fflbench.report.board import board as board_of
from fflbench.report.board import within
from fflbench.report.commands import Commands, commands
from fflbench.report.figures import figures
from fflbench.report.formats import escape, to_csv, to_json, to_latex, to_markdown
from fflbench.report.picture import DRAWN_BY, Picture, drawn_by
from fflbench.report.table import Board
from fflbench.texts import slug

TABLES, FIGURES, PAGE, WEB, DATA = "tables", "figures", "README.md", "index.html", "leaderboard.json"
OURS = {TABLES: (".csv", ".tex", ".json"), FIGURES: (".csv", ".png", ".svg"), packed.ARRAYS: (".npz",)}
"""Suffixes of a leaderboard's own files; others are left alone."""
BOARDS = Path("leaderboards")
LARGEST = 2**26
"""Largest number of bytes read of another leaderboard's tables, or of an index page."""
HEADING = "# Leaderboards\n"
PICTURES = re.compile(rb"data:image/[^\"]*")
"""Images in a page."""


@dataclass(frozen=True)
class _Made:
    """A leaderboard before it is written."""

    target: Path
    """Folder as the user named it."""
    place: Path
    evidence: Evidence
    board: Board
    files: dict[str, bytes]
    gone: list[str]
    """Files of an earlier version that are no longer made."""


@dataclass
class Again:
    """Result of creating leaderboards again from their records, or of comparing them with their records."""

    count: int = 0
    """Number of leaderboards that could be made."""
    problems: list[str] = field(default_factory=list)
    """Records that could not be used, and leaderboards that could not be made."""
    differ: list[Path] = field(default_factory=list)
    """Files that differ from what their records give."""
    drawn_elsewhere: list[Path] = field(default_factory=list)
    """Figures drawn by other versions of libraries, and pages that differ only in such figures."""

    @property
    def lines(self) -> list[str]:
        """Report for the user."""
        lines = [f"{file} was drawn with other libraries than {drawn_by()}" for file in self.drawn_elsewhere]
        lines += [f"{file} is not what its records give" for file in self.differ]
        what = "leaderboard" if self.count == 1 else "leaderboards"
        differ = f"; {len(self.differ)} files differ" if self.differ else ""
        lines.append(f"{self.count} {what} made from records{differ}")
        return [*self.problems, *lines]


def generate(
    folder: Path, out: Path | None, knows: Sequence[str] = (), add: Path | None = None
) -> tuple[Path, Evidence]:
    """Write a leaderboard, all of it or nothing; return its folder, and its records with any problems.

    `knows` leaves out attackers who need more knowledge; `add` is an outside entry to include.
    """
    made = _make(folder, out, knows, add)
    try:
        replace_files(made.place, made.files, made.gone)
    except OSError as error:
        raise RecordError(
            f"the leaderboard cannot be written to {made.target}: {error.strerror or error}; nothing of it was "
            "changed: mend that or choose another --out, and run the command again"
        ) from error
    root = made.place.parent
    try:
        _list(root, {made.place.name: made.board})
    except OSError as error:
        problem = f"the pages that list all leaderboards cannot be written to {root}: {error.strerror or error}"
        made.evidence.problems.append(f"{problem}; the leaderboard itself is")
    return made.target, made.evidence


def all_boards(root: Path) -> list[Path]:
    """Return the leaderboards in a folder, at least one."""
    if not root.is_dir():
        raise RecordError(f"there is no folder {root}")
    boards = sorted(file.parent for file in root.glob(f"[!.]*/{packed.FILE}"))
    if not boards:
        raise RecordError(f"there is no leaderboard in {root}: none of its folders has a {packed.FILE}")
    return boards


def generate_all(folders: Sequence[Path]) -> Again:
    """Write leaderboards again from their records, each as a whole or not at all."""
    again = Again()
    for folder in track(folders, "Making leaderboards"):
        try:
            again.problems += generate(folder, None)[1].problems
            again.count += 1
        except RecordError as error:
            again.problems.append(str(error))
    return again


def compare(folders: Sequence[Path]) -> Again:
    """Make leaderboards of one folder from their records and compare bytes, without writing."""
    again, made = Again(), []
    for folder in track(folders, "Comparing leaderboards"):
        try:
            each = _make(folder, None)
        except RecordError as error:
            again.problems.append(str(error))
            continue
        made.append(each)
        again.problems += each.evidence.problems
        _compare(again, each.target, each.files)
        again.differ += [each.target / name for name in each.gone]
    again.count = len(made)
    boards_of = {each.place.name: each.board for each in made}
    for root in {each.target.parent for each in made}:
        if _is_ours(root):
            _compare(again, root, _index(root, boards_of))
    return again


def _compare(again: Again, folder: Path, files: Mapping[str, bytes]) -> None:
    """Add files that differ; pages embed the figures beside them, so these are removed from both before comparing."""
    pages = []
    elsewhere = False
    for name, content in files.items():
        file = folder / name
        try:
            there = read_bytes(file, max(LARGEST, len(content)))
        except RecordError:
            there = b""
        if there == content:
            continue
        if DRAWN_BY.findall(there) != DRAWN_BY.findall(content) and there and file.suffix in (".png", ".svg"):
            again.drawn_elsewhere.append(file)
            elsewhere = True
        elif PICTURES.sub(b"", there) == PICTURES.sub(b"", content):
            pages.append(file)
        else:
            again.differ.append(file)
    (again.drawn_elsewhere if elsewhere else again.differ).extend(pages)


def _make(folder: Path, out: Path | None, knows: Sequence[str] = (), add: Path | None = None) -> _Made:
    """Make every file of a leaderboard from its records."""
    is_packed = packed.is_there(folder)
    if add and not is_packed:
        raise RecordError(f"{folder} is no leaderboard: make one first (fflbench leaderboard {folder})")
    evidence = gather(folder)
    own = out is None and not is_packed
    target = out or (BOARDS / slug(evidence.suite) if own else folder)
    place = Path(os.path.abspath(target))  # noqa: PTH100 (resolving would follow symbolic links)
    refuse_links(place, *([BOARDS] if own and BOARDS.is_symlink() else []))
    files: dict[str, bytes] = {}
    if place.resolve() != folder.resolve():
        if add:
            raise RecordError(f"--add takes an entry into {folder} itself: leave out --out")
        if place.exists() and (not place.is_dir() or (any(place.iterdir()) and not is_board(place))):
            raise RecordError(f"{target} is there and is no leaderboard: choose another --out")
        evidence, files = moved(evidence, place), own_files(evidence, place)
    elif not evidence.problems:
        # Sorted again; damaged records stay where they are.
        files = own_files(evidence, place)
    if add:
        evidence, entry = accept(add, evidence)
        files |= entry
    records = within(evidence.shown, knows) if knows else evidence.shown
    board = board_of(evidence.suite, records, evidence.reported)
    if knows:
        flag = f"Attackers who must know more than this are left out: {', '.join(knows)}."
        board = board.model_copy(update={"flags": (flag, *board.flags)})
    drawn = figures(records, board, evidence.arrays)
    how = commands(evidence.suite, evidence.records, evidence.reported)
    web = page.render(board, records, drawn, how).encode()
    files = {**content(board, drawn, how), WEB: web, **files}
    rooms = [TABLES, FIGURES]
    rooms += [str(Path(name).with_name(packed.ARRAYS)) for name in files if Path(name).name == packed.FILE]
    refuse_strange(place.parent, (PAGE, WEB) if _is_ours(place.parent) else ())
    gone = [name for name in _left_over(place, rooms) if name not in files]
    return _Made(target, place, evidence, board, files, gone)


def is_board(folder: Path) -> bool:
    """Return whether a folder is a leaderboard, whose tables and figures may be replaced."""
    return (folder / TABLES / DATA).is_file()


def content(board: Board, drawn: Sequence[Picture], how: Commands) -> dict[str, bytes]:
    """Return every file of a leaderboard but its records, by name."""
    # This file identifies a folder as a leaderboard, so it comes first.
    made = {f"{TABLES}/{DATA}": to_json(board).encode(), PAGE: _page(board, drawn, how).encode()}
    for table in board.tables:
        made[f"{TABLES}/{table.name}.csv"] = to_csv([table]).encode()
        made[f"{TABLES}/{table.name}.tex"] = to_latex(table).encode()
    for picture in drawn:
        made |= {f"{FIGURES}/{picture.name}.{ending}": file for ending, file in picture.files.items()}
    return made


def _page(board: Board, drawn: Sequence[Picture], how: Commands) -> str:
    lines = [f"# {escape(board.title)}", "", escape(board.description), ""]
    lines += [
        f"Made by `{how.run}` and `{how.make}` from the records in `{packed.FILE}`; `{how.make_again}` makes it again, "
        f"and `{how.verify}` runs some of its cells again and compares.",
        "",
        "Mean over seeds ± half of the 95% interval (Student's t). Bold: better than every other in its column by "
        "paired t tests, Holm-corrected; an equals sign marks those that no test tells from the best.",
        "",
    ]
    if board.flags:
        lines += ["Mind:", *(f"- {escape(flag)}" for flag in board.flags), ""]
    for section in board.sections:
        lines += [f"## {escape(section)}", ""]
        lines += [line for table in board.tables if table.section == section for line in (to_markdown(table), "")]
        pictures = [picture for picture in drawn if picture.section == section]
        lines += [f"![{escape(picture.caption)}]({FIGURES}/{picture.shown})\n" for picture in pictures]
    lines += ["## What the columns mean", ""]
    meanings = {column.title: column.meaning for table in board.tables for column in table.columns}
    lines += [f"- **{escape(title)}**: {escape(meaning)}" for title, meaning in meanings.items()]
    return "\n".join(lines) + "\n"


def _left_over(board: Path, rooms: Iterable[str]) -> Iterator[str]:
    """Yield our files in a leaderboard's folders, some of which may no longer be made."""
    for room in rooms:
        for file in sorted((board / room).glob("*")):
            if file.suffix in OURS[Path(room).name] and file.is_file():
                yield f"{room}/{file.name}"


def _list(root: Path, made: Mapping[str, Board]) -> None:
    """Write the pages that list all leaderboards of a folder, unless a user wrote them."""
    with alone(root, wait=True):
        # Under a lock, so that of leaderboards made at the same time the last lists all.
        for name, content in (_index(root, made) if _is_ours(root) else {}).items():
            if not holds(root / name, content):
                write_whole(root / name, content)


def _index(root: Path, made: Mapping[str, Board]) -> dict[str, bytes]:
    """Return the pages that list all leaderboards of a folder, those just made included."""
    boards = dict(made)
    for file in root.glob(f"*/{TABLES}/{DATA}"):
        with suppress(RecordError, ValidationError):
            boards.setdefault(file.parent.parent.name, Board.model_validate(read_json(file, LARGEST)))
    lines = [HEADING, "Each is made from the records beside it, and can be made and checked again.", ""]
    listed = [(quote(name), boards[name]) for name in sorted(boards)]
    lines += [f"- [{escape(of.title)}]({name}/{PAGE}): {escape(of.description)}" for name, of in listed]
    return {PAGE: ("\n".join(lines) + "\n").encode(), WEB: page.index(listed).encode()}


def _is_ours(root: Path) -> bool:
    """Return whether the page of a folder lists leaderboards, or does not exist yet."""
    try:
        return not os.path.lexists(root / PAGE) or read_bytes(root / PAGE, LARGEST).startswith(HEADING.encode())
    except RecordError:
        return False
