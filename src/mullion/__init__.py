"""Mullion: many standing sliding-window queries over a stream for about the price of one."""

__version__ = "0.1.0"
