"""Pictures of results: files that are the same bytes for the same numbers, readable in grey and by the colour-blind."""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fflbench.report.table import steady
from fflbench.texts import csv_text, distinct, slug

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = "osD^vPX*<>hp"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's, which the colour-blind can tell apart; marks and dashes tell lines apart in grey."""

Numbers = Sequence[Sequence[Any]]
"""Lines of a CSV file, the first its header."""


@dataclass(frozen=True)
class Picture:
    """A figure with its numbers, and where it belongs."""

    name: str
    section: str
    caption: str
    files: dict[str, bytes] = field(repr=False)
    """Content by ending: what is shown first, then the same in other formats, then its numbers."""

    @classmethod
    def of(cls, name: str, section: str, caption: str, figure: "Figure", numbers: Numbers = ()) -> "Picture":
        """Return a figure as SVG and PNG, laid out once, with its numbers as CSV."""
        png = saved(figure, "png")
        figure.set_layout_engine("none")
        files = {"svg": saved(figure, "svg"), "png": png}
        if numbers:
            rounded = [[steady(value) if isinstance(value, float) else value for value in row] for row in numbers]
            files["csv"] = csv_text(rounded).encode()
        return cls(slug(name), section, caption, files)

    @property
    def shown(self) -> str:
        """Name of the file that stands on pages."""
        return f"{self.name}.{next(iter(self.files))}"


def distinct_names(pictures: Sequence[Picture]) -> list[Picture]:
    """Return pictures of which no two have one name."""
    taken: list[str] = []
    for picture in pictures:
        taken.append(distinct(picture.name, taken))
    return [
        Picture(name, picture.section, picture.caption, picture.files)
        for name, picture in zip(taken, pictures, strict=True)
    ]


def style(place: int) -> dict[str, Any]:
    """Return what tells a line from others, in colour and in grey."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKS[place % len(MARKS)],
        "linestyle": ("-", "--", "-.", ":")[(place + place // len(COLOURS)) % 4],
        "markersize": 5,
    }


def panels(count: int, width: float = 4.0, height: float = 3.0, **options: Any) -> "tuple[Figure, list[Any]]":
    """Return a figure with so many axes, three in a row at most, and room for a legend beside them."""
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
    """Draw names as they are: a dollar in one is no formula, and letters that the font lacks are worth no warning."""
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
"""How a picture names the versions of libraries that drew it."""


def drawn_by() -> str:
    """Return the versions of libraries that decide a picture's bytes."""
    import matplotlib
    import PIL
    from matplotlib.ft2font import __freetype_version__

    return f"(Matplotlib {matplotlib.__version__}, FreeType {__freetype_version__}, Pillow {PIL.__version__})"
