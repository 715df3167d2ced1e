"""What a record of each kind must hold for tables to be made of it: one that came from elsewhere may hold anything."""

from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fflbench.errors import RecordError
from fflbench.records.record import Record

LARGEST = 1e30
"""No figure of ours is near it, and its square is still a number."""
LONGEST = 120

Number = Annotated[int | float, Ge(-LARGEST), Le(LARGEST)]
Count = Annotated[int, Ge(0), Le(10**12)]
Share = Annotated[int | float, Ge(0), Le(1)]
Name = Annotated[str, Field(pattern=r"^\d+$", max_length=9)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class _Round(_Shape):
    round: int
    accuracy: Number | None
    trust: dict[Name, Number] = {}


class _Guarantee(_Shape):
    epsilon: Number | None


class _AttackFacts(_Shape):
    targeted: bool
    attackers: list[int]
    flags: list[str]
    honest_excluded: int = 0
    guarantee: _Guarantee | None = None


class _Strategy(_Shape):
    strategy: int = 1


class _AttackMetrics(_Shape):
    test_loss: Number | None
    accuracy: Number | None
    source_accuracy: Number | None
    attack_success_rate: Number | None


class _Attacked(_Shape):
    parameters: _Strategy
    facts: _AttackFacts
    metrics: _AttackMetrics
    history: list[_Round]


class _Setting(_Shape):
    target: str
    people: int
    batch: int
    local_steps: int
    model_epochs: int
    groups: int
    rate: Number


class _RebuiltFacts(_Shape):
    reconstructions: int = Field(gt=0)
    victims: int
    adaptive: bool | None
    target: str
    knows: list[str]
    caution: str = ""


class _RebuiltMetrics(_Shape):
    psnr: Number
    floor_psnr: Number


class _Rebuilt(_Shape):
    parameters: _Setting
    facts: _RebuiltFacts
    metrics: _RebuiltMetrics


class _Pads(_Shape):
    pads: str
    batch: int
    rate: Number


class _PartnerFacts(_Shape):
    bits: int
    demonstration: bool


class _PartnerMetrics(_Shape):
    recovered: Number
    bit_accuracy: Number
    floor_bit_accuracy: Number


class _Partner(_Shape):
    parameters: _Pads
    facts: _PartnerFacts
    metrics: _PartnerMetrics


class _Membership(_Shape):
    target: str
    rounds_before: Count
    members: Count
    others: Count
    control: bool


class _Property(_Shape):
    target: str
    groups: Count
    people: Count
    model_epochs: Count
    examples: Count
    share_with: Share
    share_without: Share


class _JudgedFacts(_Shape):
    members: Count = Field(gt=0)
    non_members: Count = Field(gt=0)
    adaptive: bool | None
    target: str
    knows: list[str]
    caution: str = ""


class _MembershipFacts(_JudgedFacts):
    training: str
    examples_each: Number


class _JudgedMetrics(_Shape):
    auc: Share
    auc_by_chance: Share


class _MembershipMetrics(_JudgedMetrics):
    tpr_1: Share | None = Field(alias="tpr_at_fpr_0.01")
    tpr_01: Share | None = Field(alias="tpr_at_fpr_0.001")


class _Point(_Shape):
    fpr: Share
    tpr: Share


class _MembershipTold(_Shape):
    parameters: _Membership
    facts: _MembershipFacts
    metrics: _MembershipMetrics
    history: list[_Point]


class _PropertyTold(_Shape):
    parameters: _Property
    facts: _JudgedFacts
    metrics: _JudgedMetrics
    history: list[_Point]


class _Updates(_Shape):
    updates: int


class _RuntimeMetrics(_Shape):
    seconds: Number
    mixing_seconds: Number
    peak_bytes: Number


class _Runtime(_Shape):
    parameters: _Updates
    metrics: _RuntimeMetrics


class _BytesFacts(_Shape):
    bytes_per_participant: dict[str, dict[str, Number]]


class _BytesMetrics(_Shape):
    bytes: Number


class _Communication(_Shape):
    facts: _BytesFacts
    metrics: _BytesMetrics


SHAPES: dict[str, type[_Shape]] = {
    "": _Attacked,
    "reconstruction": _Rebuilt,
    "partner": _Partner,
    "membership": _MembershipTold,
    "property": _PropertyTold,
    "runtime": _Runtime,
    "communication": _Communication,
}
"""By measure; the first is robustness."""

ATTACKED = ("reconstruction", "partner", "membership", "property")


def check(record: Record) -> None:
    """Refuse a finished record that lacks what its tables need; measures that have no table need nothing."""
    for label in record.labels.values():
        if len(label) > LONGEST or not label.isprintable():
            raise RecordError(f"a label that is too long or holds what cannot be printed: {label[:20]!r}")
    kinds = set(record.configuration)
    if kinds - {"task", "defense", "seed"} not in ({"attack"}, {"measure"}, {"measure", "privacy-attack"}):
        raise RecordError(f"a configuration of {', '.join(sorted(kinds))}")
    if set(record.labels) != kinds - {"seed"}:
        raise RecordError("labels of other things than its configuration has")
    measure = record.configuration.get("measure", {"name": "", "parameters": {}})
    shape = SHAPES.get(measure["name"])
    if measure["name"] in ATTACKED and "privacy-attack" not in kinds:
        raise RecordError("no privacy attack")
    if record.status == "failed" or shape is None:
        return
    told: dict[str, Any] = {
        "parameters": (record.configuration.get("attack") or measure)["parameters"],
        "facts": record.facts,
        "metrics": record.metrics,
        "history": record.history,
    }
    try:
        shape.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        raise RecordError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
