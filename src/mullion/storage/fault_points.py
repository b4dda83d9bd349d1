"""The moments of a commit at which tests let a process crash."""

from __future__ import annotations

from collections.abc import Callable

on_fault_point: list[Callable[[str], None]] = []
"""Called at every fault point; crash tests hang on here."""


def fault_point(name: str) -> None:
    for call in on_fault_point:
        call(name)
