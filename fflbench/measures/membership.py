"""Membership inference: which examples a participant trained on, as a curious server judges."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge

from fflbench.errors import ParameterError
from fflbench.federation import Attack, ObservedUpdates
from fflbench.federation.chain import Chain
from fflbench.federation.timing import Timing
from fflbench.measures.measure import PROCESS_BYTES, Context, Outcome
from fflbench.metrics import LOWER, STILL, Metric, share
from fflbench.privacy.member_split import Dealer, MemberSplit, dealt_anew, halves
from fflbench.privacy.membership import AUXILIARY, CONTROLLED, MembershipAttack, Server
from fflbench.privacy.observation import NOTHING, Observation, linear_layers, observe, watched
from fflbench.privacy.observed_measure import ObservedMeasure, training_seconds
from fflbench.privacy.roc import AREA, CURVE, LEVELS, InferenceFacts, Point, Scores, points, rates
from fflbench.randomness import stream
from fflbench.records.record import Record
from fflbench.records.validation import NotNegative, Text
from fflbench.registration import measure
from fflbench.report.groups import parameters_of
from fflbench.tasks import Task
from fflbench.types import Indices

if TYPE_CHECKING:
    # Measures are listed without loading torch.

    from fflbench.federation.rounds import Federation


@dataclass(frozen=True)
class Suspects:
    """Examples to score by one observation: members and non-members."""

    observed: ObservedUpdates
    members: Indices
    others: Indices


class _Facts(InferenceFacts):
    training: Text
    examples_each: NotNegative


def _rates(level: float, drift: float) -> tuple[Metric, ...]:
    """Return the metric of the true-positive rate at a false-positive rate, and those of its interval's ends."""
    name, title = f"tpr_at_fpr_{level}", f"true positives at {100 * level:g}% false"
    meaning = f"Share of members identified while {100 * level:g}% of the others are taken for members."
    rate = share(name, title, meaning, LOWER, optional=True, headline=True, trials="members", drift=drift)
    ends = (share(f"{name}_{end}", title, f"The {end} end of its interval.", drift=drift) for end in ("low", "high"))
    return rate, *(replace(end, shown=False, optional=True) for end in ends)


