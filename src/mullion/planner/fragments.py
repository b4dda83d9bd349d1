"""The predicate index: which predicates an event satisfies, without evaluating each of them on it.

    volume > 500        volume: constants 100, 500           regions of volume
    volume <= 100       price:  constants 10            | <100 | 100 | 100..500 | 500 | >500 | NULL |
    price = 10                                              0     1       2        3     4      5

Comparisons with constants are grouped by the expression that they compare. One search among its sorted constants gives
the region that an event's value falls into, and within a region every comparison has one answer: true, false or
unknown. AND, OR and NOT are then a matter of regions, not of events (krishnamurthy 4.3.1 leaves this to a grouped
filter). A condition that compares nothing with a constant is an expression of its own with the regions false, true
and unknown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.language.query import Expr
from mullion.language.types import Type
from mullion.lazy import cached_property
from mullion.planner.comparisons import (
    Comparison,
    Logic,
    Tree,
    as_whole_numbers,
    comparisons,
    conjuncts_of_tree,
    decompose,
)
from mullion.planner.runs import BoxAxis, RegionRuns, small_together

FALSE, UNKNOWN, TRUE = 0, 1, 2
"""SQL's logic as numbers: AND is the smaller, OR the larger, NOT what is missing to TRUE."""

Truth = npt.NDArray[np.int8]
Bytes = npt.NDArray[np.uint8]

BLOCK = 512
"""Predicates whose membership bytes are held in one table."""
FEW_PAIRS = 4
"""Different sets of attributes that predicates read; an event is counted once for each."""


@dataclass(frozen=True)
class Attribute:
    """An expression that predicates compare, and the constants that they compare it with, ascending."""

    expr: Expr
    constants: tuple[Any, ...]

    @property
    def unknown(self) -> int:
        """The region of NULL, the last one."""
        return 2 * len(self.constants) + 1

    @property
    def regions(self) -> int:
        return 2 * len(self.constants) + 2

    def truth(self, comparison: Comparison) -> Truth:
        """The answer of a comparison in each region.

        >>> from mullion.language.query import Column
        >>> volume = Attribute(Column("volume"), (100, 500))
        >>> volume.truth(Comparison(Column("volume"), "gt", (100,))).tolist()
        [0, 0, 2, 2, 2, 1]
        """
        region = np.arange(self.regions)
        holds = np.zeros(self.regions, np.bool_)
        for constant in comparison.constants:
            equal = 2 * bisect_left(self.constants, constant) + 1
            match comparison.op:
                case "lt":
                    holds |= region < equal
                case "le":
                    holds |= region <= equal
                case "gt":
                    holds |= region > equal
                case "ge":
                    holds |= region >= equal
                case "ne":
                    holds |= region != equal
                case _:
                    holds |= region == equal
        answer = np.where(holds, TRUE, UNKNOWN if comparison.unknown else FALSE).astype(np.int8)
        answer[self.unknown] = {"is_null": TRUE, "eq_null_safe": FALSE}.get(comparison.op, UNKNOWN)
        return answer


class Factor(NamedTuple):
    """A part of a predicate that reads certain attributes; the predicate holds where all its factors do."""

    attributes: tuple[int, ...]
    tree: Tree


