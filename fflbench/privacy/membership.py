"""Whether a curious server can tell which examples somebody trained on, from what a defense lets it see."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.data import Data, Examples
from fflbench.errors import ParameterError
from fflbench.federation import Defense, Sent
from fflbench.federation.attack import Attack
from fflbench.measures import PROCESS_BYTES, Measure, Outcome, built, columns_of
from fflbench.privacy.roc import GRID, LEVELS, NEEDED, Scores, by_chance, curve, exact_interval
from fflbench.privacy.targets import TARGETS, Look, linear_layers, looks
from fflbench.randomness import stream
from fflbench.registry import Kind, measure
from fflbench.tasks import Task
from fflbench.types import Indices, Vector

if TYPE_CHECKING:
    # Measures are listed without loading torch.
    from torch import Tensor

    from fflbench.federation.rounds import Federation
    from fflbench.privacy.examination import Examination
    from fflbench.privacy.stage import Groups, Sight, Stage

AUXILIARY, CONTROLLED = "auxiliary data", "controlled participants"
SPARE = 3
"""One in so many non-members is nobody's suspect: data like the victims', for attacks that declare it."""


@dataclass(frozen=True)
class Server:
    """What a curious server has and can do. Examples are told by numbers that say nothing of where they come from."""

    task: Task
    """How people train is public."""
    before: Vector
    """The global model that everybody started from."""
    examine: "Examination"
    rng: np.random.Generator
    declared: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many examples a participant holds, about."""
        size: int = self.declared["size"]
        return size

    @property
    def people(self) -> int:
        """How many take part in a round."""
        people: int = self.declared["people"]
        return people

    @property
    def auxiliary(self) -> Indices:
        """Examples like the victims', which nobody trained on."""
        examples: Indices = self._tell(AUXILIARY)
        return examples

    def single(self, which: Indices) -> Indices:
        """Of these, the examples that equal no other one that anybody trained on, as is true of all suspects."""
        alone: npt.NDArray[np.bool_] = self.declared["single"]
        return which[alone[which]]

    @property
    def controlled(self) -> list[Indices]:
        """The examples of participants who do the server's bidding and sit out this round."""
        examples: list[Indices] = self._tell(CONTROLLED)
        return examples

    def rehearse(self, groups: "Groups", purpose: str, *, plain: bool = False) -> "list[Sight]":
        """Play rounds with people of one's own, from the same model behind the same defense, and look the same way.

        Plain: look at their updates one by one, as if there were no defense.
        """
        stage: Stage = self._tell("stage")
        return stage.play(groups, purpose, plain=plain)

    def _tell(self, what: str) -> Any:
        if what not in self.declared:
            raise PermissionError(f'this attack does not declare that it knows "{what}"')
        return self.declared[what]


@dataclass(kw_only=True)
class MembershipAttack:
    """A curious server that judges examples by an update; its fields are its parameters."""

    knows: ClassVar[tuple[str, ...]] = ()
    """What it declares it must know; set by the decorator that registers it."""

    @property
    def rehearses(self) -> bool:
        """Whether it takes the defense into account by playing rounds behind it itself."""
        return False

    def conversion(self, task: Task) -> str:
        """How it takes a change of the model for a gradient, where it needs one."""
        return ""

    def prepare(self, server: Server, suspects: Indices) -> None:
        """Get ready to judge these examples, before any update is seen."""

    def judge(self, server: Server, update: Vector, suspects: Indices) -> "Tensor":
        """A score for each example: the higher, the likelier it was trained on."""
        raise NotImplementedError


@dataclass(frozen=True)
class Suspects:
    """Examples to judge by one look: members first, then others."""

    look: Look
    members: Indices
    others: Indices


