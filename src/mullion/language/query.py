"""What a text means: frozen trees of expressions, windows and queries.

Equal trees are equal queries: places in the text take no part in equality, so expressions written twice by
different users are found to be one and evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import is_
from typing import Any, NamedTuple

from mullion.errors import Place
from mullion.language.types import Type

# Expressions


class _Node:
    """Expressions may be referred to weakly, and remember their hash, which walks all that is below them. It is not
    pickled, since it differs between processes."""

    __slots__ = ("__weakref__", "_hash")
    _hash: int


@dataclass(frozen=True, slots=True)
class Column(_Node):
    """A column by its name, perhaps qualified by a stream's, table's or alias's name."""

    name: str
    table: str | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Literal(_Node):
    """A constant. Values: bool, int, float, Decimal, str, None; date as days and timestamp as microseconds since the
    epoch (UTC); interval as microseconds."""

    value: Any
    type: Type
    cast: bool = field(default=False, compare=False, repr=False, kw_only=True)
    """What a written CAST made of a constant: the type alone tells its digits, as of a column."""
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __eq__(self, other: object) -> bool:
        """Zeros of either sign are two constants: x * -0.0 is not x * 0.0."""
        if not isinstance(other, Literal):
            return NotImplemented
        same = self.type == other.type and bool(self.value == other.value)
        return same and (self.value != 0 or str(self.value) == str(other.value))


@dataclass(frozen=True, slots=True)
class Call(_Node):
    """A scalar operator or function by its canonical lower-case name (`functions.py` lists them)."""

    function: str
    args: tuple[Expr, ...]
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.function, self.args)))
            return self._hash


@dataclass(frozen=True, slots=True)
class Cast(_Node):
    """CAST: a value that does not fit becomes NULL."""

    arg: Expr
    type: Type
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.arg, self.type)))
            return self._hash


@dataclass(frozen=True, slots=True)
class Case(_Node):
    """CASE WHEN. A CASE with an operand is written out as comparisons with it."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.branches, self.otherwise)))
            return self._hash


@dataclass(frozen=True, slots=True)
class AggregateCall(_Node):
    """An aggregate call. `count(*)` has no args."""

    function: str
    args: tuple[Expr, ...]
    distinct: bool = False
    where: Expr | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.function, self.args, self.distinct, self.where)))
            return self._hash


@dataclass(frozen=True, slots=True)
class Exists(_Node):
    """[NOT] EXISTS (SELECT ...); NOT is a Call around it."""

    query: Query
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


Expr = Column | Literal | Call | Cast | Case | AggregateCall | Exists


_LEAVES = (Column, Literal, Exists)
"""A tuple, since making a union anew for every node takes longer than the walk over them."""


def children(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, _LEAVES):
        return ()
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, Cast):
        return (expr.arg,)
    if isinstance(expr, AggregateCall):
        return expr.args if expr.where is None else (*expr.args, expr.where)
    parts = tuple(part for branch in expr.branches for part in branch)
    return parts if expr.otherwise is None else (*parts, expr.otherwise)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _LEAVES):
            stack += children(node)[::-1]


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with each node that `change` answers for replaced (parents first, replacements not entered).
    What holds nothing that changed is the same object as before."""
    changed = change(expr)
    if changed is not None:
        return changed
    if isinstance(expr, _LEAVES):
        return expr
    match expr:
        case Call(args=args):
            new = _rewrite_all(args, change)
            return expr if new is args else Call(expr.function, new, place=expr.place)
        case AggregateCall(args=args, where=where):
            new = _rewrite_all(args, change)
            condition = None if where is None else rewrite(where, change)
            if new is args and condition is where:
                return expr
            return AggregateCall(expr.function, new, expr.distinct, condition, place=expr.place)
        case Cast(arg=arg):
            inner = rewrite(arg, change)
            return expr if inner is arg else Cast(inner, expr.type, place=expr.place)
        case Case(branches=branches, otherwise=otherwise):
            return Case(
                tuple((rewrite(c, change), rewrite(v, change)) for c, v in branches),
                None if otherwise is None else rewrite(otherwise, change),
                place=expr.place,
            )
        case _:
            return expr


def _rewrite_all(expressions: tuple[Expr, ...], change: Callable[[Expr], Expr | None]) -> tuple[Expr, ...]:
    new = tuple([rewrite(expr, change) for expr in expressions])
    return expressions if all(map(is_, new, expressions)) else new


# Windows


class Period(NamedTuple):
    """A periodic window: at every instant `offset + k * slide`, the events of the last `range` microseconds."""

    range: int
    slide: int
    offset: int = 0


