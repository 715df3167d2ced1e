"""Errors that speak to the person who made the mistake.

Their text is one sentence: what was wrong, where, what would be right. The command line prints it and exits with 2;
any other exception is a bug of ours and keeps its traceback.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class FflbenchError(Exception):
    """Something the user can mend."""


class ParameterError(FflbenchError):
    """A parameter that is unknown, missing or of the wrong type."""


class NotRegisteredError(FflbenchError):
    """A name that no plugin has registered."""


class DuplicateNameError(FflbenchError):
    """A name that two plugins claim."""


class SuiteError(FflbenchError):
    """A suite file that makes no sense."""


class RecordError(FflbenchError):
    """A record that is absent or damaged."""


class DataError(FflbenchError):
    """A data set that is absent, damaged or asked for the impossible."""


def spelled_out(text: str) -> str:
    """Text that can be written anywhere: of file names that are no text, the bytes are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def in_a_line(error: BaseException) -> str:
    """An exception in one line: its type and its text."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        # An exception of anybody's may not even have a text.
        text = ""
    return f"{type(error).__name__}: {text[:500]}".removesuffix(": ")


@contextmanager
def plugin_code(owner: object) -> Iterator[None]:
    """Turn whatever the code of a plugin raises, `sys.exit()` included, into a sentence that names the plugin."""
    try:
        yield
    except FflbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise ParameterError(f"{owner}: {in_a_line(error)}") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that refuses `name`: the nearest known name, or nothing."""
    nearest = get_close_matches(name, list(known), n=1)
    return f'; did you mean "{nearest[0]}"?' if nearest else ""