@measure("membership", title="Membership")
class Membership(Measure):
    """Play some rounds, then judge by the messages of the next who trained on what.

    Members are examples of those behind an update. Others are examples that nobody trained on: what those hold who
    never took part, or, where that is little, the test part as well. Rows that equal another one that somebody trained
    on are left out of both: left out of the others alone, they would tell members apart without any update.
    """

    attacked = Kind.PRIVACY_ATTACK
    metrics = (
        *("auc", "auc_by_chance"),
        *(f"tpr_at_fpr_{level}{end}" for level in LEVELS for end in ("", "_low", "_high")),
        *("pair_accuracy", "accuracy"),
    )

    target: Annotated[
        Literal["own", "pair-sum", "found-pair-sum", "unmixed", "colluding", "aggregate"],
        "how the server turns what it sees into updates to judge by",
    ] = "own"
    rounds_before: Annotated[int, Ge(0), "rounds that the federation plays before the one that is attacked"] = 5
    members: Annotated[int, Ge(2), "examples judged of each participant, at most"] = 100
    others: Annotated[int, Ge(1), "non-members judged for each participant behind an update, at most"] = 100
    control: Annotated[bool, "members against members, which nothing can tell apart"] = False

    def takes(self, attack: Any) -> bool:
        return isinstance(attack, MembershipAttack)

    def applies(self, defense: Defense) -> bool:
        return TARGETS[self.target].applies(defense)

    def check(self, task: Task, defense: Defense) -> None:
        defense.validate(task.per_round)
        if TARGETS[self.target].finds_pairs and not linear_layers(built(task)):
            raise ParameterError(f"target = {self.target} needs a model with a linear layer")

    def steps(self) -> int:
        return self.rounds_before + 1

    def memory(self, task: Task) -> int:
        from fflbench.privacy.examination import GRADIENTS

        return PROCESS_BYTES + 4 * (2 * task.per_round * columns_of(task).count + 6 * GRADIENTS)

    def estimate(self, task: Task, defense: Defense, attack: Any = None) -> float:
        trained = (self.rounds_before + 1) * task.per_round + getattr(attack, "shadows", 0)
        judged = task.per_round * (self.members + self.others)
        each = len(task.data().train) / task.participants
        return 1.0 + training_seconds(task, trained * each) + 4e-8 * judged * columns_of(task).count

    def play(
        self,
        task: Task,
        defense: Defense,
        seed: int,
        tell: Callable[[int], None],
        attack: Any = None,
        device: str = "cpu",
    ) -> Outcome:
        from fflbench.federation.rounds import Federation, one_thread

        federation = Federation(task, Attack(share=0.0), defense, seed, device=device)
        with one_thread():
            took_part: set[int] = set()
            for number in range(self.rounds_before):
                took_part |= _advance(federation)
                tell(number + 1)
            seen, partners = self._look(federation)
            accuracy = federation.evaluation(federation.weights)["accuracy"]
            crowd = Crowd.of(task, seed, took_part | seen.selected, seen.selected)
            cases = self._suspects(seen.looks, crowd, stream(seed, "suspects"))
            start = time.perf_counter()
            scores = _judged(attack, cases, crowd, federation, self.target, seed, device)
            seconds = time.perf_counter() - start
        tell(self.steps())
        truth = np.concatenate([np.repeat([True, False], [len(each.members), len(each.others)]) for each in cases])
        found = TARGETS[self.target].finds_pairs
        right = [partners.get(look.people[0]) == look.people[1] for look in seen.looks] if found else []
        distinct = len(np.unique(np.concatenate([each.others for each in cases])))
        way = TARGETS[self.target]
        return Outcome(
            metrics={
                **rates(scores, truth, distinct),
                "pair_accuracy": float(np.mean(right)) if right else None,
                "accuracy": accuracy,
            },
            history=points(scores, truth),
            facts={
                "members": int(truth.sum()),
                "non_members": int((~truth).sum()),
                "distinct_non_members": distinct,
                "left_out_as_equal": crowd.equal,
                "updates": len(seen.looks),
                "examples_each": float(np.mean(crowd.sizes)),
                "training": (
                    f"{task.local_epochs} epoch{'s' * (task.local_epochs > 1)} of batches of {task.batch_size}, "
                    f"{task.optimizer}, "
                    f"rate {task.learning_rate}" + (f", momentum {task.momentum}" if task.optimizer == "sgd" else "")
                ),
                "conversion": attack.conversion(task),
                **({"guarantee": promised} if (promised := defense.guarantee()) else {}),
                "adaptive": (way.adaptive or attack.rehearses) if defense.exchanges else None,
                "target": way.meaning,
                "knows": list(dict.fromkeys([*way.knows, *attack.knows])),
                "caution": way.caution,
            },
            seconds={"attack": seconds},
        )

    def _look(self, federation: "Federation") -> "tuple[Seen, dict[int, int]]":
        """The round that is attacked, as the server sees it, and who exchanged with whom."""
        selected = federation.select()
        updates = federation.train(selected)
        sent = updates.copy()
        view = federation.transmit(selected, Sent(sent, sent))
        linear = linear_layers(federation.model.model)
        found = looks(self.target, federation.defense, view, selected, updates, linear)
        if not found:
            raise ParameterError("nobody found a partner, so there is nothing to judge by")
        return Seen(found, set(selected.tolist())), getattr(federation.defense, "partner", {})

    def _suspects(self, found: Sequence[Look], crowd: "Crowd", rng: np.random.Generator) -> list[Suspects]:
        """Whom to judge by each look; non-members are dealt, so that each comes as seldom as can be."""
        cases, dealt = [], _dealer(rng.permutation(crowd.strangers))
        for look in found:
            members = [rng.permutation(crowd.single(crowd.held[who]))[: self.members] for who in look.people]
            if self.control:
                halves = [np.array_split(own, 2) for own in members]
                cases.append(Suspects(look, *(np.concatenate(half) for half in zip(*halves, strict=True))))
                continue
            wanted = min(self.others * len(look.people), len(crowd.strangers))
            others = np.array([next(dealt) for _ in range(wanted)])
            cases.append(Suspects(look, np.concatenate(members), others))
        return cases


