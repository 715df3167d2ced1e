"""Pre-aggregations: combinations of the server's rows before the rule."""