class Axis(NamedTuple):
    """What a window is laid over. Windows on one axis share slices.

    | kind | a window's bounds are |
    |---|---|
    | time | event times |
    | column | values of the column `order` (WATTR) |
    | rows | numbers of events, in the order of time and arrival |
    | events | numbers of events too, but any event may begin a window, so every event is a slice of its own |
    | partitions | none: the window holds the last events of each `partition` |
    """

    kind: str = "time"
    order: str = ""
    """The column that orders events, when it is not the event time."""
    partition: tuple[Expr, ...] = ()


TIME_AXIS = Axis()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window over a stream; times are microseconds, or numbers as they were written when it is `unitless`.

    | form | fields |
    |---|---|
    | RANGE r SLIDE s OFFSET o | range, slide, offset |
    | RANGE r SLIDE AT MOST s | range, slide, at_most |
    | RANGE r | range |
    | RANGE r SLIDE n TUPLES | range, slide_rows |
    | ROWS n SLIDE m | rows, slide_rows (1 when not written) |
    | ROWS n SLIDE s OFFSET o | rows, slide, offset: in time |
    | PARTITION BY k ROWS n SLIDE ... | partition_by, rows, and as without it |
    | RANGE UNBOUNDED [SLIDE ...] | unbounded, slide or slide_rows |
    | NOW | now |
    | FROM TIMESTAMP '...' [SLIDE ...] | since, slide or slide_rows |
    """

    range: int | None = None
    slide: int | None = None
    at_most: bool = False
    """An answer at least every `slide`: which instants it reflects is left to the scheduler."""
    offset: int = 0
    rows: int | None = None
    slide_rows: int | None = None
    partition_by: tuple[Expr, ...] = ()
    unbounded: bool = False
    now: bool = False
    since: int | None = None
    attribute: str | None = None
    internal: bool = False
    unitless: bool = False
    """Over a column of whole numbers: RANGE 10 SLIDE 5 WATTR c."""
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def is_endless(self) -> bool:
        """It has no start, or one that stays: no event ever leaves it."""
        return self.unbounded or self.since is not None


# Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A stream or a table by name; a stream usually has a window."""

    name: str
    window: Window | None = None
    alias: str | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A sub-query in FROM."""

    query: Query
    window: Window | None = None
    alias: str | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinClause:
    """Two sources. kind: 'inner', 'left', 'right', 'full', 'cross'; a comma is a cross join."""

    left: Source
    right: Source
    kind: str
    on: Expr | None = None
    using: tuple[Column, ...] = ()
    """The columns after USING, in the place of `on`: each is one for both sides."""
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


Source = Named | Derived | JoinClause


# Queries


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the answer. `name` is the alias, or None when none was written."""

    expr: Expr
    name: str | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One ORDER BY term; nulls_first is already resolved to Spark's default when not written."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = True
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """ISTREAM, DSTREAM, RSTREAM or WSTREAM around the query; WSTREAM has a window; RESTORE may follow I and R."""

    kind: str
    window: Window | None = None
    restore: bool = False
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a promising query may do in a step: so many result rows, so many events that probe, or so many
    microseconds. None of them: AUTO, the time that is left."""

    rows: int | None = None
    events: int | None = None
    time: int | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """WITH PREFERENCE asc|desc|weighted expressions FADE FACTOR a BUDGET b. Where no budget is written, it is AUTO.
    `window`: the length of the windows of streams that have none, written at the end."""

    kind: str
    exprs: tuple[Expr, ...]
    fade: float | None = None
    budget: Budget | None = None
    window: int | None = None
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A SELECT, standing when it has a name. Also what the Python API builds."""

    items: tuple[Item, ...]
    source: Source
    name: str | None = None
    distinct: bool = False
    approximate: bool = False
    where: Expr | None = None
    group_by: tuple[Expr, ...] = ()
    having: Expr | None = None
    order_by: tuple[OrderTerm, ...] = ()
    limit: int | None = None
    union: tuple[Query, ...] = ()
    excepted: tuple[Query, ...] = ()
    """EXCEPT ALL: taken away from the union, one after the other."""
    output: Output | None = None
    preference: Preference | None = None
    start_at: int | None = None
    stop_at: int | None = None
    backfill: bool = False
    materialized: bool = False
    """CREATE QUERY name MATERIALIZED: others may read it in FROM."""
    window_terms: tuple[Column, ...] = field(default=(), compare=False, repr=False)
    """The terms of SELECT and GROUP BY that were taken for the window, which every answer has anyway."""
    name_place: Place | None = field(default=None, compare=False, repr=False)
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)
