"""Suites: files that say which attacks meet which defenses, on which task, with which seeds."""
