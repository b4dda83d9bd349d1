"""Which bad values (overflows, divisions by zero, failed casts) are counted, and on which rows: so that the number does
not depend on the plan, nor on the queries that share it.

| what met it | is counted |
|---|---|
| WHERE and join keys over one window | once for every event that comes into the window, whatever the other conditions |
| WHERE over several windows | for each combination of rows that meet and pass the conditions on one window |
| items, keys and arguments of aggregates, HAVING | for each row that gets there |

The first are counted apart from the operators: rules move such conditions about, and joins that are shared look at them
late or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import conjuncts, names_in
from mullion.algebra.nodes import Node, ResultWindow, Scan, is_aggregates, nodes
from mullion.expressions.arrays import Mask, Times
from mullion.expressions.evaluate import count_bad, is_fallible
from mullion.expressions.typing import type_of
from mullion.expressions.vector import Vector, arrow_type
from mullion.language.query import Expr
from mullion.language.types import BOOLEAN, Type
from mullion.operators.expressions import is_true
from mullion.operators.timed_rows import TimedRows
from mullion.planner.comparisons import compared_in


class BadValues:
    """Counts the bad values that expressions meet; those that can meet none cost nothing."""

    def __init__(self, expressions: Iterable[Expr], types: Mapping[str, Type]) -> None:
        self._fallible = tuple(dict.fromkeys(expr for expr in expressions if is_fallible(expr, types)))
        self._types = types

    def __bool__(self) -> bool:
        return bool(self._fallible)

    def among(self, rows: pa.Table) -> int:
        """How many expressions met one in each of the rows, all together."""
        if not self._fallible or not len(rows):
            return 0
        read = names_in(*self._fallible)
        columns = {name: Vector.from_arrow(rows.column(name), self._types[name]) for name in read}
        return sum(int(count_bad(expr, columns, len(rows)).sum()) for expr in self._fallible)


class BadConditions:
    """Counts the bad values of a condition, but for what is counted where the events come in."""

    def __init__(self, predicate: Expr | None, node: Node) -> None:
        """`node` has the columns that the predicate reads."""
        self._types = node.types
        parts = [] if predicate is None else [predicate] if is_aggregates(node) else list(conjuncts(predicate))
        self._bad = BadValues((part for part in parts if window_of(node, part) is None), self._types)
        self._first = [part for part in parts if window_of(node, part) is not None]

    def among(self, timed: TimedRows, mask: Mask | None = None) -> int:
        """How many are met by the rows, of those that `mask` lets pass."""
        if not self._bad or not len(timed):
            return 0
        passes = np.ones(len(timed), np.bool_) if mask is None else mask.copy()
        for part in self._first:
            passes &= is_true(part, timed, self._types)
        return self._bad.among(timed.rows.filter(pa.array(passes)))


def bad_keys(keys: Sequence[Expr], node: Node) -> BadValues:
    """Counts the bad values of keys, but for what is counted where the events come in."""
    return BadValues((key for key in keys if window_of(node, key) is None), node.types)


def window_of(node: Node, expr: Expr) -> tuple[Scan, Expr] | None:
    """The one window that an expression reads, and the expression over its events."""
    if not names_in(expr):
        return None
    found = node.traced(expr)
    return None if found is None or any(isinstance(below, ResultWindow) for below in nodes(node)) else found


class BadEvents:
    """Counts the bad values that the conditions of plans meet in the events that come into their windows."""

    def __init__(self, plans: Iterable[Node]) -> None:
        self._checks = {plan: _checks(plan) for plan in plans}
        self._met: dict[tuple[str, int | None, Expr], int] = {}

    def observe(self, stream: str, rows: pa.Table, times: Times) -> None:
        """Events of a stream."""
        wanted = {_key(scan, expr): scan for checks in self._checks.values() for scan, expr in checks}
        for (of, since, expr), scan in wanted.items():
            if of == stream:
                own = rows if since is None else rows.filter(pa.array(times >= since))
                read = [name for name, _ in scan.columns if name in names_in(expr)]
                typed = [own.column(name).cast(arrow_type(scan.types[name])) for name in read]
                met = BadValues([expr], scan.types).among(pa.Table.from_arrays(typed, names=read))
                if met:
                    self._met[of, since, expr] = met

    def collect(self) -> dict[Node, int]:
        """How many each plan met since this was asked before."""
        met, self._met = self._met, {}
        if not met:
            return {}
        return {plan: sum(met.get(_key(*check), 0) for check in checks) for plan, checks in self._checks.items()}


def _key(scan: Scan, expr: Expr) -> tuple[str, int | None, Expr]:
    begins = [time for time in (scan.since, scan.window.since) if time is not None]
    return scan.stream, max(begins, default=None), expr


def _checks(plan: Node) -> tuple[tuple[Scan, Expr], ...]:
    """What can be bad in the conditions on single windows."""
    checks: dict[tuple[Scan, Expr], None] = {}
    for below, condition in (checks for node in nodes(plan) for checks in node.conditions()):
        origin = window_of(below, condition)
        if origin is not None:
            scan, own = origin
            compared = compared_in(own) if type_of(own, scan.types) == BOOLEAN else (own,)
            checks |= {(scan, expr): None for expr in compared if is_fallible(expr, scan.types)}
    return tuple(checks)
