"""Figures as files: the same numbers give the same bytes, readable in grey and by the colour-blind."""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fflbench.report.table_model import round_to_twelve_digits
from fflbench.safe_texts import csv_text, make_distinct_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = "osD^vPX*<>hp"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's colours, which the colour-blind can distinguish; marks and dashes distinguish lines in grey."""

PANELS = 9
"""Number of panels that are drawn; the CSV file beside the figure has all values."""

Numbers = Sequence[Sequence[Any]]
"""Rows of a CSV file, the first its header."""


@dataclass(frozen=True)
class ReportFigure:
    """A figure with its numbers, its section and its caption; files are created on demand."""

    name: str
    section: str
    caption: str
    figure: "Figure | bytes" = field(repr=False)
    """A matplotlib figure, or the content of a PNG file."""
    numbers: Numbers = ()

    @property
    def page_file_name(self) -> str:
        """Name of the file that pages show."""
        return f"{self.name}.{'png' if isinstance(self.figure, bytes) else 'svg'}"

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Content by suffix: the file that pages show, then other formats, then the numbers."""
        if isinstance(self.figure, bytes):
            return {"png": self.figure}
        with draw_text_literally():
            return self.page_file_and_numbers | {"png": encode_figure(self.figure, "png")}

    @cached_property
    def page_file_and_numbers(self) -> dict[str, bytes]:
        """Content of the file that pages show, and of the numbers."""
        if isinstance(self.figure, bytes):
            return {"png": self.figure}
        with draw_text_literally():
            files = {"svg": encode_figure(self.figure, "svg")}
        # Laid out once, so that all formats look alike.
        self.figure.set_layout_engine("none")
        rounded = [
            [round_to_twelve_digits(value) if isinstance(value, float) else value for value in row]
            for row in self.numbers
        ]
        return files | ({"csv": csv_text(rounded).encode()} if self.numbers else {})


def with_distinct_names(figures: Sequence[ReportFigure]) -> list[ReportFigure]:
    """Return pictures with distinct names."""
    taken: list[str] = []
    for picture in figures:
        taken.append(make_distinct_name(picture.name, taken))
    return [replace(picture, name=name) for name, picture in zip(taken, figures, strict=True)]


def line_style(index: int) -> dict[str, Any]:
    """Return colour, mark and dashes of a line, distinguishable in colour and in grey."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKS[index % len(MARKS)],
        "linestyle": ("-", "--", "-.", ":")[(index + index // len(COLOURS)) % 4],
        "markersize": 5,
    }


def figure_with_panels(
    count: int, width: float = 4.0, height: float = 3.0, **options: Any
) -> "tuple[Figure, list[Any]]":
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
def draw_text_literally() -> Iterator[None]:
    """Draw names literally: a dollar sign starts no formula, and letters that the font lacks cause no warning."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font|constrained_layout not applied")
        yield


def encode_figure(figure: "Figure", file_format: str) -> bytes:
    """Return a figure as the content of its file; the same numbers give the same bytes."""
    from matplotlib import rc_context

    stream = io.BytesIO()
    metadata = (
        {"Date": None, "Creator": drawing_library_versions()}
        if file_format == "svg"
        else {"Software": drawing_library_versions()}
    )
    with rc_context({"svg.hashsalt": "fflbench"}):
        figure.savefig(stream, format=file_format, dpi=150, metadata=metadata)
    return stream.getvalue()


LIBRARY_VERSIONS = re.compile(rb"\(Matplotlib [^()]*\)")
"""Pattern of the library versions that a figure's file names."""


def drawing_library_versions() -> str:
    """Return the versions of libraries that decide a picture's bytes."""
    import matplotlib
    import PIL
    from matplotlib.ft2font import __freetype_version__

    return f"(Matplotlib {matplotlib.__version__}, FreeType {__freetype_version__}, Pillow {PIL.__version__})"
