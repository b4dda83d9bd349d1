"""The moments of a commit at which tests let a process crash."""

from __future__ import annotations

from collections.abc import Callable

on_step: list[Callable[[str], None]] = []
"""Called at every step of a commit; crash tests hang on here."""


def step(name: str) -> None:
    for call in on_step:
        call(name)


__all__ = ["on_step", "step"]
