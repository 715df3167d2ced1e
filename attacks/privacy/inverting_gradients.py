"""Inverting gradients. Geiping et al., How easy is it to break privacy in federated learning?, NeurIPS 2020."""

from typing import Annotated

from annotated_types import Ge, Gt

from fflbench.plugin import LABELS, ObservedGradients, ReconstructedExamples, ReconstructionAttack, privacy_attack


@privacy_attack("inverting-gradients", title="Inverting gradients", knows=["server view"])
class InvertingGradients(ReconstructionAttack):
    r"""Search for smooth inputs whose gradient has the direction of the observed one, by signed Adam.

    $$ \min_{x \in [0, 1]} 1 - \frac{\langle \nabla \ell(x), g \rangle}{\lVert \nabla \ell(x) \rVert \lVert g \rVert}
       + \alpha \, TV(x) $$

    Labels are inferred from the last layer's gradient first. The rate falls to a tenth after 3/8, 5/8 and 7/8 of
    the steps.
    """

    steps: Annotated[int, Ge(8), "steps of Adam"] = 600
    rate: Annotated[float, Gt(0), "the first step size"] = 0.1
    smoothness: Annotated[float, Ge(0), "weight of the total variation"] = 1e-4
    restarts: Annotated[int, Ge(1), "random starts, of which the best counts"] = 1
    known_labels: Annotated[bool, "the attacker is given the labels, as the authors' code assumes"] = False

    def __post_init__(self) -> None:
        if self.known_labels:
            # The decorator declares what every configuration needs; this one needs more.
            self.knows = (*type(self).knows, LABELS)  # type: ignore[misc]

    def reconstruct(self, observed: ObservedGradients) -> ReconstructedExamples:
        from fflbench.plugin import invert_by_cosine

        return invert_by_cosine(observed, self.steps, self.rate, self.smoothness, self.restarts)
