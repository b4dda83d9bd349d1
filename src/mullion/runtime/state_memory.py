"""What windows need between batches: in memory up to a part of the limit, on disk beyond it, and moved to shards, or
refused, where windows could not be answered from it.

    sub-windows   |oldest ...                    ... newest|
                  |= mapped from scratch files =|= memory =|

Answering works on all sub-windows of a grouping at once, and on those that count values for it. So these must fit,
wherever they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from mullion.errors import MullionError
from mullion.memory import PROCESS, Memory, limit_with, size_text
from mullion.planner.plan import Grouping, Plan
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.sharing_set import SharingSet
from mullion.slices.answering_room import needed as needed_for
from mullion.slices.subwindow import PartialSubWindows
from mullion.storage.scratch import Scratch


class Need(NamedTuple):
    """What a query keeps, as it was observed. A slice has a partial for each group and fragment that it holds."""

    query: str
    slices: int
    partials: int
    """In a slice, on the average."""
    partial_bytes: int

    @property
    def size(self) -> int:
        return self.slices * self.partials * self.partial_bytes

    def __str__(self) -> str:
        parts = f"{self.slices:,} slices x {self.partials:,} groups x {self.partial_bytes:,} bytes"
        return f"query '{self.query}' keeps about {size_text(self.size)} ({parts})"


Move = Callable[[SharingSet, Sequence[Grouping]], bool]
"""Moves groupings that are answered together to shards; whether they can be there."""


class StateMemory:
    """Asked after a batch has added its partials, before anything is answered from them."""

    def __init__(self, memory: Callable[[], Memory], scratch: Scratch, move: Move) -> None:
        self._memory, self._scratch, self._move = memory, scratch, move

    def make_room(self, sets: Iterable[SharingSet]) -> None:
        """Move what cannot be answered here to shards, or raise; then the oldest sub-windows to disk until the others
        fit."""
        memory, sets = self._memory(), list(sets)
        for sharing_set in sets:
            for together in too_large(sharing_set, memory):
                if not self._move(sharing_set, together):
                    raise _refused(sharing_set, together, memory)
        kept = sum(sharing_set.tier.kept_size for sharing_set in sets)
        for sharing_set in sets:
            sharing_set.tier.limit_kept(max(0, memory.kept - (kept - sharing_set.tier.kept_size)))
        entries = [(sharing_set, entry) for sharing_set in sets for entry in sharing_set.tier.entries]
        in_memory = [(sharing_set, entry) for sharing_set, entry in entries if not entry.on_disk]
        left = sum(entry.size for _, entry in in_memory)
        for sharing_set, entry in sorted(in_memory, key=lambda pair: pair[1].newest):
            if left <= memory.held:
                return
            sharing_set.tier.replace(entry, PartialSubWindows(self._scratch.mapped(entry.table), on_disk=True))
            left -= entry.size


def too_large(sharing_set: SharingSet, memory: Memory) -> list[tuple[Grouping, ...]]:
    """The groupings whose sub-windows are too many to be answered from, each with those that count values for it."""
    plan, held = sharing_set.plan, held_by_grouping(sharing_set.tier.entries)
    every = () if plan is None else families(plan)
    return [together for together in every if of_groupings(held, together)[1] > memory.answering]


def _refused(sharing_set: SharingSet, together: Sequence[Grouping], memory: Memory) -> MullionError:
    """Says whose sub-windows are too many."""
    size, needed = of_groupings(held_by_grouping(sharing_set.tier.entries), together)
    needs = sorted(needs_of(sharing_set, together), key=lambda need: need.size, reverse=True)
    beside = f", beside {len(needs) - 1} others of these groups" if len(needs) > 1 else ""
    whole = f"the windows need {size_text(size)}, and {size_text(needed)} to be answered"
    return MullionError(
        f"{needs[0]}{beside}: {whole}; Python has {size_text(memory.python)} of {size_text(memory.limit)}",
        hint=f"the present state needs at least --memory {limit_with(needed + PROCESS)} (Engine: memory), and "
        "more while windows fill; or shorten its window, lengthen its SLIDE, or group by less. With a "
        "checkpoint, the same run goes on",
    )


def families(plan: Plan) -> Iterator[tuple[Grouping, ...]]:
    """Groupings that answer queries, each with those that count values for it."""
    return ((grouping, *plan.counting(grouping)) for grouping in plan.answering)


class HeldBytes(NamedTuple):
    """What sub-windows of a grouping hold."""

    size: int
    rows: int


NOTHING_HELD = HeldBytes(0, 0)


def held_by_grouping(entries: Iterable[PartialSubWindows]) -> dict[str, HeldBytes]:
    """What sub-windows hold, by the name of their grouping. There may be one for every batch of a long window."""
    held: dict[str, HeldBytes] = {}
    for entry in entries:
        size, rows = held.get(entry.grouping, NOTHING_HELD)
        held[entry.grouping] = HeldBytes(size + entry.size, rows + len(entry.table))
    return held


def of_groupings(held: Mapping[str, HeldBytes], groupings: Sequence[Grouping]) -> tuple[int, int]:
    """The bytes of these groupings, and what is at work when they are answered together."""
    own = [(held.get(grouping.name, NOTHING_HELD), grouping) for grouping in groupings]
    return sum(of.size for of, _ in own), sum(needed_for(*of, grouping) for of, grouping in own)


def sets_at_once(sets: Iterable[SharingSet], memory: Memory, most: int) -> int:
    """How many of these may be answered side by side, of so many at the most: the largest may meet."""
    largest = sorted(map(_largest_family, sets), reverse=True)[:most]
    return max(1, sum(work <= memory.answering for work in accumulate(largest)))


def _largest_family(sharing_set: SharingSet) -> int:
    """What is at work when the dearest of its groupings is answered."""
    held = held_by_grouping(sharing_set.tier.entries)
    every = () if sharing_set.plan is None else families(sharing_set.plan)
    return max((of_groupings(held, together)[1] for together in every), default=0)


def needs_of(sharing_set: SharingSet, groupings: Sequence[Grouping]) -> list[Need]:
    """What each query of the first of these groupings keeps in all of them."""
    names = {grouping.name for grouping in groupings}
    entries = [entry for entry in sharing_set.tier.entries if entry.grouping in names]
    rows = max(1, sum(len(entry.slices) for entry in entries))
    partial_bytes = -(-sum(entry.size for entry in entries) // rows)
    times = sharing_set.tier.slices
    newest = int(times[-1]) if len(times) else 0
    partials = -(-rows // max(1, len(times)))

    def slices_of(query: SlicedAggregation) -> int:
        return max(1, int((times > newest - query.window.range).sum()))

    return [Need(query.name, slices_of(query), partials, partial_bytes) for query in groupings[0].queries]
