"""How many rows each query has answered: part of every commit, so that a restart notices answers that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from mullion.slices.finalize import Answers

T = TypeVar("T")


def count_rows(counts: dict[str, int], answers: Iterable[Answers], written: Mapping[str, int]) -> int:
    """Add the rows of answers, and those that shards wrote by themselves; returns how many they are together."""
    added = dict(written)
    for some in answers:
        for name, low, high in zip(some.queries, some.bounds, some.bounds[1:], strict=False):
            added[name] = added.get(name, 0) + high - low
    for name, rows in added.items():
        if rows:
            counts[name] = counts.get(name, 0) + rows
    return sum(added.values())


def still_counted(counts: Mapping[str, T], before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, T]:
    """The counts of the queries that stay, given the texts of those before and of those from now on. Another query of
    the same name counts for itself.

    >>> still_counted({"a": 3, "b": 4, "c": 5}, {"a": "x", "b": "y"}, {"a": "x", "b": "z"})
    {'a': 3}
    """
    return {name: rows for name, rows in counts.items() if name in now and before.get(name, now[name]) == now[name]}
