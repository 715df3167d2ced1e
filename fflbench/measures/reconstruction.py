"""Reconstruction: quality of participants' examples rebuilt from an observation of a round."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

from fflbench.measures import reconstruction_image_grids
from fflbench.plugin import (
    HIGHER,
    LABELS,
    LOWER,
    NO_DRIFT,
    NO_OBSERVATION,
    PROCESS_BYTES,
    Arrays,
    Chain,
    Columns,
    Context,
    Count,
    Inputs,
    Labels,
    Metric,
    ObservedGradients,
    ObservedUpdates,
    Outcome,
    ParameterError,
    PositiveCount,
    PrivacyFacts,
    PrivacyMeasure,
    ReconstructedExamples,
    ReconstructionAttack,
    Record,
    ReportFigure,
    Setting,
    Task,
    Timing,
    TrainingProtocol,
    Transcript,
    Vector,
    inversion_step_seconds,
    linear_weight_names,
    measure,
    observe,
    one_round,
    participants_to_watch,
    reconstruction_quality,
    share,
    stream,
    training_seconds_per_example,
    weighted_mean,
    with_floor,
)

if TYPE_CHECKING:
    # Measures are listed without loading torch.
    from fflbench.plugin import FlatModel, victim_updates

GRADIENT_COPIES = 8
"""Number of copies of a victim's gradient that differentiation holds."""

COPY, COPY_DRIFT = 40.0, 0.08
"""PSNR in decibels from which a reconstruction is a copy, and the relative drift of its value from there."""
MAX_IMAGE_SIDE = 4096
"""Largest side of an image, in pixels."""


PSNR = (
    "Peak signal-to-noise ratio, median over reconstructions: near the floor nothing is recovered, from about 20 dB an "
    "image can be recognised, above 40 dB it is a copy."
)
BEST = "PSNR of the best example of each reconstruction."
DETERMINED = "Participants whose updates follow from sums of several rounds, if they do not change between rounds."
UPDATE_ERROR = "Distance of a participant's estimated update from its own, over the length of its own; median."
MASK = "In right pairs, entries of a layer whose owner is found, up to exchange of the two: half is chance."


def _psnr_drift(decibels: float) -> Callable[[float], float]:
    return lambda value: COPY_DRIFT * value if value >= COPY else decibels


class _Facts(PrivacyFacts):
    reconstructions: PositiveCount
    victims: Count


class AttackedObservation(NamedTuple):
    """An observation to attack, with its group and its own metrics."""

    group: int
    observed: ObservedUpdates
    scores: Mapping[str, float]
    """Values by the names of metrics."""


