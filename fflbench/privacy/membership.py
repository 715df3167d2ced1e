"""Whether a curious server can tell which examples somebody trained on, from what a defense lets it see."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.errors import ParameterError
from fflbench.federation import Defense, Sent
from fflbench.federation.attack import Attack
from fflbench.measures import PROCESS_BYTES, Outcome, columns_of
from fflbench.privacy.attack import CuriousServer
from fflbench.privacy.crowd import Crowd, Dealer, dealt_anew, halves
from fflbench.privacy.looking import Looking
from fflbench.privacy.roc import GRID, LEVELS, NEEDED, Scores, by_chance, curve, exact_interval
from fflbench.privacy.targets import NOTHING, Look, linear_layers, looks
from fflbench.randomness import stream
from fflbench.registry import measure
from fflbench.tasks import Task
from fflbench.types import Indices, Vector

if TYPE_CHECKING:
    # Measures are listed without loading torch.
    from torch import Tensor

    from fflbench.federation.rounds import Federation
    from fflbench.privacy.examination import Examination
    from fflbench.privacy.stage import Groups, Sight, Stage

AUXILIARY, CONTROLLED = "auxiliary data", "controlled participants"


@dataclass(frozen=True)
class Server:
    """What a curious server has and can do. Examples are told by numbers that say nothing of where they come from."""

    task: Task
    """How people train is public."""
    before: Vector
    """The global model that everybody started from."""
    examine: "Examination"
    rng: np.random.Generator
    size: int
    """How many examples a participant holds, about."""
    people: int
    """How many take part in a round."""
    alone: npt.NDArray[np.bool_]
    """Which examples equal no other one that anybody trained on, as is true of all suspects."""
    declared: dict[str, Any] = field(default_factory=dict)

    def after(self, update: Vector) -> Vector:
        """The model that an update makes of the global one."""
        weights = self.before + update
        # Noise may make a running variance negative, and then a model says nothing.
        self.examine.columns.clamp_variances(weights)
        return weights

    @property
    def auxiliary(self) -> Indices:
        """Examples like the victims', which nobody trained on."""
        examples: Indices = self._tell(AUXILIARY)
        return examples

    @property
    def controlled(self) -> list[Indices]:
        """The examples of participants who do the server's bidding and sit out this round."""
        examples: list[Indices] = self._tell(CONTROLLED)
        return examples

    def rehearse(self, groups: "Groups", purpose: str, *, plain: bool = False) -> "Iterator[Sight]":
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
class MembershipAttack(CuriousServer):
    """A curious server that judges examples by an update."""

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
class Membership(Looking):
    """Play some rounds, then judge by the messages of the next who trained on what.

    Members are examples of those behind an update; others are examples that nobody trained on, of the same classes. The
    set is dealt anew into training and test part by the seed, and rows that equal another one are left out of both
    sides, so that nothing but an update tells them apart.
    """

    metrics = (
        *("auc", "auc_by_chance"),
        *(f"tpr_at_fpr_{level}{end}" for level in LEVELS for end in ("", "_low", "_high")),
        *("pair_accuracy", "accuracy"),
    )

    rounds_before: Annotated[int, Ge(0), "rounds that the federation plays before the one that is attacked"] = 5
    members: Annotated[int, Ge(2), "examples judged of each participant, at most"] = 100
    others: Annotated[int, Ge(1), "non-members judged for each participant behind an update, at most"] = 100
    control: Annotated[bool, "members against members, which nothing can tell apart"] = False

    def takes(self, attack: Any) -> bool:
        return isinstance(attack, MembershipAttack)

    def check(self, task: Task, defense: Defense) -> None:
        super().check(task, defense)
        defense.validate(task.per_round)

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

        dealt, pool = dealt_anew(task, seed)
        federation = Federation(dealt, Attack(share=0.0), defense, seed, device=device)
        with one_thread():
            took_part: set[int] = set()
            for number in range(self.rounds_before):
                took_part |= _advance(federation)
                tell(number + 1)
            found, selected = self._look(federation)
            accuracy = federation.evaluation(federation.weights)["accuracy"]
            crowd = Crowd.of(dealt, pool, seed, took_part | selected, selected)
            cases = self._suspects(found, crowd, stream(seed, "suspects"))
            start = time.perf_counter()
            scores = _judged(attack, cases, crowd, task, federation, self.target, seed, device)
            seconds = time.perf_counter() - start
        tell(self.steps())
        truth = np.concatenate([np.repeat([True, False], [len(each.members), len(each.others)]) for each in cases])
        partners = getattr(defense, "partner", {})
        right = [partners.get(look.people[0]) == look.people[1] for look in found] if self.way.finds_pairs else []
        distinct = len(np.unique(np.concatenate([each.others for each in cases])))
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
                "not_finite": float(np.mean(~np.isfinite(scores))),
                "updates": len(found),
                "examples_each": float(np.mean(crowd.sizes)),
                "training": _recipe(task),
                "conversion": attack.conversion(task),
                **({"guarantee": promised} if (promised := defense.guarantee()) else {}),
                **self.told(defense, attack),
            },
            seconds={"attack": seconds},
        )

    def _look(self, federation: "Federation") -> tuple[list[Look], set[int]]:
        """The round that is attacked, as the server sees it, and who took part."""
        selected = federation.select()
        updates = federation.train(selected)
        sent = updates.copy()
        view = federation.transmit(selected, Sent(sent, sent))
        linear = linear_layers(federation.model.model)
        found = looks(self.target, federation.defense, view, selected, updates, linear)
        if not found:
            raise ParameterError(NOTHING)
        return found, set(selected.tolist())

    def _suspects(self, found: Sequence[Look], crowd: Crowd, rng: np.random.Generator) -> list[Suspects]:
        """Whom to judge by each look."""
        cases, dealer = [], Dealer(crowd.strangers, crowd.pool.y, rng)
        for look in found:
            members = [rng.permutation(crowd.single(crowd.held[who]))[: self.members] for who in look.people]
            if self.control:
                cases.append(Suspects(look, *halves(members)))
            else:
                cases.append(Suspects(look, *dealer.deal(np.concatenate(members), self.others * len(look.people))))
        if not any(len(case.members) and len(case.others) for case in cases):
            raise ParameterError("there are no members, or no others of their classes, to judge")
        return cases


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
    task: Task,
    federation: "Federation",
    target: str,
    seed: int,
    device: str,
) -> Scores:
    """All scores, look by look, members first.

    The attack sees examples in an order that tells it nothing, and the task as it was before its examples were dealt.
    """
    import torch

    from fflbench.privacy.examination import Examination
    from fflbench.privacy.stage import Stage

    rng = stream(seed, "judging")
    suspects = np.concatenate([part for each in cases for part in (each.members, each.others)])
    needed = [suspects, *(crowd.controlled if CONTROLLED in attack.knows else [])]
    needed += [crowd.auxiliary] if AUXILIARY in attack.knows else []
    numbers = rng.permutation(np.unique(np.concatenate(needed)))
    place = np.empty(len(crowd.pool), np.int64)
    place[numbers] = np.arange(len(numbers))
    x, y = (torch.from_numpy(part[numbers]).to(device) for part in (crowd.pool.x, crowd.pool.y))
    model, weights = federation.model, federation.weights
    declared: dict[str, Any] = {}
    if AUXILIARY in attack.knows:
        declared[AUXILIARY] = np.sort(place[crowd.auxiliary])
    if CONTROLLED in attack.knows:
        declared[CONTROLLED] = [np.sort(place[held]) for held in crowd.controlled]
    if {AUXILIARY, CONTROLLED} & set(attack.knows):
        declared["stage"] = Stage(task, model, weights, x, y, federation.defense, target, seed)
    server = Server(
        task,
        weights,
        Examination(task, model, x, y),
        stream(seed, "judge"),
        size=round(float(np.mean(crowd.sizes))),
        people=len(crowd.sizes),
        alone=~crowd.copied[numbers],
        declared=declared,
    )
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
    found = np.concatenate(scores)
    if not np.isfinite(found).any():
        raise ParameterError("no example got a score that is a number: the model is useless, or the attack is")
    return found


