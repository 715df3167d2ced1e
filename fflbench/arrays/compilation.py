"""Compilation with numba, whose code is kept on disk. Importing this module imports numba, which takes a while."""

from collections.abc import Callable
from typing import Any

import numba


def compile_function(function: Callable[..., Any], signature: tuple[Any, ...], **options: Any) -> Any:
    """Return the compiled function, which lets other threads run meanwhile, or None where it cannot be compiled."""
    # Code cannot be kept where no folder is writable, or no space left; it is compiled for this process then.
    for cache in (True, False):
        try:
            compiled = numba.njit(function, nogil=True, cache=cache, **options)
            compiled.compile(signature)
            return compiled.overloads[signature].entry_point
        except Exception:  # noqa: S112, a failure is nothing to report
            # Of any kind: a damaged cache, or one that another process writes, raises KeyError, EOFError or
            # UnpicklingError among others, and compiled code is only an optimisation.
            continue
    return None
