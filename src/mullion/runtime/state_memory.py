"""What windows need between batches: in memory up to a part of the limit, on disk beyond it, and moved to shards, or
refused, where windows could not be answered from it.

    sub-windows   |oldest ...                    ... newest|   events that wait for their place   |            |
                  |= mapped from scratch files =|= memory =|                                      |= scratch ==|

Answering works on all sub-windows of a grouping at once, and on those that count values for it. So these must fit,
wherever they lie. It is the same whether windows lie over time, over numbers of events or over another column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from mullion.errors import MullionError
from mullion.language.query import TIME_AXIS
from mullion.memory import PROCESS, WORKING, Memory, limit_with, size_text
from mullion.planner.plan import Grouping, Plan
from mullion.planner.sliced import SlicedAggregation
from mullion.slices.answering_room import HeldBytes, held_by_grouping, of_groupings
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tier import WindowTier
from mullion.storage.scratch import Scratch

if TYPE_CHECKING:
    from mullion.runtime.stream_state import StreamState


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


class Holder(Protocol):
    """Queries that are answered from the same sub-windows, over time or over another axis."""

    tier: WindowTier
    plan: Plan | None

    @property
    def beside(self) -> int:
        """Bytes that are held beside sub-windows, always in memory."""

    def at_work(self, needed: int, together: Sequence[Grouping], room: int) -> int:
        """Bytes that are at work when windows of a grouping, the first of these, are answered, where `needed` are when
        it is done from all rows at once, and work may be cut into parts that fit into the room."""


Move = Callable[[Holder, Sequence[Grouping]], bool]
"""Moves groupings that are answered together to shards; whether they can be there."""


class StateMemory:
    """Asked after a batch has added its partials, before anything is answered from them."""

    def __init__(self, state: StreamState, scratch: Scratch, move: Move) -> None:
        self._state, self._scratch, self._move = state, scratch, move

    def make_room(self) -> None:
        """Move what cannot be answered here to shards, or raise; then the oldest sub-windows to disk until the others
        fit, and then events that wait."""
        memory, waiting = self._state.memory(), self._state.ordered.order
        sets: list[Holder] = [*self._state.sets.values(), *self._state.ordered.sets.values()]
        for own in sets:
            for together in too_large(own, memory):
                if not self._move(own, together):
                    raise _refused(own, together, memory)
        kept = sum(own.tier.kept_size for own in sets)
        for own in sets:
            own.tier.limit_kept(max(0, memory.kept - (kept - own.tier.kept_size)))
        in_memory = [(own, entry) for own in sets for entry in own.tier.entries if not entry.on_disk]
        left = sum(entry.size for _, entry in in_memory) + sum(own.beside for own in sets) + waiting.size
        for own, entry in sorted(in_memory, key=lambda pair: _age(*pair)):
            if left <= memory.held:
                return
            own.tier.replace(entry, PartialSubWindows(self._scratch.mapped(entry.table), on_disk=True))
            left -= entry.size
        if left > memory.held:
            waiting.spill(self._scratch.mapped)


def _age(own: Holder, entry: PartialSubWindows) -> tuple[bool, int]:
    """What goes to disk first. Instants and other places are not compared: those of instants go before."""
    return own.plan is not None and own.plan.axis != TIME_AXIS, entry.newest


def too_large(own: Holder, memory: Memory) -> list[tuple[Grouping, ...]]:
    """The groupings whose sub-windows are too many to be answered from, each with those that count values for it."""
    plan, held = own.plan, held_by_grouping(own.tier.entries)
    every = () if plan is None else families(plan)
    return [together for together in every if _at_work(own, held, together, memory)[1] > memory.answering]


def _at_work(
    own: Holder, held: Mapping[str, HeldBytes], together: Sequence[Grouping], memory: Memory
) -> tuple[int, int]:
    """The bytes that groupings hold, and those that are at work to answer them."""
    size, needed = of_groupings(held, together)
    return size + own.beside, own.at_work(needed, together, memory.free)


def _refused(own: Holder, together: Sequence[Grouping], memory: Memory) -> MullionError:
    """Says whose sub-windows are too many."""
    size, needed = _at_work(own, held_by_grouping(own.tier.entries), together, memory)
    needs = sorted(needs_of(own, together), key=lambda need: need.size, reverse=True)
    beside = f", beside {len(needs) - 1} others of these groups" if len(needs) > 1 else ""
    whole = f"the windows need {size_text(size)}, and {size_text(needed)} to be answered"
    return MullionError(
        f"{needs[0]}{beside}: {whole}; Python has {size_text(memory.python)} of {size_text(memory.limit)}",
        hint=f"the present state needs at least --memory {limit_with(needed + PROCESS)} (Engine: memory), and "
        "more while windows fill; or shorten its window, lengthen its SLIDE, or group by less. With a "
        "checkpoint, the same run goes on",
    )


def check_ordered(own: Holder, events: pa.Table, memory: Memory) -> None:
    """Refuse events that are too many to be put in the order of a column at once."""
    plan, needed = own.plan, WORKING * events.nbytes
    if plan is None or needed <= memory.answering:
        return
    raise MullionError(
        f"query '{plan.queries[0].name}' puts {len(events):,} events in the order of {plan.axis.order} at once, "
        f"which takes about {size_text(needed)}; Python has {size_text(memory.python)} of {size_text(memory.limit)}",
        hint=f"that asks for at least --memory {limit_with(needed + PROCESS)} (Engine: memory); or let fewer events "
        "wait: a shorter LATENESS, or files in the order of time. With a checkpoint, the same run goes on",
    )


def families(plan: Plan) -> Iterator[tuple[Grouping, ...]]:
    """Groupings that answer queries, each with those that count values for it."""
    return ((grouping, *plan.counting(grouping)) for grouping in plan.answering)


def sets_at_once(sets: Iterable[Holder], memory: Memory, most: int) -> int:
    """How many of these may be answered side by side, of so many at the most: the largest may meet."""
    largest = sorted(map(_largest_family, sets), reverse=True)[:most]
    return max(1, sum(work <= memory.answering for work in accumulate(largest)))


def _largest_family(sharing_set: Holder) -> int:
    """What is at work when the dearest of its groupings is answered."""
    held = held_by_grouping(sharing_set.tier.entries)
    every = () if sharing_set.plan is None else families(sharing_set.plan)
    return max((of_groupings(held, together)[1] for together in every), default=0)


def needs_of(own: Holder, groupings: Sequence[Grouping]) -> list[Need]:
    """What each query of the first of these groupings keeps in all of them."""
    names = {grouping.name for grouping in groupings}
    entries = [entry for entry in own.tier.entries if entry.grouping in names]
    rows = max(1, sum(len(entry.slices) for entry in entries))
    partial_bytes = -(-sum(entry.size for entry in entries) // rows)
    times = own.tier.slices
    newest = int(times[-1]) if len(times) else 0
    partials = -(-rows // max(1, len(times) or rows))
    queries = groupings[0].queries
    longest = max((reach_in_events(query) for query in queries), default=1)

    def slices_of(query: SlicedAggregation) -> int:
        if not len(times):  # each event is a slice of its own
            return max(1, rows * reach_in_events(query) // longest)
        return max(1, int((times > newest - query.window.range).sum()))

    return [Need(query.name, slices_of(query), partials, partial_bytes) for query in queries]


def reach_in_events(query: SlicedAggregation) -> int:
    """How far its windows reach back among events, beside others on its axis."""
    return max(1, query.frame.rows or query.frame.range or 1)
