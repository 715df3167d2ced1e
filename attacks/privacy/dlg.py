"""Deep leakage from gradients. Zhu, Liu and Han, NeurIPS 2019."""

from typing import Annotated

from annotated_types import Ge

from fflbench.plugin import ObservedGradients, ReconstructedExamples, ReconstructionAttack, privacy_attack


@privacy_attack("dlg", title="DLG", knows=["server view"])
class DLG(ReconstructionAttack):
    r"""Search for inputs and labels whose gradients match the observed ones, by L-BFGS from random starts.

    $$ \min_{x, y} \sum_l \lVert \nabla_{W_l} \ell(F(x, W), \mathrm{softmax}(y)) - \nabla W_l \rVert^2 $$
    """

    steps: Annotated[int, Ge(1), "steps of L-BFGS"] = 200
    restarts: Annotated[int, Ge(1), "random starts, of which the best counts"] = 1

    def reconstruct(self, observed: ObservedGradients) -> ReconstructedExamples:
        from fflbench.plugin import invert_gradients

        return invert_gradients(observed, self.steps, self.restarts)


@privacy_attack("idlg", title="iDLG", knows=["server view"], citation="Zhao, Mopuri and Bilen, iDLG, arXiv 2020.")
class IDLG(DLG):
    """Infer the label from the last layer's gradient first, then search for the input alone."""

    def reconstruct(self, observed: ObservedGradients) -> ReconstructedExamples:
        from fflbench.plugin import infer_labels, invert_gradients

        return invert_gradients(observed, self.steps, self.restarts, infer_labels(observed))
