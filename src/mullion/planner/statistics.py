"""What a batch holds, told before it is read: how many events, from when to when, of how many groups.

| number | from |
|---|---|
| events, oldest and newest time | the footers of Parquet files; else a sample |
| different groups of a key set | a sample, by GEE, and the dictionaries of the files that it touches |
| the share of events that satisfies a predicate | a sample |
| partials: pairs of a slice and a group that an event falls into | `expected_cells`, from all of these |

GEE (Charikar, Chaudhuri, Motwani, Narasayya, 2000: Towards Estimation Error Guarantees for Distinct Values) takes a
value that a sample of n of N events has more than once for a frequent one, which counts once, and lets each value that
it has only once stand for sqrt(N / n). Its ratio to the truth is at most about sqrt(N / n), and no estimator has a
better guarantee. The events of values that the sample does not have are as many as those of the values that it has
once (Good, 1953).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.expressions.arrays import Codes, Index
from mullion.language.query import Expr
from mullion.lazy import cached_property
from mullion.plural import plural

Floats = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]

MOST_CLASSES = 64
"""Classes of about equally frequent groups; each is computed with once."""

CLASSES_A_DOUBLING = 3
"""The same for those of single predicates, which have a class for every count up to 3."""

LEAST_TELLING = 10
"""Groups that must be frequent in a sample for others to be judged by them."""
FEW_BITS = 32
"""Predicates whose truths have room in a number beside the group."""
FAR = 8
"""How many times longer than the time of nearly all events that of all may be, and still count."""

FOOTERS, SAMPLE, COUNTED, SIZES, ASSUMED = "footers", "sample", "counted", "file sizes", "assumed"
"""Where a number is from."""


@dataclass(frozen=True, eq=False)
class SampledGroups:
    """The groups of some events: about how many there are, and how frequent those of the sample are there."""

    number: int
    frequencies: Floats
    """The share of all events that each group of the sample has, in descending order."""
    unseen: float = 0.0
    """The share of events that groups have which the sample has not."""
    is_exact: bool = False

    @staticmethod
    def of(counts: npt.NDArray[np.int64], sampled: int, events: int | None, *, at_least: int = 0) -> SampledGroups:
        """From the events that each group has in a sample of a batch; at least so many groups are known otherwise.

        >>> SampledGroups.of(np.array([6, 2, 1, 1]), sampled=10, events=1000).number
        22
        """
        counts = np.sort(counts[counts > 0])[::-1]
        frequencies = counts / max(1, sampled)
        if events is not None and events <= sampled:
            return SampledGroups(len(counts), frequencies, is_exact=True)
        once = int((counts == 1).sum())
        most = sampled * len(counts) if events is None else events
        stand_for = sqrt(most / max(1, sampled))
        number = max(at_least, min(most, round(len(counts) - once + once * stand_for)))
        number = max(number, len(counts))
        unseen = once / max(1, sampled) if number > len(counts) else 0.0
        total = float(frequencies.sum())
        if total:
            frequencies = frequencies * (max(0.0, total - unseen) / total)
        return SampledGroups(number, frequencies, unseen)

    @cached_property
    def classes(self) -> tuple[Floats, Floats]:
        """Frequencies, and how many groups have about this one."""
        frequencies, numbers = self.frequencies, np.ones(len(self.frequencies))
        frequencies, numbers = frequencies[frequencies > 0], numbers[frequencies > 0]
        if len(frequencies) > MOST_CLASSES:
            scale = np.log(frequencies)
            width = (scale[0] - scale[-1]) / (MOST_CLASSES - 1) or 1.0
            at = np.clip(((scale[0] - scale) / width).astype(np.intp), 0, MOST_CLASSES - 1)
            numbers = np.bincount(at, minlength=MOST_CLASSES).astype(np.float64)
            sums = np.bincount(at, frequencies, MOST_CLASSES)
            frequencies, numbers = sums[numbers > 0] / numbers[numbers > 0], numbers[numbers > 0]
        more = self.number - len(self.frequencies)
        if more > 0 and self.unseen > 0:
            frequencies = np.append(frequencies, self.unseen / more)
            numbers = np.append(numbers, more)
        return frequencies, numbers


ALL_EVENTS = -1
"""In the place of a predicate's column, where there is none."""

