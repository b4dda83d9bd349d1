"""Queries that are divided into other clusters before every batch, whatever that costs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from mullion.planner import few
from mullion.planner.clusters import Division
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime import clusters, planning


class AnyClusters:
    """In the place of `planner.clusters.Clustering`: costs nothing, divides by lot."""

    dice = random.Random(0)

    @staticmethod
    def of(statistics: Any) -> AnyClusters:
        return AnyClusters()

    @staticmethod
    def is_one(queries: Sequence[SlicedAggregation]) -> bool:
        return False

    def divide(self, queries: Sequence[SlicedAggregation]) -> Division:
        number = self.dice.randint(1, max(1, len(queries)))
        parts: dict[int, list[SlicedAggregation]] = {}
        for query in queries:
            parts.setdefault(self.dice.randrange(number), []).append(query)
        return Division(tuple(map(tuple, parts.values())), 0.0, 0.0)

    def cost_of(self, clusters: Any) -> float:
        return 1.0

    def place(self, query: SlicedAggregation, clusters: Mapping[str, Sequence[SlicedAggregation]]) -> str | None:
        return self.dice.choice([None, *clusters])


@contextmanager
def moving_clusters(seed: int = 0) -> Iterator[None]:
    """Before every batch, queries are given to other clusters."""
    AnyClusters.dice = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "Clustering", AnyClusters)
        patch.setattr(clusters, "LEAST_GAIN", 0.0)
        patch.setattr(few, "FEW", -1)
        patch.setattr(planning, "OTHER", 1e-9)
        yield
