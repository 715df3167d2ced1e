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
from fflbench.progress import track_progress
from fflbench.records import jsonl_file
from fflbench.records.collection import (
    RecordCollection,
    add_entry,
    pack_own_records,
    read_collection,
    with_outside_entries,
)
from fflbench.records.file_replacement import (
    has_content,
    lock_folder,
    refuse_non_files,
    refuse_symbolic_links,
    replace_files,
)
from fflbench.records.store import write_atomically
from fflbench.report import page
from fflbench.report.all_tables import build_board
from fflbench.report.attacker_knowledge import filter_by_attacker_knowledge
from fflbench.report.figure_files import LIBRARY_VERSIONS, ReportFigure, drawing_library_versions
from fflbench.report.figures import draw_figures
from fflbench.report.reproduction_commands import ReproductionCommands, reproduction_commands
from fflbench.report.table_formats import escape_markdown, to_csv, to_json, to_latex, to_markdown
from fflbench.report.table_model import Board
from fflbench.safe_texts import slug
from fflbench.untrusted_files import read_bytes, read_json

TABLES, FIGURES, PAGE, WEB, DATA = "tables", "figures", "README.md", "index.html", "leaderboard.json"
OURS = {TABLES: (".csv", ".tex", ".json"), FIGURES: (".csv", ".png", ".svg"), jsonl_file.ARRAYS: (".npz",)}
"""Suffixes of a leaderboard's own files; others are left alone."""
BOARDS = Path("leaderboards")
LARGEST = 2**26
"""Largest number of bytes read of another leaderboard's tables, or of an index page."""
HEADING = "# Leaderboards\n"
PICTURES = re.compile(rb"data:image/[^\"]*")
"""Images in a page."""


@dataclass(frozen=True)
class _NewLeaderboard:
    """A leaderboard before it is written."""

    target: Path
    """Folder as the user named it."""
    place: Path
    collection: RecordCollection
    board: Board
    files: dict[str, bytes]
    gone: list[str]
    """Files of an earlier version that are no longer made."""


@dataclass
class RegenerationResult:
    """Result of creating leaderboards again from their records, or of comparing them with their records."""

    count: int = 0
    """Number of leaderboards that could be made."""
    problems: list[str] = field(default_factory=list)
    """Records that could not be used, and leaderboards that could not be made."""
    differ: list[Path] = field(default_factory=list)
    """Files that differ from what their records give."""
    drawn_by_other_libraries: list[Path] = field(default_factory=list)
    """Figures drawn by other versions of libraries, and pages that differ only in such figures."""

    @property
    def report_lines(self) -> list[str]:
        """Report for the user."""
        drawn = self.drawn_by_other_libraries
        lines = [f"{file} was drawn with other libraries than {drawing_library_versions()}" for file in drawn]
        lines += [f"{file} differs from what its records give" for file in self.differ]
        what = "leaderboard" if self.count == 1 else "leaderboards"
        differ = f"; {len(self.differ)} files differ" if self.differ else ""
        lines.append(f"{self.count} {what} made from records{differ}")
        return [*self.problems, *lines]


def generate(
    folder: Path, out: Path | None, allowed_knowledge: Sequence[str] = (), new_entry: Path | None = None
) -> tuple[Path, RecordCollection]:
    """Write a leaderboard, all of it or nothing; return its folder, and its records with any problems.

    `allowed_knowledge` leaves out attackers who need more; `new_entry` is an outside entry to include.
    """
    made = _build_leaderboard(folder, out, allowed_knowledge, new_entry)
    try:
        replace_files(made.place, made.files, made.gone)
    except OSError as error:
        raise RecordError(
            f"the leaderboard cannot be written to {made.target}: {error.strerror or error}; nothing of it was "
            "changed: mend that or choose another --out, and run the command again"
        ) from error
    root = made.place.parent
    try:
        _write_index_pages(root, {made.place.name: made.board})
    except OSError as error:
        problem = f"the pages that list all leaderboards cannot be written to {root}: {error.strerror or error}"
        made.collection.problems.append(f"{problem}; the leaderboard itself is")
    return made.target, made.collection


def find_leaderboards(root: Path) -> list[Path]:
    """Return the leaderboards in a folder, at least one."""
    if not root.is_dir():
        raise RecordError(f"there is no folder {root}")
    boards = sorted(file.parent for file in root.glob(f"[!.]*/{jsonl_file.FILE}"))
    if not boards:
        raise RecordError(f"there is no leaderboard in {root}: none of its folders has a {jsonl_file.FILE}")
    return boards