def _recipe(task: Task) -> str:
    """How people train, in words."""
    epochs = f"{task.local_epochs} epoch{'s' * (task.local_epochs > 1)} of batches of {task.batch_size}"
    momentum = f", momentum {task.momentum}" if task.optimizer == "sgd" else ""
    return f"{epochs}, {task.optimizer}, rate {task.learning_rate}{momentum}"


def training_seconds(task: Task, examples: float) -> float:
    """About how long local training on so many examples takes, as measured on one core with small models."""
    return 1e-8 * examples * task.local_epochs * columns_of(task).count


def rates(scores: Scores, truth: npt.NDArray[np.bool_], distinct: int) -> dict[str, float | None]:
    """The area under the curve and the left end of it, with exact intervals, where there are non-members enough."""
    found = curve(scores, truth)
    told: dict[str, float | None] = {"auc": found.area, "auc_by_chance": by_chance(found.members, distinct)}
    for level in LEVELS:
        rate = found.at(level, distinct) if distinct >= NEEDED[level] else None
        low, high = exact_interval(round(rate * found.members), found.members) if rate is not None else (None, None)
        told |= {f"tpr_at_fpr_{level}": rate, f"tpr_at_fpr_{level}_low": low, f"tpr_at_fpr_{level}_high": high}
    return told


def points(scores: Scores, truth: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
    """The curve, as far as there are non-members to draw it."""
    found = curve(scores, truth)
    return [{"fpr": level, "tpr": found.drawn(level)} for level in GRID if level * found.others >= 1]
