"""Which windows are kept from batch to batch, and which are answered from all sub-windows anew.

    a backlog, thousands of windows due   one sequence of all rows, one synopsis, all windows at once (`finalize`)
    few windows due, batch after batch    the last window, and what enters and leaves (`kept_window`)

Both give the same answers. Going over all rows costs as much as the window is long, whatever is due; sliding costs what
has moved. Windows that have their ends and states in common are a family and slide together, whatever their slots. A
window whose slot is covered by others that are due as well does not even slide: its groups are combined from theirs
(`kept_covers`, `covered_window`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from mullion.expressions.arrays import Index
from mullion.instants import EVERYTHING
from mullion.memory import Memory, default_limit
from mullion.planner.plan import Grouping, Plan, StateColumn
from mullion.planner.slices import distinct
from mullion.slices.covered_window import CoveredWindow
from mullion.slices.finalize import Answers, Work, due_by_shape, make_answers
from mullion.slices.group_states import GroupStates
from mullion.slices.kept_counts import CountedWindow
from mullion.slices.kept_covers import CoveringKinds, KeptCovers, Slid, WindowKind, states_of_template
from mullion.slices.kept_families import DueWindows, Families, Family, kinds_of
from mullion.slices.kept_window import KeptWindow
from mullion.slices.slid_groups import SlidGroups
from mullion.slices.subwindow import PartialSubWindows, rows_of_a_slot
from mullion.slices.window_runs import Due

ANEW = STEP = 40_000.0
"""What it costs to begin going over all rows, and to let a family go on to its next window, against one row of these:
calls that take as long with few rows as with many. Windows that no row stays in are not slid, however few rows they
have."""
MOVED = 8.0
"""What a row costs that enters or leaves, against one that is gone over with all others."""
CELL = 0.25
"""What a value costs that is looked at in its window, whether it has moved or not."""
CALM = 2
"""So often in a row sliding must have been the cheaper way before anything is kept: a backlog has a last batch, too."""
UNUSED = 0.25
"""The part of a family's slots that nobody may ask for any more before it is built again without them."""


