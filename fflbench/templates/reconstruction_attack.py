"""Inputs whose gradients resemble the observed ones, found by random changes. An example."""

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Gt

from fflbench.plugin import ObservedGradients, ReconstructedExamples, ReconstructionAttack, privacy_attack

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack("hill-climbing", title="Hill climbing", knows=["server view"])
class HillClimbing(ReconstructionAttack):
    """Change random inputs at random, and keep a change if their gradient comes closer to the observed one."""

    steps: Annotated[int, Ge(1), "changes that are tried"] = 300
    size: Annotated[float, Gt(0), "standard deviation of a change, as a share of the range of values"] = 0.1

    def reconstruct(self, observed: ObservedGradients) -> ReconstructedExamples:
        import torch

        from fflbench.plugin import infer_labels

        y = infer_labels(observed)
        spread = observed.high - observed.low
        x = (observed.low + observed.high) / 2 + self.size * spread * self.noise(observed)
        highest = self.similarity(observed, x, y)
        for _ in range(self.steps):
            changed = (x + self.size * spread * self.noise(observed)).clamp(observed.low, observed.high)
            similarity = self.similarity(observed, changed, y)
            better = similarity > highest
            x[better], highest = changed[better], torch.maximum(similarity, highest)
            observed.report(1)
        return ReconstructedExamples(x, y)

    def noise(self, observed: ObservedGradients) -> "Tensor":
        """Return random numbers for every victim's examples."""
        return observed.random_start(observed.count, *observed.shape)

    def similarity(self, observed: ObservedGradients, x: "Tensor", y: "Tensor") -> "Tensor":
        """Return the cosine of the examples' gradient with the observed one, for each victim."""
        import torch

        dummies, reals = zip(*observed.gradient_pairs(x, y), strict=True)
        dummy, real = (torch.cat([part.flatten(1) for part in parts], 1) for parts in (dummies, reals))
        return torch.cosine_similarity(dummy, real, dim=1)
