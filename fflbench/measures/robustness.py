"""Robustness: accuracy of the global model and attack success while some participants attack."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from fflbench.measures import robustness_tables
from fflbench.measures.exclusion_tables import exclusion_tables
from fflbench.plugin import (
    GOALS,
    HIGHER,
    LOWER,
    PROCESS_BYTES,
    Chain,
    Context,
    Count,
    Curve,
    FilledColumn,
    Kind,
    Measure,
    Metric,
    Number,
    Outcome,
    ParameterError,
    Record,
    RecordFields,
    Share,
    Table,
    Task,
    Timing,
    goal_of,
    is_undefined_reason,
    measure,
    one_round,
    share,
    tables_beside_papers,
)

if TYPE_CHECKING:
    # Measures are listed without loading torch.
    from fflbench.plugin import Federation

COPIES = 3
"""Number of matrices of updates that a round may hold: as trained, as sent, and as a defense transforms them."""

MODELS = 12
"""Number of vectors of a model's length besides: the model, its gradient and moments, the last models for averaging."""

IN_ROUNDS = {
    "rounds_that_kept_the_model": "there was no usable aggregate and the model was kept",
    "rounds_with_more_attackers_than_f": "more attackers than f were selected",
}
"""Facts that count rounds, and the warnings that tables show for them."""
TRUST = {"honest_trust_of_all": "honest", "attacker_trust_of_all": "attackers"}
WEIGHTS = ("honest_weight", "attacker_weight")
LOSS = "Loss on the test set."
SOURCE = "Accuracy on the inputs that the attack aims at, such as those of the source class."
SUCCESS = "Share of the inputs that the attack aims at which the model classifies as the attacker wants."
WORST_CLASS = "Accuracy on the class with the lowest, of those with test examples."
TENTH_PERCENTILE = (
    "10th percentile over honest participants of the accuracy on the test set weighted by the labels that each holds."
)
BY_GOAL = "The same for every goal, in the order of the cell's configuration."


def _loss_drift(value: float) -> float:
    return 0.005 * abs(value)


def _for_uneven_data(name: str, title: str, meaning: str, drift: float) -> Metric:
    """Return a metric that tables show where participants hold different classes; older records do not have it."""
    declared = {"optional": True, "added_later": True, "shown": False, "diverged": 0.0}
    return share(name, title, meaning, HIGHER, drift=drift, **declared)


class _Facts(RecordFields):
    targeted: bool
    attackers: list[Count]
    flags: list[str]
    honest_excluded: Count = 0
    share_of_honest_refused: Share | None = None
    share_of_attackers_refused: Share | None = None
    share_of_honest_excluded: Share | None = None
    share_of_attackers_excluded: Share | None = None
    rounds_that_kept_the_model: Count = 0
    rounds_with_more_attackers_than_f: Count | None = None
    dropped_rows: Count = 0
    simulations: Count | None = None


class _Round(RecordFields):
    round: Count
    accuracy: Share | None = None
    honest_trust: Number | None = None
    attacker_trust: Number | None = None
    honest_trust_of_all: Number | None = None
    attacker_trust_of_all: Number | None = None
    honest_weight: Number | None = None
    attacker_weight: Number | None = None


