"""One case: an altered input, the command it is handed to, and the checks that every command must pass."""

import io
import os
import random
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.door import Door
from tests.fuzz.failure import (
    FailedError,
    Failure,
    escape_unprintable,
    failure_of_exception,
    failure_of_printed_traceback,
)
from tests.fuzz.world import Watchdog, World

EXIT_CODES = (0, 1, 2, 130)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters but tab and newline: a terminal would obey them."""


@dataclass(frozen=True)
class CommandResult:
    """Result of a command."""

    code: int
    out: str
    err: str


class Case:
    """Case number so and so of a door; everything random in it follows from door, seed and number."""

    def __init__(self, door: Door, seed: int, number: int, world: World, watchdog: Watchdog) -> None:
        self.rng = random.Random(f"{door.name} {seed} {number}")
        self.number, self.world, self.watchdog = number, world, watchdog
        self.outcome = 0
        """Exit code of the last command; 2 where a function refused its arguments."""
        self.log: list[str] = []
        """Commands and their output, for whoever looks at this case alone."""

    @property
    def folder(self) -> Path:
        """The case's own folder, which is also the working directory."""
        return self.world.case

    def write(self, name: str, content: bytes | str) -> Path:
        """Write a file of the case, and return its path relative to the working directory."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        return Path(name)

    def command(self, *arguments: str | Path, writes: Collection[str] = ()) -> CommandResult:
        """Run fflbench with these arguments; it may change only what `writes` names in the case's folder."""
        given = [str(argument) for argument in arguments]
        self.log.append(escape_unprintable(shlex.join(["fflbench", *given])))
        before = self.world.listing(writes)
        ran = self._run_in_process(given)
        self.log.append(escape_unprintable(f"{ran.out}{ran.err}exit code {ran.code}"))
        self.outcome = ran.code
        said = f"{ran.out}{ran.err}"
        if "Traceback (most recent call last)" in said:
            raise FailedError(failure_of_printed_traceback(said))
        self.require(ran.code in EXIT_CODES, f"exit code {ran.code}", detail=said)
        if found := CONTROL.search(said):
            line = said[said.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0][:500]
            self.require(False, "control character on the terminal", _first_words(given[0], line), line)
        changed = self.world.changes(before, self.world.listing(writes))
        self.require(not changed, "writes outside its folder", _group_key(changed), "\n".join(changed))
        return ran

    def _run_in_process(self, arguments: list[str]) -> CommandResult:
        """Run the command in this process as a shell would run it in its own."""
        from fflbench import cli

        for number in (1, 2):
            os.ftruncate(number, 0)
            os.lseek(number, 0, os.SEEK_SET)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", write_through=True)
        sys.stderr = io.TextIOWrapper(
            io.FileIO(2, "w", closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True
        )
        sys.argv = ["fflbench", *arguments]
        self.watchdog.found.clear()
        self.watchdog.looking = True
        try:
            # Otherwise only the first of two cases that lead to the same warning would show it.
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                cli.main(arguments)
            code: Any = 0
        except SystemExit as exit_:
            code = exit_.code
        except BaseException as error:
            raise FailedError(failure_of_exception(error)) from error
        finally:
            self.watchdog.looking = False
            for stream in (sys.stdout, sys.stderr):
                if not stream.closed:
                    stream.flush()
        self.require(not self.watchdog.found, "writes outside its folder", _group_key(self.watchdog.found))
        out, err = (os.pread(number, 10**7, 0).decode("utf-8", "backslashreplace") for number in (1, 2))
        return CommandResult(code if isinstance(code, int) else 0 if code is None else 1, out, err)

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a function that may refuse its arguments by one of fflbench's errors; nothing is returned then."""
        from fflbench.errors import FflbenchError

        shown = ", ".join(
            [*map(_short_repr, arguments), *(f"{name}={_short_repr(value)}" for name, value in named.items())]
        )
        self.log.append(escape_unprintable(f"{function.__module__}.{function.__qualname__}({shown})"))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = function(*arguments, **named)
        except FflbenchError as error:
            self.outcome = 2
            self.log.append(escape_unprintable(f"refused: {error}"))
            return None
        except BaseException as error:
            raise FailedError(failure_of_exception(error)) from error
        self.outcome = 0
        self.log.append(escape_unprintable(f"returned {_short_repr(result)}"))
        return result

    def require(self, holds: bool, kind: str, place: str = "", detail: str = "") -> None:
        """End the case with a failure unless something holds."""
        if not holds:
            raise FailedError(Failure(kind, place, escape_unprintable(detail)))


def _short_repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    return text if len(text) <= 300 else f"{text[:299]}…"


def _first_words(command: str, line: str) -> str:
    """Where a line of output comes from, as far as its first words tell."""
    words = [word for word in escape_unprintable(line).split() if re.fullmatch(r"[a-zA-Z:·]+", word)]
    return f"{command}: {' '.join(words[:3])}"


def _group_key(paths: list[str]) -> str:
    """Paths without what differs from case to case, to group failures by."""
    shortened = {re.sub(r"[0-9a-f]{16}|\.[a-z0-9_]{8}\.new", "*", path) for path in paths}
    return ", ".join(sorted(shortened)[:3])
