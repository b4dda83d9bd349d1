"""Limits that hold unless the user says otherwise."""

PORTION = 500_000
"""Windows that are answered at once, and about how many rows are written at once."""
