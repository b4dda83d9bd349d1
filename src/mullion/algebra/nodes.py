"""The relational algebra of standing queries: what a query makes of its windows at every instant.

    SELECT a.k, b.v FROM a [RANGE 10 min], b [RANGE 5 min] WHERE a.k = b.k AND b.v > 1

    Project(k = 0.k, v = 1.v)
      Join(0: k, 1: k)
        Scan(a, 10 min)
        Filter(v > 1)
          Scan(b, 5 min)

A node is a relation that changes with time (golab, Definition 2.1): at every instant it is what the relational operator
makes of its inputs at that instant. Nodes carry resolved expressions over the columns of their inputs and no names of
users, so that equal nodes of different queries are one: they are computed once.

Columns: a Scan has those of its stream; a Join those of its inputs, in order, with the input's number before them
(`0.k`, `1.v`, `1.0.x` for a join in a join); a Project, an Aggregated and a Union the names that they give; all others
those of their (first) input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.lookups import Lookup
from mullion.language.query import Expr, Window
from mullion.language.types import Type

Columns = tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class _Node(ABC):
    """A relation. Hashes are remembered, since they walk all that is below. They are not pickled, since they differ
    between processes."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, *(getattr(self, name) for name in self.__dataclass_fields__)))

    @cached_property
    def types(self) -> dict[str, Type]:
        return dict(self.columns)

    @property
    @abstractmethod
    def columns(self) -> Columns: ...

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]: ...


@dataclass(frozen=True)
class _OverOne(_Node):
    """A relation over one other, whose columns it has unless it says otherwise."""

    input: Node
    __hash__ = _Node.__hash__

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class _OverTwo(_Node):
    """A relation over two others, with the columns of the left."""

    left: Node
    right: Node
    __hash__ = _Node.__hash__

    @property
    def columns(self) -> Columns:
        return self.left.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, eq=True)
class Scan(_Node):
    """The events of a stream that are in a window. `stream_columns` are all columns of the stream."""

    stream: str
    window: Window
    stream_columns: Columns
    partition: tuple[Expr, ...] = ()
    """The resolved keys of [PARTITION BY k ROWS n]."""
    since: int | None = None
    """Only events from this time on: for windows that would otherwise hold what came before a query did."""
    __hash__ = _Node.__hash__

    @property
    def columns(self) -> Columns:
        return self.stream_columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True, eq=True)
class LookedUp(_OverOne):
    """Events with the columns that a table's row gives them (`lookup.types()`), once for every row that they find.

    Not retroactive: an event sees the table as it was when the event came, and keeps what it saw (golab 3.3.1).
    `retroactive`: the relation follows the table, whose changes bring and end rows. What finds no row stays, with
    NULLs; an inner join has a Filter on `lookup.matched` above it.
    """

    lookup: Lookup
    retroactive: bool = False
    __hash__ = _Node.__hash__

    @property
    def columns(self) -> Columns:
        return (*self.input.columns, *self.lookup.types().items())


@dataclass(frozen=True, eq=True)
class Filter(_OverOne):
    """The rows for which the predicate is true."""

    predicate: Expr
    __hash__ = _Node.__hash__


@dataclass(frozen=True, eq=True)
class Project(_OverOne):
    """Other columns, computed row by row; duplicates stay."""

    items: tuple[tuple[str, Expr, Type], ...]
    __hash__ = _Node.__hash__

    @property
    def columns(self) -> Columns:
        return tuple((name, type_) for name, _, type_ in self.items)


