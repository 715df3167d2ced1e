"""Data leakage in federated averaging. Dimitrov, Balunovic, Konstantinov and Vechev, TMLR 2022."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt

from fflbench.plugin import LABELS, ObservedGradients, ReconstructedExamples, ReconstructionAttack, privacy_attack


@privacy_attack("unrolled", title="Unrolled", knows=["server view"])
class Unrolled(ReconstructionAttack):
    r"""Search for inputs with which simulated local training gives the observed update.

    $$ \min_x \frac{\lVert \Delta(x) - \Delta \rVert^2}{\lVert \Delta \rVert^2} + \lambda_{TV} \, TV(x)
       + \lambda_{R} \sum_p \operatorname{dist}(x_p, [0, 1])^2
       + \lambda_{E} \operatorname{mean}_{e, e'} \lVert \bar{x}_e - \bar{x}_{e'} \rVert^2 $$

    Every participant behind the update trains on its own inputs, by SGD with the prescribed rate, momentum, batches
    and epochs, and the search differentiates through all steps. Batches are drawn in an unknown order, so that each
    epoch e has inputs of its own; their means are drawn together, and they are matched and averaged at the end. Labels
    are inferred from the last layer's gradient first, with probabilities of models between the global and the local.

    The distance is relative to the observed update, and all layers count alike. The authors search by Adam at a rate of
    0.4 on absolute distances, with weights of 0.001 for smoothness, 2 for the range and 1000 for epochs; L-BFGS, the
    default, copies inputs of smooth models.
    """

    steps: Annotated[int, Ge(1), "steps of the search"] = 200
    search: Annotated[Literal["l-bfgs", "adam"], "what minimises the objective"] = "l-bfgs"
    rate: Annotated[float, Gt(0), "the first step size of Adam, which falls by 0.05% in each step"] = 0.4
    smoothness: Annotated[float, Ge(0), "weight of the total variation"] = 0.0
    in_range: Annotated[float, Ge(0), "weight of squared distances from the range of the data"] = 0.01
    same_examples: Annotated[float, Ge(0), "weight of squared distances between the means of epochs"] = 1.0
    restarts: Annotated[int, Ge(1), "random starts, of which the best counts"] = 1
    known_labels: Annotated[bool, "the attacker is given the labels"] = False

    def __post_init__(self) -> None:
        if self.known_labels:
            # The decorator declares what every configuration needs; this one needs more.
            self.knows = (*type(self).knows, LABELS)  # type: ignore[misc]

    def inversion_steps(self, local_steps: int) -> float:
        return super().inversion_steps(local_steps) * local_steps

    def reconstruct(self, observed: ObservedGradients) -> ReconstructedExamples:
        from fflbench.plugin import invert_unrolled

        return invert_unrolled(
            observed,
            self.steps,
            self.rate if self.search == "adam" else None,
            self.smoothness,
            self.in_range,
            self.same_examples,
            self.restarts,
        )
