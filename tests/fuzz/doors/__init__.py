"""One module per kind of input."""
