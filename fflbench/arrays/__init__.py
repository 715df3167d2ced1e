"""Array work that rules share: sorting, sums and products of large matrices, and the layout of their columns."""
