"""Which predicates are made of others: answers of a query from the answers of those that cover it (golab 8.3.3, SS4).

    proto = 6                  |#|      |          any cover       overlapping sets: the least and the most
    proto = 17                 |   |#|  |          disjoint cover  sums and counts, too
    proto = 6 OR proto = 17    |#| |#|  |          supercover      a larger set less a surplus: what can be subtracted

A predicate is a conjunction. Those that differ in what they ask of one attribute alone are sets of its values. These
are cut into cells at the constants of all of them, so that a set is a number with a bit for each cell. The thesis
leaves open how covers are found. Here they are gathered from the lowest cell on: what holds it and fits begins there.
Only a few sets are tried in each place, so p predicates take O(p) operations on numbers of 2p bits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mullion.aggregates.base import has_prefixes
from mullion.aggregates.exact_sums import Residue
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.language.query import Expr
from mullion.planner.comparisons import Logic, Tree, comparisons, conjuncts_of_tree
from mullion.planner.fragments import TRUE, Attribute, truth_of
from mullion.planner.runs import RegionRuns

MOST_SETS = 4096
"""Predicates over one attribute among which covers are looked for."""
MOST_PARTS = 8
"""Sets that a cover is made of."""
MOST_TRIED = 8
"""Sets that are tried in one place."""
MOST_OVERLAPPING = 32
"""Sets that are tried where they may overlap."""

Edge = tuple[Any, int]
"""A constant, and 1 if it lies before the edge."""


class Combining(StrEnum):
    """What covers may be like, by the states that are combined."""

    ANY = "any"
    """Duplicate-insensitive: sets may overlap."""
    DISJOINT = "disjoint"
    """Duplicate-sensitive: every event once."""
    SUBTRACTING = "subtracting"
    """And what was added can be taken out again."""


class Cover(NamedTuple):
    """The events of a slot are those of some slots without those of others; slots by their numbers."""

    added: tuple[int, ...]
    taken: tuple[int, ...] = ()

    @property
    def slots(self) -> tuple[int, ...]:
        return self.added + self.taken


def combining(aggregates: Iterable[BoundAggregate]) -> Combining | None:
    """What covers these aggregates allow together; None where their states are not combined at all."""
    kinds = {_combining(aggregate) for aggregate in aggregates}
    if None in kinds or not kinds:
        return None
    return kinds.pop() if len(kinds) == 1 else Combining.DISJOINT


@lru_cache(maxsize=1 << 12)
def _combining(aggregate: BoundAggregate) -> Combining | None:
    if aggregate.values:
        return None
    if aggregate.function in ("min", "max"):
        return Combining.ANY
    partials = aggregate.aggregate.partials(aggregate.argument_type)
    if all(has_prefixes(partial) for partial in partials):
        return Combining.SUBTRACTING
    return Combining.DISJOINT if all(has_prefixes(p) or isinstance(p, Residue) for p in partials) else None


class ValueSet(NamedTuple):
    """A set of values of an expression, and whether NULL is in it. No edge stands for the end of all values."""

    ranges: tuple[tuple[Edge | None, Edge | None], ...]
    has_null: bool

    def edges(self) -> Iterator[Edge]:
        return (edge for both in self.ranges for edge in both if edge is not None)


class _Conjunction(NamedTuple):
    """A predicate as a conjunction: what it asks of single expressions, and parts that read several."""

    of: Mapping[Expr, ValueSet]
    wide: frozenset[Tree]

    def without(self, expr: Expr | None) -> _Context:
        """What is asked of all others."""
        return frozenset((own, values) for own, values in self.of.items() if own != expr), self.wide


_Context = tuple[frozenset[tuple[Expr, ValueSet]], frozenset[Tree]]
EVERYTHING = _Conjunction({}, frozenset())
ALL_VALUES = ValueSet(((None, None),), True)


@lru_cache(maxsize=1 << 16)
def _conjunction(tree: Tree) -> _Conjunction:
    by_expr: dict[Expr, list[Tree]] = {}
    wide = set()
    for part in conjuncts_of_tree(tree):
        read = {comparison.expr for comparison in comparisons(part)}
        if len(read) == 1:
            by_expr.setdefault(read.pop(), []).append(part)
        else:
            wide.add(part)
    return _Conjunction({expr: _values(expr, "and", tuple(parts)) for expr, parts in by_expr.items()}, frozenset(wide))


def _values(expr: Expr, op: str, parts: tuple[Tree, ...]) -> ValueSet:
    """Where comparisons of one expression hold."""
    tree = Logic(op, parts)
    constants = {constant for comparison in comparisons(tree) for constant in comparison.constants}
    attribute = Attribute(expr, tuple(sorted(constants)))
    holds = truth_of(tree, {expr: attribute}, {expr: np.arange(attribute.regions)}) == TRUE
    runs = RegionRuns.of(holds[None, :-1].astype(np.uint8))
    edges = [None, *((constant, side) for constant in attribute.constants for side in (0, 1)), None]
    ranges = tuple((edges[low], edges[high]) for low, high in zip(runs.low.tolist(), runs.high.tolist(), strict=True))
    return ValueSet(ranges, bool(holds[-1]))


def _alternatives(tree: Tree) -> dict[Expr, ValueSet] | None:
    """What a disjunction asks of each expression; None where one of its parts reads several."""
    by_expr: dict[Expr, list[Tree]] = {}
    for part in _disjuncts(tree):
        read = {comparison.expr for comparison in comparisons(part)}
        if len(read) > 1:
            return None
        by_expr.setdefault(read.pop(), []).append(part)
    return {expr: _values(expr, "or", tuple(parts)) for expr, parts in by_expr.items()}


def _disjuncts(tree: Tree) -> Iterator[Tree]:
    if isinstance(tree, Logic) and tree.op == "or":
        for part in tree.parts:
            yield from _disjuncts(part)
    else:
        yield tree


class Covers:
    """The covers among predicates, by their numbers; None stands for one that all events satisfy.

    Time: O(p) operations on sets for p predicates, when first asked for. Guarantee: all results are covers, and no
    predicate that is covered is part of a cover; not all covers are found.

    >>> from mullion.language.query import Column
    >>> from mullion.planner.comparisons import Comparison
    >>> tcp, udp = (Comparison(Column("proto"), "eq", (number,)) for number in (6, 17))
    >>> Covers({0: tcp, 1: Logic("or", (tcp, udp)), 2: udp}).of(Combining.DISJOINT)
    {1: Cover(added=(0, 2), taken=())}
    """

    def __init__(self, trees: Mapping[int, Tree | None]) -> None:
        self._trees = trees
        self._found: dict[Combining, dict[int, Cover]] = {}

    def of(self, kind: Combining | None) -> Mapping[int, Cover]:
        """The cover of each that has one."""
        if kind is None or len(self._trees) < 2:
            return {}
        if kind not in self._found:
            self._found[kind] = self._find(kind)
        return self._found[kind]

    def _find(self, kind: Combining) -> dict[int, Cover]:
        conjunctions = {slot: EVERYTHING if tree is None else _conjunction(tree) for slot, tree in self._trees.items()}
        contexts: dict[tuple[Expr, _Context], dict[int, ValueSet]] = {}
        for slot, conjunction in conjunctions.items():
            for expr, values in conjunction.of.items():
                contexts.setdefault((expr, conjunction.without(expr)), {})[slot] = values
        whole = {conjunction.without(None): slot for slot, conjunction in conjunctions.items()}
        covers = _CoversSoFar()
        axes = {}
        for (expr, context), sets in contexts.items():
            if context in whole:
                sets[whole[context]] = ALL_VALUES
            if len(sets) <= MOST_SETS:
                axes[expr, context] = axis = _Axis(sets, covers)
                axis.find_disjoint()
        for axis in axes.values() if kind is Combining.SUBTRACTING else ():
            axis.find_supercovers()
        for slot, conjunction in conjunctions.items() if kind is Combining.ANY else ():
            self._find_any(slot, conjunction, axes, covers)
        return covers.by_slot

    def _find_any(
        self, slot: int, conjunction: _Conjunction, axes: Mapping[tuple[Expr, _Context], _Axis], covers: _CoversSoFar
    ) -> None:
        """A cover of sets that may overlap, also of a disjunction over several expressions."""
        if covers.is_settled(slot):
            return
        options = [[(axes.get((expr, conjunction.without(expr))), values)] for expr, values in conjunction.of.items()]
        for part in conjunction.wide:
            rest = frozenset(conjunction.of.items()), conjunction.wide - {part}
            options.append([(axes.get((e, rest)), values) for e, values in (_alternatives(part) or {}).items()])
        for option in options:
            found_parts = [None if axis is None else axis.overlapping(values, slot) for axis, values in option]
            parts = dict.fromkeys(part for parts in found_parts for part in parts or ())
            if None not in found_parts and 0 < len(parts) <= MOST_PARTS:
                covers.add(slot, Cover(tuple(parts)))
                return


class _CoversSoFar:
    """Covers so far, and the predicates that are part of one."""

    def __init__(self) -> None:
        self.by_slot: dict[int, Cover] = {}
        self._parts: set[int] = set()

    def add(self, slot: int, cover: Cover) -> None:
        self.by_slot[slot] = cover
        self._parts |= set(cover.slots)

    def is_settled(self, slot: int) -> bool:
        return slot in self.by_slot or slot in self._parts


class _Axis:
    """Sets of values of one expression as numbers with a bit for each cell, from the smallest set to the largest."""

    def __init__(self, sets: Mapping[int, ValueSet], covers: _CoversSoFar) -> None:
        self._known = {edge for values in sets.values() for edge in values.edges()}
        self._edges = sorted(self._known)
        self._covers = covers
        masks = ((slot, self._mask(values)) for slot, values in sets.items())
        self._sets = sorted((mask.bit_count(), slot, mask) for slot, mask in masks if mask)
        self._by_lowest: dict[int, list[tuple[int, int, int]]] = {}
        """Sets that are not covered, by their lowest cell: those that begin there."""

    def _mask(self, values: ValueSet) -> int:
        """Cells lie between the edges; the last one is NULL's."""
        last = len(self._edges) + 1
        mask = 1 << last if values.has_null else 0
        for low, high in values.ranges:
            begin = 0 if low is None else bisect_left(self._edges, low) + 1
            end = last if high is None else bisect_left(self._edges, high) + 1
            mask |= (1 << end) - (1 << begin)
        return mask

    def find_disjoint(self) -> None:
        """Covers of sets that have no event in common, of smaller sets first."""
        for size, slot, mask in self._sets:
            parts = None if self._covers.is_settled(slot) else self._disjoint(mask)
            if parts is not None:
                self._covers.add(slot, Cover(parts))
            elif slot not in self._covers.by_slot:
                self._by_lowest.setdefault(_lowest(mask), []).append((size, slot, mask))

    def _disjoint(self, mask: int, but: int | None = None) -> tuple[int, ...] | None:
        """Sets that make up this one, each the largest that fits."""
        parts: list[int] = []
        while mask and len(parts) < MOST_PARTS:
            beginning = self._by_lowest.get(_lowest(mask), [])
            at = bisect_left(beginning, (mask.bit_count() + 1,))
            for _, slot, own in reversed(beginning[max(0, at - MOST_TRIED) : at]):
                if not own & ~mask and slot != but and slot not in self._covers.by_slot:
                    parts.append(slot)
                    mask &= ~own
                    break
            else:
                return None
        return None if mask else tuple(parts)

    def find_supercovers(self) -> None:
        """A larger set, or what covers it, less a surplus that has a disjoint cover."""
        for at, (_, slot, mask) in enumerate(self._sets):
            if self._covers.is_settled(slot):
                continue
            larger = (own for own in self._sets[at + 1 : at + 1 + MOST_TRIED] + self._sets[-1:] if not mask & ~own[2])
            for _, other, own in larger:
                whole = self._covers.by_slot.get(other, Cover((other,)))
                surplus = None if slot in whole.slots or whole.taken else self._disjoint(own & ~mask, slot)
                if surplus is not None and not set(surplus) & set(whole.added):
                    self._covers.add(slot, Cover(whole.added, surplus))
                    break

    def overlapping(self, values: ValueSet, but: int) -> tuple[int, ...] | None:
        """Sets that make up this one, whatever they have in common."""
        if not self._known.issuperset(values.edges()):
            return None
        mask = rest = self._mask(values)
        parts = self._disjoint(mask, but)
        if parts is not None or mask.bit_count() < 2:
            return parts
        slots: list[int] = []
        at = bisect_left(self._sets, (mask.bit_count() + 1,))
        for _, slot, own in reversed(self._sets[max(0, at - MOST_OVERLAPPING) : at]):
            if own & rest and not own & ~mask and slot != but and slot not in self._covers.by_slot:
                slots.append(slot)
                rest &= ~own
        return None if rest or not slots else tuple(slots)


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length()
