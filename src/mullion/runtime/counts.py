"""What was counted of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from mullion.planner.schedules.lateness import execution_facts
from mullion.slices.tally import Tally

T = TypeVar("T")


@dataclass
class RunCounts:
    """What is counted of every run."""

    answers: int = 0
    seconds: float = 0.0
    """What batches or steps took."""
    answers_by_query: dict[str, int] = field(default_factory=dict)
    """Of the queries that are answered now, since they entered."""
    bad_by_query: dict[str, int] = field(default_factory=dict)
    """The bad values that each query met, taken as NULL."""
    scheduled: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of queries with SLIDE AT MOST, what `runtime.executions.COUNTED` names; of relations, how often they were
    executed, and how many instants were put off."""

    def keep(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Other queries are answered from now on, given by name and text as those before: what was counted of one that
        has left does not count for another of its name."""
        self.answers_by_query = still_counted(self.answers_by_query, before, now)
        self.scheduled = still_counted(self.scheduled, before, now)


@dataclass
class StreamCounts(RunCounts):
    """What --stats reports of a stream."""

    batches: int = 0
    events: int = 0
    late: int = 0
    ahead: int = 0
    """Events too far past the clock."""
    malformed: int = 0
    broken: int = 0
    """Events that came after the end of their key (PUNCTUATE)."""
    shed: int = 0
    """Events that were left out because the run was behind."""
    unprobed: int = 0
    """Events that were kept and of which joins did not look for partners, because the run was behind."""
    odd_times: str = ""
    """What is odd about the times of most events, if anything is."""
    slices: int = 0
    fragments: int = 0
    groups: int = 0
    partials: int = 0
    partial_operations: int = 0
    final_operations: int = 0
    window_slices: int = 0
    """The slices that the answered windows are made of: what the final step would combine without synopses."""
    late_by_query: dict[str, int] = field(default_factory=dict)
    shed_by_query: dict[str, int] = field(default_factory=dict)
    """Events that were shed while the query stood, whatever its WHERE; of those that stand now."""
    unprobed_by_query: dict[str, int] = field(default_factory=dict)
    """Of the joins that would have probed with them."""
    misjudged: dict[str, str] = field(default_factory=dict)
    """Plans that expected far more or fewer partials or groups than a batch had, the last time that they did: what was
    expected and what came, by the key set and the queries that share it."""

    def keep_missed(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """The same for what all queries over the stream have missed, those of relations too."""
        if before != now:
            self.late_by_query = still_counted(self.late_by_query, before, now)
            self.shed_by_query = still_counted(self.shed_by_query, before, now)
            self.unprobed_by_query = still_counted(self.unprobed_by_query, before, now)

    def facts(self) -> dict[str, Any]:
        """As EXPLAIN and --stats tell it."""
        scheduled = {name: execution_facts(counted) for name, counted in self.scheduled.items()}
        return asdict(self) | {"scheduled": scheduled}

    def add(self, tally: Tally) -> None:
        """Count what partials say of their events."""
        add_counts(self.bad_by_query, tally.bad)
        self.partials += tally.partials
        self.partial_operations += tally.added
        self.fragments = max(self.fragments, tally.fragments)
        self.groups = max(self.groups, tally.groups)


def add_counts(counts: dict[str, int], more: Mapping[str, int]) -> None:
    """Add numbers by name."""
    for name, number in more.items():
        counts[name] = counts.get(name, 0) + number


def still_counted(counts: Mapping[str, T], before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, T]:
    """The counts of the queries that stay, given the texts of those before and of those from now on. Another query of
    the same name counts for itself.

    >>> still_counted({"a": 3, "b": 4, "c": 5}, {"a": "x", "b": "y"}, {"a": "x", "b": "z"})
    {'a': 3}
    """
    return {name: rows for name, rows in counts.items() if name in now and before.get(name, now[name]) == now[name]}
