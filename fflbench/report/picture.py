"""Figures as files: the same numbers give the same bytes, readable in grey and by the colour-blind."""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fflbench.report.table import steady
from fflbench.texts import csv_text, distinct

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = "osD^vPX*<>hp"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's colours, which the colour-blind can distinguish; marks and dashes distinguish lines in grey."""

Numbers = Sequence[Sequence[Any]]
"""Rows of a CSV file, the first its header."""


@dataclass(frozen=True)
class Picture:
    """A figure with its numbers, its section and its caption; files are created on demand."""

    name: str
    section: str
    caption: str
    figure: "Figure | bytes" = field(repr=False)
    """A matplotlib figure, or the content of a PNG file."""
    numbers: Numbers = ()

    @property
    def shown(self) -> str:
        """Name of the file that pages show."""
        return f"{self.name}.{'png' if isinstance(self.figure, bytes) else 'svg'}"

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Content by suffix: the file that pages show, then other formats, then the numbers."""
        if isinstance(self.figure, bytes):
            return {"png": self.figure}
        with plain_text():
            return self.smallest | {"png": saved(self.figure, "png")}

    @cached_property
    def smallest(self) -> dict[str, bytes]:
        """Content of the file that pages show, and of the numbers."""
        if isinstance(self.figure, bytes):
            return {"png": self.figure}
        with plain_text():
            files = {"svg": saved(self.figure, "svg")}
        # Laid out once, so that all formats look alike.
        self.figure.set_layout_engine("none")
        rounded = [[steady(value) if isinstance(value, float) else value for value in row] for row in self.numbers]
        return files | ({"csv": csv_text(rounded).encode()} if self.numbers else {})


def distinct_names(pictures: Sequence[Picture]) -> list[Picture]:
    """Return pictures with distinct names."""
    taken: list[str] = []
    for picture in pictures:
        taken.append(distinct(picture.name, taken))
    return [replace(picture, name=name) for name, picture in zip(taken, pictures, strict=True)]


def style(place: int) -> dict[str, Any]:
    """Return colour, mark and dashes of a line, distinguishable in colour and in grey."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKS[place % len(MARKS)],
        "linestyle": ("-", "--", "-.", ":")[(place + place // len(COLOURS)) % 4],
        "markersize": 5,
    }


def panels(count: int, width: float = 4.0, height: float = 3.0, **options: Any) -> "tuple[Figure, list[Any]]":
    """Return a figure with so many axes, three per row at most, and room for a legend beside them."""
    from matplotlib.figure import Figure

    columns = min(3, count)
    lines = -(-count // columns)
    figure = Figure(figsize=(width * columns + 2, height * lines + 0.5), layout="constrained")
    axes = list(figure.subplots(lines, columns, squeeze=False, **options).flat)
    for axis in axes[count:]:
        axis.set_visible(False)
    for axis in axes[:count]:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes[:count]


@contextmanager
def plain_text() -> Iterator[None]:
    """Draw names literally: a dollar sign starts no formula, and letters that the font lacks cause no warning."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font|constrained_layout not applied")
        yield


def saved(figure: "Figure", kind: str) -> bytes:
    """Return a figure as the content of its file; the same numbers give the same bytes."""
    from matplotlib import rc_context

    stream = io.BytesIO()
    metadata = {"Date": None, "Creator": drawn_by()} if kind == "svg" else {"Software": drawn_by()}
    with rc_context({"svg.hashsalt": "fflbench"}):
        figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
    return stream.getvalue()


DRAWN_BY = re.compile(rb"\(Matplotlib [^()]*\)")
"""Pattern of the library versions that a figure's file names."""


def drawn_by() -> str:
    """Return the versions of libraries that decide a picture's bytes."""
    import matplotlib
    import PIL
    from matplotlib.ft2font import __freetype_version__

    return f"(Matplotlib {matplotlib.__version__}, FreeType {__freetype_version__}, Pillow {PIL.__version__})"