class KeptWindows:
    """The windows of a tier that are kept. All of it follows from the sub-windows."""

    def __init__(self) -> None:
        self._kept: dict[Family, KeptWindow] = {}
        self._calm: dict[str, int] = {}
        self._covers = KeptCovers()
        self._covered: dict[WindowKind, tuple[CoveringKinds, CoveredWindow]] = {}
        self._too_large: dict[Family, int] = {}
        """Families that did not fit, and the bytes that they took."""
        self._groupings: dict[str, Families] = {}
        self._counting: dict[str, Sequence[Grouping]] = {}
        """What counts values for groupings, when they were asked last."""
        self._rows_of_a_slot = WeakKeyDictionary[PartialSubWindows, float]()
        self.limit: int | None = None
        """Bytes that all of it may take; None for the share of this machine's memory."""

    def __len__(self) -> int:
        """How many slots and lengths are kept."""
        return sum(len(kept.slots) for kept in self._kept.values())

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return sum(kept.size for kept in self._kept.values())

    def clear(self) -> None:
        """The sub-windows are others now."""
        self._kept.clear()
        self._covered.clear()

    def absorb(self, entry: PartialSubWindows) -> None:
        """New sub-windows came. Rarely they fall into slices that were taken in, as with a past that is read once more:
        then the window is built again. Nothing is kept beside sub-windows that not all queries may read."""
        if entry.readers is not None:
            self._kept.clear()
        stale = [k for k, kept in self._kept.items() if kept.reads(entry.grouping) and kept.holds_some_of(entry)]
        for family in stale:
            del self._kept[family]

    def forget(self, entries: Sequence[PartialSubWindows], plan: Plan, horizon: int) -> None:
        """The sub-windows before the horizon are about to go, and perhaps some queries have gone."""
        if not self._kept:
            return
        families = [self._families(grouping) for grouping in plan.answering]
        asked = {(own.grouping, *shape) for own in families for shape in own.known}
        kinds = {kind for own in families for kind in own.kinds}
        self._kept = {family: kept for family, kept in self._kept.items() if family[:4] in asked}
        self._too_large = {family: size for family, size in self._too_large.items() if family[:4] in asked}
        self._covered = {kind: own for kind, own in self._covered.items() if kind in kinds}
        self._covers.forget(kinds)
        for kept in self._kept.values():
            kept.forget(entries, horizon)

    def answer(
        self,
        entries: Sequence[PartialSubWindows],
        grouping: Grouping,
        due: Due,
        work: Work,
        counting: Sequence[Grouping] = (),
    ) -> tuple[Iterator[Answers], Due]:
        """Answers of due windows, and those that are had sooner from all sub-windows anew. `counting` are the groupings
        that count the values of this one."""
        families = self._families(grouping)
        self._counting[grouping.name] = counting
        slides = families.can_slide[due.query] & (due.end - due.start < EVERYTHING) & (due.end > due.start)
        if not slides.any():
            return iter(()), due
        own, rest = due.where(slides), due.where(~slides)
        if self._are_too_many(entries, grouping, own):
            return iter(()), due
        sliding = families.of(own)
        fits = {family for family in sliding if self._fits(family)}
        if not self._pays(entries, grouping, own, sliding, fits):
            return iter(()), due
        if len(fits) < len(sliding):
            anew = np.concatenate([sliding[family].windows for family in sliding if family not in fits])
            slides[np.flatnonzero(slides)[anew]] = False
            own, rest = due.where(slides), due.where(~slides)
            sliding = families.of(own)
        return self._answers(entries, grouping, own, sliding, work), rest

    def _families(self, grouping: Grouping) -> Families:
        found = self._groupings.get(grouping.name)
        if found is None or found.source is not grouping:
            found = self._groupings[grouping.name] = Families(grouping)
        return found

    # Which way

    def _pays(
        self,
        entries: Sequence[PartialSubWindows],
        grouping: Grouping,
        due: Due,
        sliding: Mapping[Family, DueWindows],
        fits: set[Family],
    ) -> bool:
        """Whether these windows slide, counted in rows that are gone over. It is the one place where that is decided:
        anew, all rows of the slots from the first start on are; sliding, a step for each end, and what has moved."""
        each, counted, anew = self._anew(entries, grouping, due, (family.counted for family in sliding))
        slid = 0.0
        for family in fits:
            ends = due.end[sliding[family].windows]
            kept = self._kept.get(family)
            since = int(ends[0]) - family.period.slide if kept is None else min(kept.high, int(ends[0]))
            values, instants = sum(counted[name] for name in family.counted), len(distinct(ends))
            moved = 2.0 * min(int(ends[-1]) - since, family.range) * (each + values) * len(sliding[family].slots)
            looked_at = instants * family.range * values * len(sliding[family].slots)
            slid += STEP * instants + MOVED * moved + CELL * looked_at
        pays = bool(fits) and slid <= anew
        self._calm[grouping.name] = self._calm.get(grouping.name, 0) + 1 if pays else 0
        return pays and (fits <= self._kept.keys() or self._calm[grouping.name] >= CALM)

    def _are_too_many(self, entries: Sequence[PartialSubWindows], grouping: Grouping, due: Due) -> bool:
        """Whether a step for each end, or for each family, alone costs more than going over all rows. Windows after
        every event have as many ends and lengths as there are events, and hundreds of queries as many families: then
        these are not even told apart."""
        counted = (frozenset(other.name for other in self._counting[grouping.name]),)
        most = self._anew(entries, grouping, due, counted)[2]
        of_one = int(np.bincount(due.query).max())  # the ends of a single query are all different
        are = STEP * of_one > most or STEP * len(distinct(due.end)) > most
        if not are and not self._too_large:
            family = self._families(grouping).number_of[due.query]
            are = STEP * int(np.count_nonzero(np.bincount(family))) > most
        if are:
            self._calm[grouping.name] = 0
        return are

    def _anew(
        self, entries: Sequence[PartialSubWindows], grouping: Grouping, due: Due, counted: Iterable[frozenset[str]]
    ) -> tuple[float, dict[str, float], float]:
        """Rows of a slot in a microsecond, those that count values, and what it costs to go over all of them."""
        reach = int(due.end.max() - due.start.min())
        each = self._density(entries, grouping.name, reach)
        values = {name: self._density(entries, name, reach) for name in frozenset[str]().union(*counted)}
        slots = len(distinct(grouping.slot_of[due.query]))
        return each, values, ANEW + (each + sum(values.values())) * reach * slots

    def _density(self, entries: Sequence[PartialSubWindows], grouping: str, reach: int) -> float:
        """How many rows a slot has in a microsecond, on the average; at least so much time is kept."""
        own = [entry for entry in entries if entry.grouping == grouping and len(entry.slices)]
        for entry in own:
            if entry not in self._rows_of_a_slot:
                self._rows_of_a_slot[entry] = rows_of_a_slot(entry)
        span = max((entry.newest for entry in own), default=0) - min((entry.oldest for entry in own), default=0)
        return sum(self._rows_of_a_slot[entry] for entry in own) / max(reach, span)

    def _fits(self, family: Family) -> bool:
        """Whether a family may be kept: one that was too large only where there is room for it now."""
        size = self._too_large.get(family)
        return size is None or size + self.size <= self._limit

    @property
    def _limit(self) -> int:
        if self.limit is None:
            self.limit = Memory.divided(default_limit()).kept
        return self.limit

    def _slid(self, families: Mapping[WindowKind, Family], kind: WindowKind) -> Slid | None:
        """What is known of a kind that slides."""
        kept = self._kept.get(families[kind])
        if kept is None or kind.slot not in kept.slots:
            return None
        number = kept.slots.index(kind.slot)
        return Slid(int(kept.moved[number]), int(kept.held[number]))

    # Answers

    def _answers(
        self,
        entries: Sequence[PartialSubWindows],
        grouping: Grouping,
        due: Due,
        sliding: Mapping[Family, DueWindows],
        work: Work,
    ) -> Iterator[Answers]:
        kinds, family_of = kinds_of(grouping, due, sliding)
        whole = {kind: own for kind, own in kinds.items() if not family_of[kind].counted}
        covering = self._covers.choose(grouping, due, whole, lambda kind: self._slid(family_of, kind))
        groups: dict[int, GroupStates] = {}
        for family, own in sliding.items():
            combined = {kind.slot for kind in covering if family_of[kind] == family}
            groups |= self._slide(entries, grouping, family, due, own, combined, work)
        for kind, covers in covering.items():
            groups |= self._combine(grouping, kind, covers, due, kinds, groups, work)
        for template, windows in due_by_shape(grouping, due, np.arange(len(due))):
            windows = windows[[grouping.queries[query].name not in work.over for query in due.query[windows]]]
            if not len(windows):
                continue
            found = SlidGroups(grouping, [groups[window] for window in windows.tolist()])
            made = make_answers(grouping, template, due, windows, found, work)
            if made is not None:
                yield made
        self._keep_within_limit(sliding)

    def _slide(
        self,
        entries: Sequence[PartialSubWindows],
        grouping: Grouping,
        family: Family,
        due: Due,
        own: DueWindows,
        combined: set[str],
        work: Work,
    ) -> dict[int, GroupStates]:
        """What each of the windows holds."""
        slots = own.slots - combined
        names = [grouping.slot_names[slot] for slot in grouping.slot_of[due.query[own.windows]].tolist()]
        asked = [(w, slot) for w, slot in zip(own.windows.tolist(), names, strict=True) if slot not in combined]
        if not asked:
            return {}
        kept, first = self._kept.get(family), asked[0][0]
        start, end = int(due.start[first]), int(due.end[first])
        is_behind = kept is None or start < kept.low or end < kept.high
        if kept is None or is_behind or _are_others(slots, kept.slots):
            kept = self._kept[family] = self._new(family, grouping, sorted(slots), start)
        before = kept.operations
        kept.moved[:] = 0
        by_end: dict[int, list[tuple[int, str]]] = {}
        for window, slot in asked:
            by_end.setdefault(int(due.end[window]), []).append((window, slot))
        groups: dict[int, GroupStates] = {}
        for end, windows in by_end.items():
            kept.slide(entries, end - family.range, end)
            held = kept.groups(dict.fromkeys(slot for _, slot in windows))
            groups |= {window: held[slot] for window, slot in windows}
        work.final += kept.operations - before
        return groups

    def _new(self, family: Family, grouping: Grouping, slots: Sequence[str], start: int) -> KeptWindow:
        states = sorted(family.states, key=_name)
        if not family.counted:
            return KeptWindow(grouping, slots, states, start)
        counting = [other for other in self._counting[grouping.name] if other.name in family.counted]
        return CountedWindow(grouping, slots, states, start, counting)

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
        before, covered = self._covered.get(kind, (None, None))
        if covered is None or before != covering:
            covered = CoveredWindow(grouping, covering.added, len(covering.kinds))
            self._covered[kind] = covering, covered
        templates = dict.fromkeys(grouping.queries[query].template for query in due.query[kinds[kind]])
        states = set().union(*map(states_of_template, templates))
        others = [{int(due.end[window]): window for window in kinds[other].tolist()} for other in covering.kinds]
        operations, made, found = covered.operations, dict[int, GroupStates](), dict[int, GroupStates]()
        for window, end in zip(kinds[kind].tolist(), due.end[kinds[kind]].tolist(), strict=True):
            if end not in made:
                made[end] = covered.groups([groups[other[end]] for other in others], states)
            found[window] = made[end]
        work.final += covered.operations - operations
        return found

    def _keep_within_limit(self, families: Mapping[Family, DueWindows]) -> None:
        """Let the largest of these families go until the others fit."""
        sizes = {family: kept.size for family, kept in self._kept.items()}
        left = sum(sizes.values())
        for family in sorted(families.keys() & sizes.keys(), key=lambda own: -sizes[own]):
            if left <= self._limit:
                return
            left -= sizes[family]
            self._too_large[family] = sizes[family]
            del self._kept[family]


def _are_others(asked: set[str], kept: Sequence[str]) -> bool:
    """Whether a family must be built again with other slots: some lack, or too many are of no use."""
    return not asked <= set(kept) or len(asked) < (1 - UNUSED) * len(kept)


def _name(state: StateColumn) -> str:
    return state.name
