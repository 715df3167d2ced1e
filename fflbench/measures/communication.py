"""Bytes that a participant sends and receives in a round, counted from real messages, and the time they take.

Jebreel et al., Enhanced security and privacy via fragmented federated learning, IEEE TNNLS 2022, appendix
"Communication cost of FFL".
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt

from fflbench.measures.growth import BREA, CostGrowth, computed_growth, growth_table
from fflbench.measures.network_time import NetworkSpeed, brea_bytes, brea_seconds, communication_seconds
from fflbench.plugin import (
    LOWER,
    NO_DRIFT,
    PROCESS_BYTES,
    Chain,
    Column,
    Context,
    Direction,
    FilledColumn,
    Ledger,
    Matrix,
    Measure,
    Metric,
    NotNegative,
    Outcome,
    ParameterError,
    Record,
    RecordFields,
    Table,
    TableCell,
    Task,
    Text,
    Timing,
    measure,
    one_round,
    published_results,
    record_groups,
    slug,
    tables_beside_papers,
)

BYTES = "Bytes that a participant sends and receives in a round, counted from real messages."

NOT_IN_PAPER = ("mac", "framing")
"""Kinds of messages that the paper does not count."""

PAPERS_MESSAGES_BETWEEN = 4
"""Latencies that the paper charges for an exchange between two participants, which takes three messages."""

PAPERS_ROUNDING = 100
"""Bytes to which the paper rounds the size of a model: 0.0001 MB."""


def _cost_metric(name: str, title: str, meaning: str, unit: str = "s", **declared: Any) -> Metric:
    return Metric(name, title, meaning, LOWER, unit=unit, low=0.0, seeded=False, **declared)


def _seconds_metric(name: str, title: str, meaning: str, **declared: Any) -> Metric:
    return _cost_metric(name, title, meaning, digits=3, drift=NO_DRIFT, **declared)


class _SecondsByPart(RecordFields):
    server: NotNegative
    between: NotNegative
    latency: NotNegative
    total: NotNegative


class _SecondsByWay(RecordFields):
    papers_way: _SecondsByPart
    rounded: _SecondsByPart
    parameters: _SecondsByPart
    sent: _SecondsByPart


class _Facts(RecordFields):
    bytes_per_participant: dict[Text, dict[Text, NotNegative]]
    kinds: dict[Text, Text]
    model_bytes_the_papers_way: NotNegative
    seconds: _SecondsByWay


@measure("communication", title="Communication", version=2)
class Communication(Measure):
    """Send every message of one round, count its bytes, and compute the time on a network."""

    needs_data = False
    mode = "full"
    section = "Cost"
    facts = _Facts
    exact_facts = ("bytes_per_participant",)
    metrics = (
        _cost_metric("bytes", "bytes per participant", BYTES, "kB", factor=1e-3, digits=1, headline=True, exact=True),
        _seconds_metric("seconds", "time on the network", "Seconds that a participant's messages take on the network."),
        _seconds_metric(
            "seconds_before_macs_and_framing", "without MACs and framing", "Of parameters alone.", shown=False
        ),
        _seconds_metric("seconds_the_papers_way", "as the paper counts", "With the paper's rounding.", shown=False),
        _cost_metric("server_bytes", "bytes at the server", "With all participants.", "GB", factor=1e-9, exact=True),
    )

    updates: Annotated[int, Ge(2), "participants whose messages are sent for real"] = 2
    participants: Annotated[int, Ge(2), "participants in the system, where a protocol's cost depends on them"] = 100_000
    download: Annotated[float, Gt(0), "megabits per second from the server"] = 31.01
    upload: Annotated[float, Gt(0), "megabits per second to the server and to others"] = 8.66
    latency: Annotated[float, Ge(0), "milliseconds that each message takes in addition"] = 29.0

    @classmethod
    def extra_tables(cls, records: Sequence[Record]) -> Iterable[Table]:
        return _byte_and_time_tables(records)

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        one_round.require_measurable_cost(defense, self.updates)

    def memory_bytes(self, task: Task) -> int:
        return PROCESS_BYTES + 4 * task.columns().count * (self.updates + 16)

    def estimate_seconds(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        # The mean of the cells of paper-communication on one core; keys take most of it.
        return 1.0

    def run(self, context: Context) -> Outcome:
        defense, seed, columns = context.defense, context.seed, context.task.columns()
        updates = np.random.default_rng(seed).standard_normal((self.updates, columns.count), dtype=np.float32)
        ledger = _ledger_of_round(one_round.begin_chain(defense, self.updates, columns, seed), updates)
        context.report_step(1)
        sizes, messages = ledger.per_participant(self.updates)
        parameters = 4 * (columns.parameters.stop - columns.parameters.start)
        vectors = {
            way: sum(size for kind, size in kinds.items() if ledger.kinds[kind].vector) for way, kinds in sizes.items()
        }
        without_macs = {
            way: sum(size for kind, size in kinds.items() if kind not in NOT_IN_PAPER) for way, kinds in sizes.items()
        }

        def bytes_with_model_size(model: float) -> dict[Direction, float]:
            """Return the bytes without MACs and framing for a model of this size in bytes."""
            return {
                way: without_macs[way] - vectors[way] + vectors[way] / (4 * columns.count) * model
                for way in without_macs
            }

        rounded = PAPERS_ROUNDING * round(parameters / PAPERS_ROUNDING)
        papers_messages = {**messages, "between": PAPERS_MESSAGES_BETWEEN if messages["between"] else 0}
        network = NetworkSpeed(self.download, self.upload, self.latency)
        ways = {
            "papers_way": communication_seconds(network, bytes_with_model_size(rounded), papers_messages),
            "rounded": communication_seconds(network, bytes_with_model_size(rounded), messages),
            "parameters": communication_seconds(network, bytes_with_model_size(parameters), messages),
            "sent": communication_seconds(
                network, {way: sum(kinds.values()) for way, kinds in sizes.items()}, messages
            ),
        }
        total = sum(sum(kinds.values()) for kinds in sizes.values())
        return Outcome(
            metrics={
                "seconds": ways["sent"].total,
                "seconds_before_macs_and_framing": ways["parameters"].total,
                "seconds_the_papers_way": ways["papers_way"].total,
                "bytes": total,
                "server_bytes": self.participants * sum(sum(sizes[way].values()) for way in ("down", "up")),
            },
            history=[],
            facts={
                "bytes_per_participant": {way: dict(kinds) for way, kinds in sizes.items()},
                "kinds": {kind: part.meaning for kind, part in ledger.kinds.items()},
                "messages_per_participant": messages,
                "model_bytes": parameters,
                "model_bytes_the_papers_way": rounded,
                "columns": columns.count,
                "seconds": {name: vars(seconds) | {"total": seconds.total} for name, seconds in ways.items()},
            },
        )


def _ledger_of_round(chain: Chain, updates: Matrix) -> Ledger:
    """Return the ledger of one round, from the global model to the server's feedback."""
    transcript = one_round.transmit(chain, 0, updates)
    one_round.aggregate(chain, transcript)
    if not transcript.ledger.messages["up"]:
        raise ParameterError("its messages cannot be counted: its transport enters none to the server in the ledger")
    return transcript.ledger