@dataclass(frozen=True)
class Seen:
    """What the server makes of a round, and who took part."""

    looks: list[Look]
    selected: set[int]


@dataclass(frozen=True)
class Crowd:
    """Who holds what, and which examples nobody trained on; the test part's stand behind the training part's."""

    data: Data
    held: list[Indices]
    sizes: list[int]
    controlled: list[Indices]
    strangers: Indices
    auxiliary: Indices
    copied: npt.NDArray[np.bool_]
    """Which examples equal another one that somebody trained on."""
    equal: int
    """Non-members that were left out for that."""

    def single(self, which: Indices) -> Indices:
        """Of these, those that equal no other one that somebody trained on."""
        return which[~self.copied[which]]

    @classmethod
    def of(cls, task: Task, seed: int, trained: set[int], selected: set[int]) -> "Crowd":
        """Sort everybody's examples by what the model has seen of them."""
        data, rng = task.data(), stream(seed, "crowd")
        held = task.divide(data.train.y, seed)
        resting = rng.permutation([who for who in range(task.participants) if who not in selected])
        controlled = sorted(int(who) for who in resting[: len(selected)])
        idle = set(range(task.participants)) - trained - set(controlled)
        touched = np.concatenate([held[who] for who in range(task.participants) if who not in idle])
        candidates = np.concatenate([np.empty(0, np.int64), *(held[who] for who in sorted(idle))])
        if len(candidates) < len(data.test):
            # Of sets whose test part is no random part of the whole it would be told apart by that alone.
            candidates = np.concatenate([candidates, len(data.train) + np.arange(len(data.test))])
        copied = np.zeros(len(data.train) + len(data.test), bool)
        known = Counter(_digests(_rows(data, touched)))
        for which, others in ((touched, 1), (candidates, 0)):
            copied[which] = [known[digest] > others for digest in _digests(_rows(data, which))]
        order = rng.permutation(candidates[~copied[candidates]])
        spare = len(order) // SPARE
        if spare == 0:
            raise ParameterError("every example was trained on, so there are no non-members")
        return cls(
            data=data,
            held=held,
            sizes=[len(held[who]) for who in sorted(selected)],
            controlled=[held[who] for who in controlled],
            strangers=order[spare:],
            auxiliary=order[:spare],
            copied=copied,
            equal=int(copied[candidates].sum()),
        )


def _rows(data: Data, which: Indices) -> Examples:
    """Examples by their numbers over both parts."""
    train, test = data.train, data.test
    first = which < len(train)
    x = np.empty((len(which), *train.x.shape[1:]), train.x.dtype)
    y = np.empty(len(which), train.y.dtype)
    x[first], y[first] = train.x[which[first]], train.y[which[first]]
    x[~first], y[~first] = test.x[which[~first] - len(train)], test.y[which[~first] - len(train)]
    return Examples(x, y)