class PredicateIndex:
    """The attributes of many predicates, and the factors of each predicate over them."""

    def __init__(self, predicates: Sequence[Expr], types: Mapping[str, Type]) -> None:
        self._take([as_whole_numbers(decompose(predicate), types) for predicate in predicates])

    def _take(self, trees: list[Tree]) -> None:
        constants: dict[Expr, set[Any]] = {}
        parts = [[(part, comparisons(part)) for part in conjuncts_of_tree(tree)] for tree in trees]
        for _, compared in chain.from_iterable(parts):
            for comparison in compared:
                constants.setdefault(comparison.expr, set()).update(comparison.constants)
        self.attributes = [Attribute(expr, tuple(sorted(values))) for expr, values in constants.items()]
        self._numbers = {attribute.expr: i for i, attribute in enumerate(self.attributes)}
        self.factors = [self._factors(own) for own in parts]
        self.trees = trees
        self._length = len(trees)

    def __len__(self) -> int:
        return self._length

    @cached_property
    def blocks(self) -> list[PredicateIndex]:
        """The same in blocks, each with the constants of its own predicates. The tables of p predicates over as many
        constants take p^2 bytes; those of blocks grow with p."""
        if len(self) <= BLOCK:
            return [self]
        made = []
        for low in range(0, len(self), BLOCK):
            made.append(copy(self))
            made[-1].__dict__.clear()
            made[-1]._take(self.trees[low : low + BLOCK])
        return made

    def _factors(self, parts: Sequence[tuple[Tree, Sequence[Comparison]]]) -> list[Factor]:
        """The conjuncts, those over the same attributes together."""
        numbers = self._numbers
        by_attributes: dict[tuple[int, ...], list[Tree]] = {}
        for part, compared in parts:
            only = len(compared) == 1
            read = (numbers[compared[0].expr],) if only else tuple(sorted({numbers[c.expr] for c in compared}))
            by_attributes.setdefault(read, []).append(part)
        return [
            Factor(read, own[0] if len(own) == 1 else Logic("and", tuple(own))) for read, own in by_attributes.items()
        ]

    def truth(self, tree: Tree, regions: dict[int, npt.NDArray[Any]]) -> Truth:
        """The answer of a tree for combinations of regions, given as one array for each attribute that it reads."""
        by_expr = {self.attributes[at].expr: at for at in regions}
        attributes = {expr: self.attributes[at] for expr, at in by_expr.items()}
        return truth_of(tree, attributes, {expr: regions[at] for expr, at in by_expr.items()})

    def _alone(self, attributes: Sequence[int], conditions: Sequence[Sequence[Factor]]) -> list[Bytes]:
        """For each of these attributes, condition x region: 1 where no factor that reads it alone fails."""
        tables = {at: np.ones((len(conditions), self.attributes[at].regions), np.uint8) for at in attributes}
        for number, factors in enumerate(conditions):
            for read, tree in factors:
                if len(read) == 1 and read[0] in tables:
                    own, attribute = tables[read[0]][number], self.attributes[read[0]]
                    held = _held(tree, attribute)
                    if held is None:
                        own[:] = self.truth(tree, {read[0]: np.arange(attribute.regions)}) == TRUE
                    else:
                        own[: held[0]] = own[held[1] :] = 0
        return list(tables.values())

    @cached_property
    def _standing_alone(self) -> list[int]:
        alone = (factor.attributes[0] for factors in self.factors for factor in factors if len(factor.attributes) == 1)
        return list(dict.fromkeys(alone))

    @cached_property
    def tables(self) -> list[tuple[tuple[int, ...], Bytes]]:
        """For each attribute that stands alone in a factor, region x predicate: 1 where no such factor fails."""
        alone = self._standing_alone
        tables = self._alone(alone, self.factors)
        return [((at,), np.ascontiguousarray(table.T)) for at, table in zip(alone, tables, strict=True)]

    @cached_property
    def _parts(self) -> list[tuple[int, ...]]:
        """The attributes of each axis: those that stand alone in factors. Small ones are one axis together, where
        predicates read more than two or many different pairs."""
        alone = self._standing_alone
        read = {tuple(f.attributes for f in factors if len(f.attributes) == 1) for factors in self.factors}
        if len(read) <= FEW_PAIRS and all(len(own) <= 2 for own in read):
            return [(at,) for at in alone]
        return [tuple(part) for part in small_together([(at, self.attributes[at].regions) for at in alone])]

    @cached_property
    def axes(self) -> list[BoxAxis]:
        """The axes, with the runs of regions in which predicates hold."""
        regions = [tuple(self.attributes[at].regions for at in part) for part in self._parts]
        return [BoxAxis(part, of, self._runs(part, prod(of))) for part, of in zip(self._parts, regions, strict=True)]

    def _runs(self, part: Sequence[int], regions: int) -> RegionRuns:
        """Where predicates hold on an axis. Conditions that many of them have are looked at once."""
        conditions: dict[tuple[int, ...], list[Factor]] = {}
        keys = []
        for factors in self.factors:
            own = [factor for factor in factors if len(factor.attributes) == 1 and factor.attributes[0] in part]
            keys.append(tuple([id(factor.tree) for factor in own]))
            conditions.setdefault(keys[-1], own)
        held: list[tuple[int, int]] = []
        plain: list[tuple[int, ...]] = []
        others: list[tuple[int, ...]] = []
        for key, own in conditions.items():
            run = (0, regions) if not own else _held(own[0].tree, self.attributes[part[0]]) if len(part) == 1 else None
            if run is None:
                others.append(key)
            else:
                plain.append(key)
                held.append(run)
        blocks = ([conditions[key] for key in others[low : low + BLOCK]] for low in range(0, len(others), BLOCK))
        runs = [RegionRuns.of_single(held), *(RegionRuns.of(_product(self._alone(part, block))) for block in blocks)]
        numbers = {key: number for number, key in enumerate([*plain, *others])}
        return RegionRuns.together(runs).take(np.array([numbers[key] for key in keys], np.intp))

    def for_rows(self) -> PredicateIndex:
        """What dense rows need of it: axes, tables, the factors that have none, and the predicates themselves."""
        slim = copy(self)
        if len(self) <= BLOCK:
            slim.__dict__.update(tables=self.tables)
        slim.__dict__.update(wide_factors=self.wide_factors, axes=self.axes)
        slim.factors = []
        return slim

    @cached_property
    def classes(self) -> Counter[frozenset[tuple[int, ...]]]:
        """How many predicates read the same axes, given by their attributes. A factor over several attributes is an
        axis of its own."""
        axis_of = {at: part for part in self._parts for at in part}
        axes = (
            frozenset(read if len(read) > 1 else axis_of[read[0]] for read, _ in factors if read)
            for factors in self.factors
        )
        return Counter(axes)

    @cached_property
    def wide_factors(self) -> dict[tuple[int, ...], list[tuple[int, Tree]]]:
        """Factors that read several attributes, with the number of their predicate."""
        factors_of: dict[tuple[int, ...], list[tuple[int, Tree]]] = {}
        for number, factors in enumerate(self.factors):
            for factor in factors:
                if len(factor.attributes) != 1:
                    factors_of.setdefault(factor.attributes, []).append((number, factor.tree))
        return factors_of


