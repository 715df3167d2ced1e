"""The server's own examples, and nothing else. An example."""

import numpy as np

from fflbench.plugin import Rule, Vector, View, require_rows, rule


@rule("root-alone", title="Root examples alone", root_update=True)
class RootAlone(Rule):
    """Move the model by the server's own update, whatever participants send."""

    def aggregate(self, view: View, rng: np.random.Generator) -> Vector:
        require_rows(view)
        assert view.root_update is not None
        return view.root_update
