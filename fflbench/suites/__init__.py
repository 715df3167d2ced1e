"""Suites: files that combine attacks, defenses, tasks and seeds."""
