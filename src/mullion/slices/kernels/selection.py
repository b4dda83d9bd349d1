"""What predicates select of a batch, for many groupings at once.

An expression that several groupings compare is searched once among the constants of all of them; small tables then say
for each region whether a predicate holds there. What no event of the batch satisfies, or every one, is known from the
regions that occur, before any event is looked at again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Array, Mask
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector
from mullion.kernels.columns import BatchColumns
from mullion.kernels.extents import RangeCondition, as_difference
from mullion.language.query import Expr
from mullion.language.types import BOOLEAN
from mullion.lazy import cached_property
from mullion.planner.comparisons import Logic, Tree, comparisons
from mullion.planner.fragments import TRUE, Attribute, PredicateIndex, truth_of
from mullion.slices.kernels.own_slices import SelectionMask
from mullion.slices.kernels.regions import SmallCodes, fill_regions, note_regions, regions_of
from mullion.slices.kernels.row_loops import (
    gather,
    gather_between,
    gather_more,
    gather_noting,
    note_present,
    note_within,
)

MANY_EVENTS = 1 << 12
"""Of so many it pays to ask whether regions in which a predicate holds follow one another."""
MOST_SPAN = 1 << 16
"""Whole numbers within so many of each other find their region by position."""
FEW_REGIONS = 1 << 12
"""Of up to so many it is remembered in which of them a predicate holds."""


@dataclass(frozen=True, eq=False)
class Compared:
    """What several groupings compare: each expression with the constants of all of them; and their predicates."""

    attributes: Mapping[Expr, Attribute]
    predicates: Sequence[Tree] = ()

    @staticmethod
    def of(indexes: Iterable[PredicateIndex]) -> Compared:
        constants: dict[Expr, set[Any]] = {}
        predicates: list[Tree] = []
        for index in indexes:
            for attribute in index.attributes:
                constants.setdefault(attribute.expr, set()).update(attribute.constants)
            predicates += index.trees
        attributes = {expr: Attribute(expr, tuple(sorted(values))) for expr, values in constants.items()}
        return Compared(attributes, predicates)

    @cached_property
    def uses(self) -> Counter[Tree]:
        """How often each predicate occurs. Only those ask who go through predicates one by one."""
        return Counter(self.predicates)


class Regions(NamedTuple):
    """The region of each event's value, and which regions occur."""

    attribute: Attribute
    codes: Array
    present: Mask


