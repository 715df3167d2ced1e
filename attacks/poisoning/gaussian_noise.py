"""Gaussian noise. Li et al., RSA: Byzantine-robust stochastic aggregation methods, AAAI 2019; as in the FFL paper."""

from typing import Annotated

from annotated_types import Gt

from fflbench.plugin import Attack, Known, Matrix, attack


@attack("gaussian-noise", title="Gaussian noise", knows=["own data"])
class GaussianNoise(Attack):
    """Train honestly, then add noise to every parameter, so that the model does not converge."""

    sigma: Annotated[float, Gt(0), "standard deviation of the noise"] = 0.5

    def poison_updates(self, known: Known) -> Matrix:
        parameters = known.updates[:, known.columns.parameters]
        parameters += self.sigma * known.rng.standard_normal(parameters.shape, dtype=parameters.dtype)
        return known.updates