ONE_GROUP = SampledGroups(1, np.ones(1), is_exact=True)
"""All events, without keys."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Events of a sample as the queries of one grouping see them: the group of each, and which predicates hold."""

    groups: Codes
    truths: Truths
    columns: Mapping[Expr, int]
    """The column of `truths` of each predicate."""
    _last: list[tuple[tuple[Expr, ...], Index | None]] = field(default_factory=list, init=False, repr=False)
    """The last predicates that were asked for, and their columns."""

    @cached_property
    def classes(self) -> tuple[Floats, Floats]:
        """Classes x predicates: events of the sample that a group of the class has, and the number of such groups."""
        order = np.argsort(self.groups, kind="stable")
        starts = np.flatnonzero(np.diff(self.groups[order], prepend=-1))
        width = self.truths.shape[1]
        if not len(starts):
            return np.zeros((1, width)), np.zeros((1, width))
        if len(starts) == 1:
            counts = self._selected[None, :]
        else:
            counts = np.add.reduceat(self.truths[order], starts, axis=0, dtype=np.int64)
        class_of = np.log2(np.maximum(1, np.arange(len(self.truths) + 1)), dtype=np.float64) * CLASSES_A_DOUBLING
        at = class_of.astype(np.int64)[counts] * width + np.arange(width)
        size = (int(class_of[-1]) + 1) * width
        held = counts > 0
        numbers = np.bincount(at[held], minlength=size).reshape(-1, width).astype(np.float64)
        sums = np.bincount(at[held], counts[held], size).reshape(-1, width)
        return sums / np.maximum(1.0, numbers), numbers

    @cached_property
    def _selected(self) -> npt.NDArray[np.int64]:
        """How many events satisfy each predicate."""
        counted: npt.NDArray[np.int64] = self.truths.view(np.uint8).sum(axis=0, dtype=np.uint32).astype(np.int64)
        return counted

    @cached_property
    def selectivities(self) -> Mapping[Expr, float]:
        """The share of events that satisfies each predicate."""
        means = (self._selected / len(self.truths)).tolist() if len(self.truths) else ()
        return {predicate: means[at] for predicate, at in self.columns.items()} if means else {}

    def cells(self, columns: Index, slices: Floats, events: Floats, of: int, most_groups: int) -> Floats:
        """`expected_cells` of queries, each with the groups of the events that its predicate selects. `events` are
        those of its slices before the selection, `of` are all."""
        counts, numbers = (of_classes[:, columns] for of_classes in self.classes)
        sampled = max(1, len(self.truths))
        selected, seen, once = (counts * numbers).sum(axis=0), numbers.sum(axis=0), numbers[0]
        whole = of <= sampled
        number = seen if whole else np.minimum(seen - once + once * sqrt(of / sampled), most_groups)
        more = np.maximum(0.0, number - seen)
        unseen = np.where(more > 0, once / sampled, 0.0)
        kept = 1.0 - unseen * sampled / np.maximum(1, selected)
        each = events / np.maximum(slices, 1e-9)
        present = (-np.expm1(-counts * (each * kept / sampled)) * numbers).sum(axis=0)
        present -= more * np.expm1(-each * unseen / np.maximum(more, 1e-9))
        cells: Floats = np.minimum(slices * present, events * selected / sampled)
        return cells

    def fragments(self, columns: Index, *, with_groups: bool) -> npt.NDArray[np.int64]:
        """The events of the sample in each fragment, or in each pair of a fragment and a group."""
        truths = self.truths_of(columns)
        if len(columns) == 1:
            counts = np.bincount(self.groups[truths[:, 0]]) if with_groups else truths.sum(axis=0)
            return counts[counts > 0]
        selected = truths.any(axis=1)
        codes = _words(truths[selected])
        if with_groups:
            if len(columns) > FEW_BITS:
                _, codes = np.unique(codes, return_inverse=True)
            codes = codes.astype(np.int64) * (int(self.groups.max(initial=0)) + 1) + self.groups[selected]
        return np.unique(codes, return_counts=True)[1]

    def columns_of(self, predicates: tuple[Expr, ...]) -> Index | None:
        """The column of each of these; None where it was not asked for all of them. Those of the last tuple are
        remembered, as plans ask for them several times."""
        last = self._last[-1] if self._last else None
        if last is None or last[0] is not predicates:
            at = [self.columns.get(predicate, -1) for predicate in predicates]
            last = predicates, None if -1 in at else np.array(at, np.intp)
            self._last[:] = [last]
        return last[1]

    def truths_of(self, columns: Index) -> Truths:
        """Those of some columns."""
        are_all = len(columns) == self.truths.shape[1] and (np.diff(columns, prepend=-1) == 1).all()
        return self.truths if are_all else self.truths[:, columns]

    def alpha(self, predicates: tuple[Expr, ...]) -> float:
        """How many of its predicates an event satisfies: of those that it was asked for."""
        columns = self.columns_of(predicates)
        if columns is None:
            return sum(self.selectivities.get(predicate, 0.0) for predicate in predicates)
        return float(self._selected[columns].sum() / max(1, len(self.truths)))


