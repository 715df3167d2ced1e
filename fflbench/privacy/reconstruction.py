"""How much of people's data a curious server rebuilds from what a defense lets it see."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt

from fflbench.errors import ParameterError
from fflbench.federation import Defense, Sent
from fflbench.federation.defense import Setting
from fflbench.measures import Measure, Outcome
from fflbench.privacy.attack import Guess, Observed
from fflbench.privacy.scoring import Score, psnr, score
from fflbench.privacy.targets import TARGETS, Look, Seen
from fflbench.randomness import stream
from fflbench.registry import Kind, measure
from fflbench.tasks import Task
from fflbench.types import Inputs, Labels

if TYPE_CHECKING:
    # Measures are listed without loading torch.
    from fflbench.federation.training import FlatModel
    from fflbench.privacy.victims import Group


class Watched(NamedTuple):
    """Something to attack: in which group, and whether its two people did exchange with each other."""

    group: int
    look: Look
    right_pair: bool | None


@measure("reconstruction", title="Reconstruction")
class Reconstruction(Measure):
    """Rebuild people's examples from a round's messages, and compare them with the originals."""

    attacked = Kind.PRIVACY_ATTACK
    metrics = ("mse", "psnr", "best_psnr", "label_accuracy", "floor_mse", "floor_psnr", "pair_accuracy", "seconds")

    target: Annotated[
        Literal["own", "pair-sum", "found-pair-sum", "aggregate"],
        "how the server turns what it sees into updates to attack",
    ] = "own"
    groups: Annotated[int, Ge(1), "rounds, each with people and examples of its own"] = 10
    people: Annotated[int, Ge(2), "who take part in a round"] = 2
    batch: Annotated[int, Ge(1), "examples each of them holds"] = 1
    local_steps: Annotated[int, Ge(1), "steps of plain gradient descent they take on all of them"] = 1
    rate: Annotated[float, Gt(0), "their learning rate"] = 0.1

    def applies(self, defense: Defense) -> bool:
        return TARGETS[self.target].applies(defense)

    def check(self, task: Task, defense: Defense) -> None:
        if defense.exchanges and self.people % 2:
            raise ParameterError(f"people = {self.people} leaves one without a partner; take an even number")

    def steps(self) -> int:
        return 1

    def estimate(self, task: Task, defense: Defense) -> float:
        return 2.0 * self.groups * self.people * self.batch

    def play(self, task: Task, defense: Defense, seed: int, tell: Callable[[int], None], attack: Any = None) -> Outcome:
        import torch

        from fflbench.federation.rounds import new_model, one_thread
        from fflbench.federation.training import FlatModel
        from fflbench.privacy.victims import gradients

        with one_thread():
            model = FlatModel(new_model(task, seed), torch.device("cpu"))
            looks, groups = self._watch(task, defense, model, seed)
            observed = Observed(
                model=model.model,
                gradients=gradients(model.columns, [each.look.update for each in looks], self.local_steps, self.rate),
                count=len(looks[0].look.people) * self.batch,
                shape=groups[0].x.shape[2:],
                classes=len(task.classes),
                loss=task.loss,
                generator=torch.Generator().manual_seed(int(stream(seed, "inversion").integers(2**63))),
            )
            start = time.perf_counter()
            guess = attack.reconstruct(observed)
            seconds = time.perf_counter() - start
        tell(1)
        return self._scored(task, looks, groups, guess, seconds, seed)

    def _watch(
        self, task: Task, defense: Defense, model: "FlatModel", seed: int
    ) -> "tuple[list[Watched], list[Group]]":
        """Let every group train and send; what there is to attack, with the number of its group."""
        from fflbench.privacy.victims import draw, trained

        weights, looks, groups = model.flat.numpy().copy(), [], []
        sizes = np.full(self.people, self.batch)
        for number, held in enumerate(draw(task, self.groups, self.people, self.batch, seed)):
            group = trained(task, model, held, self.local_steps, self.rate)
            defense.begin(Setting(self.people, self.people, sizes, model.columns, seed))
            selected = defense.select(number)
            sent = group.updates[selected]
            view = defense.transmit(number, weights, selected, Sent(sent, sent))
            partners = getattr(defense, "partner", {})
            found = TARGETS[self.target].look(Seen(view, selected.tolist(), partners))
            looks += [Watched(number, look, _right_pair(look, partners)) for look in found]
            groups.append(group)
        return looks, groups

    def _scored(
        self, task: Task, looks: list[Watched], groups: "list[Group]", guess: Guess, seconds: float, seed: int
    ) -> Outcome:
        rng, data = stream(seed, "floor"), task.data().train
        history = []
        for watched, x, y in zip(looks, guess.x.numpy(), guess.y.numpy(), strict=True):
            true, labels = _examples(groups[watched.group], watched.look)
            found = score(true, labels, x, y)
            chance = rng.integers(len(data.y), size=len(true))
            floor = score(true, labels, data.x[chance], data.y[chance])
            where = {"group": watched.group, "people": list(watched.look.people)}
            history.append({**where, **_told(found), "floor_mse": _mean(floor.mse)})
        middle = {name: _median(history, name) for name in ("mse", "psnr", "best_psnr", "floor_mse")}
        return Outcome(
            metrics={
                **middle,
                "label_accuracy": _mean([told["label_accuracy"] for told in history]),
                "floor_psnr": psnr(middle["floor_mse"]),
                "pair_accuracy": None if looks[0].right_pair is None else _mean([each.right_pair for each in looks]),
                "seconds": seconds / len(history),
            },
            history=history,
            facts={
                "reconstructions": len(history),
                "victims": self.groups * self.people,
                "adaptive": TARGETS[self.target].adaptive,
                "target": TARGETS[self.target].meaning,
                "knows": list(TARGETS[self.target].knows),
            },
        )


def _right_pair(look: Look, partners: Mapping[int, int]) -> bool | None:
    return partners.get(look.people[0]) == look.people[1] if len(look.people) == 2 and partners else None


def _examples(group: "Group", look: Look) -> tuple[Inputs, Labels]:
    people = list(look.people)
    return np.concatenate(group.x[people]), np.concatenate(group.y[people])


def _told(found: Score) -> dict[str, Any]:
    return {
        "mse": _mean(found.mse),
        "psnr": _mean(found.psnr),
        "best_psnr": max(found.psnr),
        "label_accuracy": found.label_accuracy,
    }


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values))


def _median(history: list[dict[str, Any]], name: str) -> float:
    return float(np.median([told[name] for told in history]))
