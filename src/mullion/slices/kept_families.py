"""Which windows slide together: those that have their ends and states in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Index, Mask
from mullion.language.query import Period
from mullion.lazy import cached_property
from mullion.planner.answering_ways import can_slide
from mullion.planner.plan import Grouping, StateColumn
from mullion.slices.kept_covers import WindowKind, states_of_template
from mullion.slices.window_runs import Due


class Shape(NamedTuple):
    """What windows have in common that slide together."""

    period: Period
    states: frozenset[StateColumn]
    counted: frozenset[str]


class Family(NamedTuple):
    """Windows that slide together: they have the same ends, and the same is kept of them."""

    grouping: str
    period: Period
    states: frozenset[StateColumn]
    counted: frozenset[str]
    """The groupings that count values for it."""
    range: int
    """As it is due: windows over the order of events may be others than their period says."""


@dataclass
class DueWindows:
    """The due windows of a family, in the order of their ends."""

    windows: Index
    slots: set[str] = field(default_factory=set)
    """All that slide with it, whether they are due or not."""


class Families:
    """The families of a grouping's queries."""

    def __init__(self, grouping: Grouping) -> None:
        self.source, self.grouping = grouping, grouping.name
        codes, templates = grouping.templates
        self.can_slide: Mask = np.array([can_slide([template]) for template in templates], np.bool_)[codes]
        """Whether the windows of each query may be kept."""

    @cached_property
    def _members(self) -> tuple[npt.NDArray[np.intp], dict[Shape, set[str]]]:
        """The family of each query, and the slots of each family."""
        source = self.source
        slots = source.slot_of.tolist()
        states: dict[tuple[int, Period], frozenset[StateColumn]] = {}
        counted: dict[tuple[int, Period], frozenset[str]] = {}
        own = [i for i, slides in enumerate(self.can_slide.tolist()) if slides]
        for i in own:
            query = source.queries[i]
            kind = slots[i], query.window
            states[kind] = states.get(kind, frozenset()) | states_of_template(query.template)
            values = (source.counts_of(own) for own in query.template.aggregates if own.values)
            counted[kind] = counted.get(kind, frozenset()).union(values)
        members: dict[Shape, set[str]] = {}
        numbers: dict[Shape, int] = {}
        family = np.full(len(slots), -1, np.intp)
        for i in own:
            window = source.queries[i].window
            key = Shape(window, states[slots[i], window], counted[slots[i], window])
            family[i] = numbers.setdefault(key, len(numbers))
            members.setdefault(key, set()).add(source.slot_names[slots[i]])
        return family, members

    @property
    def number_of(self) -> Index:
        """The number of each query's family; queries that cannot slide have none."""
        return self._members[0]

    @property
    def known(self) -> Mapping[Shape, set[str]]:
        return self._members[1]

    @cached_property
    def kinds(self) -> frozenset[WindowKind]:
        return frozenset(
            WindowKind(self.grouping, slot, period.range)
            for (period, *_), slots in self.known.items()
            for slot in slots
        )

    def of(self, due: Due) -> dict[Family, DueWindows]:
        """The families of due windows, all of which can slide."""
        number, range_ = self.number_of[due.query], due.end - due.start
        order = np.lexsort((due.end, range_, number))
        cuts = np.flatnonzero((np.diff(number[order]) != 0) | (np.diff(range_[order]) != 0)) + 1
        keys, found = list(self.known), {}
        for windows in np.split(order, cuts):
            key = keys[number[windows[0]]]
            family = Family(self.grouping, key.period, key.states, key.counted, int(range_[windows[0]]))
            found[family] = DueWindows(windows, self.known[key])
        return found


def kinds_of(
    grouping: Grouping, due: Due, sliding: Mapping[Family, DueWindows]
) -> tuple[dict[WindowKind, Index], dict[WindowKind, Family]]:
    """The due windows of each kind, and its family; where a kind is in several, it is left out."""
    found: dict[WindowKind, list[int]] = {}
    families: dict[WindowKind, Family] = {}
    several = set()
    for family, own in sliding.items():
        slots = grouping.slot_of[due.query[own.windows]].tolist()
        for window, slot in zip(own.windows.tolist(), slots, strict=True):
            kind = WindowKind(grouping.name, grouping.slot_names[slot], family.range)
            found.setdefault(kind, []).append(window)
            if families.setdefault(kind, family) != family:
                several.add(kind)
    return {kind: np.array(own, np.intp) for kind, own in found.items() if kind not in several}, families
