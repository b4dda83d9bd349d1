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
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import floor, isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.expressions.typing import type_of
from mullion.language.query import Call, Cast, Expr, Literal
from mullion.language.types import Type

FALSE, UNKNOWN, TRUE = 0, 1, 2
"""SQL's logic as numbers: AND is the smaller, OR the larger, NOT what is missing to TRUE."""

Truth = npt.NDArray[np.int8]
Bytes = npt.NDArray[np.uint8]

BLOCK = 1024
"""Predicates whose membership bytes are held in one table."""

MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne", "eq_null_safe": "eq_null_safe"}
LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True)
class Comparison:
    """An expression compared with constants. op: lt le gt ge eq ne in eq_null_safe is_null prefix."""

    expr: Expr
    op: str
    constants: tuple[Any, ...] = ()
    unknown: bool = False
    """IN over a list that holds a NULL: what is not found is unknown, not false."""


@dataclass(frozen=True)
class Logic:
    """op: and, or, not."""

    op: str
    parts: tuple[Tree, ...]


Tree = Comparison | Logic


@lru_cache(maxsize=1 << 16)
def decompose(predicate: Expr) -> Tree:
    """The predicate as a tree of comparisons."""
    match predicate:
        case Call(function=("and" | "or" | "not") as op, args=args):
            return Logic(op, tuple(decompose(arg) for arg in args))
        case Call(function="is_null", args=(arg,)):
            return Comparison(arg, "is_null")
        case Call(function=op, args=(arg, Literal(value=value))) if op in MIRRORED and _has_order(value):
            return Comparison(arg, op, (_plain(value),))
        case Call(function=op, args=(Literal(value=value), arg)) if op in MIRRORED and _has_order(value):
            return Comparison(arg, MIRRORED[op], (_plain(value),))
        case Call(function="in", args=(arg, *items)) if all(isinstance(item, Literal) for item in items):
            values = [item.value for item in items if isinstance(item, Literal)]
            if all(value is None or _has_order(value) for value in values):
                known = tuple(_plain(value) for value in values if value is not None)
                return Comparison(arg, "in", known, unknown=None in values)
        case Call(function="like", args=(arg, Literal(value=str(pattern)))):
            prefix = _prefix(pattern)
            if prefix is not None:
                return prefix_comparison(arg, prefix) if pattern.endswith("%") else Comparison(arg, "eq", (pattern,))
        case Call(function="startswith", args=(arg, Literal(value=str(prefix)))):
            return prefix_comparison(arg, prefix)
    return Comparison(predicate, "eq", (True,))


def _has_order(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and isnan(value))


def _plain(value: Any) -> Any:
    """-0.0 is 0.0."""
    return value + 0.0 if isinstance(value, float) else value


def _prefix(pattern: str) -> str | None:
    """What a LIKE pattern begins with, when nothing but a % at its end is special."""
    body = pattern.removesuffix("%")
    return None if any(c in body for c in "%_\\") else body


def prefix_comparison(arg: Expr, prefix: str) -> Tree:
    """Strings that begin with the prefix lie between it and the first string beyond all of them."""
    stem = prefix.rstrip(LAST_CHARACTER)
    if not stem:
        return Comparison(Call("startswith", (arg, Literal(prefix, Type("string")))), "eq", (True,))
    beyond = stem[:-1] + chr(ord(stem[-1]) + 1)
    return Logic("and", (Comparison(arg, "ge", (prefix,)), Comparison(arg, "lt", (beyond,))))


def as_whole_numbers(tree: Tree, types: Mapping[str, Type]) -> Tree:
    """Comparisons of whole numbers that were widened to meet a decimal or a double, as whole numbers again.

    >>> from decimal import Decimal
    >>> from mullion.language.query import Column
    >>> wide = Cast(Column("volume"), Type("decimal", 11, 1))
    >>> narrow = as_whole_numbers(Comparison(wide, "ge", (Decimal("2.5"),)), {"volume": Type("int")})
    >>> narrow.op, narrow.constants
    ('gt', (2,))
    """
    if isinstance(tree, Logic):
        return Logic(tree.op, tuple(as_whole_numbers(part, types) for part in tree.parts))
    if not isinstance(tree.expr, Cast) or tree.op not in WHOLE:
        return tree
    inner = tree.expr.arg
    if not _widens(type_of(inner, types), tree.expr.type) or any(abs(c) >= 2**62 for c in tree.constants):
        return tree
    whole = tuple(floor(c) for c in tree.constants)
    if whole == tree.constants:
        return Comparison(inner, tree.op, whole, tree.unknown)
    if tree.op == "in":
        exact = tuple(floor(c) for c in tree.constants if floor(c) == c)
        return Comparison(inner, "in", exact, tree.unknown)
    if tree.op in ("eq", "ne"):
        never = Comparison(inner, "in", ())
        return never if tree.op == "eq" else Logic("not", (never,))
    return Comparison(inner, "gt" if tree.op in ("gt", "ge") else "le", whole)


WHOLE = ("lt", "le", "gt", "ge", "eq", "ne", "in")