class Selection:
    """The regions of compared expressions, and what predicates make of them; each is found once."""

    def __init__(self, compared: Compared, columns: BatchColumns) -> None:
        self._compared, self._columns = compared, columns
        self._regions: dict[Expr, Regions] = {}
        self._selected: dict[Tree, SelectionMask] = {}
        self._numbered: dict[tuple[Attribute, ...], tuple[SmallCodes, Mask]] = {}

    def regions(self, expr: Expr) -> Regions:
        if expr not in self._regions:
            attribute = self._compared.attributes[expr]
            dtype = np.uint8 if attribute.regions <= 1 << 8 else np.uint16 if attribute.regions <= 1 << 16 else np.int32
            codes, present = np.empty(self._columns.length, dtype), np.zeros(attribute.regions, np.bool_)
            _find_regions(attribute, self._columns, codes, present)
            codes.flags.writeable = False
            self._regions[expr] = Regions(attribute, codes, present)
        return self._regions[expr]

    def codes(self, attribute: Attribute) -> SmallCodes:
        """The regions of one grouping's own constants."""
        every = self.regions(attribute.expr)
        out = np.empty(len(every.codes), np.int32)
        gather(every.codes, _own_regions(attribute, every.attribute), 0, out)
        return out

    def numbered(self, attributes: Sequence[Attribute]) -> tuple[SmallCodes, Mask]:
        """Which combinations of regions occur, the first attribute's varying slowest, and the number of each event's
        among these."""
        key = tuple(attributes)
        if key not in self._numbered:
            self._numbered[key] = self._number(key)
        return self._numbered[key]

    def _number(self, attributes: tuple[Attribute, ...]) -> tuple[SmallCodes, Mask]:
        size, fixed, varying = 1, 0, []
        for attribute in reversed(attributes):
            every = self.regions(attribute.expr)
            table = _own_regions(attribute, every.attribute) * np.int32(size)
            here = np.flatnonzero(every.present)
            if len(here) == 1:
                fixed += int(table[here[0]])
            else:
                varying.append((every, table))
            size *= attribute.regions
        length, present = self._columns.length, np.zeros(size, np.bool_)
        if not varying:
            present[fixed] = length > 0
            return np.zeros(length, np.int32), present
        (first, table), *others = varying
        out = np.empty(length, np.int32)
        if others:
            gather(first.codes, table + np.int32(fixed), 0, out)
            for every, more in others:
                gather_more(every.codes, more, out)
            note_present(out, present)
        else:
            # What occurs of one attribute is known.
            present[table[first.present] + fixed] = True
        numbers: npt.NDArray[np.int32] = (np.cumsum(present) - 1).astype(np.int32)
        if others:
            gather(out, numbers, 0, out)
        else:
            gather(first.codes, numbers[table + fixed], 0, out)
        return out, present

    def selected(self, predicate: Tree) -> SelectionMask:
        if predicate in self._selected:
            return self._selected[predicate]
        found = self._where(predicate, TRUE)
        if not isinstance(found, bool):
            found.flags.writeable = False
        if self._compared.uses[predicate] > 1:
            self._selected[predicate] = found
        return found

    def is_empty(self, predicate: Tree) -> bool:
        """Whether the regions that occur tell that no event satisfies it."""
        return not self._may_be(predicate, TRUE)

    def _may_be(self, tree: Tree, wanted: int) -> bool:
        read = _read(tree)
        if len(read) == 1:
            return bool(self._holds(tree, read[0], wanted)[self.regions(read[0]).present].any())
        assert isinstance(tree, Logic)
        if tree.op == "not":
            return self._may_be(tree.parts[0], TRUE - wanted)
        found = (self._may_be(part, wanted) for part in _parts(tree))
        return all(found) if (tree.op == "and") == (wanted == TRUE) else any(found)

    def _where(self, tree: Tree, wanted: int) -> SelectionMask:
        """The events for which the tree is true, or false: that is all that AND, OR and NOT need to know."""
        read = _read(tree)
        if len(read) == 1:
            return self._where_alone(tree, read[0], wanted)
        assert isinstance(tree, Logic)
        if tree.op == "not":
            return self._where(tree.parts[0], TRUE - wanted)
        every = (tree.op == "and") == (wanted == TRUE)
        found: SelectionMask = every
        for part in _parts(tree):
            found = _together(found, self._where(part, wanted), every=every)
            if found is not every and isinstance(found, bool):
                break
        return found

    def _where_alone(self, tree: Tree, expr: Expr, wanted: int) -> SelectionMask:
        _, codes, present = self.regions(expr)
        holds = self._holds(tree, expr, wanted)
        here = holds[present]
        if not here.any() or here.all():
            return bool(len(here) and here[0])
        out = np.empty(len(codes), np.uint8)
        between = _between(here) if len(codes) >= MANY_EVENTS else None
        if between is None:
            gather(codes, holds.astype(np.uint8), 0, out)
        else:
            first, last, inside = between
            regions = np.flatnonzero(present).astype(codes.dtype)
            gather_between(codes, regions[first], regions[last], inside, out)
        return out

    def _holds(self, tree: Tree, expr: Expr, wanted: int) -> Mask:
        """In which regions of the one expression that it compares the tree is true, or false."""
        attribute = self.regions(expr).attribute
        find = _holding_regions if attribute.regions <= FEW_REGIONS else _holding_regions.__wrapped__
        return find(tree, attribute, wanted)


@lru_cache(maxsize=1 << 12)
def _holding_regions(tree: Tree, attribute: Attribute, wanted: int) -> Mask:
    """In which regions of the attribute the tree is true, or false. Portions of a stream ask for the same again."""
    holds: Mask = truth_of(tree, {attribute.expr: attribute}, {attribute.expr: np.arange(attribute.regions)}) == wanted
    holds.flags.writeable = False
    return holds


def _between(holds: Mask) -> tuple[int, int, bool] | None:
    """From where to where something holds throughout and nowhere else, or does not hold; None where it changes more
    often. Most predicates compare with one constant, or with two.

    >>> _between(np.array([False, True, True, False])), _between(np.array([True, False, True]))
    ((1, 2, True), (1, 1, False))
    """
    for inside in (True, False):
        places = np.flatnonzero(holds == inside)
        if len(places) and places[-1] - places[0] < len(places):
            return int(places[0]), int(places[-1]), inside
    return None