@measure("membership", title="Membership")
class Membership(ObservedMeasure):
    """Run some rounds, then infer from the messages of the next one which examples participants trained on.

    Members are examples of the participants behind an update; others are examples of the same classes that nobody
    trained on. The dataset is split anew into training and test set by the seed, and duplicates are left out of both
    sides, so that nothing but an update distinguishes them.
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

    rounds_before: Annotated[int, Ge(0), "rounds before the attacked one"] = 5
    members: Annotated[int, Ge(2), "examples judged of each participant, at most"] = 100
    others: Annotated[int, Ge(1), "non-members judged for each participant behind an update, at most"] = 100
    control: Annotated[bool, "members against members, as a control: no attack can distinguish them"] = False

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

        return PROCESS_BYTES + 4 * (2 * task.per_round * task.columns().count + 6 * GRADIENTS)

    def estimate(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        trained = (self.rounds_before + 1) * task.per_round + getattr(attack, "shadows", 0)
        judged = task.per_round * (self.members + self.others)
        each = len(task.data().train) / task.participants
        return 1.0 + training_seconds(task, trained * each) + 4e-8 * judged * task.columns().count

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
            observations, selected, pair_scores = self._observe(federation)
            accuracy = federation.evaluation(federation.weights)["accuracy"]
            crowd = MemberSplit.of(dealt, pool, seed, took_part | selected, selected)
            cases = self._suspects(observations, crowd, stream(seed, "suspects"))
            start = time.perf_counter()
            scores = _judged(attack, cases, crowd, task, federation, self.observing, seed, device)
            seconds = time.perf_counter() - start
        context.step(self.steps(task))
        truth = np.concatenate([np.repeat([True, False], [len(each.members), len(each.others)]) for each in cases])
        distinct = len(np.unique(np.concatenate([each.others for each in cases])))
        return Outcome(
            metrics={
                **rates(scores, truth, distinct),
                "pair_accuracy": float(np.mean(pair_scores)) if pair_scores else None,
                "accuracy": accuracy,
            },
            history=points(scores, truth),
            facts={
                "members": int(truth.sum()),
                "non_members": int((~truth).sum()),
                "distinct_non_members": distinct,
                "left_out_as_equal": crowd.equal,
                "not_finite": float(np.mean(~np.isfinite(scores))),
                "updates": len(observations),
                "examples_each": float(np.mean(crowd.sizes)),
                "training": _recipe(task),
                "conversion": attack.conversion(task),
                **({"guarantee": promised} if (promised := defense.transport.guarantee()) else {}),
                **self.observation_facts(defense, attack),
            },
            seconds={"attack": seconds},
        )

    def _observe(self, federation: "Federation") -> tuple[list[ObservedUpdates], set[int], list[float]]:
        """Return the observations of the attacked round, its participants, and the accuracy of each pair found."""
        selected, observing = federation.select(), self.observing
        people = selected.tolist()
        transcript = federation.transmit(selected, federation.train(selected), watched(observing, people))
        linear = linear_layers(federation.model.model)
        observations = observe(observing, federation.defense.transport, transcript, people, linear)
        if not observations:
            raise ParameterError(NOTHING)
        scores = [observing.score(each, transcript) for each in observations]
        return observations, set(people), [score["pair_accuracy"] for score in scores if "pair_accuracy" in score]

    def _suspects(
        self, observations: Sequence[ObservedUpdates], crowd: MemberSplit, rng: np.random.Generator
    ) -> list[Suspects]:
        """Return the examples to score by each observation."""
        cases, dealer = [], Dealer(crowd.strangers, crowd.pool.y, rng)
        for observed in observations:
            members = [rng.permutation(crowd.single(crowd.held[who]))[: self.members] for who in observed.people]
            if self.control:
                cases.append(Suspects(observed, *halves(members)))
            else:
                cases.append(
                    Suspects(observed, *dealer.deal(np.concatenate(members), self.others * len(observed.people)))
                )
        if not any(len(case.members) and len(case.others) for case in cases):
            raise ParameterError("there are no members, or no others of their classes, to judge")
        return cases


def _advance(federation: "Federation") -> set[int]:
    """Run one honest round without evaluation, and return its participants."""
    selected = federation.select()
    updates = federation.train(selected)
    federation.poison(selected, updates)
    federation.aggregate(federation.transmit(selected, updates))
    federation.round += 1
    return set(selected.tolist())


def _judged(
    attack: MembershipAttack,
    cases: Sequence[Suspects],
    crowd: MemberSplit,
    task: Task,
    federation: "Federation",
    observation: Observation,
    seed: int,
    device: str,
) -> Scores:
    """Return all scores, observation by observation, members first.

    The attack sees examples in random order, and the task as it was before its examples were split anew.
    """
    import torch

    from fflbench.privacy.examination import Examination
    from fflbench.privacy.shadow_rounds import ShadowRounds

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
        declared["stage"] = ShadowRounds(task, model, weights, x, y, federation.defense, observation, seed)
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
        # Where an observation has several updates, an example gets the highest of its scores.
        judged = [attack.judge(server, update, asked[mixed]) for update in each.observed.updates]
        highest = np.empty(len(asked))
        highest[mixed] = np.max([score.double().cpu().numpy() for score in judged], axis=0)
        scores.append(highest)
    result = np.concatenate(scores)
    if not np.isfinite(result).any():
        raise ParameterError("no example got a score that is a number: the model is useless, or the attack is")
    return result


def _recipe(task: Task) -> str:
    """Return a description of local training."""
    epochs = f"{task.local_epochs} epoch{'s' * (task.local_epochs > 1)} of batches of {task.batch_size}"
    momentum = f", momentum {task.momentum}" if task.optimizer == "sgd" else ""
    return f"{epochs}, {task.optimizer}, rate {task.learning_rate}{momentum}"
