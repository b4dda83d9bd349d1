"""The basic interval synopsis of a join: its results in cells by when they expire, once for all aggregates over windows
of it (golab 8.3.2: BIJ; rules SS3 and CS5).

    results of the join --> cells (group, place) --at instants, one walk from young to old--> windows of 1, 2, 5 min
                                                                                             of all queries

Results go into cells by the oldest of their rows and not by when they were made: a result is in the windows of length r
at t iff both of its rows came in [t - r, t), so iff it was made before t and its oldest row is not before t - r. Then
the cells from t - r on hold the windows at t, and those of shorter windows are among those of longer ones.

The thesis updates cells every s and sees no result that expires before the next update. Here results come as steps
bring them. They wait until a step has an instant that somebody asks for, or until there are as many as cells; then they
are added to their cells.

Requires: windows of time whose lengths differ by the same on all inputs; states of numbers that are added, or of which
the least or the most is kept.
Time: amortised O(f log n) a step without instants, for f new results and n cells. O((f + n) log n) a step with some,
and at each instant O(cells of the longest window + answers), or O(log n) for each answer where that is less.
Space: some numbers for each cell of each group, however many results are in it, and for at most as many that wait.
Guarantee: the states of each group in the windows of each query, at each of its instants that sees a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mullion.aggregates.base import Partial
from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.nodes.join_synopsis import JoinSynopsis, ProbedWindow
from mullion.expressions.arrays import Array, Codes, Index, Times
from mullion.expressions.coding.canonical import canonical_floats
from mullion.expressions.coding.dictionary import row_codes
from mullion.expressions.readonly import frozen
from mullion.expressions.vector import Vector, arrow_type
from mullion.instants import EVER_BEFORE, FOREVER, THE_END
from mullion.kernels.columns import BatchColumns
from mullion.language.query import Column, Expr, walk
from mullion.language.render import render
from mullion.language.types import BIGINT
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.grouped import every_instant
from mullion.operators.join_view import starts_of
from mullion.operators.kernels.join_cells import (
    ADD_DOUBLES,
    AnswerStates,
    AskedPlaces,
    Cells,
    Coming,
    count,
    probe_cells,
)
from mullion.operators.ranked_instants import Periodic
from mullion.operators.registry import implements
from mullion.operators.timed_rows import Delta, Retractions, TimedRows
from mullion.slices.arrange import ranked
from mullion.slices.interval import OPERATIONS
from mullion.slices.kernels.ranges import ADD

MOST_WAITING = 1_000
"""New results that may wait, however few cells there are."""
PLACE = "#place"
"""Where a cell begins, in what is saved of it."""


class StateFields(NamedTuple):
    """A state of an aggregate, and where its numbers are among those of a cell."""

    partial: Partial
    argument: Expr | None
    at: range

    @property
    def names(self) -> list[str]:
        """What its numbers are saved as."""
        argument = "*" if self.argument is None else render(self.argument)
        return [f"{self.partial.label} {self.partial.argument} {i} of {argument}" for i in range(len(self.at))]


@dataclass(frozen=True)
class CellLayout:
    """The numbers of a cell: how many results it has, and the states of all aggregates."""

    states: tuple[StateFields, ...]
    operations: Array
    identity: Array

    @staticmethod
    def of(aggregates: Sequence[BoundAggregate]) -> CellLayout:
        states: dict[tuple[Partial, Expr | None], StateFields] = {}
        operations, identity = [ADD], [np.zeros(1, np.int64)]
        for bound in aggregates:
            for partial in bound.aggregate.partials(bound.argument_type):
                if (partial, bound.argument) not in states:
                    own = partial.identity(1)
                    first = len(operations)
                    states[partial, bound.argument] = StateFields(
                        partial, bound.argument, range(first, first + len(own))
                    )
                    operations += [_operation(partial, number) for number in own]
                    identity += [number.view(np.int64) for number in own]
        numbers = np.array(operations, np.int64)
        return CellLayout(tuple(states.values()), numbers, np.concatenate(identity).reshape(1, -1))

    def lifted(self, columns: BatchColumns, count: int) -> Array:
        """The numbers of so many results, each as a cell of its own."""
        numbers = np.ones((count, len(self.operations)), np.int64)
        ones = Vector(BIGINT, np.ones(count, np.int64), np.ones(count, np.bool_))
        for state in self.states:
            events = ones if state.argument is None else columns.value(state.argument)
            for at, number in zip(state.at, state.partial.load(state.partial.lift(events)), strict=True):
                numbers[:, at] = number.view(np.int64)
        return numbers

    def empty(self, count: int) -> Array:
        return np.repeat(self.identity, count, axis=0)


def _operation(partial: Partial, number: Array) -> int:
    return ADD_DOUBLES if number.dtype == np.float64 else OPERATIONS.get(partial.kind, ADD)


@dataclass(frozen=True)
class StepAnswers:
    """What a synopsis answers in a step."""

    keys: pa.Table
    """Of each group; groups are numbered in the order of their keys."""
    layout: CellLayout
    found: AnswerStates
    ranks: dict[ProbedWindow, Times]
    """The instants of each query that are answered, of its own clock."""
    bounds: dict[ProbedWindow, Index]
    """The answers of its i-th instant are bounds[i] to bounds[i + 1]."""
    _lowered: dict[tuple[ProbedWindow, Partial, Expr | None], tuple[Vector, ...]] = field(default_factory=dict)

    def groups(self, window: ProbedWindow) -> tuple[Times, Codes]:
        """The instants and groups of the answers of a query, by both."""
        bounds = self.bounds[window]
        return np.repeat(self.ranks[window], np.diff(bounds)), self.found.groups[bounds[0] : bounds[-1]]

    def states(self, window: ProbedWindow, bound: BoundAggregate, *, or_nothing: bool) -> list[tuple[Vector, ...]]:
        """The states of an aggregate, in the order of `groups`; that of nothing comes last, if asked for."""
        own = slice(*self.bounds[window][[0, -1]])
        wanted = {(s.partial, s.argument): s for s in self.layout.states}
        states = []
        for partial in bound.aggregate.partials(bound.argument_type):
            state, name = wanted[partial, bound.argument], (window, partial, bound.argument)
            if name not in self._lowered:
                numbers = [self.found.states[at, own] for at in state.at]
                if or_nothing:
                    numbers = [
                        np.append(n, self.layout.identity[0, at]) for n, at in zip(numbers, state.at, strict=True)
                    ]
                kinds = [number.dtype for number in partial.identity(1)]
                views = tuple(number.view(kind) for number, kind in zip(numbers, kinds, strict=True))
                self._lowered[name] = partial.finish(views, ())
            states.append(self._lowered[name])
        return states


class _Results(NamedTuple):
    """New results of the join: their keys, when they were made, the cells that they go to, and their numbers."""

    keys: pa.Table
    made: Times
    places: Times
    numbers: Array


@implements(JoinSynopsis)
class JoinSynopsisOperator(Operator):
    picks_columns = True

    def __init__(self, node: JoinSynopsis, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        self.node = node
        self.schema = pa.schema([own for own in inputs[0].schema if construction.reads(own.name)])
        self.width = inputs[0].width
        self._layout = CellLayout.of(node.aggregates)
        self._clocks: dict[ProbedWindow, Periodic] = {}
        self.stretch({})
        self._key_schema = pa.schema([(f"#k{i}", arrow_type(type_)) for i, (_, type_) in enumerate(node.keys)])
        evaluated = [key for key, _ in node.keys] + [s.argument for s in self._layout.states if s.argument is not None]
        names = {part.name for expr in evaluated for part in walk(expr) if isinstance(part, Column)}
        self._read = {name: type_ for name, type_ in node.input.columns if name in names}
        self._known_until = EVER_BEFORE
        """Up to when all instants are answered."""
        self._keys = self._key_schema.empty_table()
        """Of each group that has a cell."""
        self._groups: Codes = np.zeros(0, np.int64)
        self._places: Times = np.zeros(0, np.int64)
        self._states = self._layout.empty(0)
        """Of each cell, the group, where it begins, and its numbers."""
        self._waiting: list[_Results] = []
        """They are in no cell yet, since no instant has seen them."""

    def stretch(self, windows: Mapping[ProbedWindow, int]) -> None:
        """Of how many instants of windows one is asked for in the next step; of others each is."""
        self._clocks = {w: Periodic(w.slide, w.offset).every(windows.get(w, 1)) for w in self.node.probes}

    @property
    def rows_held(self) -> int:
        return len(self._places) + self._rows_waiting

    @property
    def _rows_waiting(self) -> int:
        return sum(len(new.made) for new in self._waiting)

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        (delta,) = inputs
        assert not len(delta.retracted), "results of windows of time end when they promised to"
        if len(delta.fresh):
            self._waiting.append(self._results(delta.fresh))
        if self._has_instant(now) or self._rows_waiting > max(MOST_WAITING, len(self._places)):
            answers = self._answers(self._taken(), now)
        else:
            answers = self._no_answers()
        self._known_until = now
        return Delta(TimedRows.empty(self.schema, self.width), Retractions.none(self.width), now, probed=answers)

    def _results(self, fresh: TimedRows) -> _Results:
        starts = starts_of(fresh, len(self.node.longer))
        places = starts[0]
        for start, longer in zip(starts[1:], self.node.longer[1:], strict=True):
            places = np.minimum(places, start + longer)
        step, origin = self.node.grid
        places = places - (places - origin) % step
        columns = BatchColumns.of(fresh.rows, self._read)
        keys = pa.table([_key(columns.value(key)) for key, _ in self.node.keys], schema=self._key_schema)
        return _Results(keys, fresh.start, places, self._layout.lifted(columns, len(fresh)))

    def _taken(self) -> _Results:
        """What waits, which does so no longer."""
        waiting, self._waiting = self._waiting, []
        keys = pa.concat_tables([self._key_schema.empty_table(), *(new.keys for new in waiting)])
        numbers = np.concatenate([self._layout.empty(0), *(new.numbers for new in waiting)])
        nothing = np.zeros(0, np.int64)
        made, places = (
            np.concatenate([nothing, *times]) for times in ([n.made for n in waiting], [n.places for n in waiting])
        )
        return _Results(keys, made, places, numbers)

    # Answers

    def _has_instant(self, now: int) -> bool:
        """Whether somebody asks for an instant that has come with this step."""
        return now >= THE_END or any(clock.due(now) > clock.due(self._known_until) for clock in self._clocks.values())

    def _no_answers(self) -> StepAnswers:
        nothing: Times = np.zeros(0, np.int64)
        found = AnswerStates(nothing, np.empty((len(self._layout.operations), 0), np.int64))
        empty = self._key_schema.empty_table()
        bounds: dict[ProbedWindow, Index] = {window: np.zeros(1, np.intp) for window in self._clocks}
        return StepAnswers(empty, self._layout, found, dict.fromkeys(self._clocks, nothing), bounds)

    def _answers(self, new: _Results, now: int) -> StepAnswers:
        keys, groups = self._numbered(new)
        before = len(self._places)
        places, at = np.unique(np.concatenate([self._places, new.places]), return_inverse=True)
        named, cell = np.unique(groups * max(1, len(places)) + at, return_inverse=True)
        states = self._layout.empty(len(named))
        states[cell[:before]] = self._states
        group, place = np.divmod(named, max(1, len(places)))
        ranks = self._instants(places, at, new.made, now)
        asked = self._asked(ranks)
        number = len(keys) if self.node.keys else min(1, len(groups))
        cells = Cells(np.searchsorted(group, np.arange(number + 1)), places[place], states)
        coming = _by_group(groups[before:], cell[before:], asked.times, new, number)
        found, bounds = self._probed(cells, coming, asked)
        self._keep(keys, group, cells, now)
        ends = np.cumsum([0, *map(len, ranks.values())])
        own = {window: bounds[low : high + 1] for window, low, high in zip(ranks, ends, ends[1:], strict=False)}
        return StepAnswers(keys, self._layout, found, ranks, own)

    def _numbered(self, new: _Results) -> tuple[pa.Table, Codes]:
        """The keys of all groups in their order, and the group of each cell and of each new result."""
        if not self.node.keys:
            return self._keys, np.zeros(len(self._places) + len(new.made), np.int64)
        known = pa.concat_tables([self._keys, new.keys])
        _, first, code = np.unique(row_codes(known), return_index=True, return_inverse=True)
        keys = known.take(pa.array(first))
        order = np.lexsort([ranked(c, descending=False, nulls_first=True) for c in keys.columns[::-1]])
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        group = number[code]
        return keys.take(pa.array(order)), np.concatenate([group[self._groups], group[len(self._keys) :]])

    def _instants(self, places: Times, at: Index, made: Times, now: int) -> dict[ProbedWindow, Times]:
        """The instants of each query that see a cell: there may be years without one."""
        before = len(self._places)
        earliest = np.full(len(places), FOREVER)
        np.minimum.at(earliest, at[before:], made)
        was_there = np.zeros(len(places), np.bool_)
        was_there[at[:before]] = True
        ranks = {}
        for window, clock in self._clocks.items():
            low = clock.due(self._known_until) + 1
            first = np.where(was_there, low, np.maximum(low, clock.first(earliest)))
            last = clock.last(places + window.range)
            last = last if now >= THE_END else np.minimum(last, clock.due(now))
            seen = first <= last
            ranks[window] = every_instant(np.zeros(int(seen.sum()), np.int64), first[seen], last[seen]).rank
        return ranks

    def _asked(self, ranks: dict[ProbedWindow, Times]) -> AskedPlaces:
        times = np.concatenate([self._clocks[window].time(own) for window, own in ranks.items()])
        begins = times - np.repeat([window.range for window in ranks], [len(own) for own in ranks.values()])
        order = np.lexsort((-begins, times))
        different = np.unique(times)
        bounds = np.searchsorted(times[order], np.append(different, FOREVER))
        return AskedPlaces(*frozen(different, bounds, begins[order], order))

    def _probed(self, cells: Cells, coming: Coming, asked: AskedPlaces) -> tuple[AnswerStates, Index]:
        """The answers, and where those of each question are. They are counted before there is room for them."""
        layout, longest = self._layout, self.node.longest
        operations, identity = frozen(layout.operations, layout.identity)
        counts = np.zeros(len(asked.numbers), np.int64)
        count(cells, coming, asked, longest, counts)
        bounds = np.concatenate([[0], np.cumsum(counts)])
        found = AnswerStates(np.empty(bounds[-1], np.int64), np.empty((len(operations), bounds[-1]), np.int64))
        probe_cells(cells, coming, asked, longest, operations, identity, bounds[:-1].copy(), found)
        return found, bounds

    def _keep(self, keys: pa.Table, group: Codes, cells: Cells, now: int) -> None:
        """Keep the cells that later instants can see, and their groups."""
        kept = np.flatnonzero(cells.places + self.node.longest > now)
        self._places, self._states = cells.places[kept], cells.states[kept]
        used, self._groups = np.unique(group[kept], return_inverse=True)
        self._keys = keys.take(pa.array(used)) if self.node.keys else keys

    # Restart, and when other queries share it

    def parts(self) -> Parts:
        if self._waiting:
            self._answers(self._taken(), self._known_until)
        small = pa.table({"told": [self._known_until]})
        arrays = [column.take(pa.array(self._groups)) for column in self._keys.columns]
        names = [PLACE, "results", *(name for state in self._layout.states for name in state.names)]
        numbers = [self._places, *np.ascontiguousarray(self._states.T)]
        cells = pa.table([*arrays, *map(pa.array, numbers)], names=[*self._key_schema.names, *names])
        return {"small": [small], "cells": [cells] if len(cells) else []}

    def restore(self, parts: Parts) -> None:
        """States that nobody asked for before begin with nothing: whoever asks for them now sees later results."""
        if not parts:
            return
        self._known_until = parts["small"][0].column("told")[0].as_py()
        for cells in parts.get("cells", ()):
            self._places = cells.column(PLACE).to_numpy()
            self._states = self._layout.empty(len(cells))
            self._states[:, 0] = cells.column("results").to_numpy()
            for state in self._layout.states:
                for at, name in zip(state.at, state.names, strict=True):
                    if name in cells.column_names:
                        self._states[:, at] = cells.column(name).to_numpy()
            keys = cells.select(self._key_schema.names)
            codes = row_codes(keys) if self.node.keys else np.zeros(len(cells), np.int64)
            _, first, self._groups = np.unique(codes, return_index=True, return_inverse=True)
            self._keys = keys.take(pa.array(first)) if self.node.keys else self._keys


def _by_group(groups: Codes, cells: Index, times: Times, new: _Results, count: int) -> Coming:
    """Results by group, then by the first instant that sees them."""
    seen = np.searchsorted(times, new.made, "right")
    order = np.argsort(groups * (len(times) + 1) + seen, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(count + 1))
    return Coming(*frozen(bounds, cells[order], seen[order], new.numbers[order]))


def _key(values: Vector) -> pa.Array:
    array = values.to_arrow()
    return canonical_floats(array) if pa.types.is_floating(array.type) else array
