"""Which due windows are combined from others that are due as well, and which windows each of them is made of.

A query is covered if others have its template, slots that cover its own, and windows that are due where its are
(golab 8.3.3, CS6). Where ranges of rows are looked up, longer windows will do: what is asked is the part of them that
is as long as its own (CS7). Rows of its slot then need not be brought in, and that is what is saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mullion.expressions.arrays import Index, Times
from mullion.planner.covers import Combining, Cover, combining
from mullion.planner.plan import Grouping
from mullion.planner.sliced import AnswerTemplate
from mullion.slices.arrange import is_ordered
from mullion.slices.combined_groups import Links
from mullion.slices.rows import SubWindowRows
from mullion.slices.window_runs import Due

COMBINED = 2.5
"""What a pair of a window and a group costs that is part of another, against a row of a slot that is brought in."""
EACH = 5_000.0
"""What a covered query costs besides, in such rows,"""
LEAST_SAVED = 30_000.0
"""and how many of them combining must save in all: as many are brought in while one more table of answers is made."""


class CoveredQuery(NamedTuple):
    query: int
    cover: Cover
    parts: tuple[int, ...]
    """A query of each slot of the cover."""
    is_exact: bool
    """Whether their windows are as long as its own."""


class CoveredWindows:
    """The due windows that are combined, and what of; without rows, none."""

    def __init__(self, grouping: Grouping, due: Due, rows: SubWindowRows | None) -> None:
        self._grouping = grouping
        self.queries = {} if rows is None else covered_queries(rows, grouping, due)
        self.due = due.of(list(self.queries))
        self.left = set(self.queries)
        """Queries that were not taken yet."""

    def take(self, template: AnswerTemplate, *, exact: bool) -> Index:
        """The windows of a template by query and end; those alone whose parts are as long, if that is asked."""
        codes, templates = self._grouping.templates
        taken = {q for q in self.left if templates[codes[q]] == template and (self.queries[q].is_exact or not exact)}
        self.left -= taken
        windows = np.flatnonzero(np.isin(self.due.query, list(taken)))
        return windows[np.lexsort((self.due.end[windows], self.due.query[windows]))]

    def links(self, windows: Index, due: Due, turn: Index) -> tuple[Links, Links]:
        """Which of the windows of a turn, by query and end, make up these, what is added and what is subtracted."""
        added: list[tuple[Index, Index]] = []
        taken: list[tuple[Index, Index]] = []
        asked = due.query[turn]
        for covered, own in self._by_query(windows):
            ends = self.due.end[windows[own]]
            for i, part in enumerate(covered.parts):
                first, last = np.searchsorted(asked, (part, part + 1))
                at = first + np.searchsorted(due.end[turn[first:last]], ends)
                (added if i < len(covered.cover.added) else taken).append((at, own))
        return _links(added), _links(taken)

    def asked(self, windows: Index) -> tuple[tuple[Index, Times, Times], Links, Links]:
        """The same as slots and bounds that are still to be looked up."""
        slots: list[Index] = []
        wholes: list[Index] = []
        is_added: list[bool] = []
        for covered, own in self._by_query(windows):
            for i, slot in enumerate(covered.cover.slots):
                slots.append(np.full(len(own), slot, np.intp))
                wholes.append(own)
                is_added.append(i < len(covered.cover.added))
        whole, number = np.concatenate(wholes), np.repeat(is_added, [len(own) for own in wholes])
        at = windows[whole]
        added, taken = np.flatnonzero(number), np.flatnonzero(~number)
        bounds = np.concatenate(slots), self.due.start[at], self.due.end[at]
        return bounds, Links(added, whole[added]), Links(taken, whole[taken])

    def _by_query(self, windows: Index) -> list[tuple[CoveredQuery, Index]]:
        """The places of each query's windows among these."""
        query = self.due.query[windows]
        return [(self.queries[int(own)], np.flatnonzero(query == own)) for own in np.unique(query)]


def _links(found: Sequence[tuple[Index, Index]]) -> Links:
    nothing = np.empty(0, np.intp)
    part, whole = (np.concatenate([nothing, *(both[i] for both in found)]) for i in (0, 1))
    return Links(part, whole)


