"""Exact inversion of batches. Dimitrov et al., SPEAR: Exact gradient inversion of batches, NeurIPS 2024."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
from annotated_types import Ge, Gt, Lt

from fflbench.plugin import (
    ObservedGradients,
    ParameterError,
    ReconstructedExamples,
    ReconstructionAttack,
    privacy_attack,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

SAMPLES = 4096
"""Submatrices that are sampled in each step."""
GAP = 3.0
"""Factor between singular values that separates examples from rounding errors."""
NOISE = 30.0
"""Multiple of the estimated rounding error below which an entry counts as zero."""
PRECISION = 1e-7
"""Least such bound, relative to columns of length one."""
KEPT = 32
"""Candidate directions that are kept per example, those with the most zeros."""
TRIED = 10
"""Candidate directions per example that are tried in exchange for chosen ones."""
INDEPENDENT = 1e-3
"""Least distance of a unit vector from the span of others at which it counts as independent of them."""
STEP_COST = 20.0
"""Duration of a step for one victim, in steps of gradient inversion."""


@privacy_attack("spear", title="SPEAR", knows=["server view"])
class Spear(ReconstructionAttack):
    r"""Solve for a whole batch, given the gradient of a first linear layer that is followed by ReLU.

    The gradient by the weight factorises, and ReLU makes about half of its left factor zero:

    $$ \frac{\partial \ell}{\partial W} = \frac{\partial \ell}{\partial Z} X^\top = L R, \qquad
       \frac{\partial \ell}{\partial Z} = L Q, \qquad X^\top = Q^{-1} R $$

    A column of Q is orthogonal to the rows of L at its zeros: the kernels of random submatrices of b - 1 rows are
    candidates, of which those with many zeros remain. Greedy selection takes the sparsest independent ones and
    exchanges them as long as more signs of Z agree with the zeros; the bias's gradient, the sum of the columns, sets
    their lengths. Sampling ends once all signs agree. Needs a layer with more inputs and outputs than examples, and
    time that grows exponentially with them.

    Rounding errors are estimated from the singular values beyond the b-th, and every candidate is recomputed from all
    its zeros.
    """

    steps: Annotated[int, Ge(1), "times that 4,096 submatrices are sampled, at most"] = 64
    false_rejection: Annotated[
        float, Gt(0), Lt(1), "probability that a right direction has too few zeros, if half of all entries are zero"
    ] = 1e-5

    def inversion_steps(self, local_steps: int) -> float:
        return self.steps * STEP_COST

    def reconstruct(self, observed: ObservedGradients) -> ReconstructedExamples:
        import torch

        from fflbench.plugin import infer_labels

        first = observed.first_linear_layer("spear")
        outputs, inputs = first.layer.weight.shape
        if first.count >= min(outputs, inputs):
            raise ParameterError(
                f"spear needs fewer examples than the first layer has inputs and outputs: "
                f"{first.count} are not fewer than {min(outputs, inputs)}"
            )
        if not _relu_follows(observed, first.layer):
            raise ParameterError("spear needs a ReLU after the first linear layer")
        weight, bias = first.layer.weight.detach().double(), first.layer.bias.detach().double()
        examples = []
        for by_weight, by_bias in zip(first.by_weight.double(), first.by_bias.double(), strict=True):
            factors = _factorise(by_weight, by_bias, weight, bias, first.count)
            x = self._invert(factors, observed)
            # Examples without a gradient leave no trace: others stand in their places.
            examples.append(x[torch.arange(first.count, device=x.device) % len(x)])
        x = (
            torch.stack(examples)
            .nan_to_num(0.0)
            .to(observed.low)
            .view(observed.victim_count, observed.count, *observed.shape)
        )
        return ReconstructedExamples(x.clamp(observed.low, observed.high), infer_labels(observed))

    def _invert(self, factors: "_Factors", observed: ObservedGradients) -> "Tensor":
        """Return the examples with the best agreement of signs and zeros, one row each."""
        import torch

        least = max(
            _least_likely_zeros(len(factors.left), self.false_rejection),
            len(factors.left) - len(factors.live) + factors.rank,
        )
        candidates, basis = factors.left.new_zeros(0, factors.rank), factors.left.new_zeros(0, 0)
        score = 0.0
        for step in range(self.steps):
            found = factors.refine(factors.sample_kernels(observed.generator), least)
            candidates = factors.sparsest(torch.cat([candidates, found]))
            greedy, complete = factors.greedy_basis(candidates)
            if (complete and not torch.equal(greedy, basis)) or step == self.steps - 1 or factors.rank == 1:
                basis = greedy
                score, x = factors.exchange(basis, candidates)
            if score == 1 or factors.rank == 1:
                observed.report(self.steps - step)
                break
            observed.report(1)
        return x


@dataclass(frozen=True)
class _Factors:
    """Low-rank factors of one gradient, with the layer that it is the gradient of."""

    left: "Tensor"
    """Orthonormal columns, outputs x rank."""
    right: "Tensor"
    """Rows, rank x inputs."""
    lengths: "Tensor"
    """The bias's gradient in the coordinates of the left factor."""
    weight: "Tensor"
    bias: "Tensor"
    tolerance: float
    """Bound below which an entry of a left factor times a unit vector counts as zero."""

    @property
    def rank(self) -> int:
        return self.left.shape[1]

    @property
    def live(self) -> "Tensor":
        """Rows of outputs that at least one example activates."""
        import torch

        return torch.arange(len(self.left), device=self.left.device)[self.left.norm(dim=1) > self.tolerance]

    def zeros(self, directions: "Tensor") -> "Tensor":
        """Return where the columns of the gradient by Z along directions are zero, one row per direction."""
        return (directions @ self.left.T).abs() <= self.tolerance

    def sample_kernels(self, generator: "torch.Generator") -> "Tensor":
        """Return unit vectors that are orthogonal to random sets of rows, one less than the rank."""
        import torch

        live, rank = self.live, self.rank
        if len(live) < rank or rank < 2:
            return self.left.new_zeros(0, rank)
        # Each permutation of the rows is divided into as many submatrices as it has room for.
        room = len(live) // (rank - 1)
        orders = torch.rand(math.ceil(SAMPLES / room), len(live), generator=generator).argsort(1)
        rows = orders[:, : room * (rank - 1)].reshape(-1, rank - 1)[:SAMPLES].to(live.device)
        # A random last row makes the system square: its solution is the kernel, up to length.
        last = torch.randn(SAMPLES, 1, rank, generator=generator).to(self.left)
        target = torch.eye(rank).to(self.left)[:, -1:].expand(SAMPLES, -1, -1)
        systems = torch.cat([self.left[live][rows], last], 1)
        kernels: Tensor = torch.linalg.solve_ex(systems, target).result[..., 0]
        kernels = kernels / kernels.norm(dim=1, keepdim=True)
        return kernels[kernels.isfinite().all(1)]

    def refine(self, directions: "Tensor", least: int) -> "Tensor":
        """Return the sparse ones among directions, each once and recomputed from all its zeros."""
        import torch

        directions = directions[self.zeros(directions).sum(1) >= least]
        zeros = self.zeros(directions[_first_of_equal_rows(self.zeros(directions))]).to(self.left.dtype)
        values, vectors = torch.linalg.eigh(torch.einsum("kmi,mj->kij", zeros[..., None] * self.left, self.left))
        # Rows whose kernel has several dimensions determine no direction.
        return vectors[values[:, 1] > (10 * self.tolerance) ** 2, :, 0] if self.rank > 1 else directions[:0]

    def sparsest(self, directions: "Tensor") -> "Tensor":
        """Return different directions, those with the most zeros first."""
        directions = directions[_first_of_equal_rows(self.zeros(directions))]
        order = self.zeros(directions).sum(1).argsort(descending=True, stable=True)
        return directions[order[: KEPT * self.rank]]

    def solve(self, bases: "Tensor") -> "tuple[Tensor, Tensor]":
        """Return how well signs agree with zeros, and the examples, for bases whose rows are directions."""
        import torch

        zeros = self.zeros(bases)
        inverse = torch.linalg.inv_ex(bases.mT).inverse
        x = inverse @ self.right / (inverse @ self.lengths)[..., None]
        inactive = x @ self.weight.T + self.bias <= 0
        return (zeros == inactive).to(x.dtype).mean((1, 2)), x

    def greedy_basis(self, candidates: "Tensor") -> "tuple[Tensor, bool]":
        """Return the sparsest independent candidates, one row each, and whether there are enough of them."""
        import torch

        # Directions of the factors complete the basis where too few were found.
        left = pool = torch.cat([candidates, torch.eye(self.rank).to(candidates)])
        chosen: list[int] = []
        while len(chosen) < self.rank:
            chosen.append(int((left.norm(dim=1) > INDEPENDENT).int().argmax()))
            direction = left[chosen[-1]] / left[chosen[-1]].norm()
            left = left - (left @ direction)[:, None] * direction
        return pool[chosen], max(chosen) < len(candidates)

    def exchange(self, basis: "Tensor", candidates: "Tensor") -> "tuple[float, Tensor]":
        """Return the best score of a basis after exchanges for other candidates, and its examples."""
        import torch

        scores, solutions = self.solve(basis[None])
        score, x, places = float(scores[0]), solutions[0], torch.arange(self.rank, device=basis.device)
        for candidate in candidates[: TRIED * self.rank]:
            if score == 1:
                break
            trials = basis.repeat(self.rank, 1, 1)
            trials[places, places] = candidate
            scores, solutions = self.solve(trials)
            best = int(scores.argmax())
            if scores[best] > score:
                score, x, basis = float(scores[best]), solutions[best], trials[best]
        return score, x


