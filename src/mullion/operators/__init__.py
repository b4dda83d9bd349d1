"""Operators over relations that change with time: window, join, distinct, negation, and what holds their state."""