def covered_queries(rows: SubWindowRows, grouping: Grouping, due: Due) -> dict[int, CoveredQuery]:
    """The queries whose due windows are had sooner from those of others."""
    if due.opens is not None or due.closes is not None or not grouping.keys:
        return {}
    covers = [grouping.covers.of(_kind(template)) for template in grouping.templates[1]]
    return (
        _Search(rows, grouping, due, covers).covered_queries() if any(covers) and is_ordered(due.query, due.end) else {}
    )


def _kind(template: AnswerTemplate) -> Combining | None:
    return combining(template.aggregates) if template.least_events <= 1 else None


class _Search:
    """Looks for queries that others cover. `covers` are those of each template."""

    def __init__(
        self, rows: SubWindowRows, grouping: Grouping, due: Due, covers: Sequence[Mapping[int, Cover]]
    ) -> None:
        self._rows, self._names, self._due, self._covers = rows, grouping.slot_names, due, covers
        queries, first, counts = np.unique(due.query, return_index=True, return_counts=True)
        bounds = zip(queries.tolist(), first.tolist(), (first + counts).tolist(), strict=True)
        self._windows = {query: slice(low, high) for query, low, high in bounds}
        self._by_slot: dict[int, list[tuple[int, int]]] = {}
        """The templates and queries that ask for a slot."""
        self._of_template: dict[tuple[int, int], list[int]] = {}
        """The queries of a template and a slot."""
        for query in self._windows:
            code, slot = int(grouping.templates[0][query]), int(grouping.slot_of[query])
            self._by_slot.setdefault(slot, []).append((code, query))
            self._of_template.setdefault((code, slot), []).append(query)

    def covered_queries(self) -> dict[int, CoveredQuery]:
        """Queries of slots of which nobody needs the rows, if combining costs less than these rows."""
        slots = [slot for slot, own in self._by_slot.items() if all(slot in self._covers[code] for code, _ in own)]
        sizes = self._rows.sizes([self._names[slot] for slot in slots]) if slots else []
        if sum(sizes) < LEAST_SAVED:
            return {}
        candidates: dict[int, CoveredQuery] = {}
        saved, is_cut = 0.0, self._rows.are_fragments
        for slot, size in zip(slots, sizes, strict=True):
            more = size - self._combined(slot) * COMBINED - len(self._by_slot[slot]) * EACH
            made = [self._covered(query, self._covers[code][slot], code) for code, query in self._by_slot[slot]]
            whole = [own for own in made if own is not None and (own.is_exact or is_cut)]
            if more >= 0 and len(whole) == len(made):
                candidates |= {own.query: own for own in whole}
                saved += more
        covered = {query: own for query, own in candidates.items() if not any(part in candidates for part in own.parts)}
        return covered if saved >= LEAST_SAVED else {}

    def _combined(self, slot: int) -> int:
        """Pairs of a window and a group that are combined for the windows of a slot, at most."""
        own = ((self._windows[query], self._covers[code][slot]) for code, query in self._by_slot[slot])
        return self._rows.groups[1] * sum(int(at.stop - at.start) * len(cover.slots) for at, cover in own)

    def _covered(self, query: int, cover: Cover, code: int) -> CoveredQuery | None:
        """The query with one of each slot whose windows are due where its are, and as long or else longer."""
        start, end = self._due.start[self._windows[query]], self._due.end[self._windows[query]]
        parts: list[int] = []
        is_exact = True
        for slot in cover.slots:
            asking = self._of_template.get((code, slot), [])
            before = {p: b for p in asking if (b := _before(self._due, self._windows[p], start, end)) is not None}
            if not before:
                return None
            part = min(before, key=lambda part: before[part])
            parts.append(part)
            is_exact &= before[part] == 0
        return CoveredQuery(query, cover, tuple(parts), is_exact)


def _before(due: Due, part: slice, start: Times, end: Times) -> int | None:
    """How much sooner windows begin that are due at all these ends; None where some are not, or begin later."""
    at = np.searchsorted(due.end[part], end)
    if at[-1] >= part.stop - part.start or (due.end[part][at] != end).any():
        return None
    sooner = start - due.start[part][at]
    return int(sooner.max()) if sooner.min() >= 0 else None
