"""Which columns of events the kernel needs for some groupings, and which expressions only the source can evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from mullion.algebra.streams import Stream
from mullion.expressions.evaluate import is_event_only, is_kernel_only, is_vectorised
from mullion.expressions.typing import type_of
from mullion.language.query import Column, Expr, Literal, rewrite, walk
from mullion.language.render import render
from mullion.language.types import BOOLEAN, Type
from mullion.planner.plan import Grouping
from mullion.slices.kernels.partial import Input


def kernel_columns(groupings: Sequence[Grouping]) -> set[str] | None:
    """The columns of events that the kernel needs to evaluate everything by itself; None when it cannot."""
    needed: set[str] = set()
    for grouping in groupings:
        own = grouping.__dict__.get(_COLUMNS, _UNKNOWN)
        if own is _UNKNOWN:
            own = grouping.__dict__[_COLUMNS] = _columns_in_kernel(grouping)
        if own is None:
            return None
        needed |= own
    return needed


_COLUMNS, _UNKNOWN = "_kernel_columns", object()
"""Kept with the grouping: it is asked for several times a batch, and looking into all expressions takes long."""


def _columns_in_kernel(grouping: Grouping) -> set[str] | None:
    wanted = [*_wanted([grouping]), *grouping.checks]
    if not all(_in_kernel(expr, grouping) for expr in wanted):
        return None
    return {name for expr in wanted for name in columns_of(expr)} - _looked_up(grouping)


def dividing_columns(groupings: Sequence[Grouping]) -> set[str]:
    """The columns of events that tell into which groups and fragments they go."""
    asked = {name for g in groupings for expr in _dividing(g) for name in columns_of(expr)}
    return asked - {name for g in groupings for name in _looked_up(g)}


def columns_of(expr: Expr) -> set[str]:
    return {node.name for node in walk(expr) if isinstance(node, Column)}


def table_columns(grouping: Grouping) -> set[str]:
    """The columns of tables that the grouping reads."""
    return {name for expr in _wanted([grouping]) for name in columns_of(expr)} & _looked_up(grouping)


def input_for(stream: Stream, groupings: Sequence[Grouping], also: Sequence[str] = ()) -> Input:
    """Few, narrow columns: those that the kernel computes with, and what only the source can compute."""
    evaluated: dict[Expr, str] = {}
    bad: dict[Expr, str] = {}
    own = stream.types
    columns: dict[str, Type] = {name: own[name] for name in also}
    for grouping in groupings:
        for expr in _wanted([grouping]):
            if _in_kernel(expr, grouping):
                columns |= {name: own[name] for name in sorted(columns_of(expr) & own.keys())}
            else:
                name = evaluated.setdefault(expr, _lasting_name("e", expr))
                columns.setdefault(name, type_of(expr, own))
        for check in grouping.checks:
            if _in_kernel(check, grouping):
                columns |= {name: own[name] for name in sorted(columns_of(check) & own.keys())}
            else:
                columns.setdefault(bad.setdefault(check, _lasting_name("b", check)), BOOLEAN)
    return Input(columns, evaluated, bad)


def all_inputs(inputs: Sequence[Input]) -> Input:
    """All that some inputs hold, each column once.

    >>> sorted(all_inputs([Input({"a": BOOLEAN}), Input({"b": BOOLEAN, "a": BOOLEAN})]).columns)
    ['a', 'b']
    """
    columns: dict[str, Type] = {}
    evaluated: dict[Expr, str] = {}
    bad: dict[Expr, str] = {}
    for part in inputs:
        columns |= part.columns
        evaluated |= part.evaluated
        bad |= part.bad
    return Input(columns, evaluated, bad)


def _looked_up(grouping: Grouping) -> set[str]:
    """The columns that lookups add."""
    return {name for lookup in grouping.lookups for name in lookup.types()}


def _wanted(groupings: Sequence[Grouping]) -> list[Expr]:
    """Everything that is computed of an event: each expression once."""
    states = (expr for g in groupings for state in g.states for expr in state.expressions())
    return list(dict.fromkeys([*(expr for g in groupings for expr in _dividing(g)), *states]))


def _dividing(grouping: Grouping) -> Iterator[Expr]:
    """What an event's group and fragment follow from."""
    yield from (attribute.expr for attribute in grouping.index.attributes)
    yield from grouping.keys
    yield from (key for lookup in grouping.lookups for key, _ in lookup.keys)


def _in_kernel(expr: Expr, grouping: Grouping) -> bool:
    """Whether the kernel computes the expression: on whole arrays, once for each different text, or because Spark does
    not know the columns of tables. What it might compute otherwise than Spark is left to Spark."""
    if is_event_only(expr):
        return False
    if is_kernel_only(expr):
        return True
    if columns_of(expr) & _looked_up(grouping):
        return True
    return _is_by_arrays_and_texts(expr, grouping.types)


def _is_by_arrays_and_texts(expr: Expr, types: Mapping[str, Type]) -> bool:
    """Whether every step works on whole arrays, but for parts that read one column of texts, which are computed once
    for each different text, and for constants, which are computed once.

    >>> from mullion.language.query import Call, Cast
    >>> from mullion.language.types import DOUBLE, STRING
    >>> types = {"code": STRING, "name": STRING, "n": DOUBLE}
    >>> code, name, n = (Column(each) for each in types)
    >>> sum_ = Call("add", (Cast(code, DOUBLE), n))
    >>> [_is_by_arrays_and_texts(e, types) for e in (sum_, Call("upper", (name,)), Call("locate", (code, name)))]
    [True, True, False]
    >>> _is_by_arrays_and_texts(Call("lt", (n, Cast(Literal("NaN", STRING), DOUBLE))), types)
    True
    """
    apart: dict[str, Type] = {}

    def set_apart(part: Expr) -> Expr | None:
        if isinstance(part, Column | Literal):
            return None
        read = columns_of(part)
        if len(read) > 1 or any(types[name].kind != "string" for name in read):
            return None
        name = f"#{len(apart)}"
        apart[name] = type_of(part, types)
        return Column(name)

    rest = rewrite(expr, set_apart)
    return is_vectorised(rest, {**types, **apart})


def _lasting_name(kind: str, expr: Expr) -> str:
    """A name that stays the same while queries come and go, for what Spark computes of an expression. The text itself
    would not do: Spark takes a dot in a name for a field."""
    return f"#{kind}{sha256(render(expr).encode()).hexdigest()[:16]}"
