"""Two-world game: whether a server can decide which of two updates a participant sent.

Ngo et al., Secure aggregation is not private against membership inference attacks, ECML PKDD 2024. Bounds on epsilon
from its errors as Jagielski et al. (NeurIPS 2020) and Nasr et al. (IEEE S&P 2021) derive them.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from fflbench.plugin import (
    LOWER,
    PROCESS_BYTES,
    Chain,
    Context,
    Count,
    GuessCounts,
    Measure,
    Metric,
    Outcome,
    ParameterError,
    PositiveCount,
    Record,
    RecordFields,
    Task,
    Timing,
    distinguishing,
    measure,
    one_round,
    record_groups,
    share,
)

if TYPE_CHECKING:
    from fflbench.plugin import TwoWorldGame

ADVANTAGE = "Twice the share of right guesses, minus one: 0 is chance, 1 certainty."
EPSILON = (
    "With 95% confidence, no guarantee of differential privacy for one round has an epsilon below this, at this delta."
)
LIMIT = "Lower bound on epsilon that guesses without any error would give: more needs more trials."


class _Facts(RecordFields):
    trials: PositiveCount
    positives: PositiveCount
    negatives: PositiveCount
    true_positives: Count
    false_positives: Count
    equal_candidates: Count


class _Tested(RecordFields):
    participant: Count
    trials: PositiveCount
    correct: Count


@measure("two-world", title="Two worlds")
class TwoWorld(Measure):
    r"""Let a participant send its own update or another one, by a fair coin, and let the server guess which it was.

    $$ \text{advantage} = 2 \Pr[\text{right}] - 1 $$

    The server knows the protocol and both candidates, and sees the round through the transport. Every trial selects
    the round's participants anew, and the transport makes new random choices; updates are trained once. A single row
    goes to the nearer candidate; of mixed rows, to the one whose values occur; of a sum, by the likelihood of what is
    left for the others, whose distribution the server estimates from updates that it trains on parts of the test set.
    """

    section = "Privacy"
    depends_on = ("transport",)
    joined = ("advantage",)
    facts = _Facts
    item = _Tested
    metrics = (
        Metric("advantage", "advantage", ADVANTAGE, LOWER, digits=3, low=-1.0, high=1.0, headline=True),
        Metric("advantage_low", "advantage, low", "Lower end of its exact 95% interval.", digits=3, low=-1.0, high=1.0),
        Metric("advantage_high", "advantage, high", "Upper end of that interval.", digits=3, low=-1.0, high=1.0),
        share("true_positives", "true positives", "Own updates recognised.", trials="positives"),
        share("false_positives", "false positives", "Other updates taken for the own.", trials="negatives"),
        Metric("epsilon", "epsilon, at least", EPSILON, LOWER, low=0.0, headline=True),
        Metric("largest_epsilon", "largest bound possible", LIMIT, low=0.0),
        Metric("proven_epsilon", "epsilon, proven", "Upper bound that the transport proves.", low=0.0, optional=True),
    )

    alternative: Annotated[
        Literal["other-examples", "other-order", "other-participant", "same"],
        "second candidate: the participant's update after training on as many other examples, or on its own in another "
        "order; the update of somebody who is not selected; or the first again, as a control",
    ] = "other-examples"
    others: Annotated[Literal["unknown", "known"], "whether the server knows the updates of the other participants"] = (
        "unknown"
    )
    trials: Annotated[int, Ge(2), "guesses of the server, half of them in each world"] = 1000
    trained: Annotated[int, Ge(2), "participants that train, at most; each trial selects a round of them"] = 50
    rounds_before: Annotated[int, Ge(0), "rounds of plain federated averaging before this one"] = 5
    shadows: Annotated[int, Ge(2), "updates that the server trains itself, where it sees only a sum"] = 40
    delta: Annotated[float, Gt(0), Lt(1), "probability with which a guarantee may fail, for bounds on epsilon"] = 1e-5

    @classmethod
    def is_demonstration(cls, parameters: Mapping[str, Any]) -> bool:
        return bool(parameters["alternative"] == "same")

    @classmethod
    def table_notes(cls, records: Sequence[Record]) -> Iterable[str]:
        if record_groups.measure_parameters(records[0])["alternative"] == "same":
            yield "Both candidates are the same: an honest guess has an advantage of 0."
        yield (
            "Intervals cover the coin, the selection and the transport's random choices, not training, which differs "
            "by seed."
        )

    def applies_to(self, defense: Chain) -> bool:
        return defense.transport.rows in distinguishing.TESTS

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        one_round.require_groupable_count("per_round", task.per_round, defense.transport)
        defense.transport.validate(task.per_round)
        if self.alternative == "other-participant" and self._trained(task) <= task.per_round:
            raise ParameterError(
                f'alternative = "other-participant" needs somebody who is not selected: {self._trained(task)} train, '
                f"and per_round = {task.per_round}"
            )

    def memory_bytes(self, task: Task) -> int:
        # Two candidates of everybody, the rows of a round, and updates like theirs in double precision.
        rows = 2 * self._trained(task) + 2 * task.per_round + 3 * self.shadows
        return PROCESS_BYTES + 4 * rows * task.columns().count

    def estimate_seconds(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        trained = 2 * self._trained(task) + (self.shadows if self._needs_shadows(defense) else 0)
        rounds = self.rounds_before + trained / task.per_round
        begin, each = timing.defense(task, defense)
        return rounds * timing.training(task) + self.trials * (begin + each)

    def run(self, context: Context) -> Outcome:
        from fflbench.plugin import one_thread, prepare_two_world_game

        with one_thread():
            game = prepare_two_world_game(
                context.task,
                context.seed,
                context.device,
                trained=self._trained(context.task),
                rounds_before=self.rounds_before,
                alternative=self.alternative,
                alike=self.shadows if self._needs_shadows(context.defense) else 0,
            )
            return self._guess(context, game)

    def _guess(self, context: Context, game: "TwoWorldGame") -> Outcome:
        start, worlds, tested = time.perf_counter(), Counter[tuple[bool, bool]](), Counter[tuple[int, bool]]()
        for trial in game.run(context.defense, self.trials, context.seed):
            worlds[trial.first, trial.guessed_first] += 1
            tested[trial.participant, trial.first == trial.guessed_first] += 1
        seconds = time.perf_counter() - start
        context.report_step(1)
        counts = GuessCounts(
            true_positives=worlds[True, True],
            positives=worlds[True, True] + worlds[True, False],
            false_positives=worlds[False, True],
            negatives=worlds[False, True] + worlds[False, False],
        )
        low, high = counts.advantage_interval()
        promised = context.defense.transport.guarantee()
        # A guarantee with a smaller delta holds with a larger one as well.
        proven = promised["epsilon"] if promised.get("delta", 1.0) <= self.delta else None
        return Outcome(
            metrics={
                "advantage": counts.advantage,
                "advantage_low": low,
                "advantage_high": high,
                "true_positives": counts.true_positives / counts.positives,
                "false_positives": counts.false_positives / counts.negatives,
                "epsilon": counts.epsilon_lower_bound(self.delta),
                "largest_epsilon": counts.largest_lower_bound(self.delta),
                "proven_epsilon": proven,
            },
            history=[
                {"participant": who, "trials": tested[who, True] + tested[who, False], "correct": tested[who, True]}
                for who in sorted({who for who, _ in tested})
            ],
            facts={
                "trials": counts.trials,
                "positives": counts.positives,
                "negatives": counts.negatives,
                "true_positives": counts.true_positives,
                "false_positives": counts.false_positives,
                "equal_candidates": game.equal_candidates,
                "knows": self._knowledge(context.defense),
                **({"guarantee": promised} if promised else {}),
            },
            seconds={"attack": seconds},
        )

    def _trained(self, task: Task) -> int:
        return min(task.participants, max(self.trained, task.per_round))

    def _needs_shadows(self, defense: Chain) -> bool:
        return defense.transport.rows == "sum" and self.others == "unknown"

    def _knowledge(self, defense: Chain) -> list[str]:
        if defense.transport.rows != "sum":
            return ["server view"]
        return ["server view", "auxiliary data" if self.others == "unknown" else "honest updates"]