def regenerate_all(folders: Sequence[Path]) -> RegenerationResult:
    """Write leaderboards again from their records, each as a whole or not at all."""
    result = RegenerationResult()
    for folder in track_progress(folders, "Making leaderboards"):
        try:
            result.problems += generate(folder, None)[1].problems
            result.count += 1
        except RecordError as error:
            result.problems.append(str(error))
    return result


def compare_with_records(folders: Sequence[Path]) -> RegenerationResult:
    """Make leaderboards of one folder from their records and compare bytes, without writing."""
    result, made = RegenerationResult(), []
    for folder in track_progress(folders, "Comparing leaderboards"):
        try:
            each = _build_leaderboard(folder, None)
        except RecordError as error:
            result.problems.append(str(error))
            continue
        made.append(each)
        result.problems += each.collection.problems
        _add_differing_files(result, each.target, each.files)
        result.differ += [each.target / name for name in each.gone]
    result.count = len(made)
    boards_of = {each.place.name: each.board for each in made}
    for root in {each.target.parent for each in made}:
        if _may_write_index_pages(root):
            _add_differing_files(result, root, _render_index_pages(root, boards_of))
    return result


def _add_differing_files(result: RegenerationResult, folder: Path, files: Mapping[str, bytes]) -> None:
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
        other_versions = LIBRARY_VERSIONS.findall(there) != LIBRARY_VERSIONS.findall(content)
        if there and other_versions and file.suffix in (".png", ".svg"):
            result.drawn_by_other_libraries.append(file)
            elsewhere = True
        elif PICTURES.sub(b"", there) == PICTURES.sub(b"", content):
            pages.append(file)
        else:
            result.differ.append(file)
    (result.drawn_by_other_libraries if elsewhere else result.differ).extend(pages)


def _build_leaderboard(
    folder: Path, out: Path | None, allowed_knowledge: Sequence[str] = (), new_entry: Path | None = None
) -> _NewLeaderboard:
    """Make every file of a leaderboard from its records."""
    is_packed = jsonl_file.has_records_file(folder)
    if new_entry and not is_packed:
        raise RecordError(f"{folder} is no leaderboard: make one first (fflbench leaderboard {folder})")
    collection = read_collection(folder)
    own = out is None and not is_packed
    target = out or (BOARDS / slug(collection.suite) if own else folder)
    place = Path(os.path.abspath(target))  # noqa: PTH100 (resolving would follow symbolic links)
    refuse_symbolic_links(place, *([BOARDS] if own and BOARDS.is_symlink() else []))
    files: dict[str, bytes] = {}
    if place.resolve() != folder.resolve():
        if new_entry:
            raise RecordError(f"--add takes an entry into {folder} itself: leave out --out")
        if place.exists() and (not place.is_dir() or (any(place.iterdir()) and not is_leaderboard(place))):
            raise RecordError(f"{target} is there and is no leaderboard: choose another --out")
        collection, files = with_outside_entries(collection, place), pack_own_records(collection, place)
    elif not collection.problems:
        # Sorted again; damaged records stay where they are.
        files = pack_own_records(collection, place)
    if new_entry:
        collection, entry = add_entry(new_entry, collection)
        files |= entry
    records = (
        filter_by_attacker_knowledge(collection.displayed_records, allowed_knowledge)
        if allowed_knowledge
        else collection.displayed_records
    )
    board = build_board(collection.suite, records, collection.reported)
    if allowed_knowledge:
        flag = f"Attackers who must know more than this are left out: {', '.join(allowed_knowledge)}."
        board = board.model_copy(update={"flags": (flag, *board.flags)})
    drawn = draw_figures(records, board, collection.arrays)
    how = reproduction_commands(collection.suite, collection.records, collection.reported)
    web = page.render_leaderboard(board, records, drawn, how).encode()
    files = {**render_files(board, drawn, how), WEB: web, **files}
    folders = [TABLES, FIGURES]
    folders += [str(Path(name).with_name(jsonl_file.ARRAYS)) for name in files if Path(name).name == jsonl_file.FILE]
    refuse_non_files(place.parent, (PAGE, WEB) if _may_write_index_pages(place.parent) else ())
    gone = [name for name in _generated_files(place, folders) if name not in files]
    return _NewLeaderboard(target, place, collection, board, files, gone)


