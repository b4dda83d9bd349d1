"""What a promising join or selection tells in steps, by definition: all pairs, or all rows, ordered by exact counts and
cut at the budget (ali 5).

Where no budget is short, it is the join or selection: that is its meaning as a relation. Where one is, aggregates are
over what was told (`as_found`), and are complete at moments at which that is all of the join. WEIGHTED pairs that are
aggregated are told each with a chance of its own, whatever becomes of the others, and stand for as many as that is one
of; or all pairs of an event in one granularity are, where the budget counts events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from mullion.algebra.nodes import Join, Promising
from mullion.algebra.nodes.promising import ESTIMATE
from mullion.instants import EVER_BEFORE
from mullion.language.types import BIGINT
from mullion.reference.expressions import values_of
from mullion.reference.registry import as_inputs, meaning_of
from mullion.reference.rows import Row
from mullion.reference.world import World

RowsByStep = list[list[Row]]
"""What each step tells."""
LEAST_WEIGHT = 1 / 16
"""The part of the mean weight that pairs have at the least where they are aggregated."""
BITS = (1 << 64) - 1


@meaning_of(Promising, strict=as_inputs)
def promising(world: World, node: Promising) -> list[Row]:
    rows = world.rows(node.input)
    return [_weighing(node, row, 1.0, 0) for row in rows] if node.weighs else rows


def as_found(told: RowsByStep, steps: Sequence[int]) -> list[Row]:
    """Rows that steps up to these times told: they are there from their start, or from where the step before ended."""
    rows = [
        replace(row, start=max(row.start, before))
        for some, before in zip(told, (EVER_BEFORE, *steps), strict=False)
        for row in some
    ]
    return [row for row in rows if row.start < row.end]


@dataclass(frozen=True)
class _Offer:
    """A row that probes with the rows that it meets in one granularity of the other input, the last to come first; or
    a row of a selection, which fades while it waits."""

    promise: float
    pairs: tuple[Row, ...]
    side: int = 0
    number: int = 0
    """Which row probes."""

    def promise_at(self, node: Promising, time: int) -> float:
        if isinstance(node.input, Join):
            return self.promise
        grain = sum(age <= time - self.pairs[0].start for age in node.fading_ages(0))
        return _faded(node, self.promise, grain)


def told_in_steps(world: World, node: Promising, steps: Sequence[int]) -> RowsByStep:
    """The rows that ASC or DESC tell in the steps up to each of these times."""
    told, waiting, before = [], list[_Offer](), EVER_BEFORE
    passing = {row.id for row in world.rows(node.input)}
    offers = _pairs if isinstance(node.input, Join) else _rows
    for now in steps:
        waiting = [*(offer for offer in waiting if offer.pairs), *offers(world, node, before, now)]
        waiting.sort(key=partial(_Offer.promise_at, node=node, time=before), reverse=node.order == "desc")
        alive = [replace(offer, pairs=tuple(p for p in offer.pairs if p.held_until > before)) for offer in waiting]
        found, waiting = _cut([offer for offer in alive if offer.pairs], node.budget.rows, node.budget.events)
        told.append([row for row in found if row.id in passing])
        before = now
    return told


def sampled_in_steps(world: World, node: Promising, steps: Sequence[int]) -> RowsByStep:
    """The rows, with their weights, that WEIGHTED draws for aggregates in the steps up to each of these times."""
    told, before = [], EVER_BEFORE
    passing = {row.id for row in world.rows(node.input)}
    sides = [sorted(world.rows(part), key=lambda row: row.start) for part in node.parts]
    numbers = {(*one.id, *other.id): (n, m) for n, one in enumerate(sides[0]) for m, other in enumerate(sides[1])}
    for now in steps:
        offers = list(_pairs(world, node, before, now))
        of_events, budget = node.budget.events is not None, node.budget.events or node.budget.rows
        assert budget is not None
        counts = [1 if of_events else len(offer.pairs) for offer in offers]
        chances = _chances([offer.promise for offer in offers], counts, budget)
        drawn, seen = list[Row](), Counter[tuple[int, int]]()
        for offer, chance in zip(offers, chances, strict=True):
            place = 2 * numbers[offer.pairs[0].id][offer.side] + offer.side, seen[offer.side, offer.number]
            for row in offer.pairs:
                code = _code(node.salt, *(place if of_events else numbers[row.id]))
                if chance == 1 or _die(code) < chance:
                    drawn.append(_weighing(node, row, 1 / chance, code))
            seen[offer.side, offer.number] += 1
        told.append([row for row in drawn if row.id in passing])
        before = now
    return told


def _chances(weights: list[float], counts: list[int], budget: float) -> list[float]:
    """By weight, about as many as the budget in all; none is more than 1, nor without any."""
    if sum(counts) <= budget:
        return [1.0] * len(counts)
    mean = sum(weights) / sum(counts)
    each = [max(w / n, mean * LEAST_WEIGHT) if mean else 1.0 for w, n in zip(weights, counts, strict=True)]
    sure: set[int] = set()
    while True:
        others = [i for i in range(len(each)) if i not in sure]
        rate = (budget - sum(counts[i] for i in sure)) / sum(each[i] * counts[i] for i in others)
        more = {i for i in others if each[i] * rate >= 1}
        if not more:
            return [1.0 if i in sure else each[i] * rate for i in range(len(each))]
        sure |= more


def _code(code: int, first: int, second: int) -> int:
    """What stands for two numbers, by a salt (splitmix64)."""
    for number in (first, second):
        code = (code * 0x9E3779B97F4A7C15 + number) & BITS
        code = ((code ^ (code >> 30)) * 0xBF58476D1CE4E5B9) & BITS
        code = ((code ^ (code >> 27)) * 0x94D049BB133111EB) & BITS
        code ^= code >> 31
    return code - (BITS + 1 if code >> 63 else 0)


def _die(code: int) -> float:
    """A number between 0 and 1."""
    return float(((code & BITS) >> 11) / (1 << 53))


def _weighing(node: Promising, row: Row, weight: float, unit: int) -> Row:
    """With what it stands for. Memory is never short here."""
    return replace(row, values=(*row.values, *(weight, unit, 1.0, 0)[: len(node.of_a_sample)]))


def _cut(offers: list[_Offer], rows: int | None, events: int | None) -> tuple[list[Row], list[_Offer]]:
    """What comes first, and what is left of the others."""
    if events is not None:
        return [row for offer in offers[:events] for row in offer.pairs], offers[events:]
    assert rows is not None
    found, left = list[Row](), list[_Offer]()
    for offer in offers:
        room = rows - len(found)
        found += offer.pairs[:room]
        left += [replace(offer, pairs=offer.pairs[room:])]
    return found, left


def _rows(world: World, node: Promising, before: int, now: int) -> Iterator[_Offer]:
    """The rows that come between two times. Each is like itself, and like what is there or comes with it."""
    rows = world.rows(node.input)
    values = world.keys(node.input, node.keys[0])
    columns = (*node.input.columns, (ESTIMATE, BIGINT))
    for n in sorted(range(len(rows)), key=lambda n: rows[n].start):
        if before <= rows[n].start < now:
            there = [m for m, row in enumerate(rows) if row.start < now and row.held_until > before]
            alike = [m for m in there if values[m] == values[n] and None not in values[n]]
            (value,) = values_of(node.promises[0], columns, [(*rows[n].values, len(alike))])
            yield _Offer(_promise(node, value), (rows[n],))


def _pairs(world: World, node: Promising, before: int, now: int) -> Iterator[_Offer]:
    """By the rows that come between two times. Those of input 0 meet what had come before, and those of input 1 also
    what comes with them."""
    parts = node.parts
    sides = [world.rows(part) for part in parts]
    at = [[n for _, n in sorted((row.start, n) for n, row in enumerate(rows))] for rows in sides]
    for side in (0, 1):
        own = [n for n in at[side] if before <= sides[side][n].start < now]
        others = [n for n in at[1 - side] if sides[1 - side][n].start < (now if side else before)]
        keys = [world.keys(part, keys) for part, keys in zip(parts, node.keys, strict=True)]
        met = {n: [m for m in others if _meet(sides, keys, side, n, m)] for n in own}
        for n in sorted(own, key=lambda n: [(key is None, key) for key in keys[side][n]]):
            row = sides[side][n]
            columns = (*parts[side].columns, (ESTIMATE, BIGINT))
            (value,) = values_of(node.promises[side], columns, [(*row.values, len(met[n]))])
            for grain in range(len(node.fading_ages(1 - side)) + 1):
                ages = (-inf, *node.fading_ages(1 - side), inf)
                pairs = [m for m in met[n] if ages[grain] <= row.start - sides[1 - side][m].start < ages[grain + 1]]
                if pairs:
                    rows = tuple(_pair(sides, side, n, m) for m in reversed(pairs))
                    yield _Offer(_faded(node, _promise(node, value), grain), rows, side, n)


def _promise(node: Promising, value: Any) -> float:
    if node.order == "weighted":
        return 0.0 if value is None or value != value else max(float(value), 0.0)
    if value is None or value != value:
        return -inf if node.order == "desc" else inf
    return float(value)


def _faded(node: Promising, promise: float, grain: int) -> float:
    """It comes later than it would have."""
    factor = node.fade**grain
    return promise * factor if (promise > 0) == (node.order != "asc") else promise / factor


def _meet(sides: Sequence[Sequence[Row]], keys: Sequence[Sequence[tuple[Any, ...]]], side: int, n: int, m: int) -> bool:
    own, other = sides[side][n], sides[1 - side][m]
    same = keys[side][n] == keys[1 - side][m] and None not in keys[side][n]
    return same and max(own.start, other.start) < min(own.held_until, other.held_until)


def _pair(sides: Sequence[Sequence[Row]], side: int, n: int, m: int) -> Row:
    first, second = (sides[0][n], sides[1][m]) if side == 0 else (sides[0][m], sides[1][n])
    held = min(first.held_until, second.held_until)
    start, end = max(first.start, second.start), min(first.end, second.end)
    return Row((*first.values, *second.values), (*first.id, *second.id), start, end, held)
