"""Execution of cells, on one machine or on a Ray cluster."""