# Tables and figures


WAYS = {"up": "to the server", "down": "from the server", "between": "between participants"}
SECTION = "Cost"
LEDGER = {"rounded": "rounded as the paper", "parameters": "before MACs and framing", "sent": "as sent"}
WAYS_OF_TIME = {
    "server": "to and from the server",
    "between": "between participants",
    "latency": "latency",
    "total": "in all",
}


def _byte_and_time_tables(records: Sequence[Record]) -> Iterable[Table]:
    """Return bytes by kind, and seconds by the paper's method and by the ledger."""
    for group in record_groups.group_records([record for record in records if record.status == "done"]):
        first = {record.labels["defense"]: record for record in reversed(group.records)}
        own = [first[name] for name in group.defenses]
        yield _table_of_bytes_by_kind(group, own)
        yield _table_of_seconds(group, own)
    yield from tables_beside_papers(records)
    yield from _growth_tables([record for record in records if record.status == "done"])


def _growth_tables(records: Sequence[Record]) -> Iterable[Table]:
    """Yield the table of exponents: in n on the task with most numbers of updates, in D over all tasks at one n."""
    sizes = {(_updates(record), record.labels["task"], record.facts["columns"]) for record in records}
    by_task = {task: {n for n, own, _ in sizes if own == task} for _, task, _ in sizes}
    by_n = {n: {columns for own, _, columns in sizes if own == n} for n, _, _ in sizes}
    if max(map(len, [*by_task.values(), *by_n.values()]), default=0) < 2:
        return
    varied = max(by_task, key=lambda task: len(by_task[task]))
    columns = max(columns for _, task, columns in sizes if task == varied)
    most = max(by_n, key=lambda n: len(by_n[n]))
    costs = {}
    for defense in dict.fromkeys(record.labels["defense"] for record in records):
        own = [record for record in records if record.labels["defense"] == defense]
        in_n = {_updates(record): record for record in own if record.labels["task"] == varied}
        in_d = {record.facts["columns"]: record for record in own if _updates(record) == most}
        points = [
            tuple({size: cost(record) for size, record in sorted(of.items())} for of in (in_n, in_d))
            for cost in (_server_bytes, _participant_bytes)
        ]
        costs[defense] = CostGrowth((points[0][0], points[0][1]), (points[1][0], points[1][1]), own[0].defense, own)
    brea = computed_growth(
        costs.values(),
        (columns, most),
        lambda n, d: n * (brea_bytes(4 * d, n)["up"] + brea_bytes(4 * d, n)["down"]),
        lambda n, d: sum(brea_bytes(4 * d, n).values()),
    )
    yield growth_table(
        {**costs, BREA: brea},
        "communication",
        name="communication-growth",
        title="How the bytes of a round grow",
        section=SECTION,
        notes=(
            f"Fitted on logarithms of bytes, counted from real messages: in n on {varied}, in D over all tasks at "
            f"n = {most}. BREA by the paper's formula, at the same sizes; nothing of it was run.",
        ),
    )


