"""Sub-windows to answers, for all queries of a grouping at once.

    rows of the grouping, in the order (group, slice):

        group A: | 09:00 | 09:01 | 09:02 | 09:05 |  group B: | 09:01 | 09:04 |  ...
                   [------- window 1 ----]                     [- 1 ]
                           [------ window 2 -----]             [---- 2 ----]

Any window of any group is one range of the sequence; a synopsis answers all ranges of a state in one call. A predicate
selects the fragments whose signature has its bit (krishnamurthy 4.3.2, Algorithm 2): its rows form a slot, and all
slots follow one another in one sequence. The same function runs on the driver and on executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Index, Times
from mullion.expressions.evaluate import count_bad, evaluate
from mullion.expressions.vector import Vector
from mullion.instants import NO_START
from mullion.language.query import Column, Expr, walk
from mullion.planner.plan import Grouping, states_of
from mullion.planner.sliced import AnswerTemplate
from mullion.planner.slices import distinct
from mullion.slices.arrange import arrange
from mullion.slices.due import Due
from mullion.slices.sequence import CountedRows, RowSequence, sequence_of
from mullion.slices.subwindow import Rows

MOST_RANGES = 4_000_000
"""Ranges that are looked up in one call; more are taken in turns to bound memory."""

MOST_MEMBERS = 64_000_000
"""Pairs of a row and a slot that are looked at in one call."""


NOTHING: Mapping[str, Rows] = {}


@dataclass
class Work:
    """Operations counted for --stats and EXPLAIN."""

    final: int = 0
    written: dict[str, int] = field(default_factory=dict)
    """Rows of answers that executors wrote by themselves, by query."""
    bad: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    """Queries that have more answers than they may: the rest is not made."""


@dataclass(frozen=True)
class Answers:
    """The answers of some queries of one template: rows `bounds[i]` to `bounds[i + 1]` of the table are query i's."""

    queries: tuple[str, ...]
    bounds: list[int]
    table: pa.Table

    def __iter__(self) -> Iterator[tuple[str, pa.Table]]:
        for name, low, high in zip(self.queries, self.bounds, self.bounds[1:], strict=False):
            if high > low:
                yield name, self.table.slice(low, high - low)


def finalize(
    rows: Rows,
    grouping: Grouping,
    due: Due,
    work: Work,
    *,
    counted: Mapping[str, Rows] = NOTHING,
    arranged: bool = True,
) -> Iterator[Answers]:
    """Answer the due windows, as many at once as memory allows. `counted` are the value counts that the grouping's
    aggregates need, by the names of their groupings. Without `arranged`, the columns that ORDER BY needs stay for a
    later `arrange`."""
    slot = grouping.slot_of[due.query]
    if counted:
        rows.align(list(counted.values()))
    for slots in _slots_in_turns(distinct(slot), rows):
        sequence = sequence_of(rows, grouping, slots)
        sequence.counted = {name: CountedRows(r, grouping, slots) for name, r in counted.items()}
        mine = np.flatnonzero(np.isin(slot, slots)) if len(slots) < len(grouping.slots) else np.arange(len(due))
        for template, windows in due_by_shape(grouping, due, mine):
            for turn in _turns(windows, slot, sequence, grouped=bool(grouping.keys)):
                turn = _allowed(turn, grouping, due, work.over)
                made = _answer(sequence, grouping, template, due, turn, slot[turn], work)
                if made is not None:
                    query, table = made
                    query, table = arrange(query, table, template, final=arranged)
                    yield _split(grouping, query, table)
        work.final += sequence.operations()


def _allowed(windows: Index, grouping: Grouping, due: Due, over: set[str]) -> Index:
    """The windows of queries that may have more answers."""
    if not over:
        return windows
    stopped = [i for i, query in enumerate(grouping.queries) if query.name in over]
    return windows[~np.isin(due.query[windows], stopped)]