def _product(tables: Sequence[Bytes]) -> Bytes:
    """Of tables predicate x region, the regions of the first one varying slowest."""
    product = tables[0]
    for table in tables[1:]:
        product = (product[:, :, None] & table[:, None, :]).reshape(len(table), -1)
    return product


def truth_of(tree: Tree, attributes: Mapping[Expr, Attribute], regions: Mapping[Expr, npt.NDArray[Any]]) -> Truth:
    """The answer of a tree for combinations of regions, given as one array for each expression that it compares."""
    if isinstance(tree, Comparison):
        truth: Truth = attributes[tree.expr].truth(tree)[regions[tree.expr]]
        return truth
    parts = [truth_of(part, attributes, regions) for part in tree.parts]
    if tree.op == "not":
        return (TRUE - parts[0]).astype(np.int8)
    combine = np.minimum if tree.op == "and" else np.maximum
    answer: Truth = combine.reduce(parts)
    return answer


def _held(tree: Tree, attribute: Attribute) -> tuple[int, int] | None:
    """The first region in which a comparison with one constant holds, and the one after the last: most have one run,
    and this is quick. None for others."""
    if isinstance(tree, Logic):
        parts = [_held(part, attribute) for part in tree.parts] if tree.op == "and" else []
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        return max(low for low, _ in known), min(high for _, high in known)
    if len(tree.constants) != 1:
        return None
    equal = 2 * bisect_left(attribute.constants, tree.constants[0]) + 1
    match tree.op:
        case "lt":
            return 0, equal
        case "le":
            return 0, equal + 1
        case "gt":
            return equal + 1, attribute.unknown
        case "ge":
            return equal, attribute.unknown
        case "eq":
            return equal, equal + 1
    return None
