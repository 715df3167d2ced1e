"""What servers could rebuild, from records: a row for each attack, target and defense."""

from collections.abc import Iterable, Sequence

from fflbench.records.record import Record
from fflbench.report.costs import Sheet
from fflbench.report.statistics import Estimate, estimate

COLUMNS = (
    "attack",
    "target",
    "defense",
    "psnr, dB",
    "squared error",
    "label accuracy %",
    "floor, dB",
    "pairs right %",
    "reconstructions",
    "adaptive",
)


def sheets(records: Sequence[Record]) -> list[Sheet]:
    """One table a task and setting of the victims."""
    groups: dict[str, dict[tuple[str, str, str], list[Record]]] = {}
    for record in records:
        if record.status == "done":
            told = record.configuration["measure"]["parameters"]
            people = (
                f"{told['people']} people a round, {told['batch']} examples each, {told['local_steps']} local steps"
            )
            row = record.labels["privacy-attack"], told["target"], record.labels["defense"]
            groups.setdefault(f"{record.labels['task']}: {people}", {}).setdefault(row, []).append(record)
    return [
        Sheet(
            title,
            COLUMNS,
            tuple((*row, *_figures(of_row)) for row, of_row in rows.items()),
            (
                "Median over reconstructions, mean over seeds ± half of the 95% interval (Student's t). The floor is "
                "what a random image of the same data gives. Against an exchange of fragments, a row that is not "
                "adaptive shows what an attacker achieves who ignores the exchange.",
            ),
        )
        for title, rows in groups.items()
    ]


def _figures(records: Sequence[Record]) -> tuple[str, ...]:
    def over_seeds(name: str) -> Estimate:
        return estimate(list(_values(records, name)))

    return (
        _text(over_seeds("psnr"), 1),
        f"{over_seeds('mse').mean:.2g}",
        f"{100 * over_seeds('label_accuracy').mean:.0f}",
        _text(over_seeds("floor_psnr"), 1),
        f"{100 * over_seeds('pair_accuracy').mean:.0f}" if list(_values(records, "pair_accuracy")) else "",
        str(sum(record.facts["reconstructions"] for record in records)),
        "yes" if records[0].facts["adaptive"] else "no",
    )


def _values(records: Iterable[Record], name: str) -> Iterable[float]:
    for record in records:
        value = record.metrics[name]
        if isinstance(value, float):
            yield value


def _text(found: Estimate, digits: int) -> str:
    text = f"{found.mean:.{digits}f}"
    return text if found.half_width is None else f"{text} ± {found.half_width:.{digits}f}"
