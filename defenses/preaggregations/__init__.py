"""Pre-aggregations: recombinations of the server's rows before a rule sees them."""
