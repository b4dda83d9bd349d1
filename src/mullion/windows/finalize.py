"""Sub-windows to answers, for all queries of a grouping at once.

    rows of the grouping, in the order (group, slice):

        group A: | 09:00 | 09:01 | 09:02 | 09:05 |  group B: | 09:01 | 09:04 |  ...
                   [------- window 1 ----]                     [- 1 ]
                           [------ window 2 -----]             [---- 2 ----]

Any window of any group is one range of the sequence; a synopsis answers all ranges of a state in one call. A predicate
selects the fragments whose signature has its bit (krishnamurthy 4.3.2, Algorithm 2); queries with the same predicate
share the sequence and its synopses. The same function runs on the driver and on executors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates import REGISTRY
from mullion.catalog.queries import Shape
from mullion.language.evaluate import count_bad, evaluate
from mullion.language.query import Column, Expr, walk
from mullion.language.types import TIMESTAMP
from mullion.language.vector import Vector
from mullion.planner.plan import Grouping, StateColumn, states_of
from mullion.windows.arrange import arrange
from mullion.windows.base import Synopsis
from mullion.windows.due import Due, Times
from mullion.windows.interval import Interval
from mullion.windows.running import Running
from mullion.windows.subwindow import Rows

SYNOPSES: dict[str, type[Running] | type[Interval]] = {s.name: s for s in (Running, Interval)}

MOST_RANGES = 4_000_000
"""Ranges that are looked up in one call; more are taken in turns to bound memory."""

Index = npt.NDArray[np.intp]


@dataclass
class Work:
    """Operations counted for --stats and EXPLAIN."""

    final: int = 0
    written: int = 0
    """Rows of answers that executors wrote by themselves."""
    bad: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Answers:
    """The answers of some queries of one shape: rows `bounds[i]` to `bounds[i + 1]` of the table are query i's."""

    queries: tuple[str, ...]
    bounds: list[int]
    table: pa.Table

    def __iter__(self) -> Iterator[tuple[str, pa.Table]]:
        for name, low, high in zip(self.queries, self.bounds, self.bounds[1:], strict=False):
            if high > low:
                yield name, self.table.slice(low, high - low)


def finalize(rows: Rows, grouping: Grouping, due: Due, work: Work, *, arranged: bool = True) -> list[Answers]:
    """Answer the due windows. Without `arranged`, the columns that ORDER BY needs stay for a later `arrange`."""
    answers = []
    lanes: dict[str | None, _Lane] = {}
    for predicate, shape, queries in due_by_meaning(grouping, due):
        lane = lanes[predicate] = lanes.get(predicate) or _lane(rows, predicate)
        for windows in _turns(queries, lane, grouped=bool(grouping.keys)):
            made = _answer(lane, grouping, shape, due, windows, work)
            if made is not None:
                query, table = made
                query, table = arrange(query, table, shape, final=arranged)
                answers.append(_split(grouping, query, table))
    work.final += sum(lane.operations() for lane in lanes.values())
    return answers


def due_by_meaning(grouping: Grouping, due: Due) -> Iterator[tuple[str | None, Shape, Index]]:
    """The due windows of queries that have the same predicate and the same shape."""
    if not len(due):
        return
    codes, meanings = grouping.meanings
    code = codes[due.query]
    order = np.argsort(code, kind="stable")
    cuts = np.flatnonzero(np.diff(code[order])) + 1
    for part in np.split(order, cuts):
        yield (*meanings[code[part[0]]], part)


@dataclass
class _Lane:
    """The rows that satisfy one predicate, in the order (group, slice)."""

    rows: Rows
    chosen: Index
    ranks: npt.NDArray[np.int64]
    """For each row, group * number of slices + rank of its slice: ascending."""
    slices: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    """The groups that have a row here."""
    first: Index
    """A row of each of these groups, to take the keys from."""
    synopses: dict[StateColumn, tuple[tuple[Vector, ...], Synopsis]] = field(default_factory=dict)

    def synopsis(self, state: StateColumn) -> tuple[tuple[Vector, ...], Synopsis]:
        if state not in self.synopses:
            stored = tuple(v.take(self.chosen) for v in self.rows.state(state))
            made = SYNOPSES[state.synopsis](state.partial, state.partial.load(stored))
            self.synopses[state] = stored, made
        return self.synopses[state]

    def ranges(self, start: Times, end: Times, group: Times | int) -> tuple[Index, Index]:
        """Where the rows of a group within [start, end) lie."""
        base = group * len(self.slices)
        low = np.searchsorted(self.ranks, base + np.searchsorted(self.slices, start))
        high = np.searchsorted(self.ranks, base + np.searchsorted(self.slices, end))
        return low, high

    def operations(self) -> int:
        return sum(synopsis.operations for _, synopsis in self.synopses.values())


