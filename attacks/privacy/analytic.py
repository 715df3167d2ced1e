"""Inputs in closed form, from the gradient of a linear layer."""

from fflbench.plugin import ObservedGradients, ReconstructedExamples, ReconstructionAttack, privacy_attack


@privacy_attack(
    "analytic",
    title="Analytic",
    knows=["server view"],
    citation="Inputs in closed form. Phong et al., Privacy-preserving deep learning via additively homomorphic "
    "encryption, IEEE TIFS 2018; Geiping et al., How easy is it to break privacy in federated learning?, NeurIPS 2020, "
    "proposition 3.1.",
)
class Analytic(ReconstructionAttack):
    r"""Divide a biased linear layer's gradient by that of its bias: for one example that is the layer's input.

    $$ x = \frac{\partial \ell / \partial W_i}{\partial \ell / \partial b_i}, \qquad
       i = \arg\max |\partial \ell / \partial b| $$

    The model must begin with that layer, or the result is no input. For several examples the results are mixtures of
    them: as many as there are examples, from the rows with the largest bias gradients.
    """

    def reconstruct(self, observed: ObservedGradients) -> ReconstructedExamples:
        import torch

        from fflbench.plugin import infer_labels

        observed.first_linear_layer("analytic")
        by_weight, by_bias = observed.gradients[:2]
        rows = by_bias.abs().topk(min(observed.count, by_bias.shape[1]), dim=1).indices
        rows = rows[:, torch.arange(observed.count, device=rows.device) % rows.shape[1]]
        weights = by_weight.gather(1, rows[..., None].expand(-1, -1, by_weight.shape[2]))
        biases = by_bias.gather(1, rows)[..., None]
        x = torch.where(biases == 0, 0.0, weights / torch.where(biases == 0, 1.0, biases))
        return ReconstructedExamples(
            x.view(observed.victim_count, observed.count, *observed.shape), infer_labels(observed)
        )
