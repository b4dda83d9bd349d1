"""What a batch's partials tell of it: how many events, from when to when, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mullion.catalog.queries import StandingQuery
from mullion.kernels.encode import codes_of, combine
from mullion.kernels.signature import satisfies, words_for
from mullion.planner.plan import Grouping
from mullion.windows.due import last_end

Times = npt.NDArray[np.int64]


@dataclass
class Tally:
    events: int = 0
    malformed: int = 0
    oldest: int | None = None
    newest: int | None = None
    partials: int = 0
    fragments: int = 0
    groups: int = 0
    slices: Times = field(default_factory=lambda: np.empty(0, np.int64))
    bad: dict[str, int] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Take in the tally of another shard of the same batch; groups are disjoint, fragments are not."""
        self.events += other.events
        self.malformed += other.malformed
        self.oldest = min((t for t in (self.oldest, other.oldest) if t is not None), default=None)
        self.newest = max((t for t in (self.newest, other.newest) if t is not None), default=None)
        self.partials += other.partials
        self.fragments = max(self.fragments, other.fragments)
        self.groups += other.groups
        self.slices = np.union1d(self.slices, other.slices)
        for name, number in other.bad.items():
            self.bad[name] = self.bad.get(name, 0) + number


def tally(partials: pa.Table, grouping: Grouping) -> Tally:
    rows = _column(partials, "s0_0")
    placed = np.asarray(partials.column("slice").combine_chunks().is_valid())
    made = Tally(
        events=int(rows[placed].sum()),
        malformed=int(rows[~placed].sum()),
        oldest=pc.min(partials.column("t_min")).as_py(),
        newest=pc.max(partials.column("t_max")).as_py(),
        partials=int(placed.sum()),
        slices=np.unique(_column(partials, "slice")[placed]),
    )
    words = words_for(len(grouping.predicates))
    made.fragments = _distinct(partials, [f"sig{w}" for w in range(words)]) if words else 1
    made.groups = _distinct(partials, [f"k{i}" for i in range(len(grouping.keys))]) if grouping.keys else 1
    if grouping.checks:
        made.bad = _bad(partials, grouping)
    return made


def _column(partials: pa.Table, name: str) -> npt.NDArray[np.int64]:
    return np.asarray(partials.column(name).combine_chunks().fill_null(0), np.int64)


def _distinct(partials: pa.Table, names: list[str]) -> int:
    return combine([codes_of(partials.column(n)) for n in names], len(partials))[1]


def _signature(partials: pa.Table, grouping: Grouping) -> npt.NDArray[np.int64]:
    words = [_column(partials, f"sig{w}") for w in range(words_for(len(grouping.predicates)))]
    return np.stack(words, axis=1) if words else np.zeros((len(partials), 0), np.int64)


def _bad(partials: pa.Table, grouping: Grouping) -> dict[str, int]:
    """Bad values of each query: its WHERE on all events, the rest on the events that it selects."""
    signature = _signature(partials, grouping)
    found: dict[str, int] = {}
    for query in grouping.queries:
        number = 0
        for i, check in enumerate(grouping.checks):
            column = _column(partials, f"bad{i}")
            if check == query.predicate:
                number += int(column.sum())
            elif check in query.event_expressions():
                number += int(column[selected(query, grouping, signature)].sum())
        if number:
            found[query.name] = number
    return found


def selected(query: StandingQuery, grouping: Grouping, signature: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """The partials that satisfy the query's predicate."""
    if query.predicate is None:
        return np.ones(len(signature), np.bool_)
    return satisfies(signature, grouping.predicates.index(query.predicate))


def late_for(partials: pa.Table, grouping: Grouping) -> dict[str, int]:
    """How many of these events each query would have counted, had they come in time."""
    placed = partials.filter(partials.column("slice").is_valid())
    rows, slices = _column(placed, "s0_0"), _column(placed, "slice")
    signature = _signature(placed, grouping)
    found: dict[str, int] = {}
    for query in grouping.queries:
        chosen = selected(query, grouping, signature)
        held = np.array([_is_held(int(s), query) for s in slices], np.bool_)
        number = int(rows[chosen & held].sum())
        if number:
            found[query.name] = number
    return found


def _is_held(slice_: int, query: StandingQuery) -> bool:
    end = last_end(slice_, query.window)
    if query.stop is not None:
        end = min(end, last_end(query.stop - query.window.range, query.window))
    return end > slice_ and (query.start is None or end - query.window.range >= query.start)
