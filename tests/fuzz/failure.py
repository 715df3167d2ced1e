"""Failures: what went wrong in a case, and where."""

import re
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("fflbench", "attacks", "defenses")
"""Folders of the checkout whose frames tell one failure from another."""

LINES = 12
"""Lines of a detail that are shown."""


@dataclass(frozen=True)
class Failure:
    """One thing that must not happen."""

    kind: str
    """As in "KeyError", "hang", "exit code 3"."""
    place: str
    """Innermost frame in fflbench, as in report/costs.py:12 in tables; or what was written, printed, ..."""
    detail: str = ""
    """Output or traceback."""

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}" if self.place else self.kind

    @property
    def short(self) -> str:
        """End of the detail."""
        lines = [line[:200] for line in self.detail.strip().splitlines()]
        return "\n".join(["...", *lines[-LINES:]] if len(lines) > LINES else lines)


class FailedError(Exception):
    """Ends a case with a failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def failure_of_exception(error: BaseException) -> Failure:
    """The failure of an exception that nothing turned into an error message."""
    frames = [(frame.filename, frame.lineno or 0, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    detail = "".join(traceback.format_exception(error, limit=-8))
    return Failure(type(error).__name__, innermost_frame(frames), escape_unprintable(detail))


def failure_of_stack_dump(kind: str, dump: str) -> Failure:
    """The failure of a process that was ended from outside, from what faulthandler wrote of it."""
    # faulthandler has the innermost frame first.
    frames = _frames(dump)[::-1]
    detail = "\n".join(f"{name}:{line} in {function}" for name, line, function in frames)
    return Failure(kind, innermost_frame(frames), escape_unprintable(detail))


def failure_of_printed_traceback(output: str) -> Failure:
    """The failure of a command that printed a traceback."""
    named = re.findall(r"^(?:\w+\.)*(\w+)(?::|$)", output, re.MULTILINE)
    return Failure(
        f"prints a traceback of {named[-1] if named else '?'}",
        innermost_frame(_frames(output)),
        escape_unprintable(output),
    )


def _frames(text: str) -> list[tuple[str, int, str]]:
    """File, line and function of the frames in a text, in their order."""
    found = re.findall(r'File "([^"]+)", line (\d+),? in (\S+)', text)
    return [(name, int(line), function) for name, line, function in found]


def innermost_frame(frames: list[tuple[str, int, str]]) -> str:
    """The innermost frame that is in fflbench, else the innermost of all."""
    ours = [frame for frame in frames if any(Path(frame[0]).is_relative_to(ROOT / part) for part in PRODUCT)]
    if not (ours or frames):
        return ""
    name, line, function = (ours or frames)[-1]
    path = Path(name)
    return f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}:{line} in {function}"


def escape_unprintable(text: str) -> str:
    """Text that can be shown on a terminal."""
    return "".join(sign if sign in "\n\t" or sign.isprintable() else repr(sign)[1:-1] for sign in text)
