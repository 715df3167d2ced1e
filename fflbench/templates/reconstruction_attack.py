"""Random inputs whose gradients are most similar to the observed ones. An example."""

from typing import Annotated

from annotated_types import Ge

from fflbench.plugin import ObservedGradients, ReconstructedExamples, ReconstructionAttack, privacy_attack


@privacy_attack("best-guess", title="Best guess", knows=["server view"])
class BestGuess(ReconstructionAttack):
    """Draw random inputs, and keep those whose gradients have the highest cosine with the observed ones."""

    guesses: Annotated[int, Ge(1), "random inputs that are tried"] = 50

    def reconstruct(self, observed: ObservedGradients) -> ReconstructedExamples:
        import torch

        from fflbench.plugin import infer_labels

        y = infer_labels(observed)
        x = torch.zeros_like(observed.random_start(observed.count, *observed.shape))
        highest = torch.full((observed.victim_count,), -torch.inf, device=x.device)
        for _ in range(self.guesses):
            guess = observed.random_start(observed.count, *observed.shape).clamp(observed.low, observed.high)
            pairs = observed.gradient_pairs(guess, y)
            products = torch.stack([(dummy * real).flatten(1).sum(1) for dummy, real in pairs]).sum(0)
            norms = torch.stack([dummy.square().flatten(1).sum(1) for dummy, _ in pairs]).sum(0).sqrt()
            better = products / (norms + 1e-20) > highest
            x[better], highest[better] = guess[better], (products / (norms + 1e-20))[better]
            observed.report(1)
        return ReconstructedExamples(x, y)
