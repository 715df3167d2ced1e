"""`fflbench leaderboard`: from records alone to tables, figures and a page that GitHub shows; nothing runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from fflbench.errors import RecordError
from fflbench.records.evidence import RECORDS, Evidence, gather, keep
from fflbench.records.store import write_whole
from fflbench.report import boards, figures, page, panels, robust
from fflbench.report.panels import Board
from fflbench.report.plots import plain_text
from fflbench.report.render import escape

TABLES, FIGURES, PAGE, WEB, DATA = "tables", "figures", "README.md", "index.html", "leaderboard.json"
OURS = (".csv", ".tex", ".json", ".png", ".svg")
HEADING = "# Leaderboards\n"


def generate(folder: Path, out: Path | None, knows: Sequence[str] = ()) -> tuple[Path, Evidence]:
    """Write a leaderboard; where it is, and what could not be used. `knows` leaves out attackers who know more."""
    found = gather(folder)
    target = out or (folder if (folder / RECORDS).is_dir() else Path("leaderboards") / robust.slug(found.suite))
    if target.resolve() != folder.resolve():
        if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not is_board(target))):
            raise RecordError(f"{target} is there and is no leaderboard: choose another --out")
        found = keep(found, target)
    records = boards.within(found.records, knows) if knows else found.records
    board = boards.board(found.suite, records, found.reported)
    if knows:
        told = f"Attackers who must know more than this are left out: {', '.join(knows)}."
        board = board.model_copy(update={"flags": (told, *board.flags)})
    with plain_text():
        drawn = figures.figures(records, board, found.arrays)
    _write(target, {**content(board, drawn), WEB: page.render(board, records, drawn).encode()})
    _index(target.parent)
    return target, found


def is_board(folder: Path) -> bool:
    """Whether a folder is a leaderboard, whose tables and figures may be made anew."""
    return (folder / TABLES / DATA).is_file()


def content(board: Board, drawn: Mapping[str, bytes]) -> dict[str, bytes]:
    """Every file of a leaderboard but its records, by name."""
    made = {PAGE: _page(board, drawn).encode(), f"{TABLES}/{DATA}": panels.to_json(board).encode()}
    for panel in board.panels:
        made[f"{TABLES}/{panel.name}.csv"] = panels.to_csv(panel).encode()
        made[f"{TABLES}/{panel.name}.tex"] = panels.to_latex(panel).encode()
    return made | {f"{FIGURES}/{name}": file for name, file in drawn.items()}


def _page(board: Board, drawn: Mapping[str, bytes]) -> str:
    name = robust.slug(board.suite)
    lines = [f"# {escape(board.title)}", "", escape(board.description), ""]
    lines += [
        f"Made by `fflbench run {name}` and `fflbench leaderboard results/{name}` from the records in "
        f"`{RECORDS}/`; `fflbench leaderboard leaderboards/{name}` makes it again, and `fflbench verify "
        f"leaderboards/{name} --sample 3` runs some of its cells again and compares.",
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


def _write(target: Path, files: Mapping[str, bytes]) -> None:
    """Write what changed, and take away tables and figures that are no longer made."""
    for name, file in files.items():
        path = target / name
        if not path.exists() or path.read_bytes() != file:
            write_whole(path, file)
    for room in (TABLES, FIGURES):
        for path in (target / room).glob("*"):
            if f"{room}/{path.name}" not in files and path.suffix in OURS and path.is_file():
                path.unlink()


def _index(root: Path) -> None:
    """The list of all leaderboards of a folder."""
    listed = root / PAGE
    if listed.exists() and not listed.read_bytes().startswith(HEADING.encode()):
        # Somebody else's page.
        return
    lines = [HEADING, "Each is made from the records beside it, and can be made and checked again.", ""]
    found = []
    for file in sorted(root.glob(f"*/{TABLES}/{DATA}")):
        try:
            board = Board.model_validate_json(file.read_bytes())
        except (OSError, ValidationError):
            continue
        name = file.parent.parent.name
        found.append((name, board))
        lines.append(f"- [{escape(board.title)}]({name}/{PAGE}): {escape(board.description)}")
    write_whole(listed, ("\n".join(lines) + "\n").encode())
    write_whole(root / WEB, page.index(found).encode())