def _slots_in_turns(slots: Index, rows: Rows) -> Iterator[Index]:
    """The slots in parts whose rows are not too many."""
    at_once = max(1, MOST_MEMBERS // max(1, len(rows)))
    for at in range(0, len(slots), at_once):
        yield slots[at : at + at_once]


def due_by_shape(grouping: Grouping, due: Due, windows: Index) -> Iterator[tuple[AnswerTemplate, Index]]:
    """The due windows of queries that have the same template."""
    if not len(windows):
        return
    codes, templates = grouping.templates
    code = codes[due.query[windows]]
    order = np.argsort(code, kind="stable")
    cuts = np.flatnonzero(np.diff(code[order])) + 1
    for part in np.split(order, cuts):
        yield templates[code[part[0]]], windows[part]


def _turns(windows: Index, slot: Index, sequence: RowSequence, *, grouped: bool) -> Iterator[Index]:
    """The windows in parts whose ranges are not too many."""
    if not grouped:
        yield windows
        return
    ranges = np.cumsum(sequence.lines(slot[windows])[1])
    full = np.arange(MOST_RANGES, int(ranges[-1]) if len(ranges) else 0, MOST_RANGES)
    for part in np.split(windows, np.unique(np.searchsorted(ranges, full) + 1)):
        if len(part):
            yield part


def _answer(
    sequence: RowSequence,
    grouping: Grouping,
    template: AnswerTemplate,
    due: Due,
    windows: Index,
    slot: Index,
    work: Work,
) -> tuple[Index, pa.Table] | None:
    query, start, end = due.query[windows], due.start[windows], due.end[windows]
    opens = start if due.opens is None else due.opens[windows]
    closes = end if due.closes is None else due.closes[windows]
    instant = windows
    keys: list[pa.ChunkedArray] = []
    if grouping.keys:
        begin, count = sequence.lines(slot)
        which = np.repeat(np.arange(len(windows)), count)
        at = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + begin[which]
        low, high = sequence.ranges(start[which], end[which], sequence.present[at])
        present = high > low
        which, at, low, high = which[present], at[present], low[present], high[present]
        query, start, end = query[which], start[which], end[which]
        opens, closes, instant = opens[which], closes[which], windows[which]
        firsts = pa.array(sequence.first[at])
        keys = [sequence.rows.key(i).take(firsts) for i in range(len(grouping.keys))]
        line = sequence.present[at]
    else:
        line = slot.astype(np.int64)
        low, high = sequence.ranges(start, end, line)
    if not len(query):
        return None
    columns = _Columns(template, keys, opens, closes)
    if due.closes is not None:
        columns.instant = instant
    counted = {name: counts.within(start, end, line) for name, counts in sequence.counted.items()}
    for i, aggregate in enumerate(template.aggregates):
        if aggregate.values:
            name = grouping.counts_of(aggregate)
            columns[f"#a{i}"] = sequence.counted[name].lower(aggregate, counted[name])
            continue
        states = [sequence.answer(state, low, high) for state in states_of(aggregate)]
        columns[f"#a{i}"] = aggregate.aggregate.lower(aggregate.argument_type, states)
    return columns.table(query, grouping, work)


class _Columns(dict[str, Vector]):
    """Keys, aggregates and window bounds of answers in the making."""

    def __init__(self, template: AnswerTemplate, keys: list[pa.ChunkedArray], start: Times, end: Times) -> None:
        everywhere = np.ones(len(start), np.bool_)
        super().__init__(
            window_start=Vector(template.bounds, start, start != NO_START),
            window_end=Vector(template.bounds, end, everywhere),
        )
        self.template, self.group_keys, self.length = template, keys, len(start)
        self.instant: Index | None = None
        """The number of each row's window, where windows are not told apart by their ends."""

    def __missing__(self, name: str) -> Vector:
        at = int(name.removeprefix("#k"))
        self[name] = Vector.from_arrow(self.group_keys[at], self.template.keys[at])
        return self[name]

    def table(self, query: Index, grouping: Grouping, work: Work) -> tuple[Index, pa.Table]:
        for expr in self.template.fallible:
            bad = count_bad(expr, self._needed(expr), self.length)
            for at, number in zip(*np.unique(query[bad], return_counts=True), strict=True):
                name = grouping.queries[at].name
                work.bad[name] = work.bad.get(name, 0) + int(number)
        is_answer = None
        if self.template.having is not None:
            having = evaluate(self.template.having, self._needed(self.template.having), self.length)
            is_answer = having.values.astype(np.bool_) & having.valid
        arrays = {"window_start": self["window_start"].to_arrow(), "window_end": self["window_end"].to_arrow()}
        for name, (expr, _) in zip(self.template.names, self.template.items, strict=True):
            arrays[name] = self._array(expr)
        if not self.template.is_plain:
            arrays |= {f"#o{i}": self._array(order.expr) for i, order in enumerate(self.template.order_by)}
            arrays |= {f"#t{i}": key for i, key in enumerate(self.group_keys)}
            if self.instant is not None:
                arrays["#w"] = pa.array(self.instant)
        table = pa.table(arrays)
        return (query, table) if is_answer is None else (query[is_answer], table.filter(pa.array(is_answer)))

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
