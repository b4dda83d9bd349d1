"""The partials of one grouping, from what it shares with others to its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.aggregates.extremes import Largest, Smallest
from mullion.aggregates.first_last import End
from mullion.expressions.arrays import Array, Times, Whole
from mullion.expressions.coding.dictionary import combine, runs
from mullion.language.query import Period
from mullion.lazy import cached_property
from mullion.planner.kernel_cost import LEAST_SLOTS
from mullion.planner.plan import FRAGMENTS, ROWS, Grouping
from mullion.planner.slices import is_inside
from mullion.slices.kernels.compiled import DenseRows
from mullion.slices.kernels.events import Events
from mullion.slices.kernels.fields import FoldedColumn, Lifted
from mullion.slices.kernels.gaps import rows_within, within_windows
from mullion.slices.kernels.groups import Groups
from mullion.slices.kernels.layout import SLOT, Nulls, partial_schema, signature_array, table_of
from mullion.slices.kernels.own_slices import OwnRows, SelectionMask, own_rows
from mullion.slices.kernels.predicate_rows import rows_in_parts
from mullion.slices.kernels.rows import Fields
from mullion.slices.kernels.signature import FEW_PREDICATES, Fragments, few_fragments, fragments
from mullion.slices.kernels.slicing import Cut


@dataclass(eq=False)
class GroupingPartials:
    """The partials of a grouping in the making."""

    events: Events
    joined: Events
    grouping: Grouping
    asked: str
    windows: Times
    """Where fragments are cut, as rows (first, step)."""
    malformed: int
    nulls: Nulls

    @property
    def method(self) -> str:
        return self.asked if self.grouping.keys or self.asked == FRAGMENTS or self._is_worth_cutting() else FRAGMENTS

    def _is_worth_cutting(self) -> bool:
        """Very fine windows have more edges than events: then events are sought out, not edges."""
        times = self.joined.times
        if not len(times) or len(self.grouping.slots) < LEAST_SLOTS:
            return True
        return self.grouping.progressions.most(int(times[0]), int(times[-1])) <= 4 * len(times) + 100_000

    @property
    def pieces(self) -> int:
        """Parts of the work that threads do side by side: predicates one by one, blocks of them, or fragments."""
        if self.is_idle:
            return 0
        if self._goes_by_slots:
            return len(self.grouping.slots)
        return len(self._parts) if self.method == ROWS else 1

    @property
    def _goes_by_slots(self) -> bool:
        return self.asked == ROWS and bool(self.grouping.keys or len(self.grouping.slots) < LEAST_SLOTS)

    @cached_property
    def is_idle(self) -> bool:
        """Whether it is known that no predicate has an event. Of very many this is not asked: one of them has some."""
        slots = len(self.grouping.slots)
        return (self._goes_by_slots or slots < LEAST_SLOTS) and not any(map(self._has_events, range(slots)))

    def _has_events(self, slot: int) -> bool:
        grouping, joined = self.grouping, self.joined
        trees, hopping = grouping.index.trees, self._hopping[slot]
        if slot < len(trees) and joined.selection(grouping.lookups).is_empty(trees[slot]):
            return False
        return not hopping or bool(is_inside(self._cut(slot).starts, hopping).any())

    @cached_property
    def _hopping(self) -> tuple[tuple[Period, ...], ...]:
        """The windows between which events leave, of each slot: its own, or by fragments, which slots share, those of
        all slots. Where values are bad, they are counted of all events."""
        grouping = self.grouping
        if any(check is not None for check in self._checks):
            return ((),) * len(grouping.slots)
        return grouping.hopping if self.method == ROWS else (grouping.all_hopping,) * len(grouping.slots)

    def _cut(self, slot: int) -> Cut:
        """The slices of a slot: between the edges of its own windows, or by fragments of all windows."""
        own = self.grouping.progressions
        return self.joined.cut(own.rows[own.slot == slot] if self.method == ROWS else self.windows)

    def prepare(self) -> None:
        """What threads would find at once in its pieces is found before."""
        if has_columns(self):
            _ = self._columns
        _ = self.pieces
        self.joined.columns.forget_steps()

    def piece(self, at: int) -> OwnRows | DenseRows | dict[str, Any]:
        """The rows of one predicate, cut at the edges of its own windows; or those of many; or all columns."""
        if not self._goes_by_slots:
            return self._parts[at]() if self.method == ROWS else self._shards()
        grouping, joined = self.grouping, self.joined
        trees = grouping.index.trees
        selected = joined.selection(grouping.lookups).selected(trees[at]) if at < len(trees) else True
        groups = joined.groups(grouping.keys) if grouping.keys else None
        cut = self._cut(at)
        return own_rows(cut, within_windows(self._hopping[at], cut, selected), groups, self._columns)

    @cached_property
    def _fields(self) -> Fields:
        return Fields(self._states, [check for check in self._checks if check is not None])

    @cached_property
    def _parts(self) -> list[Callable[[], DenseRows]]:
        grouping, joined = self.grouping, self.joined
        regions, slots = joined.selection(grouping.lookups), len(grouping.slots)
        return rows_in_parts(grouping.index, regions, joined.times, self._fields, grouping.progressions, slots)

    @cached_property
    def _states(self) -> list[Lifted]:
        return [self.joined.lifted(state) for state in self.grouping.states]

    @cached_property
    def _checks(self) -> list[FoldedColumn | None]:
        return [self.joined.bad_column(check) for check in self.grouping.checks[: self.grouping.selected_checks]]

    @cached_property
    def _columns(self) -> list[FoldedColumn]:
        checks = [column for column in self._checks if column is not None]
        return [*(column for state in self._states for column in state.columns), *checks]

    def table(self, pieces: Sequence[Any]) -> pa.Table:
        """The partials, and a row for each slice that holds an event, whatever the lookups make of it."""
        schema = partial_schema(self.grouping, self.method)
        tables = [table_of(self._counted(), schema, self.nulls)]
        if not self.is_idle:
            if self._goes_by_slots:
                rows = self._of_slots(pieces)
            else:
                rows = self._dense(pieces) if self.method == ROWS else pieces[0]
            tables.insert(0, table_of(rows, schema, self.nulls))
        if self.malformed:
            lost = {"slice": pa.nulls(1, pa.int64()), "events": np.array([self.malformed])}
            tables.append(table_of(lost, schema, self.nulls))
        return pa.concat_tables(tables)

    def _counted(self) -> dict[str, Any]:
        events, cut = self.events, self.events.cut(self.windows)
        first, last = cut.bounds[:-1], cut.bounds[1:] - 1
        counted: dict[str, Any] = {
            "slice": cut.starts,
            "events": cut.lengths,
            "t_min": events.times[first],
            "t_max": events.times[last],
        }
        for i, check in enumerate(self.grouping.checks):
            bad = self.joined.bad(check)
            number = np.zeros(len(cut.starts), np.int64)
            if bad is not None and self.joined is events:
                number = _reduce(np.add, bad.astype(np.int64), first)
            elif bad is not None and len(number):
                number[-1] = bad.sum()
            counted[f"bad{i}"] = number
        return counted

    def _of_slots(self, pieces: Sequence[OwnRows]) -> dict[str, Any]:
        slot = np.repeat(np.arange(len(pieces), dtype=np.int32), [len(rows) for rows in pieces])
        columns: dict[str, Any] = {"slice": _joined([rows.slices for rows in pieces]), SLOT: slot}
        if self.grouping.keys:
            groups = self.joined.groups(self.grouping.keys)
            columns |= _keys(groups, [rows.group for rows in pieces if rows.group is not None])
        counted = _joined([rows.rows for rows in pieces])
        sums = [_joined([rows.columns[i] for rows in pieces]) for i in range(len(pieces[0].columns))]
        return columns | self._stored(counted, sums)

    def _stored(self, rows: Whole, sums: Sequence[Array]) -> dict[str, Any]:
        """The columns of states and of checks that met a bad value, from what their columns came to."""
        columns: dict[str, Any] = {}
        rest = iter(sums)
        for i, state in enumerate(self._states):
            stored = state.stored(rows, [next(rest) for _ in state.columns])
            columns |= {f"s{i}_{j}": column.to_arrow() for j, column in enumerate(stored)}
        return columns | {f"bad{i}": next(rest) for i, check in enumerate(self._checks) if check is not None}

    def _dense(self, parts: Sequence[DenseRows]) -> dict[str, Any]:
        """Dense rows: one row for each predicate and slice of its own."""
        fields = self._fields
        nothing = DenseRows.room(0, len(fields.whole), len(fields.real), len(fields.least))
        rows = DenseRows.together([*parts] or [nothing])
        if any(self._hopping):
            rows = rows.where(rows_within(self._hopping, rows.slot, rows.slices))
        return {"slice": rows.slices, SLOT: rows.slot} | self._stored(rows.rows, fields.columns(rows))

    def _shards(self) -> dict[str, Any]:
        """Fragments by hash: one row for each slice, fragment and group (krishnamurthy 5)."""
        grouping, joined = self.grouping, self.joined
        index, selection = grouping.index, joined.selection(grouping.lookups)
        if 0 < len(index.trees) <= FEW_PREDICATES:
            fragmented = few_fragments([selection.selected(tree) for tree in index.trees], joined.length)
        else:
            fragmented = fragments(index, selection, joined.length)
        cut = joined.cut(self.windows)
        selected = within_windows(self._hopping[0], cut, self._wanted(fragmented))
        if all(state.partial.is_dense for state in grouping.states):
            return self._dense_shards(fragmented, selected, cut)
        return self._sorted_shards(fragmented, selected, cut)

    def _wanted(self, fragmented: Fragments) -> SelectionMask:
        """The events of fragments that satisfy a predicate, where every query has one."""
        if not self.grouping.selective:
            return True
        wanted = np.asarray(fragmented.signatures.any(axis=1))
        if wanted.all() or not wanted.any():
            return bool(wanted.all())
        return np.asarray(wanted[fragmented.number].view(np.uint8))

    def _dense_shards(self, fragmented: Fragments, selected: SelectionMask, cut: Cut) -> dict[str, Any]:
        grouping, joined, number = self.grouping, self.joined, len(fragmented.signatures)
        groups = joined.groups(grouping.keys) if grouping.keys else None
        if number == 1 and groups is not None:
            own = groups
        else:
            own = Groups(fragmented.number.astype(np.int32), number, ())
            own = own if groups is None else own.with_others(groups)
        rows = own_rows(cut, selected, own, self._columns)
        first = own.firsts()[rows.group]
        columns: dict[str, Any] = {
            "slice": rows.slices,
            "signature": signature_array(fragmented.number[first], fragmented.signatures),
        }
        if groups is not None:
            columns |= _keys(groups, [groups.codes[first]])
        return columns | self._stored(rows.rows, rows.columns)

    def _sorted_shards(self, fragmented: Fragments, chosen: SelectionMask, cut: Cut) -> dict[str, Any]:
        grouping, joined = self.grouping, self.joined
        selected: Any = slice(None) if chosen is True else np.flatnonzero(chosen) if chosen is not False else slice(0)
        slices, fragment = cut.of_events()[selected], fragmented.number[selected]
        numbers = np.repeat(np.arange(len(cut.starts)), cut.lengths)[selected]
        coded = [(numbers, len(cut.starts)), (fragment, len(fragmented.signatures))] if len(slices) else [(slices, 0)]
        groups = joined.groups(grouping.keys) if grouping.keys else None
        if groups is not None:
            coded.append((groups.codes[selected].astype(np.int64), groups.size))
        order, starts = runs(combine(coded, len(slices))[0])
        columns: dict[str, Any] = {
            "slice": slices[order][starts],
            "signature": signature_array(fragment[order][starts], fragmented.signatures),
        }
        if groups is not None:
            columns |= _keys(groups, [groups.codes[selected][order][starts]])
        for i, state in enumerate(grouping.states):
            values = joined.values(state.argument)
            places = joined.places(state.where).take(selected).take(order) if state.partial.takes_order else None
            stored = state.partial.gather(values.take(selected).take(order), starts, places)
            columns |= {f"s{i}_{j}": column.to_arrow() for j, column in enumerate(stored)}
        for i, check in enumerate(grouping.checks[: grouping.selected_checks]):
            bad = joined.bad(check)
            sums = np.zeros(len(starts), np.int64)
            columns[f"bad{i}"] = sums if bad is None else _reduce(np.add, bad.astype(np.int64)[selected][order], starts)
        return columns


def weight(grouped: GroupingPartials, piece: int) -> int:
    """How long a piece takes, beside others: fragments go over the events for all predicates, and a slot without a
    predicate has all events."""
    return 2 if not grouped._goes_by_slots else int(piece >= len(grouped.grouping.index.trees))


def has_columns(grouped: GroupingPartials) -> bool:
    """Whether its states are columns of events that are added up."""
    return not grouped.is_idle and (
        grouped._goes_by_slots or all(state.partial.is_dense for state in grouped.grouping.states)
    )


def may_use_boxes(grouped: GroupingPartials) -> bool:
    """Whether sums of its predicates may come from cells that they share: nothing but sums is asked for."""
    if grouped._goes_by_slots or grouped.is_idle or grouped.method != ROWS or not grouped.joined.length:
        return False
    return not any(isinstance(state.partial, Smallest | Largest | End) for state in grouped.grouping.states)


def _keys(groups: Groups, of_rows: Sequence[npt.NDArray[np.int32]]) -> dict[str, Any]:
    rows = _joined(of_rows)
    return {f"k{i}": groups.key(i, rows) for i in range(len(groups.keys))}


def _joined(arrays: Sequence[Array]) -> Array:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _reduce(ufunc: np.ufunc, values: npt.NDArray[np.int64], starts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return ufunc.reduceat(values, starts) if len(starts) else values[:0]
