"""Attacks by a curious participant on its partner's update, from the messages of their exchange."""

import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt

from fflbench.crypto.entropy import Entropy
from fflbench.crypto.groups import GROUPS
from fflbench.crypto.pads import Words
from fflbench.federation.chain import Chain
from fflbench.federation.timing import Timing
from fflbench.measures.measure import Context, Measure, Outcome
from fflbench.metrics import LOWER, STILL, share, with_floor
from fflbench.records.record import Record
from fflbench.records.validation import Content, Count
from fflbench.registration import measure
from fflbench.registry import Kind
from fflbench.tasks import Task
from fflbench.types import Vector

from .parties import Server
from .partner import Heard, PartnerAttack, Unmasked
from .transport import FragmentExchange
from .weak_pads import PARTIES

BITS = 32


class _Facts(Content):
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
        share("recovered", "recovered", "Coordinates of the update, to the bit.", LOWER, headline=True, drift=STILL),
        share("wrong_claims", "wrong claims", "Coordinates that the attack is sure of and wrong about.", drift=STILL),
        *with_floor(share("bit_accuracy", "bits right", "Half is chance.", LOWER, headline=True, drift=STILL)),
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

    def takes(self, attack: Any) -> bool:
        return isinstance(attack, PartnerAttack)

    def applies(self, defense: Chain) -> bool:
        return isinstance(defense.transport, FragmentExchange)

    def steps(self, task: Task) -> int:
        return self.pairs

    def estimate(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        return 0.1 * self.pairs

    def run(self, context: Context) -> Outcome:
        import torch

        from fflbench.engines.flat_model import FlatModel
        from fflbench.federation.rounds import new_model, one_thread
        from fflbench.privacy.victims import draw, prepare, trained

        task, seed, attack, device = context.task, context.seed, context.attack, context.device
        history, seconds = [], 0.0
        with one_thread():
            model = FlatModel(new_model(task, seed), torch.device(device))
            held = draw(task, self.pairs, 2, self.batch, seed)
            prepare(task, model, held, 0, seed)
            server = Server(Entropy(seed))
            for number, of_pair in enumerate(held):
                updates = trained(task, model, of_pair, 1, self.rate).updates
                heard = self._exchange(context.defense.transport, server, updates[0], updates[1], number, seed)
                start = time.perf_counter()
                unmasked = attack.unmask(heard)
                seconds += time.perf_counter() - start
                history.append({"pair": number, **_scored(unmasked, heard.own, updates[1].view(np.uint32))})
                context.step(number + 1)
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

    def _exchange(self, transport: Any, server: Server, one: Vector, other: Vector, number: int, seed: int) -> Heard:
        """Return the initiator's view after an exchange, without the submissions."""
        asking, asked = PARTIES[self.pads]
        common = (server.public, Entropy(seed), GROUPS[transport.group])
        initiator = asking(one, 0, 1, number, *common)
        acceptor = asked(other, 1, 0, number, *common)
        answer = acceptor.take(initiator.offer())
        acceptor.finish(initiator.take(answer))
        return Heard(
            whole=np.frombuffer(answer.whole, np.uint32),
            kept=np.frombuffer(answer.kept, np.uint32),
            mask=initiator.mask,
            own=one.view(np.uint32),
        )


def _scored(unmasked: Unmasked, own: Words, true: Words) -> dict[str, float]:
    """Return the shares of recovered coordinates, wrong claims and right bits; with one's own update as the floor."""
    right = unmasked.words == true
    return {
        "recovered": float(np.mean(right & unmasked.sure)),
        "wrong_claims": float(np.mean(~right & unmasked.sure)),
        "bit_accuracy": _equal_bits(unmasked.words, true),
        "floor_bit_accuracy": _equal_bits(own, true),
    }


def _equal_bits(one: Words, other: Words) -> float:
    return 1 - float(np.bitwise_count(one ^ other).sum()) / (BITS * len(one))
