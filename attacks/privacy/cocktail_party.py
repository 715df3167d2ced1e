"""Cocktail party attack. Kariyappa et al., Breaking aggregation-based privacy by independent components, ICML 2023."""

import math
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Gt

from fflbench.plugin import (
    ObservedGradients,
    ParameterError,
    ReconstructedExamples,
    ReconstructionAttack,
    privacy_attack,
)

if TYPE_CHECKING:
    from torch import Tensor

STEP_COST = 0.5
"""Duration of a step, in steps of gradient inversion."""
TINY = 1e-20


@privacy_attack("cocktail-party", title="Cocktail party", knows=["server view"])
class CocktailParty(ReconstructionAttack):
    r"""Separate the inputs of a first linear layer, of which its weight's gradients are mixtures, by ICA.

    Rows of the gradient are centred and whitened to as many components as there are examples, X; then Adam finds the
    unit rows of a separating matrix U, with S the components before centring:

    $$ \min_U -\frac{\lambda_J}{b} \sum_i E[\log \cosh u_i X]^2
       + \lambda_D \, \operatorname{mean}_{ij} \big( e^{T |u_i u_j^\top|} - 1 \big)
       + \lambda_{TV} \, TV(S) + \lambda_N \operatorname{mean}_i \min(\lVert s_i^- \rVert, \lVert s_i^+ \rVert) $$

    The terms stand for negentropy, decorrelation, smooth images and inputs of one sign. Inputs are measured from the
    least value of the data, which the bias's gradient allows, so that they have one sign. Components are inputs up to
    sign and scale: the bias's gradient, mixed alike from ones, has their signs, and the range of the data their scale,
    unless the bias sets it too.

    Weights are those of the authors for Tiny ImageNet; they advise to sweep them on a batch of other data.
    """

    steps: Annotated[int, Ge(1), "steps of Adam"] = 25_000
    rate: Annotated[float, Gt(0), "the step size"] = 1e-3
    negentropy: Annotated[float, Ge(0), "weight of negentropy"] = 1.0
    decorrelation: Annotated[float, Ge(0), "weight of decorrelation"] = 1.47
    temperature: Annotated[float, Gt(0), "T of decorrelation"] = 12.4
    smoothness: Annotated[float, Ge(0), "weight of total variation"] = 3.1
    non_negativity: Annotated[float, Ge(0), "weight of the penalty on values of both signs"] = 0.0
    scale: Annotated[Literal["range", "bias"], "what sets the scale of inputs: their range, or the bias's gradient"] = (
        "range"
    )

    def inversion_steps(self, local_steps: int) -> float:
        return self.steps * STEP_COST

    def reconstruct(self, observed: ObservedGradients) -> ReconstructedExamples:
        import torch

        from fflbench.plugin import infer_labels

        first = observed.first_linear_layer("cocktail-party")
        if first.count > min(first.layer.weight.shape):
            raise ParameterError(
                f"cocktail-party needs a first layer with as many inputs and outputs as there are examples: "
                f"{first.count} are more than {min(first.layer.weight.shape)}"
            )
        by_bias = first.by_bias.double()[..., None]
        low, high = (each.double().expand(observed.shape).flatten() for each in (observed.low, observed.high))
        mixtures = first.by_weight.double() - by_bias * low
        means = mixtures.mean(2, keepdim=True)
        whitening = _whitening(mixtures - means, first.count)
        white, means = whitening @ (mixtures - means), whitening @ means
        separating = self._independent_components(white.float(), means.float(), observed).double()
        sources, lengths = separating @ (white + means), separating @ whitening @ by_bias
        if self.scale == "bias":
            sources = sources / torch.where(lengths == 0, 1.0, lengths)
        else:
            sources = (high - low) * _stretch(torch.where(lengths < 0, -sources, sources))
        x = (low + sources).view(observed.victim_count, observed.count, *observed.shape).nan_to_num(0.0)
        return ReconstructedExamples(x.to(observed.low).clamp(observed.low, observed.high), infer_labels(observed))

    def _independent_components(self, white: "Tensor", means: "Tensor", observed: ObservedGradients) -> "Tensor":
        """Return unit rows that separate whitened mixtures, for all updates at once."""
        import torch

        count = white.shape[1]
        weights = torch.eye(count).to(white).repeat(len(white), 1, 1).requires_grad_()
        adam = torch.optim.Adam([weights], self.rate)
        for _ in range(self.steps):
            adam.zero_grad()
            self._loss(_unit_rows(weights), white, means, observed.shape).backward()  # type: ignore[no-untyped-call]
            adam.step()
            observed.report(1)
        return _unit_rows(weights.detach())

    def _loss(self, separating: "Tensor", white: "Tensor", means: "Tensor", shape: tuple[int, ...]) -> "Tensor":
        """Return the objective, summed over updates: each has its own."""
        import torch
        from torch.nn import functional as F

        components = separating @ white
        sources = components + separating @ means
        # The logarithm of cosh, without overflow.
        negentropy = (components.abs() + F.softplus(-2 * components.abs()) - math.log(2)).mean(-1).square()
        cosines = (separating @ separating.mT).abs()
        loss = -self.negentropy * negentropy.mean(-1) + self.decorrelation * (
            (self.temperature * cosines).exp() - 1
        ).mean((1, 2))
        if self.smoothness and len(shape) == 3:
            images = sources.view(*sources.shape[:2], *shape)
            across, down = images.diff(dim=-1).abs(), images.diff(dim=-2).abs()
            loss = loss + self.smoothness * (across.mean((1, 2, 3, 4)) + down.mean((1, 2, 3, 4)))
        if self.non_negativity:
            parts = torch.minimum((-sources).relu().norm(dim=-1), sources.relu().norm(dim=-1))
            loss = loss + self.non_negativity * parts.mean(-1)
        return loss.sum()


def _whitening(centred: "Tensor", count: int) -> "Tensor":
    """Return matrices that make mixtures uncorrelated, with unit variance, in their first principal components."""
    import torch

    left, values, _ = torch.linalg.svd(centred, full_matrices=False)
    deviations = values[:, :count, None] / (centred.shape[2] - 1) ** 0.5
    whitening: Tensor = left[..., :count].mT / deviations.clamp(min=TINY)
    return whitening


def _unit_rows(weights: "Tensor") -> "Tensor":
    unit: Tensor = weights / weights.norm(dim=-1, keepdim=True).clamp(min=TINY)
    return unit


def _stretch(sources: "Tensor") -> "Tensor":
    """Return sources stretched to values from 0 to 1."""
    least, greatest = sources.amin(-1, keepdim=True), sources.amax(-1, keepdim=True)
    return (sources - least) / (greatest - least).clamp(min=TINY)
