"""The compiled loops of operators over deltas."""
