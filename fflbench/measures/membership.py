"""Membership inference by a curious server: which examples participants trained on."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge

from fflbench.plugin import (
    AUXILIARY,
    CONTROLLED,
    LOWER,
    NO_DRIFT,
    NO_OBSERVATION,
    PROCESS_BYTES,
    Attack,
    Chain,
    Context,
    Indices,
    MembershipAttack,
    MembershipObserver,
    Metric,
    NotNegative,
    Observation,
    ObservedUpdates,
    Outcome,
    ParameterError,
    PrivacyMeasure,
    Record,
    Task,
    Text,
    Timing,
    gradient_seconds,
    linear_weight_names,
    measure,
    member_split,
    observe,
    one_round,
    participants_to_watch,
    record_groups,
    roc,
    share,
    stream,
)

if TYPE_CHECKING:
    # Measures are listed without loading torch.

    from fflbench.plugin import Federation


@dataclass(frozen=True)
class Candidates:
    """Examples to score by one observation: members and non-members."""

    observed: ObservedUpdates
    members: Indices
    non_members: Indices


class _Facts(roc.InferenceFacts):
    training: Text
    examples_each: NotNegative


def _tpr_metrics(level: float, drift: float) -> tuple[Metric, ...]:
    """Return the metric of the true-positive rate at a false-positive rate, and those of its interval's ends."""
    name, title = f"tpr_at_fpr_{level}", f"true positives at {100 * level:g}% false"
    meaning = f"Share of members identified while {100 * level:g}% of the others are taken for members."
    rate = share(name, title, meaning, LOWER, optional=True, headline=True, trials="members", drift=drift)
    ends = (share(f"{name}_{end}", title, f"The {end} end of its interval.", drift=drift) for end in ("low", "high"))
    return rate, *(replace(end, shown=False, optional=True) for end in ends)


