"""What servers and partners could learn, from records: a row for each attack, target and defense."""

from collections.abc import Iterable, Sequence
from typing import Any

from fflbench.records.record import Record
from fflbench.report.costs import Sheet
from fflbench.report.statistics import Estimate, estimate, shown

RECONSTRUCTION, PARTNER = "reconstruction", "partner"
TARGET_ORDER = ("own", "pair-sum", "found-pair-sum", "unmixed", "colluding", "aggregate")

LABELS_AND_PAIRS = ("label_accuracy", "floor_label_accuracy", "pair_accuracy", "mask_accuracy")
COLUMNS = (
    "attack",
    "target",
    "defense",
    "psnr, dB",
    "floor, dB",
    "best, dB",
    "its floor",
    "ssim",
    "labels %",
    "floor %",
    "pairs %",
    "mask %",
    "victims",
    "s each",
    "adaptive",
)


def sheets(records: Sequence[Record]) -> list[Sheet]:
    """One table a task and setting of the victims; then what partners learn."""
    done = [record for record in records if record.status == "done"]
    found = [
        Sheet(
            title,
            COLUMNS,
            tuple((*row, *_figures(of_row)) for row, of_row in rows(of_setting).items()),
            (
                "Median over reconstructions, mean over seeds ± half of the 95% interval (Student's t); best: of each "
                "reconstruction's examples the one that came out best. Floors are what random examples of the same "
                "data give. Against an exchange of fragments, a row that is not adaptive shows what an attacker "
                "achieves who ignores the exchange. Pairs found right; of right pairs, owners of a layer's entries "
                "told right, up to exchange of the two, so half is chance; nothing where ranks allow no telling.",
            ),
        )
        for title, of_setting in settings(done).items()
    ]
    return found + _partners([record for record in done if _measure(record) == PARTNER])


def settings(records: Iterable[Record], *, failed: bool = False) -> dict[str, list[Record]]:
    """Reconstructions by what they have in common but attack, target, defense and seed, under a title."""
    rebuilt = [
        record for record in records if (record.status == "done" or failed) and _measure(record) == RECONSTRUCTION
    ]
    # What a title leaves out is told where it varies.
    varied = [name for name in ("groups", "rate") if len({str(told(record).get(name)) for record in rebuilt}) > 1]
    found: dict[str, list[Record]] = {}
    for record in rebuilt:
        set_ = told(record)
        model = f"trained for {_count(set_['model_epochs'], 'epoch')}" if set_["model_epochs"] else "untrained"
        title = (
            f"{record.labels['task']}, {model}: {set_['people']} people a round, "
            f"{_count(set_['batch'], 'example')} each, {_count(set_['local_steps'], 'local step')}"
        )
        title += "".join(f", {name} = {set_.get(name)}" for name in varied)
        found.setdefault(title, []).append(record)
    return found


def rows(records: Iterable[Record]) -> dict[tuple[str, str, str], list[Record]]:
    """By attack, target and defense: the records of all seeds."""
    found: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        row = record.labels["privacy-attack"], told(record)["target"], record.labels["defense"]
        found.setdefault(row, []).append(record)
    return found


def values(records: Iterable[Record], name: str) -> list[float]:
    """A metric of several records, where they have it."""
    found = (record.metrics.get(name) for record in records)
    return [float(value) for value in found if isinstance(value, float | int)]


def _figures(records: Sequence[Record]) -> tuple[str, ...]:
    each = [record.seconds.get("attack", 0.0) / record.facts["reconstructions"] for record in records]
    return (
        *(_text(records, name, 1) for name in ("psnr", "floor_psnr", "best_psnr", "floor_best_psnr")),
        f"{estimate(ssim).mean:.2f}" if (ssim := values(records, "ssim")) else "",
        *(_percent(records, name) for name in LABELS_AND_PAIRS),
        str(sum(record.facts["victims"] for record in records)),
        f"{sum(each) / len(each):.2g}",
        adaptive(records[0]),
    )


def adaptive(record: Record) -> str:
    """Whether an attacker took the exchange into account, if there was one, and what is to be said of how."""
    caution = record.facts.get("caution")
    if caution:
        return str(caution)
    return {None: "", True: "yes", False: "no"}[record.facts["adaptive"]]


def _partners(records: Sequence[Record]) -> list[Sheet]:
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        kinds = (record.labels[kind] for kind in ("task", "privacy-attack", "defense"))
        set_ = told(record)
        people = f"{set_['pads']}, batch {set_['batch']}, rate {set_['rate']}"
        found.setdefault((*kinds, people), []).append(record)
    if not found:
        return []
    rows = tuple(
        (
            *row,
            "yes" if of_row[0].facts["demonstration"] else "",
            _percent(of_row, "recovered"),
            _text(of_row, "bit_accuracy", 4),
            _text(of_row, "floor_bit_accuracy", 4),
            f"{sum(record.facts['bits'] for record in of_row):,}",
        )
        for row, of_row in found.items()
    )
    columns = (
        *("task", "attack", "defense", "pads", "demonstration", "coordinates told right %"),
        *("bits right", "own update as a guess", "bits"),
    )
    note = (
        "What the one who asked makes of the other's update from the messages of their exchange, to the bit. Half of "
        "the bits are right by chance; one's own update, which is like the other's, is a better guess. Demonstrations "
        "are exchanges as they must not be."
    )
    return [Sheet("What a curious partner learns", columns, rows, (note,))]


def _measure(record: Record) -> str:
    return str(record.configuration.get("measure", {}).get("name", ""))


def told(record: Record) -> dict[str, Any]:
    """How its measure was set."""
    parameters: dict[str, Any] = record.configuration["measure"]["parameters"]
    return parameters


def _percent(records: Sequence[Record], name: str) -> str:
    found = values(records, name)
    return f"{100 * sum(found) / len(found):.0f}" if found else ""


def _text(records: Sequence[Record], name: str, digits: int) -> str:
    found = values(records, name)
    return with_interval(estimate(found), digits) if found else ""


def with_interval(found: Estimate, digits: int) -> str:
    """A figure with its interval."""
    text = shown(found.mean, digits)
    return text if found.half_width is None else f"{text} ± {shown(found.half_width, digits)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
