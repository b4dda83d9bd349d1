"""Predicates as trees of comparisons with constants, joined by AND, OR and NOT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import floor, isnan
from operator import is_
from typing import Any

from mullion.expressions.typing import type_of
from mullion.language.query import Call, Cast, Expr, Literal
from mullion.language.types import Type

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
        parts = tuple([as_whole_numbers(part, types) for part in tree.parts])
        return tree if all(map(is_, parts, tree.parts)) else Logic(tree.op, parts)
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


@lru_cache(maxsize=1 << 16)
@lru_cache(maxsize=1 << 16)
def compared_in(predicate: Expr) -> tuple[Expr, ...]:
    """What a predicate compares: each expression once."""
    return tuple(dict.fromkeys(comparison.expr for comparison in comparisons(decompose(predicate))))


def comparisons(tree: Tree) -> Sequence[Comparison]:
    """All comparisons of a tree, from left to right."""
    if isinstance(tree, Comparison):
        return (tree,)
    return [comparison for part in tree.parts for comparison in comparisons(part)]


def conjuncts_of_tree(tree: Tree) -> Sequence[Tree]:
    """What must all hold where the tree does."""
    if isinstance(tree, Logic) and tree.op == "and":
        return [conjunct for part in tree.parts for conjunct in conjuncts_of_tree(part)]
    return (tree,)
