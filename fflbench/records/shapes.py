"""Content that a record of each measure must have: all that tables, figures and pages use, checked when it is read."""

from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fflbench.records.arrays import Arrays

if TYPE_CHECKING:
    from fflbench.records.record import Record

LARGEST = 1e100
"""Far beyond any float32, or its square, that a cell can come to; its own square is still a number."""
LONGEST = 200
"""Letters of a label."""
LONGEST_FILE = 255
"""Letters of a file's name, after which a suite is called."""
LONGEST_TITLE = 300
"""Letters of a suite's title."""
TALLEST = 4096
"""Pixels of an image's side."""

Number = Annotated[float, Ge(-LARGEST), Le(LARGEST)]
Positive = Annotated[float, Gt(0), Le(LARGEST)]
NotNegative = Annotated[float, Ge(0), Le(LARGEST)]
Count = Annotated[int, Ge(0), Le(10**12)]
Some = Annotated[int, Ge(1), Le(10**12)]
Share = Annotated[float, Ge(0), Le(1)]
Text = Annotated[str, Field(max_length=10_000)]
Participant = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


# Every record


class _Manifest(_Shape):
    processor: Text = ""
    device: Text = ""
    plugins: list[Text] = []


class _Any(_Shape):
    suite: Annotated[str, Field(max_length=LONGEST_FILE)]
    title: Annotated[str, Field(max_length=LONGEST_TITLE)]
    error: str
    manifest: _Manifest
    seconds: dict[Text, Number]


class _FailedFacts(_Shape):
    model_config = ConfigDict(extra="forbid")

    run_alone: str = ""


class _Failed(_Any):
    """A failed cell has found nothing that could enter a table."""

    facts: _FailedFacts
    metrics: dict[str, Any] = Field(max_length=0)
    history: list[Any] = Field(max_length=0)
    arrays: str = Field(max_length=0)


class _OtherFacts(_Shape):
    knows: list[Text] = []


class _Other(_Any):
    """A measure that has no tables of its own."""

    facts: _OtherFacts


# Robustness


class _Guarantee(_Shape):
    epsilon: Number | None


class _RobustFacts(_Shape):
    targeted: bool
    attackers: list[Count]
    flags: list[Text]
    knows: list[Text] = []
    honest_excluded: Count = 0
    rounds_that_kept_the_model: Count = 0
    rounds_with_more_attackers_than_f: Count | None = None
    dropped_rows: Count = 0
    guarantee: _Guarantee | None = None


class _RobustMetrics(_Shape):
    test_loss: Number | None
    accuracy: Share | None
    source_accuracy: Share | None
    attack_success_rate: Share | None
    class_accuracy: list[Share | None]
    diverged: bool


class _Round(_Shape):
    round: Count
    accuracy: Share | None
    trust: dict[Participant, Number] = {}


class _RobustParameters(_Shape):
    strategy: Count = 1


class _Robust(_Any):
    facts: _RobustFacts
    metrics: _RobustMetrics
    history: list[_Round]


# Privacy


class _ReconstructionParameters(_Shape):
    target: Text
    people: Some
    batch: Some
    local_steps: Some
    model_epochs: Count
    groups: Some
    rate: Positive


class _ObservedFacts(_Shape):
    adaptive: bool | None
    target: Text
    knows: list[Text]
    caution: Text = ""


class _ReconstructionFacts(_ObservedFacts):
    reconstructions: Some
    victims: Count


class _ReconstructionMetrics(_Shape):
    psnr: Number
    best_psnr: Number
    ssim: Number | None
    label_accuracy: Share
    floor_psnr: Number
    floor_best_psnr: Number
    floor_label_accuracy: Share
    pair_accuracy: Share | None
    mask_accuracy: Share | None


class _Reconstruction(_Any):
    facts: _ReconstructionFacts
    metrics: _ReconstructionMetrics


class _PartnerParameters(_Shape):
    pads: Text
    batch: Some
    rate: Positive


class _PartnerFacts(_Shape):
    bits: Count
    demonstration: bool
    knows: list[Text] = []


class _PartnerMetrics(_Shape):
    recovered: Share
    bit_accuracy: Share
    floor_bit_accuracy: Share


class _Partner(_Any):
    facts: _PartnerFacts
    metrics: _PartnerMetrics


class _MembershipParameters(_Shape):
    target: Text
    rounds_before: Count
    members: Count
    others: Count
    control: bool


class _PropertyParameters(_Shape):
    target: Text
    groups: Count
    people: Count
    model_epochs: Count
    examples: Count
    share_with: Share
    share_without: Share


class _InferenceFacts(_ObservedFacts):
    members: Some
    non_members: Some


class _MembershipFacts(_InferenceFacts):
    training: Text
    examples_each: NotNegative


class _InferenceMetrics(_Shape):
    auc: Share
    # Chance alone may reach beyond 0 and 1 where very few are judged.
    auc_by_chance: NotNegative
    pair_accuracy: Share | None = None


class _MembershipMetrics(_InferenceMetrics):
    tpr_1: Share | None = Field(alias="tpr_at_fpr_0.01")
    tpr_01: Share | None = Field(alias="tpr_at_fpr_0.001")
    accuracy: Share | None


class _Point(_Shape):
    fpr: Share
    tpr: Share


class _Inference(_Any):
    facts: _InferenceFacts
    metrics: _InferenceMetrics
    history: list[_Point]


