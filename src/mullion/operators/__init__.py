"""Operators over relations that change with time: window, join, distinct, negation, and the stores of their state."""
