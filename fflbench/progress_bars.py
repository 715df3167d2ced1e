"""Progress bars that fit any terminal: descriptions are shortened by whole words, and nothing else is."""

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.table import Column
from rich.text import Text

FIXED = Column(no_wrap=True)
"""Column that keeps its width, at the expense of descriptions."""
WIDEST_BAR = 40


def make_bars(console: Console, *columns: ProgressColumn) -> Progress:
    """Return progress bars with their descriptions before them and further columns after them."""
    bar = BarColumn(min(WIDEST_BAR, console.width // 6), table_column=FIXED)
    return Progress(_DescriptionColumn(), bar, *columns, console=console, transient=True)


class LastWords:
    """Text that shows its last words, after an ellipsis, where it does not fit: names of cells differ there."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return its least and its full width."""
        return Measurement(1, max(1, cell_len(self.text)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the words that fit."""
        words = self.text.split(" ")
        shorter = (" ".join(["…", *words[place:]]) for place in range(1, len(words)))
        fitting = (text for text in (self.text, *shorter) if cell_len(text) <= options.max_width)
        yield Text(next(fitting, "…"), no_wrap=True)


class _DescriptionColumn(ProgressColumn):
    def render(self, task: Task) -> LastWords:
        return LastWords(task.description)