@measure("membership", title="Membership")
class Membership(PrivacyMeasure):
    """Run some rounds, then infer from the messages of the next one which examples participants trained on.

    Members are examples of the participants behind an update; non-members are examples of the same classes that no
    participant trained on. The seed splits the dataset again into training and test set, and duplicates are left out
    of both sides, so that nothing but an update distinguishes them.
    """

    facts = _Facts
    item = roc.RocPoint
    curves = (roc.ROC_CURVE,)
    metrics = (
        *roc.AUC_METRICS,
        *(
            metric
            for level, drift in zip(roc.FALSE_POSITIVE_RATES, (0.015, 0.007), strict=True)
            for metric in _tpr_metrics(level, drift)
        ),
        share("pair_accuracy", "pairs", "Pairs found that did exchange.", LOWER, optional=True, drift=NO_DRIFT),
        share("accuracy", "model accuracy", "Accuracy of the attacked global model.", optional=True, drift=0.005),
    )

    rounds_before: Annotated[int, Ge(0), "rounds before the attacked one"] = 5
    members: Annotated[int, Ge(2), "examples judged of each participant, at most"] = 100
    others: Annotated[int, Ge(1), "non-members judged for each participant behind an update, at most"] = 100
    control: Annotated[bool, "members against members, as a control: no attack can distinguish them"] = False

    @classmethod
    def table_notes(cls, records: Sequence[Record]) -> Iterable[str]:
        facts = records[0].facts
        yield f"Victims hold {facts['examples_each']:.0f} examples each and train {facts['training']}."
        if record_groups.measure_parameters(records[0])["control"]:
            yield "Half of each victim's members pass for non-members: an honest attack comes out at 0.5."

    @classmethod
    def is_demonstration(cls, parameters: Mapping[str, Any]) -> bool:
        return bool(parameters["control"])

    def accepts_attack(self, attack: Any) -> bool:
        return isinstance(attack, MembershipAttack)

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        super().check(task, defense, attack)
        defense.validate(task.per_round)
        one_round.require_root_examples(task, defense)

    def step_count(self, task: Task) -> int:
        return self.rounds_before + 1

    def memory_bytes(self, task: Task) -> int:
        from fflbench.plugin import GRADIENT_VALUES

        rows = 2 * task.per_round + one_round.worker_momentum_rows(task)
        return PROCESS_BYTES + 4 * (rows * task.columns().count + 6 * GRADIENT_VALUES)

    def estimate_seconds(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        simulated = getattr(attack, "shadows", 0) / task.per_round + getattr(attack, "repeats", 0)
        gradients = attack.gradient_count(task.per_round * (self.members + self.others), task.per_round)
        rounds = (self.rounds_before + 1 + simulated) * timing.training(task)
        return rounds + (gradients * gradient_seconds(task, timing) if gradients else 0.0)

    def run(self, context: Context) -> Outcome:
        from fflbench.plugin import Federation, one_thread

        task, defense, attack = context.task, context.defense, context.attack
        seed, device = context.seed, context.device
        shuffled, pool = member_split.reshuffle_train_test(task, seed)
        federation = Federation(shuffled, Attack(share=0.0), defense, seed, device=device)
        with one_thread():
            participated: set[int] = set()
            for number in range(self.rounds_before):
                participated |= _run_honest_round(federation)
                context.report_step(number + 1)
            observations, selected, pair_scores = self._observe_attacked_round(federation)
            accuracy = federation.evaluation(federation.weights)["accuracy"]
            split = member_split.MemberSplit.from_participation(shuffled, pool, seed, participated | selected, selected)
            cases = self._draw_candidates(observations, split, stream(seed, "suspects"))
            start = time.perf_counter()
            scores = _score_candidates(attack, cases, split, task, federation, self.create_observation(), seed, device)
            seconds = time.perf_counter() - start
        context.report_step(self.step_count(task))
        truth = np.concatenate([np.repeat([True, False], [len(each.members), len(each.non_members)]) for each in cases])
        distinct = len(np.unique(np.concatenate([each.non_members for each in cases])))
        return Outcome(
            metrics={
                **roc.roc_metrics(scores, truth, distinct),
                "pair_accuracy": float(np.mean(pair_scores)) if pair_scores else None,
                "accuracy": accuracy,
            },
            history=roc.roc_points(scores, truth),
            facts={
                "members": int(truth.sum()),
                "non_members": int((~truth).sum()),
                "distinct_non_members": distinct,
                "left_out_as_equal": split.duplicate_share,
                "not_finite": float(np.mean(~np.isfinite(scores))),
                "updates": len(observations),
                "examples_each": float(np.mean(split.sizes)),
                "training": _local_training_text(task),
                "conversion": attack.gradient_conversion_text(task),
                **({"guarantee": promised} if (promised := defense.transport.guarantee()) else {}),
                **self.observation_facts(defense, attack),
            },
            seconds={"attack": seconds},
        )

    def _observe_attacked_round(self, federation: "Federation") -> tuple[list[ObservedUpdates], set[int], list[float]]:
        """Return the observations of the attacked round, its participants, and the accuracy of inferred pairs."""
        selected, observation = federation.select(), self.create_observation()
        participants = selected.tolist()
        watch = participants_to_watch(observation, participants)
        transcript = federation.transmit(selected, federation.train(selected), watch)
        linear = linear_weight_names(federation.model.model)
        observations = observe(observation, federation.defense.transport, transcript, participants, linear)
        if not observations:
            raise ParameterError(NO_OBSERVATION)
        scores = [observation.own_metrics(each, transcript) for each in observations]
        pairs = [score["pair_accuracy"] for score in scores if "pair_accuracy" in score]
        return observations, set(participants), pairs

    def _draw_candidates(
        self, observations: Sequence[ObservedUpdates], split: member_split.MemberSplit, rng: np.random.Generator
    ) -> list[Candidates]:
        """Return the examples to score by each observation."""
        cases, sampler = [], member_split.NonMemberSampler(split.non_members, split.pool.y, rng)
        for observed in observations:
            own = [split.without_duplicates(split.held[who]) for who in observed.participants]
            members = [rng.permutation(each)[: self.members] for each in own]
            if self.control:
                cases.append(Candidates(observed, *member_split.split_in_halves(members)))
            else:
                wanted = self.others * len(members)
                cases.append(Candidates(observed, *sampler.sample_by_class(np.concatenate(members), wanted)))
        if not any(len(case.members) and len(case.non_members) for case in cases):
            raise ParameterError("there are no members, or no non-members of their classes, to score")
        return cases


def _run_honest_round(federation: "Federation") -> set[int]:
    """Run one honest round without evaluation, and return its participants."""
    selected = federation.select()
    updates = federation.train(selected)
    federation.poison(selected, updates)
    federation.aggregate(federation.transmit(selected, updates))
    federation.round += 1
    return set(selected.tolist())


def _score_candidates(
    attack: MembershipAttack,
    cases: Sequence[Candidates],
    split: member_split.MemberSplit,
    task: Task,
    federation: "Federation",
    observation: Observation,
    seed: int,
    device: str,
) -> roc.Scores:
    """Return all scores, observation by observation, members first.

    The attack sees examples in random order, and the task as it was before its examples were shuffled.
    """
    import torch

    from fflbench.plugin import PerExampleSignals, ShadowRounds

    rng = stream(seed, "judging")
    candidates = np.concatenate([part for each in cases for part in (each.members, each.non_members)])
    needed = [candidates, *(split.controlled if CONTROLLED in attack.knows else [])]
    needed += [split.auxiliary] if AUXILIARY in attack.knows else []
    examples = rng.permutation(np.unique(np.concatenate(needed)))
    position = np.empty(len(split.pool), np.int64)
    position[examples] = np.arange(len(examples))
    x, y = (torch.from_numpy(part[examples]).to(device) for part in (split.pool.x, split.pool.y))
    model, weights = federation.model, federation.weights
    declared: dict[str, Any] = {}
    if AUXILIARY in attack.knows:
        declared[AUXILIARY] = np.sort(position[split.auxiliary])
    if CONTROLLED in attack.knows:
        declared[CONTROLLED] = [np.sort(position[held]) for held in split.controlled]
    shadow_rounds = ShadowRounds(task, model, weights, x, y, federation.defense, observation, seed)
    observer = MembershipObserver(
        task,
        weights,
        PerExampleSignals(task, model, x, y),
        stream(seed, "judge"),
        size=round(float(np.mean(split.sizes))),
        participants=len(split.sizes),
        unique=~split.duplicated[examples],
        declared=declared,
        shadow_rounds=shadow_rounds if declared else None,
    )
    attack.prepare(observer, np.unique(position[candidates]))
    scores = []
    for each in cases:
        indices = position[np.concatenate([each.members, each.non_members])]
        order = rng.permutation(len(indices))
        # Where an observation has several updates, an example gets the highest of its scores.
        several = [attack.score(observer, update, indices[order]) for update in each.observed.updates]
        highest = np.empty(len(indices))
        highest[order] = np.max([score.double().cpu().numpy() for score in several], axis=0)
        scores.append(highest)
    result = np.concatenate(scores)
    if not np.isfinite(result).any():
        raise ParameterError("no score of the attack is finite, so nothing can be measured")
    return result


def _local_training_text(task: Task) -> str:
    """Return a description of local training."""
    unit, count = ("step", task.local_steps) if task.local_steps else ("epoch", task.local_epochs)
    amount = f"{count} {unit}{'s' * (count > 1)} of batches of {task.batch_size}"
    momentum = f", momentum {task.momentum}" if task.optimizer == "sgd" else ""
    return f"{amount}, {task.optimizer}, rate {task.learning_rate}{momentum}"