@dataclass(frozen=True, eq=True)
class Join(_Node):
    """All combinations of rows whose keys are equal. Input i has the keys `keys[i]`, over its own columns; all have as
    many, of the same types. A NULL equals nothing, NaN equals NaN. `residual` is over the columns of the join."""

    parts: tuple[Node, ...]
    keys: tuple[tuple[Expr, ...], ...]
    residual: Expr | None = None
    __hash__ = _Node.__hash__

    @property
    def columns(self) -> Columns:
        return tuple((f"{i}.{name}", type_) for i, part in enumerate(self.parts) for name, type_ in part.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts


@dataclass(frozen=True, eq=True)
class Restricted(_Node):
    """What a join of windows of time would be if its windows were shorter: that of input i [RANGE ranges[i]].

    So queries with different windows share the join of the longest. The inputs are Scans, perhaps with Filters.
    """

    input: Join
    ranges: tuple[int, ...]
    __hash__ = _Node.__hash__

    @property
    def columns(self) -> Columns:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def meaning(self) -> Join:
        """The join with these windows."""
        parts = tuple(_with_range(part, length) for part, length in zip(self.input.parts, self.ranges, strict=True))
        return replace(self.input, parts=parts)


def _with_range(node: Node, length: int) -> Node:
    if isinstance(node, Filter):
        return replace(node, input=_with_range(node.input, length))
    assert isinstance(node, Scan)
    return replace(node, window=replace(node.window, range=length))


@dataclass(frozen=True, eq=True)
class Distinct(_OverOne):
    """Each row once. NULLs are equal to each other, NaNs too, and zeros of either sign."""

    __hash__ = _Node.__hash__


@dataclass(frozen=True, eq=True)
class Negation(_OverTwo):
    """The rows of the left with no row of the right that has equal keys: NOT EXISTS. A NULL equals nothing.

    EXISTS needs no node of its own: it joins the left with the distinct keys of the right.
    """

    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    __hash__ = _Node.__hash__


@dataclass(frozen=True, eq=True)
class Difference(_OverTwo):
    """EXCEPT ALL: of v1 equal rows on the left and v2 on the right, the v1 - v2 youngest of the left stay (golab
    2.2.2). Rows are equal as in DISTINCT. Both sides have the same columns."""

    __hash__ = _Node.__hash__


@dataclass(frozen=True, eq=True)
class Union(_Node):
    """UNION ALL. All parts have the same columns."""

    parts: tuple[Node, ...]
    __hash__ = _Node.__hash__

    @property
    def columns(self) -> Columns:
        return self.parts[0].columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts


@dataclass(frozen=True, eq=True)
class Aggregated(_OverOne):
    """GROUP BY: one row for each group, `#k0..` and `#a0..`. Without keys there is always one row.

    `slide` and `offset`: the relation changes only at these instants, as its windows do; None: at every change.
    """

    keys: tuple[tuple[Expr, Type], ...]
    aggregates: tuple[BoundAggregate, ...]
    slide: int | None = None
    offset: int = 0
    __hash__ = _Node.__hash__

    @property
    def columns(self) -> Columns:
        keys = tuple((f"#k{i}", type_) for i, (_, type_) in enumerate(self.keys))
        return (*keys, *((f"#a{i}", bound.result) for i, bound in enumerate(self.aggregates)))


@dataclass(frozen=True, eq=True)
class Rewindowed(_OverOne):
    """A window over the results of a query: its new results are the events of a stream (golab 3.3.3)."""

    window: Window
    __hash__ = _Node.__hash__


Node = (
    Scan
    | LookedUp
    | Filter
    | Project
    | Join
    | Restricted
    | Distinct
    | Negation
    | Difference
    | Union
    | Aggregated
    | Rewindowed
)


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node over other inputs; itself where these are the same objects as before."""
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    match node:
        case Join() | Union():
            return replace(node, parts=inputs)
        case Negation() | Difference():
            left, right = inputs
            return replace(node, left=left, right=right)
        case Restricted():
            (join,) = inputs
            assert isinstance(join, Join)
            return replace(node, input=join)
        case LookedUp() | Filter() | Project() | Distinct() | Aggregated() | Rewindowed():
            (below,) = inputs
            return replace(node, input=below)
        case Scan():
            return node


def nodes(root: Node) -> Iterator[Node]:
    """The node and everything below it, parents first."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += node.inputs[::-1]


def is_aggregates(root: Node) -> bool:
    """Whether the rows are those of aggregates, perhaps filtered: new ones replace the old."""
    while isinstance(root, Filter | Project):
        root = root.input
    return isinstance(root, Aggregated)


def has_total(root: Node) -> bool:
    """Whether an aggregate without GROUP BY is a part of it: it has a row also where no window holds an event. A window
    over its results holds such rows as any others."""
    match root:
        case Aggregated(keys=()):
            return True
        case Rewindowed():
            return False
        case _:
            return any(map(has_total, root.inputs))


def scans(root: Node) -> list[Scan]:
    """The windows that the relation stands on, from left to right."""
    return [node for node in nodes(root) if isinstance(node, Scan)]


@dataclass(frozen=True)
class Relation:
    """A standing query over relations: its plan, and what it tells of the plan's result.

    | output | tells |
    |---|---|
    | rstream | the whole result, at every instant |
    | istream | the rows that it has and had not at the instant before (by value; CQL) |
    | dstream | the rows that it had at the instant before and has no more |
    | wstream | as rstream, of the window `output_window` over the new results |
    | changes | what continuous queries tell by default: each row as it comes; and, when the update pattern is strict, a
      row with sign -1 when one ends, for then no end is known when it comes |

    Instants: multiples of `slide` shifted by `offset`; None: every time at which the result changes.
    """

    name: str
    text: str
    root: Node
    output: str = "rstream"
    output_window: Window | None = None
    restore: bool = False
    slide: int | None = None
    offset: int = 0
    longest: int | None = None
    """The longest range of its windows: window_start is the instant less this. None: window_start is NULL."""
    names: tuple[str, ...] = ()
    """The columns of the answer after the window's: the first columns of the root, under these names. The root may
    have more, for ORDER BY alone."""
    order_by: tuple[tuple[Expr, bool, bool], ...] = ()
    """Over the root's columns: (expression, descending, nulls first)."""
    limit: int | None = None
    start: int | None = None
    stop: int | None = None
    materialized: bool = False

    @cached_property
    def plan(self) -> Node:
        """What is told of: the root, for WSTREAM under the window over its new results."""
        return self.root if self.output_window is None else Rewindowed(self.root, self.output_window)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The streams that it reads, by name."""
        return tuple(sorted({scan.stream for scan in scans(self.root)}))


__all__ = [
    "Aggregated",
    "Columns",
    "Difference",
    "Distinct",
    "Filter",
    "Join",
    "LookedUp",
    "Negation",
    "Node",
    "Project",
    "Relation",
    "Restricted",
    "Rewindowed",
    "Scan",
    "Union",
    "has_total",
    "is_aggregates",
    "nodes",
    "scans",
    "with_inputs",
]
