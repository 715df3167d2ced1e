"""A control for poisoning attacks: random noise with the norm of an honest update."""

import numpy as np

from fflbench.plugin import Attack, Known, Matrix, attack


@attack("noise-control", title="Noise of honest length", knows=["own data"])
class NoiseControl(Attack):
    """Send a random direction as long as the honest update; an attack that does less harm is no attack."""

    def poison_updates(self, known: Known) -> Matrix:
        parameters = known.updates[:, known.columns.parameters]
        noise = known.rng.standard_normal(parameters.shape, dtype=parameters.dtype)
        lengths = np.linalg.norm(parameters, axis=1) / np.linalg.norm(noise, axis=1)
        parameters[:] = noise * lengths[:, None]
        return known.updates
