"""Errors for the user, who made the mistake and can fix it.

Their text is one sentence: what was wrong, where, what would be right. The command line prints it and exits with 2;
any other exception is a bug in fflbench and keeps its traceback.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class FflbenchError(Exception):
    """Error that the user can fix."""


class ParameterError(FflbenchError):
    """Parameter that is unknown, missing or of the wrong type."""


class NotFiniteError(ParameterError):
    """NaN or infinity where only numbers are possible."""


class NotRegisteredError(FflbenchError):
    """Name that no plugin has registered."""


class DuplicateNameError(FflbenchError):
    """Name that two plugins register."""


class SuiteError(FflbenchError):
    """Invalid suite file."""


class RecordError(FflbenchError):
    """Record that is absent or damaged."""


class DataError(FflbenchError):
    """Data set that is absent, damaged or too small for the request."""


def escape_undecodable(text: str) -> str:
    """Return a text that UTF-8 can encode; bytes of file names that are not text are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def error_in_one_line(error: BaseException) -> str:
    """Return an exception in one line: its type and its text."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        # The text of a foreign exception may itself raise.
        text = ""
    return f"{type(error).__name__}: {text[:500]}".removesuffix(": ")


@contextmanager
def name_plugin_in_errors(owner: object) -> Iterator[None]:
    """Turn any exception of a plugin's code, `sys.exit()` included, into an error that names the plugin."""
    try:
        yield
    except FflbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise ParameterError(f"{owner}: {error_in_one_line(error)}") from error


def did_you_mean_hint(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about `name`: the nearest known name, or nothing."""
    nearest = get_close_matches(name, list(known), n=1)
    return f'; did you mean "{nearest[0]}"?' if nearest else ""
