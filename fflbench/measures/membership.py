"""Membership inference: can a curious server tell which examples somebody trained on?"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge

from fflbench.errors import ParameterError
from fflbench.federation import Attack, ObservedUpdates
from fflbench.federation.chain import Chain
from fflbench.federation.columns import columns_of
from fflbench.federation.timing import Timing
from fflbench.measures.measure import PROCESS_BYTES, Context, Outcome
from fflbench.metrics import LOWER, STILL, Metric, share
from fflbench.privacy.crowd import Crowd, Dealer, dealt_anew, halves
from fflbench.privacy.looking import Looking, training_seconds
from fflbench.privacy.membership import AUXILIARY, CONTROLLED, MembershipAttack, Server
from fflbench.privacy.observation import NOTHING, Observation, linear_layers, observe, watched
from fflbench.privacy.roc import AREA, CURVE, LEVELS, InferenceFacts, Point, Scores, points, rates
from fflbench.randomness import stream
from fflbench.records.record import Record
from fflbench.records.validation import NotNegative, Text
from fflbench.registry import measure
from fflbench.report.groups import parameters_of
from fflbench.tasks import Task
from fflbench.types import Indices

if TYPE_CHECKING:
    # Measures are listed without loading torch.

    from fflbench.federation.rounds import Federation


@dataclass(frozen=True)
class Suspects:
    """Examples to judge by one look: members first, then others."""

    look: ObservedUpdates
    members: Indices
    others: Indices


class _Facts(InferenceFacts):
    training: Text
    examples_each: NotNegative


def _rates(level: float, drift: float) -> tuple[Metric, ...]:
    """Return the true positives at a rate of false positives, and the ends of their interval."""
    name, title = f"tpr_at_fpr_{level}", f"true positives at {100 * level:g}% false"
    meaning = f"Share of the members that are found while {100 * level:g}% of the others are taken for members."
    rate = share(name, title, meaning, LOWER, optional=True, headline=True, trials="members", drift=drift)
    ends = (share(f"{name}_{end}", title, f"The {end} end of its interval.", drift=drift) for end in ("low", "high"))
    return rate, *(replace(end, shown=False, optional=True) for end in ends)


@measure("membership", title="Membership")
class Membership(Looking):
    """Play some rounds, then judge by the messages of the next who trained on what.

    Members are examples of those behind an update; others are examples that nobody trained on, of the same classes. The
    set is dealt anew into training and test part by the seed, and rows that equal another one are left out of both
    sides, so that nothing but an update tells them apart.
    """

    facts = _Facts
    item = Point
    curves = (CURVE,)
    metrics = (
        *AREA,
        *(metric for level, drift in zip(LEVELS, (0.015, 0.007), strict=True) for metric in _rates(level, drift)),
        share("pair_accuracy", "pairs", "Pairs found that did exchange.", LOWER, optional=True, drift=STILL),
        share("accuracy", "model accuracy", "Accuracy of the attacked global model.", optional=True, drift=0.005),
    )

    rounds_before: Annotated[int, Ge(0), "rounds that the federation plays before the one that is attacked"] = 5
    members: Annotated[int, Ge(2), "examples judged of each participant, at most"] = 100
    others: Annotated[int, Ge(1), "non-members judged for each participant behind an update, at most"] = 100
    control: Annotated[bool, "members against members, which nothing can tell apart"] = False

    @classmethod
    def notes(cls, records: Sequence[Record]) -> Iterable[str]:
        facts = records[0].facts
        yield f"Victims hold {facts['examples_each']:.0f} examples each and train {facts['training']}."
        if parameters_of(records[0])["control"]:
            yield "Half of each victim's members pass for non-members: an honest attack comes out at 0.5."

    @classmethod
    def demonstrates(cls, parameters: Mapping[str, Any]) -> bool:
        return bool(parameters["control"])

    def takes(self, attack: Any) -> bool:
        return isinstance(attack, MembershipAttack)

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        super().check(task, defense, attack)
        defense.validate(task.per_round)

    def steps(self, task: Task) -> int:
        return self.rounds_before + 1

    def memory(self, task: Task) -> int:
        from fflbench.privacy.examination import GRADIENTS

        return PROCESS_BYTES + 4 * (2 * task.per_round * columns_of(task).count + 6 * GRADIENTS)

    def estimate(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        trained = (self.rounds_before + 1) * task.per_round + getattr(attack, "shadows", 0)
        judged = task.per_round * (self.members + self.others)
        each = len(task.data().train) / task.participants
        return 1.0 + training_seconds(task, trained * each) + 4e-8 * judged * columns_of(task).count

    def run(self, context: Context) -> Outcome:
        from fflbench.federation.rounds import Federation, one_thread

        task, defense, attack = context.task, context.defense, context.attack
        seed, device = context.seed, context.device
        dealt, pool = dealt_anew(task, seed)
        federation = Federation(dealt, Attack(share=0.0), defense, seed, device=device)
        with one_thread():
            took_part: set[int] = set()
            for number in range(self.rounds_before):
                took_part |= _advance(federation)
                context.step(number + 1)
            found, selected, scored = self._look(federation)
            accuracy = federation.evaluation(federation.weights)["accuracy"]
            crowd = Crowd.of(dealt, pool, seed, took_part | selected, selected)
            cases = self._suspects(found, crowd, stream(seed, "suspects"))
            start = time.perf_counter()
            scores = _judged(attack, cases, crowd, task, federation, self.observing, seed, device)
            seconds = time.perf_counter() - start
        context.step(self.steps(task))
        truth = np.concatenate([np.repeat([True, False], [len(each.members), len(each.others)]) for each in cases])
        distinct = len(np.unique(np.concatenate([each.others for each in cases])))
        return Outcome(
            metrics={
                **rates(scores, truth, distinct),
                "pair_accuracy": float(np.mean(scored)) if scored else None,
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
                **({"guarantee": promised} if (promised := defense.transport.guarantee()) else {}),
                **self.told(defense, attack),
            },
            seconds={"attack": seconds},
        )

    def _look(self, federation: "Federation") -> tuple[list[ObservedUpdates], set[int], list[float]]:
        """Return what is observed of the attacked round, who took part, and for each whether its pair is right."""
        selected, observing = federation.select(), self.observing
        people = selected.tolist()
        transcript = federation.transmit(selected, federation.train(selected), watched(observing, people))
        linear = linear_layers(federation.model.model)
        found = observe(observing, federation.defense.transport, transcript, people, linear)
        if not found:
            raise ParameterError(NOTHING)
        scores = [observing.score(each, transcript) for each in found]
        return found, set(people), [score["pair_accuracy"] for score in scores if "pair_accuracy" in score]

    def _suspects(self, found: Sequence[ObservedUpdates], crowd: Crowd, rng: np.random.Generator) -> list[Suspects]:
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
    updates = federation.train(selected)
    federation.poison(selected, updates)
    federation.aggregate(federation.transmit(selected, updates))
    federation.round += 1
    return set(selected.tolist())


def _judged(
    attack: MembershipAttack,
    cases: Sequence[Suspects],
    crowd: Crowd,
    task: Task,
    federation: "Federation",
    observation: Observation,
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
        declared["stage"] = Stage(task, model, weights, x, y, federation.defense, observation, seed)
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
