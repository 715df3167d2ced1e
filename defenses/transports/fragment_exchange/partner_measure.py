"""Attacks by a curious participant on its partner's update, from the messages of their exchange."""

import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt

from fflbench.plugin import (
    DIFFIE_HELLMAN_GROUPS,
    LOWER,
    NO_DRIFT,
    Chain,
    Context,
    Count,
    Entropy,
    Kind,
    Measure,
    Outcome,
    Record,
    RecordFields,
    Task,
    Timing,
    Vector,
    keystream,
    measure,
    share,
    with_floor,
)

from .parties import ExchangeServer
from .parties_with_breakable_pads import PARTIES
from .partner_attack_base import InitiatorView, PartnerAttack, RecoveredUpdate
from .transport import FragmentExchange

BITS = 32


class _Facts(RecordFields):
    bits: Count
    demonstration: bool


@measure("partner", title="Curious partner")
class Partner(Measure):
    """Run real exchanges between pairs, and attack one partner's update from the messages that the other received."""

    attacked = Kind.PRIVACY_ATTACK
    section = "Privacy"
    depends_on = ("transport",)
    joined = ()
    facts = _Facts
    metrics = (
        share("recovered", "recovered", "Coordinates of the update, to the bit.", LOWER, headline=True, drift=NO_DRIFT),
        share(
            "wrong_claims", "wrong claims", "Coordinates that the attack is sure of and wrong about.", drift=NO_DRIFT
        ),
        *with_floor(share("bit_accuracy", "bits right", "Half is chance.", LOWER, headline=True, drift=NO_DRIFT)),
    )

    pads: Annotated[
        Literal["aes-ctr", "mersenne-twister", "none"], "pads of the exchange: ours, or an insecure demonstration"
    ] = "aes-ctr"
    pairs: Annotated[int, Ge(1), "pairs of participants who exchange"] = 10
    batch: Annotated[int, Ge(1), "examples per participant"] = 1
    rate: Annotated[float, Gt(0), "learning rate of participants"] = 0.1

    @classmethod
    def row_flags(cls, records: Sequence[Record]) -> Iterable[str]:
        if any(record.facts["demonstration"] for record in records):
            yield "a demonstration of an insecure exchange, to show that the attacks work"

    def accepts_attack(self, attack: Any) -> bool:
        return isinstance(attack, PartnerAttack)

    def applies_to(self, defense: Chain) -> bool:
        return isinstance(defense.transport, FragmentExchange)

    def step_count(self, task: Task) -> int:
        return self.pairs

    def estimate_seconds(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        return 0.1 * self.pairs

    def run(self, context: Context) -> Outcome:
        import torch

        from fflbench.plugin import FlatModel, new_model, one_thread, victim_updates

        task, seed, attack, device = context.task, context.seed, context.attack, context.device
        history, seconds = [], 0.0
        with one_thread():
            model = FlatModel(new_model(task, seed), torch.device(device))
            held = victim_updates.draw_victim_examples(task, self.pairs, 2, self.batch, seed)
            victim_updates.pretrain_global_model(task, model, held, 0, seed)
            server = ExchangeServer(Entropy(seed))
            for number, of_pair in enumerate(held):
                updates = victim_updates.train_victims(task, model, of_pair, 1, self.rate).updates
                view = self._run_exchange(context.defense.transport, server, updates[0], updates[1], number, seed)
                start = time.perf_counter()
                recovered = attack.recover_update(view)
                seconds += time.perf_counter() - start
                history.append({"pair": number, **_score_recovery(recovered, view.own, updates[1].view(np.uint32))})
                context.report_step(number + 1)
        return Outcome(
            metrics={metric.name: float(np.mean([item[metric.name] for item in history])) for metric in self.metrics},
            history=history,
            facts={
                "pairs": self.pairs,
                "coordinates": model.columns.count,
                "bits": BITS * model.columns.count * self.pairs,
                "knows": list(attack.knows),
                "demonstration": self.pads != "aes-ctr",
            },
            seconds={"attack": seconds},
        )

    def _run_exchange(
        self, transport: Any, server: ExchangeServer, one: Vector, other: Vector, number: int, seed: int
    ) -> InitiatorView:
        """Return the initiator's view after an exchange, without the submissions."""
        asking, asked = PARTIES[self.pads]
        common = (server.public, Entropy(seed), DIFFIE_HELLMAN_GROUPS[transport.group])
        initiator = asking(one, 0, 1, number, *common)
        acceptor = asked(other, 1, 0, number, *common)
        answer = acceptor.answer_offer(initiator.make_offer())
        acceptor.finish_exchange(initiator.reply_to_answer(answer))
        return InitiatorView(
            whole=np.frombuffer(answer.whole, np.uint32),
            kept=np.frombuffer(answer.kept, np.uint32),
            mask=initiator.mask,
            own=one.view(np.uint32),
        )


def _score_recovery(recovered: RecoveredUpdate, own: keystream.Words, true: keystream.Words) -> dict[str, float]:
    """Return the shares of recovered coordinates, wrong claims and right bits; with one's own update as the floor."""
    right = recovered.words == true
    return {
        "recovered": float(np.mean(right & recovered.certain)),
        "wrong_claims": float(np.mean(~right & recovered.certain)),
        "bit_accuracy": _share_of_equal_bits(recovered.words, true),
        "floor_bit_accuracy": _share_of_equal_bits(own, true),
    }


def _share_of_equal_bits(one: keystream.Words, other: keystream.Words) -> float:
    return 1 - float(np.bitwise_count(one ^ other).sum()) / (BITS * len(one))