def _lane(rows: Rows, predicate: str | None) -> _Lane:
    chosen = np.flatnonzero(rows.member(predicate))
    slices = np.unique(rows.slices)
    group = rows.groups[0][chosen]
    ranks = group * len(slices) + np.searchsorted(slices, rows.slices[chosen])
    order = np.argsort(ranks, kind="stable")
    chosen, ranks, group = chosen[order], ranks[order], group[order]
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]])) if len(group) else chosen[:0]
    return _Lane(rows, chosen, ranks, slices, group[starts], chosen[starts])


def _turns(windows: Index, lane: _Lane, *, grouped: bool) -> Iterator[Index]:
    """The windows in parts whose ranges are not too many."""
    at_once = max(1, MOST_RANGES // max(1, len(lane.groups) if grouped else 1))
    for at in range(0, len(windows), at_once):
        yield windows[at : at + at_once]


def _answer(
    lane: _Lane, grouping: Grouping, shape: Shape, due: Due, windows: Index, work: Work
) -> tuple[Index, pa.Table] | None:
    query, start, end = due.query[windows], due.start[windows], due.end[windows]
    keys: list[pa.ChunkedArray] = []
    if grouping.keys:
        which = np.repeat(np.arange(len(windows)), len(lane.groups))
        group = np.tile(np.arange(len(lane.groups)), len(windows))
        low, high = lane.ranges(start[which], end[which], lane.groups[group])
        present = high > low
        which, group, low, high = which[present], group[present], low[present], high[present]
        query, start, end = query[which], start[which], end[which]
        firsts = pa.array(lane.first[group])
        keys = [lane.rows.key(i).take(firsts) for i in range(len(grouping.keys))]
    else:
        low, high = lane.ranges(start, end, 0)
    if not len(query):
        return None
    columns = _Columns(shape, keys, start, end)
    for i, aggregate in enumerate(shape.aggregates):
        states = []
        for state in states_of(aggregate):
            stored, synopsis = lane.synopsis(state)
            states.append(state.partial.store(synopsis.between(low, high), stored))
        columns[f"#a{i}"] = REGISTRY[aggregate.function].lower(aggregate.argument_type, states)
    return columns.table(query, grouping, work)


class _Columns(dict[str, Vector]):
    """Keys, aggregates and window bounds of answers in the making."""

    def __init__(self, shape: Shape, keys: list[pa.ChunkedArray], start: Times, end: Times) -> None:
        everywhere = np.ones(len(start), np.bool_)
        super().__init__(
            window_start=Vector(TIMESTAMP, start, everywhere), window_end=Vector(TIMESTAMP, end, everywhere)
        )
        self.shape, self.group_keys, self.length = shape, keys, len(start)

    def __missing__(self, name: str) -> Vector:
        at = int(name.removeprefix("#k"))
        self[name] = Vector.from_arrow(self.group_keys[at], self.shape.keys[at])
        return self[name]

    def table(self, query: Index, grouping: Grouping, work: Work) -> tuple[Index, pa.Table]:
        for expr in self.shape.fallible:
            bad = count_bad(expr, self._needed(expr), self.length)
            for at, number in zip(*np.unique(query[bad], return_counts=True), strict=True):
                name = grouping.queries[at].name
                work.bad[name] = work.bad.get(name, 0) + int(number)
        kept = None
        if self.shape.having is not None:
            having = evaluate(self.shape.having, self._needed(self.shape.having), self.length)
            kept = having.values.astype(np.bool_) & having.valid
        arrays = {"window_start": self["window_start"].to_arrow(), "window_end": self["window_end"].to_arrow()}
        for name, (expr, _) in zip(self.shape.names, self.shape.items, strict=True):
            arrays[name] = self._array(expr)
        if not self.shape.is_plain:
            arrays |= {f"#o{i}": self._array(order.expr) for i, order in enumerate(self.shape.order_by)}
            arrays |= {f"#t{i}": key for i, key in enumerate(self.group_keys)}
        table = pa.table(arrays)
        return (query, table) if kept is None else (query[kept], table.filter(pa.array(kept)))

    def _array(self, expr: Expr) -> pa.Array | pa.ChunkedArray:
        if isinstance(expr, Column) and expr.name.startswith("#k"):
            return self.group_keys[int(expr.name[2:])]
        return evaluate(expr, self._needed(expr), self.length).to_arrow()

    def _needed(self, expr: Expr) -> dict[str, Vector]:
        return {node.name: self[node.name] for node in walk(expr) if isinstance(node, Column)}


def _split(grouping: Grouping, query: Index, table: pa.Table) -> Answers:
    cuts = np.flatnonzero(np.diff(query)) + 1
    bounds = [0, *cuts.tolist(), len(query)] if len(query) else [0]
    names = tuple(grouping.queries[query[b]].name for b in bounds[:-1])
    return Answers(names, bounds, table)