def _factorise(by_weight: "Tensor", by_bias: "Tensor", weight: "Tensor", bias: "Tensor", count: int) -> _Factors:
    """Return the factors of a gradient of so many examples, in double precision."""
    import torch

    left, values, right = torch.linalg.svd(by_weight, full_matrices=False)
    rank = max(1, int((values[:count] > GAP * values[count]).sum()))
    freedom = (len(left) - rank) * (right.shape[1] - rank)
    error = float((values[rank:].square().sum() / freedom).sqrt() / values[rank - 1].clamp(min=1e-300))
    left = left[:, :rank]
    return _Factors(
        left=left,
        right=values[:rank, None] * right[:rank],
        lengths=left.T @ by_bias,
        weight=weight,
        bias=bias,
        tolerance=max(PRECISION, NOISE * error),
    )


def _first_of_equal_rows(rows: "Tensor") -> "Tensor":
    """Return the first place of each different row, in order."""
    import torch

    _, first = np.unique(rows.cpu().numpy(), axis=0, return_index=True)
    return torch.from_numpy(np.sort(first)).to(rows.device)


def _least_likely_zeros(entries: int, probability: float) -> int:
    """Return the greatest number below which zeros fall with no more than a probability, half of them expected."""
    from scipy.special import bdtr

    return int((bdtr(np.arange(entries), entries, 0.5) <= probability).sum())


def _relu_follows(observed: ObservedGradients, layer: "nn.Linear") -> bool:
    """Return whether outputs of a layer below zero have no influence, on random inputs."""
    import torch

    values: list[Tensor] = []

    def keep_outputs(module: "nn.Module", inputs: object, outputs: "Tensor") -> "Tensor":
        values.append(outputs.detach().requires_grad_())
        return values[-1]

    x = torch.rand(64, *observed.shape, generator=observed.generator).to(observed.low.device)
    hook = layer.register_forward_hook(keep_outputs)
    try:
        outputs = observed.model(observed.low + (observed.high - observed.low) * x)
        (gradients,) = torch.autograd.grad(outputs.log_softmax(-1)[:, 0].sum() + outputs[:, 0].sum(), values)
    finally:
        hook.remove()
    below = values[0] < 0
    return bool((gradients[below] == 0).all() and (gradients[~below] != 0).any())
