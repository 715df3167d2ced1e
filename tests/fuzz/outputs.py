"""Checks of files that fflbench writes from records: whoever opens them must not run what stood in a record."""

import csv
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.fuzz.case import Case

FORMULA = re.compile(r"[=+\-@\t\r]")
"""Characters that make a cell a formula for a spreadsheet."""
MARKUP = ("<script>alert", "<img src=x")
"""Markup that only a hostile text contains."""


def check_outputs_harmless(case: Case, folder: Path) -> None:
    """Fail the case if a table, page or figure under a folder could do anything."""
    for file in sorted(folder.rglob("*")):
        if file.is_symlink() or not file.is_file():
            continue
        if file.suffix == ".csv":
            with file.open(encoding="utf-8", newline="") as stream:
                cells = [cell for row in csv.reader(stream) for cell in row]
            formulas = [cell for cell in cells if FORMULA.match(cell) and not _is_number(cell)]
            case.require(not formulas, "a formula in a table", file.name, "\n".join(formulas))
        elif file.suffix == ".html":
            text = file.read_text("utf-8")
            found = [piece for piece in MARKUP if piece in text]
            case.require(not found, "markup of a record in a page", file.name, "\n".join(found))
        elif file.suffix == ".svg":
            names = {element.tag.rpartition("}")[2] for element in ElementTree.parse(file).iter()}
            case.require("script" not in names, "a script in a figure", file.name)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
