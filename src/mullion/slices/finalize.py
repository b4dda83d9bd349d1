"""Sub-windows to answers, for all queries of a grouping at once.

    rows of the grouping, in the order (group, slice):

        group A: | 09:00 | 09:01 | 09:02 | 09:05 |  group B: | 09:01 | 09:04 |  ...
                   [------- window 1 ----]                     [- 1 ]
                           [------ window 2 -----]             [---- 2 ----]

Any window of any group is one range of the sequence, and only those that are not empty are looked up
(`slices.kernels.ranges`); a synopsis answers all ranges of a state in one call. A predicate
selects the fragments whose signature has its bit (krishnamurthy 4.3.2, Algorithm 2): its rows form a slot, and all
slots follow one another in one sequence. The same function runs on the driver and on executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Index, Mask, Times
from mullion.expressions.coding.dictionary import decoded
from mullion.lazy import cached_property
from mullion.planner.answering_ways import is_swept
from mullion.planner.plan import Grouping
from mullion.planner.sliced import AnswerTemplate
from mullion.planner.slices import distinct
from mullion.questions_first import give_way
from mullion.slices.answer_table import AnswerTable, WindowGroups, Windows
from mullion.slices.answering_room import kept_of, members_at_once, pairs_at_once
from mullion.slices.arrange import is_ordered
from mullion.slices.combined_groups import CombinedGroups, FoundPairs, Links
from mullion.slices.covering import CoveredWindows
from mullion.slices.ranged_groups import RangedGroups, ranged_groups, ungrouped_windows
from mullion.slices.rows import SubWindowRows
from mullion.slices.sequence import CountedRows, RowSequence, sequence_of
from mullion.slices.sweep import Sweep, SweptGroups
from mullion.slices.value_counts import MOST_KEPT
from mullion.slices.window_runs import Due
from mullion.threads import in_threads

MOST_RANGES = 4_000_000
"""Ranges that are looked up in one call; more are taken in turns to bound memory."""

MOST_SWEPT = 300_000
"""Answers that are swept up in one call: what is made of them is still in the cache when it is gone through next."""

MOST_MEMBERS = 4_000_000
"""Pairs of a row and a slot that are looked at in one call."""

MANY_COUNTED = 100_000
"""Rows of value counts from which on several threads code and sort them."""

NOTHING: Mapping[str, SubWindowRows] = {}


@dataclass
class Work:
    """Operations counted for --stats and EXPLAIN, and what may be used for them."""

    final: int = 0
    window_slices: int = 0
    """The slices that the answered windows are made of."""
    written: dict[str, int] = field(default_factory=dict)
    """Rows of answers that executors wrote by themselves, by query."""
    bad: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    """Queries that have more answers than they may: the rest is not made."""
    threads: int = 1
    """That may be at work on it."""
    room: int | None = None
    """Bytes that what is looked up at once may take; None: as many as are of use."""

    def add(self, other: Work) -> None:
        """Take in what was counted elsewhere."""
        self.final += other.final
        self.window_slices += other.window_slices
        for own, more in ((self.written, other.written), (self.bad, other.bad)):
            for name, number in more.items():
                own[name] = own.get(name, 0) + number


@dataclass(frozen=True)
class Answers:
    """The answers of some queries of one template: rows `bounds[i]` to `bounds[i + 1]` of the table are query i's.

    Keys and bounds of windows, which many rows have in common, may be codes into a dictionary as long as nobody looks.
    """

    queries: tuple[str, ...]
    bounds: list[int]
    table: pa.Table

    def __iter__(self) -> Iterator[tuple[str, pa.Table]]:
        """The answers of each query, without codes."""
        return ((name, decoded(table)) for name, table in self.as_they_are())

    def as_they_are(self) -> Iterator[tuple[str, pa.Table]]:
        """The answers of each query, perhaps with codes."""
        for name, low, high in zip(self.queries, self.bounds, self.bounds[1:], strict=False):
            if high > low:
                yield name, self.table.slice(low, high - low)

    def rows_by_query(self) -> dict[str, int]:
        return {name: high - low for name, low, high in zip(self.queries, self.bounds, self.bounds[1:], strict=False)}


def finalize(
    rows: SubWindowRows,
    grouping: Grouping,
    due: Due,
    work: Work,
    *,
    counted: Mapping[str, SubWindowRows] = NOTHING,
    arranged: bool = True,
    with_covers: bool = True,
) -> Iterator[Answers]:
    """Answer the due windows, as many at once as memory allows. `counted` are the value counts that the grouping's
    aggregates need, by the names of their groupings. Without `arranged`, the columns that ORDER BY needs stay for a
    later `arrange`; without `with_covers`, no window is combined from others."""
    if counted:
        rows.align(list(counted.values()))
    span = (int(due.start.min()), int(due.end.max())) if len(due) else (0, 0)
    turns = list(_slots_in_turns(distinct(grouping.slot_of[due.query]), rows, grouping, work.room))
    covered = CoveredWindows(grouping, due, rows if with_covers and len(turns) == 1 and not work.over else None)
    if covered.queries:
        due = due.where(~np.isin(due.query, list(covered.queries)))
        turns = [distinct(grouping.slot_of[due.query])]
    slot = grouping.slot_of[due.query]
    for slots in turns:
        own = _RowsOfSlots(rows, grouping, slots, counted, span, work)
        mine = np.flatnonzero(np.isin(slot, slots)) if len(turns) > 1 else np.arange(len(due))
        for template, windows in due_by_shape(grouping, due, mine):
            give_way()
            for asked, turn, found in _with_combined(own, template, due, windows, covered, work):
                give_way()
                made = make_answers(grouping, template, asked, turn, found, work, arranged=arranged)
                if made is not None:
                    yield made
        work.final += own.operations()
    if covered.left:
        rest = covered.due.of(sorted(covered.left))
        yield from finalize(rows, grouping, rest, work, counted=counted, arranged=arranged, with_covers=False)


class _RowsOfSlots:
    """The rows of some slots, in the order in which windows are asked of them. `span`: all windows lie in it."""

    def __init__(
        self,
        rows: SubWindowRows,
        grouping: Grouping,
        slots: Index,
        counted: Mapping[str, SubWindowRows],
        span: tuple[int, int],
        work: Work,
    ) -> None:
        self.grouping, self._work = grouping, work
        self.rows, self._slots, self._counted, self._span = rows, slots, counted, span

    @cached_property
    def sequence(self) -> RowSequence:
        sequence = sequence_of(self.rows, self.grouping, self._slots, self.rows.within(*self._span))
        sequence.counted = self.counted
        return sequence

    @cached_property
    def sweep(self) -> Sweep:
        return Sweep.of(self.rows, self.grouping, self._slots)

    @cached_property
    def counted(self) -> dict[str, CountedRows]:
        most_kept = kept_of(MOST_KEPT, self._work.room, len(self._counted))

        def made(rows: SubWindowRows) -> CountedRows:
            return CountedRows(rows, self.grouping, self._slots, rows.within(*self._span), most_kept)

        are_many = sum(map(len, self._counted.values())) > MANY_COUNTED
        with in_threads(self._work.threads if are_many else 1) as run:
            return dict(zip(self._counted, run(made, list(self._counted.values())), strict=True))

    def asked(self, due: Due, windows: Index) -> tuple[Index, Times, Times]:
        """The slot and the bounds of each of these windows."""
        return self.grouping.slot_of[due.query[windows]], due.start[windows], due.end[windows]

    def count(self, due: Due, windows: Index) -> Index:
        """How many groups have a row in each window."""
        return self.sequence.count_pairs(self.sequence.segments(*self.asked(due, windows)))

    def within(self, slot: Index, start: Times, end: Times) -> RangedGroups:
        """What groups have in windows, whether these are due or not."""
        asked = self.sequence.segments(slot, start, end)
        return ranged_groups(self.sequence, self.grouping, asked, self.sequence.count_pairs(asked))

    def groups_in(self, due: Due, windows: Index, count: Index) -> RangedGroups:
        """What these groups have in each window."""
        give_way()
        return ranged_groups(self.sequence, self.grouping, self.sequence.segments(*self.asked(due, windows)), count)

    def swept(
        self, template: AnswerTemplate, due: Due, windows: Index, work: Work
    ) -> Iterator[tuple[Index, SweptGroups]]:
        """Some windows at a time, and what groups have in each of them."""
        most = pairs_at_once(MOST_SWEPT, work.room, self.grouping)
        sweeping = self.sweep.over(template, self.sweep.segments(*self.asked(due, windows)), most)
        skipped = np.zeros(len(windows), np.bool_)
        while not sweeping.is_over:
            if work.over:
                skipped = ~_is_allowed(windows, self.grouping, due, work.over)
            sweeping.advance(skipped)
            yield windows[sweeping.windows], SweptGroups(self.sweep, self.grouping, sweeping, self.counted)

    def operations(self) -> int:
        made = self.__dict__
        counted = sum(counts.operations for counts in made["counted"].values()) if "counted" in made else 0
        swept = self.sweep.operations if "sweep" in made else 0
        return counted + swept + (self.sequence.operations() if "sequence" in made else 0)


def make_answers(
    grouping: Grouping,
    template: AnswerTemplate,
    due: Due,
    windows: Index,
    found: WindowGroups,
    work: Work,
    *,
    arranged: bool = True,
) -> Answers | None:
    """The answers of what was found in some of the due windows."""
    if not len(found.pairs):
        return None
    opens, closes = due.start if due.opens is None else due.opens, _closes(due)
    number = None if due.closes is None else windows
    shed = None if due.shed is None else due.shed[windows]
    asked = Windows(due.query[windows], opens[windows], closes[windows], number, shed)
    table = AnswerTable(template, len(grouping.keys), asked, found)
    bad = table.bad()
    for at, times in zip(*np.unique(bad, return_counts=True), strict=True) if len(bad) else ():
        name = grouping.queries[at].name
        work.bad[name] = work.bad.get(name, 0) + int(times)
    table.choose()
    queries, bounds, answers = table.finished(arranged=arranged)
    names = grouping.queries.names
    return Answers(tuple([names[query] for query in queries]), bounds.tolist(), answers)


def _closes(due: Due) -> Times:
    return due.end if due.closes is None else due.closes


def _with_combined(
    own: _RowsOfSlots, template: AnswerTemplate, due: Due, windows: Index, covered: CoveredWindows, work: Work
) -> Iterator[tuple[Due, Index, WindowGroups]]:
    """What is found in windows of a template, and before that what is combined of it for others."""

    def combined(
        found: FoundPairs, mine: Index, links: tuple[Links, Links]
    ) -> Iterator[tuple[Due, Index, WindowGroups]]:
        groups = CombinedGroups(own.rows, own.grouping, found, len(mine), *links)
        yield covered.due, mine, groups
        work.final += groups.operations

    for turn, found in _found_in_turns(own, template, due, windows, work):
        if covered.left and len(turn) == len(windows) and not work.over:
            mine = covered.take(template, exact=True)
            if len(mine):
                yield from combined(found, mine, covered.links(mine, due, turn))
        yield due, turn, found
    if covered.left and not is_swept(own.grouping, template, due.query[windows]):
        mine = covered.take(template, exact=False)
        if len(mine):
            bounds, *links = covered.asked(mine)
            yield from combined(own.within(*bounds), mine, (links[0], links[1]))


def _found_in_turns(
    own: _RowsOfSlots, template: AnswerTemplate, due: Due, windows: Index, work: Work
) -> Iterator[tuple[Index, SweptGroups | RangedGroups]]:
    """Windows by query and end with what is found in them, in parts whose pairs are not too many."""
    grouping = own.grouping
    if not grouping.keys:
        windows = _allowed(windows, grouping, due, work.over)
        slot = grouping.slot_of[due.query[windows]]
        yield windows, ungrouped_windows(own.sequence, grouping, due.start[windows], due.end[windows], slot)
        return
    if is_swept(grouping, template, due.query[windows]):
        yield from own.swept(template, due, windows, work)
        return
    count = own.count(due, windows)
    for at in taken_in_turns(count, pairs_at_once(MOST_RANGES, work.room, grouping)):
        turn, number = windows[at], count[at]
        allowed = _allowed(turn, grouping, due, work.over)
        if len(allowed) < len(turn):
            turn, number = allowed, own.count(due, allowed)
        yield turn, own.groups_in(due, turn, number)


def taken_in_turns(count: Index, most: int) -> Iterator[slice]:
    """Windows in parts that have about so many pairs."""
    pairs = np.cumsum(count)
    full = np.arange(most, int(pairs[-1]) if len(pairs) else 0, most)
    cuts = [0, *np.unique(np.searchsorted(pairs, full) + 1).tolist(), len(count)]
    return (slice(low, high) for low, high in pairwise(cuts) if low < high)


def _allowed(windows: Index, grouping: Grouping, due: Due, over: set[str]) -> Index:
    """The windows of queries that may have more answers."""
    return windows[_is_allowed(windows, grouping, due, over)] if over else windows


def _is_allowed(windows: Index, grouping: Grouping, due: Due, over: set[str]) -> Mask:
    stopped = [i for i, query in enumerate(grouping.queries) if query.name in over]
    return ~np.isin(due.query[windows], stopped)


def _slots_in_turns(slots: Index, rows: SubWindowRows, grouping: Grouping, room: int | None) -> Iterator[Index]:
    """The slots in parts whose rows are not too many. A fragment may belong to many slots, a dense row has one."""
    if len(slots) == 1:
        yield slots
        return
    names = grouping.slot_names
    turns = taken_in_turns(rows.fragments_of([names[slot] for slot in slots]), members_at_once(MOST_MEMBERS, room))
    yield from (slots[turn] for turn in turns)


def due_by_shape(grouping: Grouping, due: Due, windows: Index) -> Iterator[tuple[AnswerTemplate, Index]]:
    """The due windows of queries that have the same template, by query and the end that is shown."""
    if not len(windows):
        return
    query, closes = due.query[windows], _closes(due)[windows]
    if not is_ordered(query, closes):
        windows = windows[np.lexsort((closes, query))]
    codes, templates = grouping.templates
    if len(templates) == 1:
        yield templates[0], windows
        return
    code = codes[due.query[windows]]
    order = np.argsort(code, kind="stable")
    cuts = np.flatnonzero(np.diff(code[order])) + 1
    for part in np.split(order, cuts):
        yield templates[code[part[0]]], windows[part]