def _widens(source: Type, target: Type) -> bool:
    """Whether every value of the type of whole numbers is kept as it is."""
    if not source.is_integer:
        return False
    digits = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}[source.kind]
    if target.kind == "decimal":
        return target.precision - target.scale >= digits
    return target.is_integer or (target.kind == "double" and digits <= 10)


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


@dataclass(frozen=True)
class Factor:
    """A part of a predicate that reads certain attributes; the predicate holds where all its factors do."""

    attributes: tuple[int, ...]
    tree: Tree


class PredicateIndex:
    """The attributes of many predicates, and the factors of each predicate over them."""

    def __init__(self, predicates: Sequence[Expr], types: Mapping[str, Type]) -> None:
        self._take([as_whole_numbers(decompose(predicate), types) for predicate in predicates])

    def _take(self, trees: list[Tree]) -> None:
        constants: dict[Expr, set[Any]] = {}
        for tree in trees:
            for comparison in comparisons(tree):
                constants.setdefault(comparison.expr, set()).update(comparison.constants)
        self.attributes = [Attribute(expr, tuple(sorted(values))) for expr, values in constants.items()]
        self._numbers = {attribute.expr: i for i, attribute in enumerate(self.attributes)}
        self.factors = [self._factors(tree) for tree in trees]
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

    def _factors(self, tree: Tree) -> list[Factor]:
        """The conjuncts, those over the same attributes together."""
        by_attributes: dict[tuple[int, ...], list[Tree]] = {}
        for part in conjuncts(tree):
            read = tuple(sorted({self._numbers[c.expr] for c in comparisons(part)}))
            by_attributes.setdefault(read, []).append(part)
        return [
            Factor(read, parts[0] if len(parts) == 1 else Logic("and", tuple(parts)))
            for read, parts in by_attributes.items()
        ]

    def truth(self, tree: Tree, regions: dict[int, npt.NDArray[Any]]) -> Truth:
        """The answer of a tree for combinations of regions, given as one array for each attribute that it reads."""
        by_expr = {self.attributes[at].expr: at for at in regions}
        attributes = {expr: self.attributes[at] for expr, at in by_expr.items()}
        return truth_of(tree, attributes, {expr: regions[at] for expr, at in by_expr.items()})

    @cached_property
    def tables(self) -> list[tuple[tuple[int, ...], Bytes]]:
        """For each attribute that stands alone in a factor, region x predicate: 1 where no such factor fails."""
        tables: dict[int, Bytes] = {}
        for number, factors in enumerate(self.factors):
            for factor in factors:
                if len(factor.attributes) == 1:
                    (at,) = factor.attributes
                    attribute = self.attributes[at]
                    if at not in tables:
                        tables[at] = np.ones((len(self), attribute.regions), np.uint8)
                    if not _fill(tables[at][number], factor.tree, attribute):
                        tables[at][number] = self.truth(factor.tree, {at: np.arange(attribute.regions)}) == TRUE
        return [((at,), np.ascontiguousarray(table.T)) for at, table in tables.items()]

    def for_rows(self) -> PredicateIndex:
        """What dense rows need of it: tables, the factors that have none, and the predicates themselves."""
        slim = copy(self)
        if len(self) <= BLOCK:
            slim.__dict__.update(wide_factors=self.wide_factors, tables=self.tables)
        slim.factors = []
        return slim

    @cached_property
    def wide_factors(self) -> dict[tuple[int, ...], list[tuple[int, Tree]]]:
        """Factors that read several attributes, with the number of their predicate."""
        factors_of: dict[tuple[int, ...], list[tuple[int, Tree]]] = {}
        for number, factors in enumerate(self.factors):
            for factor in factors:
                if len(factor.attributes) != 1:
                    factors_of.setdefault(factor.attributes, []).append((number, factor.tree))
        return factors_of


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


def _fill(row: Bytes, tree: Tree, attribute: Attribute) -> bool:
    """Write out where a comparison with one constant holds, if the tree is one: most are, and this is quick."""
    if not isinstance(tree, Comparison) or len(tree.constants) != 1:
        return False
    equal = 2 * bisect_left(attribute.constants, tree.constants[0]) + 1
    match tree.op:
        case "lt":
            row[equal:] = 0
        case "le":
            row[equal + 1 :] = 0
        case "gt":
            row[: equal + 1] = 0
        case "ge":
            row[:equal] = 0
        case "eq":
            row[:equal] = 0
            row[equal + 1 :] = 0
        case _:
            return False
    row[attribute.unknown] = 0
    return True


@lru_cache(maxsize=1 << 16)
def compared_in(predicate: Expr) -> tuple[Expr, ...]:
    """What a predicate compares: each expression once."""
    return tuple(dict.fromkeys(comparison.expr for comparison in comparisons(decompose(predicate))))


def comparisons(tree: Tree) -> Iterable[Comparison]:
    if isinstance(tree, Comparison):
        yield tree
    else:
        for part in tree.parts:
            yield from comparisons(part)


def conjuncts(tree: Tree) -> Iterable[Tree]:
    if isinstance(tree, Logic) and tree.op == "and":
        for part in tree.parts:
            yield from conjuncts(part)
    else:
        yield tree


__all__ = ["FALSE", "TRUE", "UNKNOWN", "Attribute", "Comparison", "Factor", "Logic", "PredicateIndex"]
