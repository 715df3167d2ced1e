"""Nasr, Shokri and Houmansadr, Comprehensive privacy analysis of deep learning, IEEE S&P 2019: the passive server."""

from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

from fflbench.plugin import (
    Indices,
    MembershipAttack,
    MembershipObserver,
    ParameterError,
    Task,
    Vector,
    member_split,
    privacy_attack,
)

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack("white-box", title="White box", knows=["server view", "auxiliary data", "controlled participants"])
class WhiteBox(MembershipAttack):
    """Train a classifier of members on the white-box features of examples held by controlled participants.

    Features are loss and confidence before and after the update, the gradient's norm and alignment with the update
    layer by layer, the last layer's input, the output and the class. Non-members for training are auxiliary data of the
    same classes. A logistic regression replaces the paper's network: with so few controlled participants it generalised
    better than any other.
    """

    repeats: Annotated[int, Ge(1), "times the controlled participants train"] = 4
    examples: Annotated[int, Ge(1), "members of each participant, and as many non-members, to train on each time"] = 100
    freedom: Annotated[float, Gt(0), "inverse of the penalty on the regression's weights"] = 0.01
    plain: Annotated[bool, "train on updates without the defense, as the FFL paper's server does"] = False

    @property
    def simulates_rounds(self) -> bool:
        return not self.plain

    def gradient_conversion_text(self, task: Task) -> str:
        return "none: the classifier learns what a change tells beside gradients as they are and scaled as Adam does"

    def gradient_count(self, scored: int, participants: int) -> int:
        # Before the update and after it.
        return 2 * (scored + 2 * self.repeats * participants * self.examples)

    def prepare(self, observer: MembershipObserver, candidates: Indices) -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        if len(observer.controlled_examples) < observer.participants:
            counts = f"{len(observer.controlled_examples)} do, and {observer.participants} take part"
            raise ParameterError(f"white-box needs as many participants who sit out the round as take part: {counts}")
        y = observer.signals.y.cpu().numpy()
        self.scale = observer.signals.gradient_rms_by_coordinate(observer.weights, observer.auxiliary_examples)
        groups = [observer.controlled_examples] * self.repeats
        features, truth = [], []
        for shadow in observer.simulate_rounds(groups, "controlled", without_defense=self.plain):
            people = shadow.observed.participants
            members = np.concatenate([groups[shadow.round][who] for who in people])
            members = observer.rng.permutation(members[observer.unique[members]])[: self.examples * len(people)]
            chosen = member_split.equalise_class_counts(y, members, observer.auxiliary_examples, observer.rng)
            for update in shadow.observed.updates:
                features.append(self._white_box_features(observer, update, np.concatenate(chosen)))
                truth.append(np.repeat([True, False], [len(part) for part in chosen]))
        self.classifier = make_pipeline(StandardScaler(), LogisticRegression(C=self.freedom, max_iter=1000))
        self.classifier.fit(np.concatenate(features), np.concatenate(truth))

    def score(self, observer: MembershipObserver, update: Vector, candidates: Indices) -> "Tensor":
        import torch

        return torch.from_numpy(
            self.classifier.decision_function(self._white_box_features(observer, update, candidates))
        )

    def _white_box_features(
        self, observer: MembershipObserver, update: Vector, examples: Indices
    ) -> npt.NDArray[np.float64]:
        import torch
        from torch.nn import functional as F

        signals, after = observer.signals, observer.weights_after(update)
        losses = [signals.losses(weights, examples).double() for weights in (observer.weights, after)]
        sure = [signals.logit_confidences(weights, examples) for weights in (observer.weights, after)]
        parts = [
            torch.stack([*losses, losses[0] - losses[1], *sure, sure[1] - sure[0]], 1),
            self._gradient_norms_and_cosines(observer, update, examples),
            torch.cat([_log_norms(gradients) for gradients in signals.gradient_batches(after, examples)])[:, None],
            signals.last_layer_inputs(after, examples),
            signals.outputs(after, examples),
            F.one_hot(signals.y[torch.from_numpy(examples).to(signals.device)], len(observer.task.classes)),
        ]
        # A model that noise has ruined may overflow.
        features = torch.cat([part.double() for part in parts], 1).nan_to_num().clamp(-1e6, 1e6)
        array: npt.NDArray[np.float64] = features.cpu().numpy()
        return array

    def _gradient_norms_and_cosines(self, observer: MembershipObserver, update: Vector, examples: Indices) -> "Tensor":
        """Return norms of the examples' gradients and their cosines with the update, by layer and all together."""
        import torch
        from torch.nn import functional as F

        from fflbench.plugin import parameter_names

        columns = observer.signals.columns
        spans = [*(columns.spans[name] for name in parameter_names(columns)), columns.parameters]
        change = torch.tensor(update).to(observer.signals.device)[None]
        rows = []
        for gradients in observer.signals.gradient_batches(observer.weights, examples):
            features = []
            for span in spans:
                own, scaled = gradients[:, span], gradients[:, span] / self.scale[span]
                features += [_log_norms(own), *(F.cosine_similarity(-each, change[:, span]) for each in (own, scaled))]
            rows.append(torch.stack(features, 1))
        return torch.cat(rows)


def _log_norms(gradients: "Tensor") -> "Tensor":
    lengths: Tensor = gradients.norm(dim=1)
    return (lengths + 1e-12).log()
