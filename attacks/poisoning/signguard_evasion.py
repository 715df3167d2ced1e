"""Random updates with the signs of honest ones, as in Blades (Li et al., IoTDI 2024)."""

import numpy as np

from fflbench.plugin import Attack, Known, Matrix, attack, row_norms

from ._crafted_rows import known_rows, mean_of_rows, send_same_row


@attack("signguard-evasion", title="SignGuard evasion", knows=["own data", "attackers' updates", "honest updates"])
class SignGuardEvasion(Attack):
    r"""Send random values of which as many are positive, zero and negative as in the honest mean.

    $$ x_i = r\, u_i \operatorname{sign}(\mu_{\pi(i)}), \qquad u_i \sim U(0, 1] $$

    with $\pi$ a random permutation of coordinates: SignGuard compares shares of signs, and these are usual, while the
    direction is random. All attackers send the same vector, drawn anew in every round. It has the median norm of the
    honest updates (by the factor r), since SignGuard compares norms too; the SignGuardAdversary of Blades sends it as
    drawn. Buffers stay as trained.
    """

    def poison_updates(self, known: Known) -> Matrix:
        rows = known_rows(known)
        signs = known.rng.permutation(np.sign(mean_of_rows(rows)))
        drawn = signs * (1 - known.rng.random(len(signs)))
        length = float(np.linalg.norm(drawn))
        return send_same_row(known, drawn * (np.median(row_norms(rows)) / length if length else 0.0))
