"""Exit codes of the command line: 2 for a mistake of the user, 1 for a bug in fflbench or a closed pipe."""

import json
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fflbench.errors import FflbenchError
from fflbench.terminal import replace_control_characters


@contextmanager
def errors_as_exit_codes(*, as_json: bool) -> Iterator[None]:
    """Print errors on standard error, those of the user in one sentence, and exit with their code."""
    warnings.showwarning = _print_warning
    try:
        with _file_errors_as_user_errors():
            yield
    except FflbenchError as error:
        _print_to_stderr(json.dumps({"event": "error", "text": str(error)}) if as_json else f"fflbench: {error}")
        sys.exit(2)
    except BrokenPipeError:
        # The reader of the output has closed it.
        sys.stderr.close()
        sys.exit(1)
    except Exception:
        # A bug in fflbench; the interpreter would print it to the raw stream.
        traceback.print_exc()
        sys.exit(1)


@contextmanager
def _file_errors_as_user_errors() -> Iterator[None]:
    """Turn an error of a file that the user named (a missing one, too long a name, a full disk) into the user's."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        file = f"{error.filename}: " if error.filename is not None else ""
        raise FflbenchError(f"{file}{error.strerror or error}") from error


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _print_to_stderr(replace_control_characters(f"warning: {message}"))


def _print_to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
