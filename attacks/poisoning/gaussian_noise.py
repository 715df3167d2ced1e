"""Gaussian noise. Li et al., RSA: Byzantine-robust stochastic aggregation methods, AAAI 2019; as in the FFL paper."""

from typing import Annotated

from annotated_types import Gt

from fflbench.federation import Attack, Known
from fflbench.registry import attack
from fflbench.types import Matrix


@attack("gaussian-noise", title="Gaussian noise", knows=["own data"])
class GaussianNoise(Attack):
    """Train honestly, then add noise to every parameter, so that the model does not converge."""

    sigma: Annotated[Annotated[float, Gt(0)] | None, "standard deviation of the noise; none takes the task's"] = None

    def poison_updates(self, known: Known) -> Matrix:
        sigma = known.task.noise_sigma if self.sigma is None else self.sigma
        parameters = known.updates[:, known.columns.parameters]
        parameters += sigma * known.rng.standard_normal(parameters.shape, dtype=parameters.dtype)
        return known.updates