def _updates(record: Record) -> int:
    return int(record_groups.measure_parameters(record)["updates"])


def _participant_bytes(record: Record) -> float:
    return float(sum(sum(kinds.values()) for kinds in record.facts["bytes_per_participant"].values()))


def _server_bytes(record: Record) -> float:
    """Return the bytes to and from the server of all participants whose messages were sent."""
    of_one = record.facts["bytes_per_participant"]
    return float(_updates(record) * sum(sum(of_one[way].values()) for way in ("down", "up")))


def _table_of_bytes_by_kind(group: record_groups.RecordGroup, records: Sequence[Record]) -> Table:
    filled: dict[tuple[str, str], dict[str, TableCell]] = {}
    meanings: dict[str, str] = {}
    for record in records:
        meanings |= record.facts["kinds"]
        for way, sizes in record.facts["bytes_per_participant"].items():
            for kind, size in sizes.items():
                cell = TableCell(mean=float(size)).with_records([record])
                filled.setdefault((way, kind), {})[record.labels["defense"]] = cell
    return Table.from_columns(
        [
            FilledColumn(
                Column(
                    name=f"{way} {kind}",
                    title=f"{WAYS.get(way, way)}: {kind}, bytes",
                    meaning=f"{meanings.get(kind, kind)}, {WAYS.get(way, way)}, in bytes.",
                    digits=0,
                ),
                cells,
            )
            for (way, kind), cells in filled.items()
        ],
        rows=[record.labels["defense"] for record in records],
        name=slug(f"bytes-{group.heading}"),
        title=f"{group.heading}: bytes a participant sends and receives in a round, by kind",
        section=SECTION,
        notes=("Counted from real messages. Between participants, bytes count for both, who send and who receive.",),
    )


def _table_of_seconds(group: record_groups.RecordGroup, records: Sequence[Record]) -> Table:
    setting = record_groups.measure_parameters(records[0])
    network = NetworkSpeed(setting["download"], setting["upload"], setting["latency"])
    computed = brea_seconds(network, records[0].facts["model_bytes_the_papers_way"], setting["participants"])
    by_formula = vars(computed) | {"total": computed.total}
    own = {record.labels["defense"]: record for record in records}
    filled = []
    for part, text in WAYS_OF_TIME.items():
        meaning = f"Seconds {text}, counted as the paper does."
        cells = {
            name: _seconds_cell(record.facts["seconds"]["papers_way"][part], record) for name, record in own.items()
        }
        cells[BREA] = TableCell(mean=by_formula[part])
        filled.append(FilledColumn(_seconds_column(f"paper-{part}", f"paper's way: {part}, s", meaning), cells))
    printed = {name: _published_seconds_cell(record) for name, record in own.items()}
    printed[BREA] = _published_seconds_cell(records[0], "brea")
    filled.append(
        FilledColumn(_seconds_column("printed", "the paper prints, s", "In all, as the paper prints it."), printed)
    )
    for way, title in LEDGER.items():
        cells = {name: _seconds_cell(record.facts["seconds"][way]["total"], record) for name, record in own.items()}
        filled.append(
            FilledColumn(_seconds_column(way, f"ledger, {title}, s", "By the messages that were sent."), cells)
        )
    return Table.from_columns(
        filled,
        name=slug(f"seconds-{group.heading}"),
        title=f"{group.heading}: seconds a round's messages take a participant",
        section=SECTION,
        notes=(
            f"Download {network.download:g} Mbps, upload {network.upload:g} Mbps, latency {network.latency:g} ms. "
            f"BREA is computed by the paper's formula for {setting['participants']:,} participants; nothing of it was "
            "run. The paper rounds a model to 0.0001 MB and charges four latencies between two participants; the "
            "ledger counts the messages that were sent, of which there are three.",
        ),
    )


def _seconds_column(name: str, title: str, meaning: str) -> Column:
    return Column(name=name, title=title, meaning=meaning, digits=4)


def _seconds_cell(seconds: float, record: Record) -> TableCell:
    return TableCell(mean=seconds).with_records([record])


def _published_seconds_cell(record: Record, method: str = "") -> TableCell:
    printed = published_results.find_figures(
        task=record.configuration["task"]["name"],
        defense=method or record.defense,
        metric="seconds_the_papers_way",
    )
    return TableCell(mean=printed[0].number) if printed else TableCell()
