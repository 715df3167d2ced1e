"""Nasr, Shokri and Houmansadr, Comprehensive privacy analysis of deep learning, IEEE S&P 2019: the passive server."""

from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

from fflbench.errors import ParameterError
from fflbench.privacy.member_split import alike
from fflbench.privacy.membership import MembershipAttack, Server
from fflbench.registration import privacy_attack
from fflbench.tasks import Task
from fflbench.types import Indices, Vector

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
    def rehearses(self) -> bool:
        return not self.plain

    def conversion(self, task: Task) -> str:
        return "none: the classifier learns what a change tells beside gradients as they are and scaled as Adam does"

    def prepare(self, server: Server, suspects: Indices) -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        if len(server.controlled) < server.people:
            counts = f"{len(server.controlled)} do, and {server.people} take part"
            raise ParameterError(f"white-box needs as many participants who sit out the round as take part: {counts}")
        y = server.examine.y.cpu().numpy()
        self.scale = server.examine.spread(server.before, server.auxiliary)
        groups = [server.controlled] * self.repeats
        features, truth = [], []
        for sight in server.rehearse(groups, "controlled", plain=self.plain):
            people = sight.observed.people
            members = np.concatenate([groups[sight.group][who] for who in people])
            members = server.rng.permutation(members[server.alone[members]])[: self.examples * len(people)]
            chosen = alike(y, members, server.auxiliary, server.rng)
            for update in sight.observed.updates:
                features.append(self._features(server, update, np.concatenate(chosen)))
                truth.append(np.repeat([True, False], [len(part) for part in chosen]))
        self.classifier = make_pipeline(StandardScaler(), LogisticRegression(C=self.freedom, max_iter=1000))
        self.classifier.fit(np.concatenate(features), np.concatenate(truth))

    def judge(self, server: Server, update: Vector, suspects: Indices) -> "Tensor":
        import torch

        return torch.from_numpy(self.classifier.decision_function(self._features(server, update, suspects)))

    def _features(self, server: Server, update: Vector, which: Indices) -> npt.NDArray[np.float64]:
        import torch
        from torch.nn import functional as F

        examine, after = server.examine, server.after(update)
        losses = [examine.losses(weights, which).double() for weights in (server.before, after)]
        sure = [examine.confidences(weights, which) for weights in (server.before, after)]
        parts = [
            torch.stack([*losses, losses[0] - losses[1], *sure, sure[1] - sure[0]], 1),
            self._alignments(server, update, which),
            torch.cat([_norm(gradients) for gradients in examine.gradients(after, which)])[:, None],
            examine.activations(after, which),
            examine.outputs(after, which),
            F.one_hot(examine.y[torch.from_numpy(which).to(examine.device)], len(server.task.classes)),
        ]
        # A model that noise has ruined may overflow.
        features = torch.cat([part.double() for part in parts], 1).nan_to_num().clamp(-1e6, 1e6)
        array: npt.NDArray[np.float64] = features.cpu().numpy()
        return array

    def _alignments(self, server: Server, update: Vector, which: Indices) -> "Tensor":
        """Return norms of the examples' gradients and their cosines with the update, by layer and all together."""
        import torch
        from torch.nn import functional as F

        from fflbench.privacy.examination import parameters

        columns = server.examine.columns
        spans = [*(columns.spans[name] for name in parameters(columns)), columns.parameters]
        change = torch.from_numpy(np.ascontiguousarray(update)).to(server.examine.device)[None]
        rows = []
        for gradients in server.examine.gradients(server.before, which):
            features = []
            for span in spans:
                own, scaled = gradients[:, span], gradients[:, span] / self.scale[span]
                features += [_norm(own), *(F.cosine_similarity(-each, change[:, span]) for each in (own, scaled))]
            rows.append(torch.stack(features, 1))
        return torch.cat(rows)


def _norm(gradients: "Tensor") -> "Tensor":
    lengths: Tensor = gradients.norm(dim=1)
    return (lengths + 1e-12).log()