@measure("robustness", title="Robustness", version=4)
class Robustness(Measure):
    """Run all rounds of a task with attackers among the participants, and test the global model."""

    attacked = Kind.ATTACK
    section = "Robustness"
    facts = _Facts
    item = _Round
    exact_facts = ("attackers", "targeted", "flags")
    curves = (
        Curve("accuracy", "round", {"accuracy": ""}, "accuracy over rounds", percent=True),
        Curve(
            "trust",
            "round",
            TRUST,
            "average trust of all participants",
            is_share=True,
            logarithmic_x=True,
            every_deviation=True,
        ),
    )
    metrics = (
        Metric("test_loss", "test loss", LOSS, LOWER, digits=3, powers_from=1e4, optional=True, drift=_loss_drift),
        share(
            "accuracy",
            "accuracy",
            "Share of right predictions.",
            HIGHER,
            optional=True,
            headline=True,
            diverged=0.0,
            drift=0.005,
        ),
        share("source_accuracy", "source accuracy", SOURCE, HIGHER, optional=True, diverged=0.0, drift=0.01),
        share("attack_success_rate", "attack success", SUCCESS, LOWER, optional=True, headline=True, drift=0.01),
        share("goal_source_accuracy", "source accuracy by goal", BY_GOAL, kind="list", shown=False),
        share("goal_attack_success_rate", "attack success by goal", BY_GOAL, kind="list", shown=False),
        share("class_accuracy", "accuracy by class", "Accuracy on each class.", kind="list", shown=False),
        # A class has few examples: one of the digits is 3 points of its class.
        _for_uneven_data("worst_class_accuracy", "worst class", WORST_CLASS, drift=0.03),
        _for_uneven_data("participant_accuracy_10th", "10th percentile of participants", TENTH_PERCENTILE, drift=0.01),
        Metric("diverged", "diverged", "The loss is not finite.", kind="flag", shown=False, exact=True),
    )

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        defense.validate(task.per_round)
        attack.validate(task)
        one_round.require_root_examples(task, defense)
        attackers = operator.index(attack.count(task.participants))
        if attackers >= task.participants or (attack.share > 0 and attackers == 0):
            who = "none" if attackers else "all"
            raise ParameterError(f"share = {attack.share} leaves {who} of {task.participants} participants honest")

    def step_count(self, task: Task) -> int:
        return task.rounds

    def memory_bytes(self, task: Task) -> int:
        rows = COPIES * task.per_round + MODELS + task.average_last + one_round.worker_momentum_rows(task)
        return PROCESS_BYTES + 4 * task.columns().count * rows

    def estimate_seconds(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        begin, each_round = timing.defense(task, defense)
        seconds: float = timing.training(task) + each_round * (1 + attack.simulations_per_round)
        return begin + task.rounds * seconds

    def run(self, context: Context) -> Outcome:
        from fflbench.plugin import Federation

        federation = Federation(
            context.task,
            context.attack,
            context.defense,
            context.seed,
            deviation=context.deviation,
            goals=context.goals,
            device=context.device,
        )
        context.resume(federation.restore)

        def report_round(item: dict[str, Any]) -> None:
            left = federation.round < context.task.rounds
            context.report_step(
                federation.round, accuracy=item.get("accuracy"), state=federation.state if left else None
            )

        federation.run(report_round)
        return outcome_of_federation(federation)

    @classmethod
    def shown_metrics(cls, records: Sequence[Record]) -> tuple[Metric, ...]:
        targeted = any(record.facts.get("targeted") for record in records)
        names = {"test_loss", *(("source_accuracy", "attack_success_rate") if targeted else ("accuracy",))}
        if any(record.configuration["task"]["parameters"].get("partition", "iid") != "iid" for record in records):
            names |= {"worst_class_accuracy", "participant_accuracy_10th"}
        return tuple(metric for metric in cls.metrics if metric.name in names)

    @classmethod
    def score_clean_for_attack(cls, clean: Record, attacked: Record) -> Record:
        """Return a record without attack with source accuracy and attack success for the goal of another's attack."""
        goals = [goal_of(each) for each in clean.configuration.get(GOALS, [])]
        goal = goal_of(attacked.configuration["attack"])
        of_goal: dict[str, float | None] = {"source_accuracy": None, "attack_success_rate": None}
        for metric in of_goal:
            rates = clean.metrics.get(f"goal_{metric}")
            if isinstance(rates, list) and len(rates) == len(goals) and goal in goals:
                of_goal[metric] = rates[goals.index(goal)]
        return clean.model_copy(update={"metrics": clean.metrics | of_goal})

    @classmethod
    def is_undefined(cls, record: Record) -> bool:
        """Return whether every round kept its model, since the rule is not defined for so many attackers."""
        reasons = [item.get("kept_because") or "" for item in record.history]
        return bool(reasons) and all(map(is_undefined_reason, reasons))

    @classmethod
    def row_flags(cls, records: Sequence[Record]) -> Iterable[str]:
        """Return the warnings that a defense reports about its setting, and counts of unusual rounds."""
        done = [record for record in records if record.status == "done"]
        notes = [
            flag for record in done for flag in (*record.facts["flags"], *robustness_tables.given_to_the_server(record))
        ]
        rounds = sum(len(record.history) for record in done)
        for fact, meaning in IN_ROUNDS.items():
            if count := sum(record.facts.get(fact) or 0 for record in done):
                notes.append(f"{meaning} in {count} of {rounds} rounds")
        return tuple(dict.fromkeys(notes))

    @classmethod
    def table_notes(cls, records: Sequence[Record]) -> Iterable[str]:
        """Return the setting that the records share, in one line."""
        return [robustness_tables.setting_line(records)] if records else []

    @classmethod
    def joined_columns(cls, records: Sequence[Record]) -> Iterable[FilledColumn]:
        return robustness_tables.joined_columns(records)

    @classmethod
    def summary_tables(cls, records: Sequence[Record]) -> Iterable[Table]:
        return robustness_tables.summary_tables(records)

    @classmethod
    def extra_tables(cls, records: Sequence[Record]) -> Iterable[Table]:
        return chain(tables_beside_papers(records), exclusion_tables(records))

    @classmethod
    def leaderboard_flags(cls, records: Sequence[Record]) -> Iterable[str]:
        return robustness_tables.weak_attack_flags(records)


def outcome_of_federation(federation: "Federation") -> Outcome:
    """Return the results of the rounds that a federation has run so far."""
    history, final, transport = federation.history, federation.final_metrics(), federation.defense.transport
    final = {**final, **_metrics_of_uneven_data(federation, final["class_accuracy"])}
    over_20_percent = [item["attackers_selected"] * 5 > item["selected"] for item in history]
    # Where f is the true number of attackers, it counts those whose rows arrived.
    sent = [(item.get("attackers_arrived", item["attackers_selected"]), item["f"]) for item in history]
    more_than_f = [attackers > f for attackers, f in sent if f is not None]
    return Outcome(
        metrics={metric.name: final[metric.name] for metric in Robustness.metrics},
        history=list(history),
        facts={
            **transport.summary(history, federation.attackers),
            "attackers": federation.attackers.tolist(),
            "targeted": federation.attack.targeted,
            "rounds_with_more_than_20_percent_attackers": sum(over_20_percent) / len(over_20_percent),
            "rounds_that_kept_the_model": sum(bool(item["kept_because"]) for item in history),
            "rounds_with_more_attackers_than_f": sum(more_than_f) if more_than_f else None,
            "dropped_rows": sum(len(item["dropped"]) for item in history),
            "flags": [*federation.defense.flags(), *federation.attack.flags(), *_evaluation_flags(federation.task)],
            **({"guarantee": promised} if (promised := transport.guarantee()) else {}),
            **_mean_weights(history),
            **({"simulations": sum(item["simulations"] for item in history)} if "simulations" in history[-1] else {}),
            **_exclusion_facts(federation),
        },
        seconds=dict(federation.seconds),
    )


def _metrics_of_uneven_data(
    federation: "Federation", class_accuracy: Sequence[float | None]
) -> dict[str, float | None]:
    r"""Return the accuracy of the worst class, and the 10th percentile of that of honest participants.

    Participant k, who holds a share $p_k(c)$ of examples of class c, has the accuracy $\sum_c p_k(c) a_c$. Classes
    without test examples, whose accuracy $a_c$ is not known, are left out.
    """
    accuracy = np.array(class_accuracy, np.float64)
    tested = np.flatnonzero(np.isfinite(accuracy))
    honest = np.setdiff1d(np.arange(federation.task.participants), federation.attackers)
    held = [federation.participants.examples.y[federation.participants.indices[who]] for who in honest]
    counts = [np.bincount(labels, minlength=len(accuracy))[tested] for labels in held]
    of_participants = [np.average(accuracy[tested], weights=own) for own in counts if own.any()]
    return {
        "worst_class_accuracy": float(accuracy[tested].min()) if len(tested) else None,
        "participant_accuracy_10th": float(np.percentile(of_participants, 10)) if of_participants else None,
    }


def _evaluation_flags(task: Task) -> list[str]:
    return [] if task.evaluate_on == "test" else ["evaluated on held-out training examples, not on the test set"]


def _mean_weights(history: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean weights of honest participants and of attackers over rounds, where the rule reports weights."""
    known = {name: [item[name] for item in history if name in item] for name in WEIGHTS}
    return {f"mean_{name}": fmean(values) for name, values in known.items() if values}


def _exclusion_facts(federation: "Federation") -> dict[str, Any]:
    """Return the participants that the rule excludes at the end, if it reports any, and their numbers of examples."""
    if "excluded" not in federation.history[-1]:
        return {}
    excluded, sizes = federation.history[-1]["excluded"], federation.participants.sizes
    attackers = set(federation.attackers.tolist())
    honest_excluded, honest = len(set(excluded) - attackers), len(sizes) - len(attackers)
    return {
        "excluded": excluded,
        "share_of_data_excluded": float(sizes[excluded].sum() / sizes.sum()),
        "honest_excluded": honest_excluded,
        "share_of_honest_excluded": honest_excluded / honest,
        "share_of_attackers_excluded": (len(excluded) - honest_excluded) / len(attackers) if attackers else None,
    }