@measure("reconstruction", title="Reconstruction", version=4)
class Reconstruction(PrivacyMeasure):
    """Rebuild participants' examples from a round's messages, and compare them with the originals."""

    any_task = True
    several_rounds = True
    depends_on = ("transport",)
    facts = _Facts
    metrics = (
        *with_floor(Metric("psnr", "PSNR", PSNR, LOWER, unit="dB", digits=1, headline=True, drift=_psnr_drift(0.3))),
        *with_floor(Metric("best_psnr", "best PSNR", BEST, LOWER, unit="dB", digits=1, drift=_psnr_drift(0.4))),
        *with_floor(Metric("mse", "MSE", "Mean squared error.", HIGHER, digits=4, low=0.0, drift=0.008)),
        *with_floor(Metric("ssim", "SSIM", "Structural similarity; 1 is a copy.", LOWER, optional=True, drift=0.04)),
        *with_floor(share("label_accuracy", "labels", "Labels inferred correctly.", LOWER, drift=NO_DRIFT)),
        share("pair_accuracy", "pairs", "Pairs found that did exchange.", LOWER, optional=True, drift=NO_DRIFT),
        share("mask_accuracy", "mask", MASK, LOWER, optional=True, drift=NO_DRIFT),
        share("determined", "determined", DETERMINED, LOWER, optional=True, added_later=True, drift=NO_DRIFT),
        *with_floor(
            Metric("update_error", "error of updates", UPDATE_ERROR, HIGHER, low=0.0, optional=True, added_later=True)
        ),
    )

    groups: Annotated[int, Ge(1), "rounds, each with its own participants and examples"] = 10
    people: Annotated[int, Ge(2), "participants per round"] = 2
    batch: Annotated[int, Ge(1), "examples per participant"] = 1
    local_steps: Annotated[int, Ge(1), "steps of plain gradient descent on all of a participant's examples"] = 1
    rate: Annotated[float, Gt(0), "learning rate of participants"] = 0.1
    model_epochs: Annotated[int, Ge(0), "epochs of the task's training behind the global model; 0: untrained"] = 0

    @classmethod
    def extra_figures(cls, records: Sequence[Record], arrays: Callable[[Record], Arrays]) -> Iterable[ReportFigure]:
        return reconstruction_image_grids.image_grids(records, arrays)

    def accepts_attack(self, attack: Any) -> bool:
        return isinstance(attack, ReconstructionAttack)

    def check(self, task: Task, defense: Chain, attack: Any = None) -> None:
        super().check(task, defense, attack)
        one_round.require_groupable_count("people", self.people, defense.transport)

    def check_arrays(self, arrays: Arrays) -> None:
        if set(arrays) != {"originals", "found"}:
            given = ", ".join(sorted(arrays))[:80]
            raise ValueError(f"a reconstruction has the arrays originals and found, not {given}")
        originals, rebuilt = arrays["originals"], arrays["found"]
        expected = (self.groups, self.people, self.batch)
        if originals.shape != rebuilt.shape or rebuilt.shape[:3] != expected or not rebuilt.size:
            given = f"{originals.shape} and {rebuilt.shape}"
            raise ValueError(f"originals and rebuilt have the shapes {given}, and must both begin with {expected}")
        if originals.dtype.kind != "f" or rebuilt.dtype.kind != "f":
            raise ValueError("originals and rebuilt must be floating-point numbers")
        if rebuilt.ndim == 6 and max(rebuilt.shape[4:]) > MAX_IMAGE_SIDE:
            raise ValueError(f"images have sides of {rebuilt.shape[4:]}, and at most {MAX_IMAGE_SIDE} pixels are shown")

    def memory_bytes(self, task: Task) -> int:
        return PROCESS_BYTES + 4 * GRADIENT_COPIES * task.columns().count * self.groups * self.people * self.batch

    def estimate_seconds(self, task: Task, defense: Chain, attack: Any, timing: Timing) -> float:
        steps: float = attack.inversion_steps(self.local_steps)
        each_step = inversion_step_seconds(task, self.groups * self.people, self.batch, timing)
        pretraining = self.model_epochs * len(task.data().train) * training_seconds_per_example(task, timing)
        # The observation and the quality of its result take 0.3 s with small models.
        return 0.3 + steps * each_step + pretraining

    def run(self, context: Context) -> Outcome:
        import torch

        from fflbench.plugin import FlatModel, new_model, one_thread, victim_updates

        task, defense, attack = context.task, context.defense, context.attack
        seed, device = context.seed, context.device
        if not np.issubdtype(task.data().train.x.dtype, np.floating):
            raise ParameterError("reconstruction needs examples made of real numbers, such as images")
        with one_thread():
            model = FlatModel(new_model(task, seed), torch.device(device))
            held = victim_updates.draw_victim_examples(task, self.groups, self.people, self.batch, seed)
            victim_updates.pretrain_global_model(task, model, held, self.model_epochs, seed)
            attacked, groups, dropped = self._train_and_observe_victims(task, defense, model, held, seed)
            updates = [update for each in attacked for update in each.observed.updates]
            low, high = victim_updates.value_range(task.data().train.x)
            observed = ObservedGradients(
                model=model.model,
                gradients=victim_updates.gradients_from_updates(model, updates, self.local_steps, self.rate),
                count=len(attacked[0].observed.participants) * self.batch // len(attacked[0].observed.updates),
                shape=groups[0].x.shape[2:],
                classes=len(task.classes),
                loss=task.loss,
                low=torch.from_numpy(low).to(device),
                high=torch.from_numpy(high).to(device),
                generator=torch.Generator().manual_seed(int(stream(seed, "inversion").integers(2**63))),
                matched=_which_parameters_were_separated(model.columns, attacked[0].observed.layer),
                sharing=len(attacked[0].observed.updates),
                local=TrainingProtocol(
                    self.rate,
                    self.local_steps,
                    participants=len(attacked[0].observed.participants) // len(attacked[0].observed.updates),
                ),
                y=torch.from_numpy(_labels_behind_updates(attacked, groups)).to(device)
                if LABELS in attack.knows
                else None,
            )
            start = time.perf_counter()
            rebuilt = attack.reconstruct(observed)
            seconds = time.perf_counter() - start
        context.report_step(1)
        facts = {**self.observation_facts(defense, attack), **({"dropped_rows": dropped} if dropped else {})}
        return self._score_reconstructions(
            task,
            facts,
            attacked,
            groups,
            rebuilt,
            seconds,
            seed,
            lambda x: reconstruction_quality.to_pixels(x, low, high),
        )

    def _train_and_observe_victims(
        self, task: Task, defense: Chain, model: "FlatModel", held: "list[npt.NDArray[np.int64]]", seed: int
    ) -> "tuple[list[AttackedObservation], list[victim_updates.Victims], int]":
        """Train and transmit every group; return the observations, the groups, and the number of dropped rows."""
        from fflbench.plugin import victim_updates

        weights, observations, groups, dropped = model.flat.cpu().numpy().copy(), [], [], 0
        linear, participants, observation = (
            linear_weight_names(model.model),
            list(range(self.people)),
            self.create_observation(),
        )
        setting = Setting(self.people, self.people, np.full(self.people, self.batch), model.columns)
        watch = participants_to_watch(observation, participants)
        for number, of_group in enumerate(held):
            defense.begin(setting, seed)
            transcripts: list[Transcript] = []
            for round in range(number * observation.rounds, (number + 1) * observation.rounds):
                trained = victim_updates.train_victims(task, model, of_group, self.local_steps, self.rate)
                if not transcripts:
                    groups.append(trained)
                # All participants take part, whomever a rule would select: messages depend on the transport alone.
                current = model.flat.cpu().numpy().copy()
                transcript = defense.transmit(
                    round, current, np.arange(self.people), trained.updates.copy(), watch=watch
                )
                dropped += len(transcript.server.dropped)
                transcripts.append(transcript)
                if len(transcripts) < observation.rounds:
                    model.load(current + _mean_change(transcript))
            model.load(weights)
            first, *later = transcripts
            for each in observe(observation, defense.transport, first, participants, linear, later):
                observations.append(AttackedObservation(number, each, observation.own_metrics(each, first)))
        if not observations:
            raise ParameterError(NO_OBSERVATION)
        # Attacks need updates of one size: where rows were dropped, sums over fewer participants are left out.
        most = max(len(each.observed.participants) for each in observations)
        return [each for each in observations if len(each.observed.participants) == most], groups, dropped

    def _score_reconstructions(
        self,
        task: Task,
        facts: dict[str, Any],
        attacked: list[AttackedObservation],
        groups: "list[victim_updates.Victims]",
        guess: ReconstructedExamples,
        seconds: float,
        seed: int,
        as_pixels: Callable[[Inputs], Inputs],
    ) -> Outcome:
        """Compare reconstructions with the originals, images in pixels."""
        # From the test set, which no victim holds.
        rng, data = stream(seed, "floor"), task.data().test
        originals = np.stack([as_pixels(group.x) for group in groups])
        rebuilt = np.full(originals.shape, np.nan, np.float32)
        parts = len(attacked[0].observed.updates)
        x, y = (
            part.cpu().numpy().reshape(len(attacked), parts * part.shape[1], *part.shape[2:])
            for part in (guess.x, guess.y)
        )
        history = []
        for each, own_x, own_y in zip(attacked, x, y, strict=True):
            participants = list(each.observed.participants)
            true, labels = (
                np.concatenate(originals[each.group, participants]),
                np.concatenate(groups[each.group].y[participants]),
            )
            scored = reconstruction_quality.compare_with_originals(true, labels, as_pixels(own_x), own_y)
            chance = rng.integers(len(data.y), size=len(true))
            floor = reconstruction_quality.compare_with_originals(
                true, labels, as_pixels(data.x[chance]), data.y[chance]
            )
            rebuilt[each.group, participants] = scored.rebuilt.reshape(len(participants), self.batch, *true.shape[1:])
            at_chance = {f"floor_{name}": value for name, value in _quality_metrics(floor).items()}
            history.append({"group": each.group, "people": participants, **_quality_metrics(scored), **at_chance})
        names = [part + name for part in ("", "floor_") for name in ("mse", "psnr", "best_psnr", "ssim")]
        middle = {name: _median_of_known([item[name] for item in history]) for name in names}
        return Outcome(
            metrics={
                **middle,
                "label_accuracy": _float_mean([item["label_accuracy"] for item in history]),
                "floor_label_accuracy": _float_mean([item["floor_label_accuracy"] for item in history]),
                **{
                    name: _mean_of_known([each.scores.get(name) for each in attacked])
                    for name in ("pair_accuracy", "mask_accuracy", "determined")
                },
                **{
                    name: _median_of_known([each.scores.get(name) for each in attacked])
                    for name in ("update_error", "floor_update_error")
                },
            },
            history=history,
            seconds={"attack": seconds},
            facts={
                "reconstructions": len(history),
                "victims": len({(each.group, who) for each in attacked for who in each.observed.participants}),
                **facts,
                "optimiser": f"gradient descent, {self.local_steps} x {self.rate}",
            },
            arrays={"originals": originals, "found": rebuilt},
        )


