"""Terminal output in which text of records, suites, plugins and exceptions has no control characters.

`safe_output()` is the one place where standard output and standard error are made safe. Colours and bars are control
sequences: they come from `console()`, which makes the text between them safe and writes to the raw stream.
"""

import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

NARROW = 120
"""Width of a terminal below which output is arranged for few columns."""
BIDIRECTIONAL = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that change the order in which text is shown (Boucher and Anderson, Trojan source, USENIX 2023)."""

PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"} | {0x7F: "\u2421"}
ESCAPES = {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
ESCAPES |= {code: f"\\u{code:04x}" for code in (*BIDIRECTIONAL, 0x2028, 0x2029, *range(0xD800, 0xE000))}
VISIBLE = PICTURES | ESCAPES


def replace_control_characters(text: str) -> str:
    """Return a text with every control character but tab and newline replaced by a symbol or escape sequence."""
    return text if text.isascii() and text.isprintable() else text.translate(VISIBLE)


def wrap_lines(text: str, width: int) -> str:
    """Return a text whose lines are wrapped between words; indented ones are commands to copy and stay whole."""
    return "\n".join(
        line if line.startswith(" ") else textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


class SafeStream:
    """Text stream that replaces control characters."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        """Write the text and return its length."""
        self.raw.write(replace_control_characters(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, one after the other."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        # Bytes would bypass the replacement.
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.raw, name)


def raw_stream(stream: TextIO) -> TextIO:
    """Return the stream behind a safe one."""
    plain: TextIO = getattr(stream, "raw", stream)
    return plain


@contextmanager
def safe_output() -> Iterator[None]:
    """Make standard output and standard error safe; characters that their encoding lacks are escaped too."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = (cast(TextIO, SafeStream(raw_stream(stream))) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def console(file: TextIO | None = None, **options: Any) -> "Console":
    """Return a rich console on a stream (default: standard output) that replaces control characters in text."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class VisibleConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(replace_control_characters(segment.text), segment.style)

    return VisibleConsole(file=raw_stream(file or sys.stdout), **options)