class _Membership(_Inference):
    facts: _MembershipFacts
    metrics: _MembershipMetrics


# Cost


class _RuntimeParameters(_Shape):
    updates: Some
    threads: Some


class _RuntimeFacts(_Shape):
    columns: Some
    updates_bytes: Some
    timed_runs: Some


class _RuntimeMetrics(_Shape):
    seconds: NotNegative
    peak_bytes: NotNegative
    decryption_seconds: NotNegative
    decryption_spread: NotNegative
    aggregation_seconds: NotNegative
    aggregation_spread: NotNegative
    mixing_seconds: NotNegative
    mixing_spread: NotNegative


class _TimedRun(_Shape):
    columns: Some
    decryption: NotNegative
    aggregation: NotNegative


class _Runtime(_Any):
    facts: _RuntimeFacts
    metrics: _RuntimeMetrics
    history: list[_TimedRun]


class _CommunicationParameters(_Shape):
    participants: Some
    download: Positive
    upload: Positive
    latency: NotNegative


class _SecondsByPart(_Shape):
    server: NotNegative
    between: NotNegative
    latency: NotNegative
    total: NotNegative


class _SecondsByWay(_Shape):
    papers_way: _SecondsByPart
    rounded: _SecondsByPart
    parameters: _SecondsByPart
    sent: _SecondsByPart


class _CommunicationFacts(_Shape):
    bytes_per_participant: dict[Text, dict[Text, NotNegative]]
    model_bytes_the_papers_way: NotNegative
    seconds: _SecondsByWay


class _CommunicationMetrics(_Shape):
    bytes: NotNegative
    server_bytes: NotNegative


class _Communication(_Any):
    facts: _CommunicationFacts
    metrics: _CommunicationMetrics


class _Nothing(_Shape):
    """Parameters that no table looks at."""


FINISHED: dict[str, type[_Shape]] = {
    "": _Robust,
    "reconstruction": _Reconstruction,
    "partner": _Partner,
    "membership": _Membership,
    "property": _Inference,
    "runtime": _Runtime,
    "communication": _Communication,
}
"""By measure, a finished record; the first is robustness."""

PARAMETERS: dict[str, type[_Shape]] = {
    "": _RobustParameters,
    "reconstruction": _ReconstructionParameters,
    "partner": _PartnerParameters,
    "membership": _MembershipParameters,
    "property": _PropertyParameters,
    "runtime": _RuntimeParameters,
    "communication": _CommunicationParameters,
}
"""By measure, its parameters (of robustness, the attack's): failed cells have a place in tables too."""

ATTACKED = ("reconstruction", "partner", "membership", "property")


def check(record: "Record") -> None:
    """Refuse a record that lacks what the tables of its measure need, with a `ValueError`."""
    for label in record.labels.values():
        check_label(label)
    kinds = set(record.configuration)
    if kinds - {"task", "defense", "seed"} not in ({"attack"}, {"measure"}, {"measure", "privacy-attack"}):
        raise ValueError(f"no record of ours: its configuration has {', '.join(sorted(kinds))[:LONGEST]}")
    if set(record.labels) != kinds - {"seed"}:
        raise ValueError("no record of ours: its labels are of other things than its configuration")
    chosen = record.configuration.get("measure")
    measure = chosen["name"] if chosen else ""
    if measure in ATTACKED and "privacy-attack" not in kinds:
        raise ValueError(f"no record of {measure}: it has no privacy attack")
    finished = FINISHED.get(measure, _Other)
    parameters = (chosen or record.configuration["attack"])["parameters"]
    try:
        PARAMETERS.get(measure, _Nothing).model_validate(parameters)
        (finished if record.status == "done" else _Failed).model_validate(dict(record))
    except ValidationError as error:
        raise ValueError(f"no record of {measure or 'robustness'}: {first_problem(error)}") from error


def check_label(label: str) -> None:
    """Refuse a label that no table can show, with a `ValueError`."""
    if not 0 < len(label) <= LONGEST:
        raise ValueError(f"the label {label[:20]!r} has {len(label)} letters, and must have 1 to {LONGEST}")
    if not label.isprintable():
        raise ValueError(f"the label {label[:20]!r} holds what cannot be printed")


def check_arrays(record: "Record", arrays: Arrays) -> None:
    """Refuse arrays that are not those of the record's measure, with a `ValueError`."""
    chosen = record.configuration.get("measure")
    if not chosen or chosen["name"] != "reconstruction":
        return
    if set(arrays) != {"originals", "found"}:
        raise ValueError(f"a reconstruction has the arrays originals and found, not {', '.join(sorted(arrays))[:80]}")
    originals, found = arrays["originals"], arrays["found"]
    expected = tuple(chosen["parameters"][name] for name in ("groups", "people", "batch"))
    if originals.shape != found.shape or found.shape[:3] != expected or not found.size:
        told = f"{originals.shape} and {found.shape}"
        raise ValueError(f"originals and found have the shapes {told}, and must both begin with {expected}")
    if originals.dtype.kind != "f" or found.dtype.kind != "f":
        raise ValueError("originals and found must be floating-point numbers")
    if found.ndim == 6 and max(found.shape[4:]) > TALLEST:
        raise ValueError(f"images have sides of {found.shape[4:]}, and at most {TALLEST} pixels are shown")


def first_problem(error: ValidationError) -> str:
    """Where pydantic found the first thing wrong, and what it is, in a line."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))[:LONGEST]
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