def _mean_change(transcript: Transcript) -> Vector:
    """Return the change of the global model between two rounds: the mean, whatever the rule."""
    view = transcript.server
    if not len(view.rows):
        return np.zeros_like(view.model)
    return weighted_mean(view.rows, view.weights) * np.float32(view.scale)


def _which_parameters_were_separated(columns: Columns, layer: str) -> tuple[bool, ...]:
    """Return which parameters are one victim's own, where only one layer could be separated."""
    if not layer:
        return ()
    own = (layer, f"{layer.removesuffix('weight')}bias")
    return tuple(name in own for name, span in columns.spans.items() if span.stop <= columns.parameters.stop)


def _labels_behind_updates(attacked: list[AttackedObservation], groups: "list[victim_updates.Victims]") -> Labels:
    """Return the labels of the examples behind every observed update, one row per update."""
    return np.concatenate(
        [
            groups[each.group].y[list(each.observed.participants)].reshape(len(each.observed.updates), -1)
            for each in attacked
        ]
    )


def _quality_metrics(quality: reconstruction_quality.ReconstructionQuality) -> dict[str, Any]:
    return {
        "mse": _float_mean(quality.mse),
        "psnr": _float_mean(quality.psnr),
        "best_psnr": max(quality.psnr),
        "ssim": quality.ssim and _float_mean(quality.ssim),
        "label_accuracy": quality.label_accuracy,
    }


def _float_mean(values: Sequence[Any]) -> float:
    return float(np.mean(values))


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _float_mean(known) if known else None


def _median_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
