"""Progress on standard error: a bar on a terminal, a plain line in a log."""

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from fflbench.terminal import console

T = TypeVar("T")

_shown: ContextVar[bool] = ContextVar("shown", default=False)


class Advance(Protocol):
    """Function that advances a progress bar."""

    def __call__(self, amount: int, /) -> None:
        """Advance the bar by an amount."""


@contextmanager
def no_progress() -> Iterator[None]:
    """Suppress bars and lines inside this context."""
    token = _shown.set(True)
    try:
        yield
    finally:
        _shown.reset(token)


@contextmanager
def progress_bar(what: str, total: int | None, *, unit_bytes: bool = False, done: int = 0) -> Iterator[Advance]:
    """Show a progress bar and yield the function that advances it; inside another bar, show nothing."""
    if _shown.get() or not sys.stderr.isatty():
        if not _shown.get():
            print(f"{what} ...", file=sys.stderr, flush=True)  # noqa: T201
        yield lambda _: None
        return
    from rich import progress

    from fflbench.progress_bars import FIXED, make_bars

    amounts = (
        (progress.DownloadColumn(table_column=FIXED), progress.TransferSpeedColumn(table_column=FIXED))
        if unit_bytes
        else (progress.MofNCompleteColumn(table_column=FIXED),)
    )
    with make_bars(console(sys.stderr), *amounts, progress.TimeRemainingColumn(table_column=FIXED)) as display:
        task = display.add_task(what, total=total, completed=done)
        with no_progress():
            yield lambda amount: display.advance(task, amount)


def track_progress(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Yield the items, with a bar that counts them."""
    length = len(items) if total is None and isinstance(items, Sized) else total
    with progress_bar(what, length) as advance:
        for item in items:
            yield item
            advance(1)