def _digests(examples: Examples) -> Iterator[bytes]:
    for x, y in zip(examples.x, examples.y, strict=True):
        yield hashlib.blake2b(x.tobytes() + int(y).to_bytes(8), digest_size=16).digest()


def _dealer(order: Indices) -> Iterator[int]:
    while True:
        yield from order


def _advance(federation: "Federation") -> set[int]:
    """One honest round, without asking what the model is worth; who took part."""
    selected = federation.select()
    sent = federation.poison(selected, federation.train(selected))
    federation.aggregate(federation.transmit(selected, sent))
    federation.round += 1
    return set(selected.tolist())


def _judged(
    attack: MembershipAttack,
    cases: Sequence[Suspects],
    crowd: Crowd,
    federation: "Federation",
    target: str,
    seed: int,
    device: str,
) -> Scores:
    """All scores, look by look, members first. The attack sees examples in an order that tells it nothing."""
    import torch

    from fflbench.privacy.examination import Examination
    from fflbench.privacy.stage import Stage

    rng = stream(seed, "judging")
    suspects = np.concatenate([part for each in cases for part in (each.members, each.others)])
    needed = [suspects, *(crowd.controlled if CONTROLLED in attack.knows else [])]
    needed += [crowd.auxiliary] if AUXILIARY in attack.knows else []
    numbers = rng.permutation(np.unique(np.concatenate(needed)))
    place = np.empty(len(crowd.data.train) + len(crowd.data.test), np.int64)
    place[numbers] = np.arange(len(numbers))
    pool = _rows(crowd.data, numbers)
    x, y = torch.from_numpy(pool.x).to(device), torch.from_numpy(pool.y).to(device)
    task, model, weights = federation.task, federation.model, federation.weights
    declared: dict[str, Any] = {
        "size": round(float(np.mean(crowd.sizes))),
        "people": len(crowd.sizes),
        "single": ~crowd.copied[numbers],
    }
    if AUXILIARY in attack.knows:
        declared[AUXILIARY] = np.sort(place[crowd.auxiliary])
    if CONTROLLED in attack.knows:
        declared[CONTROLLED] = [np.sort(place[held]) for held in crowd.controlled]
    if {AUXILIARY, CONTROLLED} & set(attack.knows):
        declared["stage"] = Stage(task, model, weights, x, y, federation.defense, target, seed)
    server = Server(task, weights, Examination(task, model, x, y), stream(seed, "judge"), declared)
    attack.prepare(server, np.unique(place[suspects]))
    scores = []
    for each in cases:
        asked = place[np.concatenate([each.members, each.others])]
        mixed = rng.permutation(len(asked))
        # Where a look gives several updates, an example is judged by the one that speaks most for it.
        judged = [attack.judge(server, update, asked[mixed]) for update in each.look.updates]
        told = np.empty(len(asked))
        told[mixed] = np.max([score.double().cpu().numpy() for score in judged], axis=0)
        scores.append(told)
    return np.concatenate(scores)


def training_seconds(task: Task, examples: float) -> float:
    """About how long local training on so many examples takes, as measured on one core with small models."""
    return 1e-8 * examples * task.local_epochs * columns_of(task).count


def rates(scores: Scores, truth: npt.NDArray[np.bool_], distinct: int) -> dict[str, float | None]:
    """The area under the curve and the left end of it, with exact intervals, where there are non-members enough."""
    found = curve(scores, truth)
    told: dict[str, float | None] = {"auc": found.area, "auc_by_chance": by_chance(found.members, found.others)}
    for level in LEVELS:
        enough = distinct >= NEEDED[level]
        rate = found.at(level) if enough else None
        low, high = exact_interval(round(rate * found.members), found.members) if rate is not None else (None, None)
        told |= {f"tpr_at_fpr_{level}": rate, f"tpr_at_fpr_{level}_low": low, f"tpr_at_fpr_{level}_high": high}
    return told


def points(scores: Scores, truth: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
    """The curve, as far as there are non-members to draw it."""
    found = curve(scores, truth)
    return [{"fpr": level, "tpr": found.at(level)} for level in GRID if level * found.others >= 1]
