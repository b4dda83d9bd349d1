"""Which windows are kept from batch to batch, and which are answered from all sub-windows anew.

    a backlog, thousands of windows due   one sequence of all rows, one synopsis, all windows at once (`finalize`)
    few windows due, batch after batch    the last window, and what enters and leaves (`kept_window`)

Both give the same answers. Going over all rows costs as much as the window is long, whatever is due; sliding costs what
has moved. A window whose slot is covered by others that are due as well does not even slide: its groups are combined
from theirs (`covered_window`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.expressions.arrays import Index
from mullion.expressions.vector import Vector
from mullion.instants import EVERYTHING
from mullion.lazy import cached_property
from mullion.planner.answering_ways import can_slide
from mullion.planner.covers import Combining, combining
from mullion.planner.plan import Grouping, Plan, StateColumn, states_of
from mullion.planner.sliced import AnswerTemplate
from mullion.slices.arrange import rank_of_keys, ranked
from mullion.slices.covered_window import CoveredWindow
from mullion.slices.due import Due
from mullion.slices.finalize import Answers, Work, due_by_shape, make_answers
from mullion.slices.kept_window import GroupStates, KeptWindow
from mullion.slices.pairs import Pairs
from mullion.slices.subwindow import PartialSubWindows

LEAST_ROWS = 4_096
"""Fewer rows are gone over sooner than anything is kept of them."""
MOST_WINDOWS = 64
"""More windows that are due at once are a backlog."""
MOST_KEPT = 16
"""Windows of a set that are kept: each may take the memory of its rows once more."""
MOVED = 5.0
"""What a row costs that enters or leaves, against one that is gone over with all others."""
CALM = 2
"""So often in a row sliding must have been the cheaper way before anything is kept: a backlog has a last batch, too."""


COMBINED = 0.2
"""What combining a group of a window that covers another costs, against a row that enters or leaves."""
MOST_COMBINED = 2
"""So many times as many windows as are kept may be asked for, if others cover the rest."""
STEADY = 8
"""So often in a row a window must have been covered before it does not slide any more."""


class WindowKind(NamedTuple):
    """Windows of one slot and length, of whatever queries, are one window that slides."""

    grouping: str
    slot: str
    range: int


class CoveringKinds(NamedTuple):
    """The kinds that cover another: the first ones are added, the others subtracted."""

    kinds: tuple[WindowKind, ...]
    added: int


class KeptWindows:
    """The windows of a tier that are kept. All of it follows from the sub-windows."""

    def __init__(self) -> None:
        self._kept: dict[WindowKind, KeptWindow] = {}
        self._calm: dict[str, int] = {}
        self._covered: dict[WindowKind, tuple[CoveringKinds, CoveredWindow]] = {}
        self._steady: dict[WindowKind, int] = {}
        """How often in a row windows that slide could have been combined from others."""

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """The sub-windows are others now."""
        self._kept.clear()
        self._covered.clear()

    def absorb(self, entry: PartialSubWindows) -> None:
        """New sub-windows came. Rarely they fall into slices that were taken in, as with a past that is read once more:
        then the window is built again. Nothing is kept beside sub-windows that not all queries may read."""
        if entry.readers is not None:
            self._kept.clear()
        stale = [k for k, kept in self._kept.items() if k.grouping == entry.grouping and kept.holds_some_of(entry)]
        for kind in stale:
            del self._kept[kind]

    def forget(self, entries: Sequence[PartialSubWindows], plan: Plan, horizon: int) -> None:
        """The sub-windows before the horizon are about to go, and perhaps some queries have gone."""
        if not self._kept:
            return
        asked = {
            WindowKind(grouping.name, slot, query.window.range)
            for grouping in plan.answering
            for query, slot in zip(grouping.queries, _slot_names(grouping), strict=True)
        }
        self._kept = {kind: kept for kind, kept in self._kept.items() if kind in asked}
        self._covered = {kind: own for kind, own in self._covered.items() if kind in asked}
        self._steady = {kind: times for kind, times in self._steady.items() if kind in asked}
        for kept in self._kept.values():
            kept.forget(entries, horizon)

    def answer(
        self, entries: Sequence[PartialSubWindows], grouping: Grouping, due: Due, work: Work
    ) -> Iterator[Answers] | None:
        """Answers of the due windows; None where they are had sooner from all sub-windows anew."""
        if not len(due):
            return None
        kinds = self._kinds(grouping, due)
        covering = self._covering(grouping, due, kinds) if len(kinds) <= MOST_COMBINED * MOST_KEPT else {}
        sliding = {kind: windows for kind, windows in kinds.items() if kind not in covering}
        if not self._pays(entries, grouping, due, sliding):
            return None
        return self._answers(entries, grouping, due, kinds, covering, work)

    def _kinds(self, grouping: Grouping, due: Due) -> dict[WindowKind, Index]:
        """The due windows of each kind, by their ends."""
        slots, lengths = grouping.slot_of[due.query], due.end - due.start
        found: dict[WindowKind, list[int]] = {}
        for i in np.argsort(due.end, kind="stable").tolist() if len(due) <= MOST_WINDOWS else ():
            kind = WindowKind(grouping.name, grouping.slot_names[slots[i]], int(lengths[i]))
            found.setdefault(kind, []).append(i)
        return {kind: np.array(windows, np.intp) for kind, windows in found.items()}

    # Which way

    def _pays(
        self, entries: Sequence[PartialSubWindows], grouping: Grouping, due: Due, kinds: Mapping[WindowKind, Index]
    ) -> bool:
        """Whether these windows slide. It is the one place where that is decided."""
        rows = sum(len(entry.slices) for entry in entries if entry.grouping == grouping.name)
        moved = sum(self._moved(kind, due, windows) for kind, windows in kinds.items())
        new = [kind for kind in kinds if kind not in self._kept]
        pays = (
            bool(kinds)
            and rows >= LEAST_ROWS
            and moved * MOVED <= 1.0
            and len(self._kept) + len(new) <= MOST_KEPT
            and can_slide(_templates(grouping, due.query))
        )
        self._calm[grouping.name] = self._calm.get(grouping.name, 0) + 1 if pays else 0
        return pays and (not new or self._calm[grouping.name] >= CALM)

    def _moved(self, kind: WindowKind, due: Due, windows: Index) -> float:
        """The part of a window that enters and leaves until the last of these."""
        if kind.range >= EVERYTHING or kind.range <= 0:
            return 2.0
        ends = due.end[windows]
        kept = self._kept.get(kind)
        since = int(ends[0]) if kept is None else min(kept.high, int(ends[0]))
        return 2.0 * min(1.0, (int(ends[-1]) - since) / kind.range)

    def _covering(
        self, grouping: Grouping, due: Due, kinds: Mapping[WindowKind, Index]
    ) -> dict[WindowKind, CoveringKinds]:
        """The kinds that do not slide, since others cover them that are due at the same instants."""
        asked = {kind: _Asked.of(grouping, due, windows) for kind, windows in kinds.items()}
        covered = {}
        for kind, own in asked.items():
            covering = _covering_kinds(grouping, asked, kind, own)
            if covering is None or not self._is_cheaper(covering):
                self._steady.pop(kind, None)
                continue
            self._steady[kind] = self._steady.get(kind, 0) + 1
            if kind not in self._kept or self._steady[kind] >= STEADY:
                covered[kind] = covering
        return {kind: own for kind, own in covered.items() if not any(other in covered for other in own.kinds)}

    def _is_cheaper(self, covering: CoveringKinds) -> bool:
        """Whether their groups, as far as these are known, are combined sooner than as many rows enter and leave."""
        known = [self._kept.get(kind) for kind in covering.kinds]
        moved = sum(kept.moved if i < covering.added else -kept.moved for i, kept in enumerate(known) if kept)
        return COMBINED * sum(kept.held for kept in known if kept) <= moved or not all(known)

    # Answers

    def _answers(
        self,
        entries: Sequence[PartialSubWindows],
        grouping: Grouping,
        due: Due,
        kinds: Mapping[WindowKind, Index],
        covering: Mapping[WindowKind, CoveringKinds],
        work: Work,
    ) -> Iterator[Answers]:
        groups: dict[int, GroupStates] = {}
        for kind, windows in kinds.items():
            if kind not in covering:
                groups |= self._slide(entries, grouping, kind, due, windows, work)
        for kind, own in covering.items():
            groups |= self._combine(grouping, kind, own, due, kinds, groups, work)
        for template, windows in due_by_shape(grouping, due, np.arange(len(due))):
            windows = windows[[grouping.queries[query].name not in work.over for query in due.query[windows]]]
            found = SlidGroups(grouping, [groups[window] for window in windows.tolist()])
            made = make_answers(grouping, template, due, windows, found, work)
            if made is not None:
                yield made

    def _slide(
        self,
        entries: Sequence[PartialSubWindows],
        grouping: Grouping,
        kind: WindowKind,
        due: Due,
        windows: Index,
        work: Work,
    ) -> dict[int, GroupStates]:
        """What each of the windows holds."""
        start, end = due.start[windows].tolist(), due.end[windows].tolist()
        states = _states(grouping, due.query[windows])
        kept = self._kept.get(kind)
        if kept is None or start[0] < kept.low or end[0] < kept.high or not states <= set(kept.states):
            known = set() if kept is None else set(kept.states)
            kept = self._kept[kind] = KeptWindow(grouping, kind.slot, sorted(states | known, key=_name), start[0])
        before, kept.moved = kept.operations, 0
        groups: dict[int, GroupStates] = {}
        for i, window in enumerate(windows.tolist()):
            if i and end[i] == end[i - 1]:
                groups[window] = groups[int(windows[i - 1])]
                continue
            kept.slide(entries, start[i], end[i])
            groups[window] = kept.groups()
        work.final += kept.operations - before
        return groups

    def _combine(
        self,
        grouping: Grouping,
        kind: WindowKind,
        covering: CoveringKinds,
        due: Due,
        kinds: Mapping[WindowKind, Index],
        groups: Mapping[int, GroupStates],
        work: Work,
    ) -> dict[int, GroupStates]:
        """What each of the windows of a kind holds, from those that end with it (golab 8.3.3, CS6)."""
        self._kept.pop(kind, None)
        before, covered = self._covered.get(kind, (None, None))
        if covered is None or before != covering:
            covered = CoveredWindow(grouping, covering.added, len(covering.kinds))
            self._covered[kind] = covering, covered
        states = _states(grouping, due.query[kinds[kind]])
        others = [{int(due.end[window]): window for window in kinds[other].tolist()} for other in covering.kinds]
        operations, made, found = covered.operations, dict[int, GroupStates](), dict[int, GroupStates]()
        for window, end in zip(kinds[kind].tolist(), due.end[kinds[kind]].tolist(), strict=True):
            if end not in made:
                made[end] = covered.groups([groups[other[end]] for other in others], states)
            found[window] = made[end]
        work.final += covered.operations - operations
        return found


class _Asked(NamedTuple):
    """What is asked of the windows of a kind."""

    slot: int
    ends: frozenset[int]
    states: frozenset[StateColumn]
    combining: Combining | None

    @staticmethod
    def of(grouping: Grouping, due: Due, windows: Index) -> _Asked:
        codes, templates = grouping.templates
        queries = due.query[windows].tolist()
        asked = [templates[code] for code in {int(codes[query]) for query in queries}]
        states = frozenset[StateColumn]().union(*map(_states_of, asked))
        kind = combining(aggregate for template in asked for aggregate in template.aggregates)
        return _Asked(int(grouping.slot_of[queries[0]]), frozenset(due.end[windows].tolist()), states, kind)


@lru_cache(maxsize=1 << 12)
def _states_of(template: AnswerTemplate) -> frozenset[StateColumn]:
    return frozenset(state for aggregate in template.aggregates for state in states_of(aggregate))


def _covering_kinds(
    grouping: Grouping, asked: Mapping[WindowKind, _Asked], kind: WindowKind, own: _Asked
) -> CoveringKinds | None:
    """Kinds that cover this one, if all of them are due whenever it is, and have the states that it asks for."""
    cover = grouping.covers.of(own.combining).get(own.slot)
    if cover is None:
        return None
    others = tuple(kind._replace(slot=grouping.slot_names[slot]) for slot in cover.slots)
    known = [asked.get(other) for other in others]
    if not all(other is not None and own.ends <= other.ends and own.states <= other.states for other in known):
        return None
    return CoveringKinds(others, len(cover.added))


def _slot_names(grouping: Grouping) -> list[str]:
    return [grouping.slot_names[slot] for slot in grouping.slot_of.tolist()]


def _name(state: StateColumn) -> str:
    return state.name


def _states(grouping: Grouping, queries: Index) -> set[StateColumn]:
    return set().union(*map(_states_of, _templates(grouping, queries)))


def _templates(grouping: Grouping, queries: Index) -> Iterable[AnswerTemplate]:
    return dict.fromkeys(grouping.queries[query].template for query in queries)


class SlidGroups:
    """What windows hold, group by group: an `answer_table.WindowGroups`."""

    def __init__(self, grouping: Grouping, groups: Sequence[GroupStates]) -> None:
        self._grouping, self._groups = grouping, groups
        sizes = [len(group.keys) if grouping.keys else 1 for group in groups]
        self.pairs = Pairs(np.array(sizes, np.intp))
        self._at: Index = np.arange(len(self.pairs))

    def keep(self, index: Index) -> None:
        self.pairs, self._at = self.pairs.kept(index), self._at[index]

    @cached_property
    def _keys(self) -> list[pa.Array]:
        return [column.combine_chunks() for column in pa.concat_tables([group.keys for group in self._groups]).columns]

    def key(self, at: int) -> pa.Array:
        return self._keys[at].take(pa.array(self._at))

    def key_vector(self, at: int) -> Vector:
        return Vector.from_arrow(self.key(at), self._grouping.key_types[at])

    def key_ranks(self, at: int, *, descending: bool, nulls_first: bool) -> npt.NDArray[np.int64]:
        return ranked(self.key(at), descending=descending, nulls_first=nulls_first)

    def group_ranks(self) -> npt.NDArray[np.int64]:
        return rank_of_keys([self.key(i) for i in range(len(self._grouping.keys))], len(self._at))

    def aggregate(self, aggregate: BoundAggregate) -> Vector:
        states = [self._state(state) for state in states_of(aggregate)]
        return aggregate.aggregate.lower(aggregate.argument_type, states)

    def _state(self, state: StateColumn) -> tuple[Vector, ...]:
        fields = zip(*(group.states[state] for group in self._groups), strict=True)
        return state.partial.finish(tuple(np.concatenate(field)[self._at] for field in fields), ())
