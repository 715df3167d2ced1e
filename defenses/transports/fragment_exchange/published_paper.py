"""Results of the FFL paper (Jebreel et al., IEEE TNNLS 2022): the figures of its tables, and its empirical claims."""

from pathlib import Path

from fflbench.plugin import published_results

HERE = Path(__file__).parent
published_results.register(HERE / "published_figures.csv", HERE / "published_claims.toml")
