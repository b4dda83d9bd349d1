"""What a join finds whose windows keep so many rows at the most, by definition: instant by instant."""

from __future__ import annotations

from math import prod
from typing import Any

from mullion.algebra.nodes import Bounded
from mullion.reference.expressions import equal
from mullion.reference.registry import as_inputs, meaning_of
from mullion.reference.rows import Row
from mullion.reference.world import World

EvictionTimes = dict[int, int]
"""Of the rows of an input that were evicted, by their ids: the instant after which they are not there."""


@meaning_of(Bounded, strict=as_inputs)
def bounded(world: World, node: Bounded) -> list[Row]:
    """Results of which each row was still there when the last one came."""
    gone = evictions(world, node)

    def is_found(row: Row) -> bool:
        return all(own.get(number, row.start) >= row.start for own, number in zip(gone, row.id, strict=True))

    return list(filter(is_found, world.rows(node.input)))


def evictions(world: World, node: Bounded) -> list[EvictionTimes]:
    """The rows of each input that are evicted."""
    parts = node.join.parts
    sides = [world.rows(part) for part in parts]
    keys = [world.keys(part, own) for part, own in zip(parts, node.join.keys, strict=True)]
    gone: list[EvictionTimes] = [{} for _ in parts]
    for now in sorted({row.start for rows in sides for row in rows}):
        there = [
            [
                n
                for n, row in enumerate(rows)
                if row.start <= now < row.held_until - 1 and row.id[0] not in own and None not in of[n]
            ]
            for rows, of, own in zip(sides, keys, gone, strict=True)
        ]
        going = [_first(node, i, there, sides, keys) for i in range(len(parts))]
        for own, some, rows in zip(gone, going, sides, strict=True):
            own |= {rows[n].id[0]: now for n in some}
    return gone


def _first(
    node: Bounded, i: int, there: list[list[int]], sides: list[list[Row]], keys: list[list[tuple[Any, ...]]]
) -> list[int]:
    """The rows of an input that go now."""
    most = node.most[i]
    if most is None or len(there[i]) <= most:
        return []

    def partners(n: int) -> int:
        others = [j for j in range(len(there)) if j != i]
        return prod(sum(all(map(equal, keys[i][n], keys[j][m])) for m in there[j]) for j in others)

    def first(n: int) -> tuple[int, ...]:
        row = sides[i][n]
        return (partners(n) if node.rarest[i] else 0, row.held_until, row.start, *row.id)

    return sorted(there[i], key=first)[: len(there[i]) - node.stays(i)]