def is_leaderboard(folder: Path) -> bool:
    """Return whether a folder is a leaderboard, whose tables and figures may be replaced."""
    return (folder / TABLES / DATA).is_file()


def render_files(board: Board, figures: Sequence[ReportFigure], commands: ReproductionCommands) -> dict[str, bytes]:
    """Return every file of a leaderboard but its records, by name."""
    # This file identifies a folder as a leaderboard, so it comes first.
    made = {f"{TABLES}/{DATA}": to_json(board).encode(), PAGE: _render_markdown_page(board, figures, commands).encode()}
    for table in board.tables:
        made[f"{TABLES}/{table.name}.csv"] = to_csv([table]).encode()
        made[f"{TABLES}/{table.name}.tex"] = to_latex(table).encode()
    for picture in figures:
        made |= {f"{FIGURES}/{picture.name}.{ending}": file for ending, file in picture.files.items()}
    return made


def _render_markdown_page(board: Board, figures: Sequence[ReportFigure], commands: ReproductionCommands) -> str:
    lines = [f"# {escape_markdown(board.title)}", "", escape_markdown(board.description), ""]
    lines += [
        f"Made by `{commands.run}` and `{commands.make}` from the records in `{jsonl_file.FILE}`; "
        f"`{commands.make_again}` makes it again, and `{commands.verify}` runs some of its cells again and compares.",
        "",
        "Mean over seeds ± half of the 95% interval (Student's t); of worst cases, the ends of a bootstrap interval. "
        "Bold: better than every other in its column by moderated paired t-tests of all pairs, Holm-corrected; an "
        "equals sign marks those that no test distinguishes from the best.",
        "",
    ]
    if board.flags:
        lines += ["Warnings:", *(f"- {escape_markdown(flag)}" for flag in board.flags), ""]
    for section in board.sections:
        lines += [f"## {escape_markdown(section)}", ""]
        lines += [line for table in board.tables if table.section == section for line in (to_markdown(table), "")]
        pictures = [picture for picture in figures if picture.section == section]
        lines += [
            f"![{escape_markdown(picture.caption)}]({FIGURES}/{picture.page_file_name})\n" for picture in pictures
        ]
    lines += ["## Columns", ""]
    meanings = {
        column.title: column.meaning
        for table in board.tables
        # Columns of sweeps have the same titles, whatever their metric, which is explained below each table.
        if not table.is_sweep
        for column in table.columns
    }
    lines += [f"- **{escape_markdown(title)}**: {escape_markdown(meaning)}" for title, meaning in meanings.items()]
    return "\n".join(lines) + "\n"


def _generated_files(board: Path, folders: Iterable[str]) -> Iterator[str]:
    """Yield our files in a leaderboard's folders, some of which may no longer be made."""
    for folder in folders:
        for file in sorted((board / folder).glob("*")):
            if file.suffix in OURS[Path(folder).name] and file.is_file():
                yield f"{folder}/{file.name}"


def _write_index_pages(root: Path, new_boards: Mapping[str, Board]) -> None:
    """Write the pages that list all leaderboards of a folder, unless a user wrote them."""
    with lock_folder(root, wait=True):
        # Under a lock, so that of leaderboards made at the same time the last lists all.
        for name, content in (_render_index_pages(root, new_boards) if _may_write_index_pages(root) else {}).items():
            if not has_content(root / name, content):
                write_atomically(root / name, content)


def _render_index_pages(root: Path, new_boards: Mapping[str, Board]) -> dict[str, bytes]:
    """Return the pages that list all leaderboards of a folder, those just made included."""
    boards = dict(new_boards)
    for file in root.glob(f"*/{TABLES}/{DATA}"):
        with suppress(RecordError, ValidationError):
            boards.setdefault(file.parent.parent.name, Board.model_validate(read_json(file, LARGEST)))
    lines = [HEADING, "Each is made from the records beside it, and can be made and checked again.", ""]
    listed = [(quote(name), boards[name]) for name in sorted(boards)]
    lines += [
        f"- [{escape_markdown(of.title)}]({name}/{PAGE}): {escape_markdown(of.description)}" for name, of in listed
    ]
    return {PAGE: ("\n".join(lines) + "\n").encode(), WEB: page.render_index(listed).encode()}


def _may_write_index_pages(root: Path) -> bool:
    """Return whether the page of a folder lists leaderboards, or does not exist yet."""
    try:
        return not os.path.lexists(root / PAGE) or read_bytes(root / PAGE, LARGEST).startswith(HEADING.encode())
    except RecordError:
        return False
