r"""Updates from sums of pairs over several rounds.

An exchange keeps the sum W_i + W_j over two partners. With new partners in every round, sums are edges of a graph over
participants, and while updates stay as they are, least squares on

$$ W_i + W_j = S_{ij} \quad \text{for all edges } (i, j) $$

determine every W_i in a component with an odd cycle, such as a triangle,

$$ W_i = \tfrac12 (S_{ij} + S_{ik} - S_{jk}) $$

and nobody in a component without one, which is bipartite: one side may grow by what the other loses. Two rounds make
only even cycles, so three are needed. Updates that do change are those of the first round, whose sums are made to hold.
Lam et al., Gradient disaggregation, ICML 2021, separate sums over larger groups from round to round in the same way.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Pair = tuple[int, int]


def separate_pair_sums(
    pairs: Sequence[Pair], sums: npt.NDArray[np.float64], first: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the participants, their updates by least squares of least norm, and whether sums determine each.

    The `first` pairs, no two of which share a participant, keep their sums where least squares miss them.
    """
    people, places = np.unique(np.array(pairs, np.int64), return_inverse=True)
    edges = places.reshape(-1, 2)
    incidence = np.zeros((len(edges), len(people)))
    np.add.at(incidence, (np.arange(len(edges))[:, None], edges), 1.0)
    updates = np.linalg.pinv(incidence) @ sums
    kept = edges[:first]
    updates[kept] += (sums[:first] - updates[kept].sum(1))[:, None] / 2
    return people, updates, _in_odd_component(len(people), edges)


def _in_odd_component(count: int, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return whether each participant's component has an odd cycle."""
    import networkx

    graph = networkx.Graph(edges.tolist())
    odd = np.zeros(count, bool)
    for component in networkx.connected_components(graph):
        odd[list(component)] = not networkx.is_bipartite(graph.subgraph(component))
    return odd
