"""Execution: how cells become records, on one machine's cores."""
