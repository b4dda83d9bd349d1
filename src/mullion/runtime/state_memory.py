"""What windows need between batches: in memory up to a part of the limit, on disk beyond it, and refused where windows
could not be answered from it.

    sub-windows   |oldest ...                    ... newest|
                  |= mapped from scratch files =|= memory =|

Answering works on all sub-windows of a grouping at once. So these must fit, wherever they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mullion.errors import MullionError
from mullion.memory import ANSWERING, GB, OVERHEAD, Memory, size_text
from mullion.planner.plan import Grouping
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime.sharing_set import SharingSet
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


class StateMemory:
    """Asked after a batch has added its partials, before anything is answered from them."""

    def __init__(self, memory: Callable[[], Memory], scratch: Scratch) -> None:
        self._memory, self._scratch = memory, scratch

    def make_room(self, sets: Iterable[SharingSet]) -> None:
        """Move the oldest sub-windows to disk until the others fit; raise where no answer could be made of them."""
        memory, sets = self._memory(), list(sets)
        kept = sum(sharing_set.tier.kept_size for sharing_set in sets)
        for sharing_set in sets:
            sharing_set.tier.limit_kept(max(0, memory.kept - (kept - sharing_set.tier.kept_size)))
        entries = [(sharing_set, entry) for sharing_set in sets for entry in sharing_set.tier.entries]
        if ANSWERING * sum(entry.size for _, entry in entries) > memory.python:
            for sharing_set in sets:
                check_answerable(sharing_set, memory)
        in_memory = [(sharing_set, entry) for sharing_set, entry in entries if not entry.on_disk]
        left = sum(entry.size for _, entry in in_memory)
        for sharing_set, entry in sorted(in_memory, key=lambda pair: pair[1].newest):
            if left <= memory.held:
                return
            sharing_set.tier.replace(entry, PartialSubWindows(self._scratch.mapped(entry.table), on_disk=True))
            left -= entry.size


def check_answerable(sharing_set: SharingSet, memory: Memory) -> None:
    """Refuse sub-windows that are too many to be answered from, and say whose they are."""
    plan = sharing_set.plan
    for grouping in () if plan is None else plan.groupings:
        size = sum(entry.size for entry in sharing_set.tier.entries if entry.grouping == grouping.name)
        needed = size * ANSWERING
        if needed <= memory.python:
            continue
        needs = sorted(needs_of(sharing_set, grouping), key=lambda need: need.size, reverse=True)
        beside = f", beside {len(needs) - 1} others of these groups" if len(needs) > 1 else ""
        whole = f"the windows need {size_text(size)}, and {size_text(needed)} to be answered"
        wanted = -(-(needed + memory.heap + OVERHEAD) // GB)
        raise MullionError(
            f"{needs[0]}{beside}: {whole}; Python has {size_text(memory.python)} of {size_text(memory.limit)}",
            hint=f"--memory {wanted}GB (Engine: memory) would do; or shorten its window, lengthen its SLIDE, or group "
            "by less. With a checkpoint, the same run goes on",
        )


def needs_of(sharing_set: SharingSet, grouping: Grouping) -> list[Need]:
    """What each query of a grouping keeps."""
    entries = [entry for entry in sharing_set.tier.entries if entry.grouping == grouping.name]
    rows = max(1, sum(len(entry.slices) for entry in entries))
    partial_bytes = -(-sum(entry.size for entry in entries) // rows)
    times = sharing_set.tier.slices
    newest = int(times[-1]) if len(times) else 0
    partials = -(-rows // max(1, len(times)))

    def slices_of(query: SlicedAggregation) -> int:
        return max(1, int((times > newest - query.window.range).sum()))

    return [Need(query.name, slices_of(query), partials, partial_bytes) for query in grouping.queries]
