"""Membership inference by the cosine of an example's gradient and the update."""

from typing import TYPE_CHECKING

from fflbench.plugin import Indices, MembershipAttack, MembershipObserver, Task, Vector, privacy_attack

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack(
    "gradient-alignment",
    title="Gradient alignment",
    knows=["server view"],
    citation="Li, Li and Ribeiro, Effective passive membership inference attacks in federated learning against "
    "overparameterized models, ICLR 2023.",
)
class GradientAlignment(MembershipAttack):
    r"""Judge examples to be members whose own gradient is aligned with the update.

    $$ \cos(-\nabla \ell(x; w), \Delta) $$

    Adam's updates do not depend on the gradient's scale in each coordinate, so it is removed from the examples'
    gradients too: each coordinate is divided by its root mean square over the candidates.
    """

    def gradient_conversion_text(self, task: Task) -> str:
        if task.optimizer == "adam":
            return "Adam: examples' gradients divided by their root mean square, coordinate by coordinate, as Adam does"
        return "SGD: the change as it is, since a cosine needs no scale; of several steps it is the sum of gradients"

    def gradient_count(self, scored: int, participants: int) -> int:
        return scored

    def score(self, observer: MembershipObserver, update: Vector, candidates: Indices) -> "Tensor":
        import torch
        from torch.nn import functional as F

        direction = torch.tensor(update[observer.signals.columns.parameters])
        direction = direction.to(observer.signals.device)
        scale = (
            observer.signals.gradient_rms_by_coordinate(observer.weights, candidates)
            if observer.task.optimizer == "adam"
            else 1.0
        )
        cosines = [
            F.cosine_similarity(-gradients / scale, direction[None])
            for gradients in observer.signals.gradient_batches(observer.weights, candidates)
        ]
        return torch.cat(cosines)
