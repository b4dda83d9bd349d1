"""Which values of a column a condition asks for: what a summary can count.

    WHERE item = 7                    one code
    WHERE item IN (7, 9)              two, as WHERE item = 7 OR item = 9
    WHERE item <> 7                   all others that are not NULL
    WHERE item > 100                  those of the values that came for which it holds

A condition that compares one column with constants by = alone is the same for all values that it does not name. So it
is tried for each that it names, for another and for NULL. Any other condition over one column is evaluated for every
value that came, if the summary knows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mullion.errors import NotSupported, Place
from mullion.expressions.arrays import Codes
from mullion.expressions.coding.hashes import keys_of
from mullion.expressions.evaluate import evaluate, is_event_only
from mullion.expressions.vector import Vector, dtype_of
from mullion.language.query import Call, Cast, Column, Expr, walk
from mullion.language.types import BOOLEAN, Type
from mullion.summaries.zone_counts import EVERY, ValueCondition, condition_on

COMPARED = ("eq", "ne", "eq_null_safe")
OTHER, MISSING = "other", "missing"
"""In the place of a code: any value that is not named, and none."""
HINT = "write WHERE column = constant, with a constant of the column's type; also IN, <>, NOT, AND, OR of one column"


class Constant(NamedTuple):
    code: int | None
    """None of NULL, to which no value is equal."""
    value: Any


@dataclass(frozen=True)
class Condition:
    """What a question asks of a column."""

    column: str | None = None
    """None where no condition is about one."""
    values: ValueCondition | None = EVERY
    """None where they are not known before those that came are."""
    named: Mapping[int, Any] = field(default_factory=dict)
    """The constants by their codes."""
    predicate: Expr | None = None

    def among(self, codes: Codes, type_: Type) -> ValueCondition:
        """The values that are asked for, given all that came."""
        if self.values is not None:
            return self.values
        assert self.column is not None and self.predicate is not None
        values = values_with_codes(codes, type_)
        none = np.zeros(1, values.values.dtype)
        every = Vector(type_, np.concatenate([values.values, none]), np.arange(len(codes) + 1) < len(codes))
        holds = evaluate(self.predicate, {self.column: every}, len(codes) + 1)
        chosen = holds.values.astype(np.bool_) & holds.valid
        return ValueCondition(codes[chosen[:-1]], False, bool(chosen[-1]))


def condition_of(predicate: Expr | None, types: Mapping[str, Type], place: Place | None) -> Condition:
    """What a condition over the columns of a stream asks for. Raises where that is more than one column."""
    if predicate is None:
        return Condition()
    columns = {node.name for node in walk(predicate) if isinstance(node, Column)}
    if len(columns) > 1:
        hint = "a summary covers one column: ask about one column, or create a standing query with this condition"
        raise NotSupported("a condition of SELECT APPROX over several columns", place, hint=hint)
    if not columns:
        return Condition(None, EVERY if _constant(predicate).value is True else condition_on(()))
    (column,) = columns
    tried = _Tried(types)
    try:
        constants = list(tried.constants(predicate))
        codes = dict.fromkeys(constant.code for constant in constants if constant.code is not None)
        true = [code for code in codes if tried.truth(predicate, code) is True]
        others, nulls = (tried.truth(predicate, at) is True for at in (OTHER, MISSING))
    except _NotByEquality:
        if is_event_only(predicate) or not is_decoded(types[column]):
            raise NotSupported("this condition of SELECT APPROX", place, hint=HINT) from None
        return Condition(column, None, {}, predicate)
    chosen = [code for code in codes if code not in true] if others else true
    named = {constant.code: constant.value for constant in constants if constant.code is not None}
    return Condition(column, condition_on(chosen, others=others, nulls=nulls), named)


class _NotByEquality(Exception):
    """The condition asks for more than which value there is."""


@dataclass(frozen=True)
class _Tried:
    """A condition, tried for a value: True, False, or None where it is NULL."""

    types: Mapping[str, Type]

    def constants(self, expr: Expr) -> Iterator[Constant]:
        """All that the column is compared with."""
        match expr:
            case _ if not _has_column(expr):
                return
            case Call(function="and" | "or" | "not", args=args):
                for arg in args:
                    yield from self.constants(arg)
            case Call(function="in" | "eq" | "ne" | "eq_null_safe"):
                yield from self._compared(expr)
            case Column():
                yield Constant(1, True)

    def truth(self, expr: Expr, at: int | str) -> bool | None:
        match expr:
            case _ if not _has_column(expr):
                known = _constant(expr).value
                return None if known is None else bool(known)
            case Call(function="not", args=(arg,)):
                return _not(self.truth(arg, at))
            case Call(function="and", args=args):
                return _all(self.truth(arg, at) for arg in args)
            case Call(function="or", args=args):
                return _not(_all(_not(self.truth(arg, at)) for arg in args))
            case Call(function="is_null", args=(Column(),)):
                return at == MISSING
            case Call(function="eq_null_safe"):
                ((code, _),) = self._compared(expr)
                return at == (MISSING if code is None else code)
            case Call(function="in" | "eq"):
                return _not(_all(_not(_same(at, constant.code)) for constant in self._compared(expr)))
            case Call(function="ne"):
                return _all(_not(_same(at, constant.code)) for constant in self._compared(expr))
            case Column(name=name) if self.types[name] == BOOLEAN:
                return _same(at, 1)
        raise _NotByEquality

    def _compared(self, call: Call) -> list[Constant]:
        """The constants, where one side is the column and all others are constant."""
        sides = (call.args, call.args[::-1]) if call.function in COMPARED else (call.args,)
        for column, *others in sides:
            if self._is_column(column) and not any(map(_has_column, others)):
                return [_constant(other) for other in others]
        raise _NotByEquality

    def _is_column(self, expr: Expr) -> bool:
        """Also where it is a whole number that is only made wider: its code is the same."""
        if isinstance(expr, Cast) and isinstance(expr.arg, Column):
            return expr.type.is_integer and self.types[expr.arg.name].is_integer
        return isinstance(expr, Column)


def _has_column(expr: Expr) -> bool:
    return any(isinstance(node, Column) for node in walk(expr))


def _constant(expr: Expr) -> Constant:
    vector = evaluate(expr, {}, 1)
    keys = keys_of([vector.to_arrow()], 1)
    known = keys.known is None or bool(keys.known[0])
    return Constant(int(keys.codes[0]) if known else None, vector.to_list()[0])


def _same(at: int | str, code: int | None) -> bool | None:
    return None if at == MISSING or code is None else at == code


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _all(truths: Iterator[bool | None]) -> bool | None:
    found = list(truths)
    return False if False in found else None if None in found else True


# Values from their codes


def is_decoded(type_: Type) -> bool:
    """Whether the value can be told from its code; of texts, bytes and decimals that is a hash."""
    return type_.kind not in ("string", "binary", "decimal")


def values_with_codes(codes: Codes, type_: Type) -> Vector:
    """The values that have the codes.

    >>> from mullion.language.types import DOUBLE
    >>> values_with_codes(np.array([0, 4607182418800017408]), DOUBLE).to_list()
    [0.0, 1.0]
    """
    dtype = np.dtype(dtype_of(type_))
    narrow = codes.astype(f"i{dtype.itemsize}")
    values = narrow.view(dtype) if dtype.kind == "f" else narrow.astype(dtype)
    return Vector(type_, values, np.ones(len(codes), np.bool_))