def _together(a: SelectionMask, b: SelectionMask, *, every: bool) -> SelectionMask:
    """Where both hold, or one of them. `a` may be written into."""
    if isinstance(a, bool):
        return b if a is every else a
    if isinstance(b, bool):
        return a if b is every else b
    combine = np.bitwise_and if every else np.bitwise_or
    return combine(a, b, out=a)


@lru_cache(maxsize=1 << 16)
def _read(tree: Tree) -> tuple[Expr, ...]:
    return tuple(dict.fromkeys(comparison.expr for comparison in comparisons(tree)))


@lru_cache(maxsize=1 << 14)
def _parts(tree: Logic) -> tuple[Tree, ...]:
    """The parts of AND or OR, those over one and the same expression together."""
    by_expr: dict[Expr, list[Tree]] = {}
    wide: list[Tree] = []
    for part in _flat(tree, tree.op):
        read = _read(part)
        (by_expr.setdefault(read[0], []) if len(read) == 1 else wide).append(part)
    alone = (own[0] if len(own) == 1 else Logic(tree.op, tuple(own)) for own in by_expr.values())
    return (*alone, *wide)


def _flat(tree: Tree, op: str) -> Iterable[Tree]:
    if isinstance(tree, Logic) and tree.op == op:
        for part in tree.parts:
            yield from _flat(part, op)
    else:
        yield tree


def _own_regions(own: Attribute, every: Attribute) -> npt.NDArray[np.int32]:
    """For each region among the constants of all, the region among those of one grouping.

    >>> from mullion.language.query import Column
    >>> x = Column("x")
    >>> _own_regions(Attribute(x, (5,)), Attribute(x, (1, 5, 9))).tolist()
    [0, 0, 0, 1, 2, 2, 2, 3]
    """
    if own.constants == every.constants:
        return np.arange(every.regions, dtype=np.int32)
    table = np.empty(every.regions, np.int32)
    for i, constant in enumerate(every.constants):
        at = bisect_left(own.constants, constant)
        table[2 * i] = 2 * at
        table[2 * i + 1] = 2 * at + (at < len(own.constants) and own.constants[at] == constant)
    table[-2:] = 2 * len(own.constants), own.unknown
    return table


def _find_regions(attribute: Attribute, columns: BatchColumns, out: Array, present: Mask) -> None:
    """The region of each event's value, and which regions occur. Texts are looked at once each."""
    found = columns.by_dictionary(attribute.expr)
    if found is not None:
        gather_noting(found[0], regions_of(attribute, found[1]).astype(out.dtype), 0, out, present)
        return
    difference = as_difference(attribute.expr, columns)
    if difference is not None:
        _compare(difference, attribute, columns, out)
        note_regions(out, present)
        return
    values = columns.value(attribute.expr)
    numbers = values.values
    if numbers.dtype == np.bool_:
        numbers = numbers.view(np.uint8)
        low, high = 0, 1
    elif numbers.dtype.kind == "i" and len(numbers):
        low, high = int(numbers.min()), int(numbers.max())
    else:
        low, high = 0, MOST_SPAN
    if high - low >= min(MOST_SPAN, max(2, len(numbers))):
        fill_regions(attribute, values, out, present)
        return
    every = (np.arange(high - low + 1) + low).astype(values.values.dtype)  # high + 1 may have no room
    table = regions_of(attribute, Vector(values.type, every, np.ones(len(every), np.bool_))).astype(out.dtype)
    (plain,), are_known = frozen(numbers), bool(values.valid.all())
    gather_noting(plain, table, low, out, present if are_known else np.zeros_like(present))
    if not are_known:
        out[~values.valid] = attribute.unknown
        note_regions(out, present)


def _compare(difference: RangeCondition, attribute: Attribute, columns: BatchColumns, out: Array) -> None:
    """The regions of a condition, from a difference that conditions share."""
    values = columns.value(difference.expr)
    truths = Vector(BOOLEAN, np.array([not difference.inside, difference.inside]), np.ones(2, np.bool_))
    numbers, codes = frozen(values.values, regions_of(attribute, truths))
    note_within(numbers, difference.low, difference.high, codes, out)
    if not values.valid.all():
        out[~values.valid] = attribute.unknown
