"""What a plan expects of a batch, from its statistics, and whether the batch was as expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from mullion.language.query import Period
from mullion.planner.observed import NOTHING_SEEN, Observed
from mullion.planner.plan import ROWS, Grouping, Plan
from mullion.planner.slices import covered_share, slices_of
from mullion.planner.statistics import Floats, SampledGroups, Statistics, expected_cells

TOLERATED = 4.0
"""How many times more or less there may be than expected."""
FEW = 1000
"""Partials or groups that are few whatever was expected."""


class Expected(NamedTuple):
    """The partials and groups that a grouping is expected to have in a batch of so many events."""

    partials: float
    groups: float
    events: int

    def misjudged(self, made: Expected) -> str | None:
        """What was expected and what came, if these are far apart. In a batch of f times the events there are between
        once and f times as many: new events fall into cells that have one already, or into others."""
        times = made.events / max(1, self.events)
        wrong = []
        for what, thought, came in (
            ("partials", self.partials, made.partials),
            ("groups", self.groups, made.groups),
        ):
            likely = min(max(came, thought * min(1.0, times)), thought * max(1.0, times))
            if max(likely, came) > FEW and max(likely, came) > TOLERATED * max(1.0, min(likely, came)):
                wrong.append(f"{round(came):,} {what} instead of about {round(likely):,}")
        return ", ".join(wrong) or None


def observed_before(statistics: Statistics, groupings: Sequence[Grouping]) -> Observed:
    """What a batch would show, as far as it is known before; what is not known is assumed."""
    events = statistics.events if statistics.events is not None else statistics.sampled or None
    if events is None or statistics.span is None:
        return NOTHING_SEEN if not events else _expected(events, NOTHING_SEEN.span * events // NOTHING_SEEN.events)
    groups = max((statistics.groups[g.name].number for g in groupings if g.name in statistics.groups), default=1)
    alphas = {g.name: _alpha(statistics, g) for g in groupings}
    most = max((g for g in groupings if g.predicates), key=lambda g: alphas[g.name], default=None)
    fragments = None if most is None else statistics.fragments(most.name, most.predicates)
    if most is None or fragments is None:
        return _expected(events, statistics.span, max(1, groups))
    k, alpha = max(1, min(fragments.number, events)), alphas[most.name]
    counted = float(fragments.frequencies.sum() + fragments.unseen)
    return _expected(events, statistics.span, max(1, groups), k, alpha, alpha / counted if counted else 0.0)


def _alpha(statistics: Statistics, grouping: Grouping) -> float:
    """How many of its predicates an event satisfies."""
    sample = statistics.selections.get(grouping.name)
    return 0.0 if sample is None else sample.alpha(grouping.predicates)


_expected = partial(Observed, source="expected")


def expectations(plans: Sequence[Plan], statistics: Statistics | None) -> list[dict[str, Expected]]:
    """Of each plan, for each grouping by its name; nothing of one that too little is known of."""
    if statistics is None:
        return [{} for _ in plans]
    by_rows = _by_rows(plans, statistics)
    found = []
    for at, plan in enumerate(plans):
        expected = {}
        for grouping, method in zip(plan.groupings, plan.methods, strict=True):
            groups = statistics.groups.get(grouping.name)
            if grouping.selective:
                groups = statistics.selected_groups(grouping.name, grouping.predicates)
            own = by_rows.get((at, grouping.name))
            partials = own if method == ROWS else _by_fragments(plan, grouping, statistics)
            if groups is not None and partials is not None:
                groups_there = _groups(plan, grouping, groups, statistics)
                expected[grouping.name] = Expected(partials, groups_there, statistics.events or 0)
        found.append(expected)
    return found


def _by_rows(plans: Sequence[Plan], statistics: Statistics) -> dict[tuple[int, str], float]:
    """The partials of groupings by dense rows, by the number of their plan and their name: each slot is cut at the
    edges of its own windows. Those of all plans are reckoned together: each by itself takes longer than a hundred of
    them."""
    span = statistics.span
    if span is None:
        return {}
    asked: dict[str, list[tuple[int, Grouping]]] = {}
    for at, plan in enumerate(plans):
        for grouping, method in zip(plan.groupings, plan.methods, strict=True):
            if method == ROWS:
                asked.setdefault(grouping.name, []).append((at, grouping))
    found = {}
    for name, own in asked.items():
        kept = [_kept_slices(grouping, span) for _, grouping in own]
        predicates = [slot.predicate for _, grouping in own for slot in grouping.slots]
        slices, shares = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        cells = statistics.cells(name, predicates, slices, shares)
        ends = np.cumsum([len(grouping.slots) for _, grouping in own])
        for (at, grouping), end in zip(own, ends.tolist(), strict=True):
            if cells is not None:
                found[at, name] = float(cells[end - len(grouping.slots) : end].sum())
    return found


def _kept_slices(grouping: Grouping, span: int) -> tuple[Floats, Floats]:
    """About how many slices each slot has of such a span, and which part of the span they cover."""
    slices, shares = grouping.progressions.slices(span, len(grouping.slots)), np.ones(len(grouping.slots))
    for slot, windows in enumerate(grouping.hopping):
        if windows:
            slices[slot] = slices_of(windows, 0, span, "paired", windows)
            shares[slot] = covered_share(windows)
    return slices, shares


def _hopping(plan: Plan, grouping: Grouping) -> tuple[Period, ...]:
    """The windows between which no event is kept; none where all are."""
    return () if plan.way == "native" else grouping.all_hopping


def _groups(plan: Plan, grouping: Grouping, groups: SampledGroups, statistics: Statistics) -> float:
    """Those that have an event in a window."""
    hopping = _hopping(plan, grouping)
    if not hopping or statistics.events is None:
        return groups.number
    return float(expected_cells(1, statistics.events * covered_share(hopping), groups))


def _by_fragments(plan: Plan, grouping: Grouping, statistics: Statistics) -> float | None:
    groups, span = statistics.groups.get(grouping.name), statistics.span
    if groups is None or statistics.events is None or span is None:
        return None
    hopping = _hopping(plan, grouping)
    slices = slices_of(plan.windows, 0, span, plan.slicing, hopping or None)
    events = statistics.events * (covered_share(hopping) if hopping else 1.0)
    if grouping.selective:
        groups = statistics.fragments(grouping.name, grouping.predicates, with_groups=True)
    elif grouping.predicates:
        # Events that satisfy nothing make fragments of their own, at most one for each group.
        pairs = statistics.fragments(grouping.name, grouping.predicates, with_groups=True)
        rest = float(expected_cells(slices, events, groups))
        return None if pairs is None else rest + float(expected_cells(slices, events, pairs))
    return None if groups is None else float(expected_cells(slices, events, groups))


def far_off(expected: Mapping[str, Expected], made: Mapping[str, Expected]) -> dict[str, str]:
    """The groupings that were misjudged, by their names.

    >>> made = {"k": Expected(500_000, 21, 600_000), "other": Expected(7, 7, 600_000)}
    >>> far_off({"k": Expected(9000.0, 20.0, 600_000)}, made)
    {'k': '500,000 partials instead of about 9,000'}
    """
    texts = {name: expected[name].misjudged(own) for name, own in made.items() if name in expected}
    return {name: text for name, text in texts.items() if text is not None}
