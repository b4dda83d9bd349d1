"""The partials of a batch on their way into the tiers of a sharing set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from mullion.planner.plan import Grouping, Pass, Plan
from mullion.questions_first import give_way
from mullion.runtime.batch import Batch, Collected
from mullion.runtime.counts import add_counts
from mullion.runtime.late import OUTSIDE, SetAside
from mullion.runtime.planning import with_groupings
from mullion.runtime.sharing_set import CountedPartials, SharingSet, observed
from mullion.runtime.stream_state import StreamState
from mullion.slices.bounds import EVERYWHERE
from mullion.slices.subwindow import PartialSubWindows, in_portions
from mullion.slices.tally import Tally, late_for, tally
from mullion.storage.marks import Mark
from mullion.threads import cores, in_threads


class PartialsStage:
    def __init__(self, state: StreamState) -> None:
        self._state = state

    def absorb(self, plans: Sequence[tuple[SharingSet, Plan]], batch: Batch, aside: SetAside) -> Tally:
        """Take in the partials of a batch: tables on the driver, of all plans in one pass, or what shards have
        written."""
        small = [with_groupings(plan, [g for g in plan.groupings if g.name not in own.shards]) for own, plan in plans]
        together = Pass(tuple(plan for plan in small if plan.groupings))
        collected: Iterator[Collected] = iter(())
        if together.plans:
            tables = self._state.lookups.at(together.groupings, batch.number)
            made = batch.partials(together, tables, aside.bounds)
            aside.note(late=any(own.late for own in made), ahead=any(own.ahead for own in made))
            collected = iter(made)
        few = [next(collected) if rest.groupings else Collected([], [], ahead=False) for rest in small]
        return self.take_all([own for own, _ in plans], small, few, self._written(plans, batch, aside))

    def _written(
        self, plans: Sequence[tuple[SharingSet, Plan]], batch: Batch, aside: SetAside
    ) -> list[list[CountedPartials]]:
        """What shards write of each plan."""
        return [
            [(g, None, self._to_shards(own, plan, g, batch, aside)) for g in plan.groupings if g.name in own.shards]
            for own, plan in plans
        ]

    def take_all(
        self,
        sets: Sequence[SharingSet],
        plans: Sequence[Plan],
        collected: Sequence[Collected],
        written: Sequence[list[CountedPartials]] | None = None,
    ) -> Tally:
        """Take partials into the tiers of their sets, and those that shards have written already. Returns what they say
        of the batch."""
        for plan, own in zip(plans, collected, strict=True):
            for grouping, tables in zip(plan.groupings, own.late, strict=True) if own.late else ():
                self._count_late(grouping, tables)
        give_way()
        with in_threads(cores()) as run:
            every = run(_sub_windows, list(zip(plans, collected, strict=True)))
        first = None
        for at, taken in enumerate(every):
            give_way()
            counted = self._take(sets[at], [*taken, *(written[at] if written is not None else [])])
            first = counted if first is None else first
        assert first is not None
        return first

    def _count_late(self, grouping: Grouping, tables: list[pa.Table]) -> None:
        for table in () if grouping.counted else tables:
            add_counts(self._state.counts.late_by_query, late_for(table, grouping))

    def _to_shards(
        self, sharing_set: SharingSet, plan: Plan, grouping: Grouping, batch: Batch, aside: SetAside
    ) -> Tally:
        """Let shards write the partials of a grouping; once more where it turns out that some events do not count."""
        shards, bounds, mark = sharing_set.shards[grouping.name], aside.bounds, Mark(batch.number)
        tables = self._state.lookups.at(plan.groupings, batch.number)
        if not aside.some & OUTSIDE:
            counted = batch.to_shards(shards, plan, grouping, tables, EVERYWHERE, mark)
            late, ahead = bounds.is_passed_by(counted.oldest, counted.newest)
            if not late and not ahead:
                return counted
            aside.note(late=late, ahead=ahead)
        if "late" in aside.some:
            alone = with_groupings(plan, [grouping])
            (missed,) = batch.partials_within(alone, tables, bounds.late)
            self._count_late(grouping, missed)
        return batch.to_shards(shards, plan, grouping, tables, bounds, mark)

    def _take(self, sharing_set: SharingSet, taken: list[CountedPartials]) -> Tally:
        counts = self._state.counts
        for grouping, entries, counted in taken:
            counts.slices += sharing_set.tier.add_slices(counted.slices)
            for entry in entries or ():
                sharing_set.tier.absorb(entry)
            known = sharing_set.groups.get(grouping.name, 0) if entries is None else 0
            sharing_set.groups[grouping.name] = max(counted.groups, known)
            counts.add(counted)
        wrong = sharing_set.misjudged(taken)
        counts.misjudged |= wrong
        self._state.is_misjudged |= bool(wrong)
        first = taken[0][2]
        if first.events and first.newest is not None and first.oldest is not None:
            sharing_set.seen = observed(sharing_set.seen, taken, max(first.newest - first.oldest, 1))
        return first


def _sub_windows(made: tuple[Plan, Collected]) -> list[CountedPartials]:
    """The sub-windows of each grouping of a plan, and what its partials say of the batch."""
    plan, collected = made
    taken: list[CountedPartials] = []
    for grouping, tables in zip(plan.groupings, collected.taken, strict=True) if collected.taken else ():
        give_way()
        counted = Tally()
        for table in tables:
            counted.add(tally(table, grouping))
        give_way()
        parts = [part for table in tables for part in in_portions(table)]
        taken.append((grouping, [PartialSubWindows.of(part, grouping) for part in parts], counted))
    return taken
