"""FLTrust. Cao et al., FLTrust: Byzantine-robust federated learning via trust bootstrapping, NDSS 2021."""

import numpy as np

from fflbench.plugin import Matrix, Rule, Vector, View, require_rows, rule


@rule("fltrust", title="FLTrust")
def fltrust(updates: Matrix, root_update: Vector) -> Vector:
    """Average updates scaled to the norm of the server's own, with their cosine to it as trust if positive."""
    norms, length = np.linalg.norm(updates, axis=1), np.linalg.norm(root_update)
    trust = np.maximum(updates @ root_update / (norms * length), 0)
    aggregate: Vector = (trust * length / norms) @ updates / trust.sum()
    return aggregate


@rule("root-alone", title="Root examples alone", root_update=True)
class RootAlone(Rule):
    """Move the model by the server's own update, whatever participants send."""

    def aggregate(self, view: View, rng: np.random.Generator) -> Vector:
        require_rows(view)
        assert view.root_update is not None
        return view.root_update
