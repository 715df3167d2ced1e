"""FFL. Jebreel et al., Enhanced security and privacy via fragmented federated learning, IEEE TNNLS 2022."""

from fflbench.plugin import chain

chain(
    "ffl",
    "fragment-exchange + reputation",
    title="FFL",
    summary="Swap encrypted fragments of updates in pairs, and let reputations decide who is selected and trusted.",
)