def _words(truths: Truths) -> npt.NDArray[Any]:
    """Each row as one value: a number, which is compared sooner, where it has room."""
    packed = np.packbits(truths, axis=1)
    if packed.shape[1] > 8:
        return np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1])))[:, 0]
    padded = np.zeros((len(packed), 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)[:, 0]


@dataclass(frozen=True)
class Statistics:
    """What is known of a batch. Groupings go by their names (`planner.plan.Grouping.name`)."""

    events: int | None = None
    """None where nobody can tell without reading the batch."""
    oldest: int | None = None
    newest: int | None = None
    sampled: int = 0
    events_from: str = ASSUMED
    times_from: str = ASSUMED
    groups: Mapping[str, SampledGroups] = field(default_factory=dict)
    selections: Mapping[str, Sampled] = field(default_factory=dict, repr=False, compare=False)
    busy: int | None = None
    """The event time that nearly all events of the sample lie in, in microseconds."""
    _fragments: dict[tuple[str, tuple[Expr, ...], bool], SampledGroups] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Those that were asked for."""

    @property
    def span(self) -> int | None:
        """The event time from the oldest to the newest event, in microseconds; without the times of a few events that
        lie far away from all others."""
        if self.oldest is None or self.newest is None:
            return None
        whole = self.newest - self.oldest + 1
        return whole if self.busy is None or whole <= FAR * self.busy else self.busy

    def selectivity(self, grouping: str, predicate: Expr | None) -> float | None:
        """The share of events that satisfies a predicate; None where the sample does not tell."""
        if predicate is None:
            return 1.0
        return self.selectivities(grouping).get(predicate)

    def selectivities(self, grouping: str) -> Mapping[Expr, float]:
        """That of every predicate which the sample was asked for."""
        sample = self.selections.get(grouping)
        return {} if sample is None else sample.selectivities

    def fragments(
        self, grouping: str, predicates: tuple[Expr, ...], *, with_groups: bool = False
    ) -> SampledGroups | None:
        """The fragments that these predicates make of the events (krishnamurthy 4.2), perhaps times the groups; events
        that satisfy none are left out."""
        sample = self.selections.get(grouping)
        columns = None if sample is None else sample.columns_of(predicates)
        if sample is None or columns is None or not predicates:
            return None
        key = grouping, predicates, with_groups and bool(sample.groups.any())
        found = self._fragments.get(key)
        if found is None:
            counts = sample.fragments(columns, with_groups=key[-1])
            found = self._fragments[key] = SampledGroups.of(counts, len(sample.truths), self.events)
        return found

    def selected_groups(self, grouping: str, predicates: tuple[Expr, ...]) -> SampledGroups | None:
        """The groups of the events that satisfy any of these predicates."""
        groups, sample = self.groups.get(grouping), self.selections.get(grouping)
        columns = None if sample is None else sample.columns_of(predicates)
        if groups is None or sample is None or columns is None:
            return None
        selected: Truths = np.asarray(sample.truths_of(columns).any(axis=1))
        counts = np.bincount(sample.groups[selected], minlength=int(sample.groups.max(initial=0)) + 1)
        chosen = SampledGroups.of(counts, len(selected), self.events)
        # Groups of which the sample has many events tell how many are left out because of their keys.
        telling = np.bincount(sample.groups, minlength=1) * selected.mean() >= 3 if len(selected) else counts > 0
        number = chosen.number
        if not chosen.is_exact and telling.sum() >= LEAST_TELLING:
            number = max(len(chosen.frequencies), round(groups.number * float((counts[telling] > 0).mean())))
        return replace(chosen, number=min(number, groups.number))

    def cells(self, grouping: str, predicates: Sequence[Expr | None], slices: Floats, shares: Floats) -> Floats | None:
        """For each predicate, the pairs of a slice and a group that hold an event which satisfies it, if so many slices
        hold this share of the batch; None where the sample does not tell."""
        groups, sample = self.groups.get(grouping), self.selections.get(grouping)
        columns = {} if sample is None else sample.columns
        found = [ALL_EVENTS if predicate is None else columns.get(predicate) for predicate in predicates]
        if groups is None or None in found:
            return None
        events = self.events if self.events is not None else self.sampled
        cells: Floats = expected_cells(slices, events * shares, groups)
        own = np.array(found, np.intp)
        at = np.flatnonzero(own != ALL_EVENTS)
        if sample is not None and len(at):
            cells[at] = sample.cells(own[at], slices[at], events * shares[at], events, groups.number)
        return cells

    def facts(self) -> dict[str, Any]:
        """For programs."""
        return {
            "events": self.events,
            "oldest": self.oldest,
            "newest": self.newest,
            "events_from": self.events_from,
            "times_from": self.times_from,
            "groups": {name: {"number": g.number, "exact": g.is_exact} for name, g in self.groups.items()},
        }

    def text(self, names: Sequence[str] = ()) -> str:
        """One line for people."""
        if self.events is None:
            events = "the number of events is assumed"
        else:
            about = "" if self.events_from in (FOOTERS, COUNTED) else "about "
            events = f"{about}{plural(self.events, 'event')}"
        times = "" if self.oldest is None else f" from {_instant(self.oldest)} to {_instant(self.newest)}"
        line = f"{events}{times}{self._source}"
        for name in names or self.groups:
            groups = self.groups.get(name)
            if name != "()":
                line += f", {'groups' if groups is None else _groups_text(groups)} of {name} ({_source(groups)})"
        return line

    @property
    def _source(self) -> str:
        if self.events is None:
            return "" if self.oldest is None else f" ({self.times_from})"
        if self.times_from in (self.events_from, ASSUMED):
            return f" ({self.events_from})"
        return f" ({self.events_from}; times: {self.times_from})"


def _groups_text(groups: SampledGroups) -> str:
    return f"{'' if groups.is_exact else 'about '}{plural(groups.number, 'group')}"


def _source(groups: SampledGroups | None) -> str:
    if groups is None:
        return ASSUMED
    return COUNTED if groups.is_exact else SAMPLE


def _instant(time: int | None) -> str:
    assert time is not None
    return str(np.datetime64(time, "us")).replace("T", " ").split(".", maxsplit=1)[0]


def expected_cells(slices: npt.ArrayLike, events: npt.ArrayLike, groups: SampledGroups) -> Floats:
    """How many pairs of a slice and a group hold an event, for each query: its slices, and its events in all of them.

    Events fall anywhere in time, so a group with the share p of them is missing in a slice of n events with the
    probability exp(-n p), which is (1 - p)^n for small p. Bursts leave fewer pairs than that. The pairs are what
    sharing by slices and fragments has to keep and combine (krishnamurthy Table 5; li 3.1-3.4).

    Time: O(1) a query, whatever the number of groups.

    >>> expected_cells(10, [10, 1000], ONE_GROUP).round(2).tolist()
    [6.32, 10.0]
    """
    of_slices, of_events = np.broadcast_arrays(np.asarray(slices, np.float64), np.asarray(events, np.float64))
    frequencies, numbers = groups.classes
    each = of_events / np.maximum(of_slices, 1e-9)
    present = -np.expm1(-each[..., None] * frequencies) @ numbers
    cells: Floats = np.minimum(of_slices * present, of_events)
    return cells
