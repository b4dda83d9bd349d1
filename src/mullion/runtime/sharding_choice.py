"""Which groupings have so many groups that their sub-windows are kept in shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from mullion.memory import ANSWERING
from mullion.planner.plan import Grouping, Plan
from mullion.runtime.batch import Batch
from mullion.runtime.relation_shards import SHARDS
from mullion.runtime.sharding import Shards
from mullion.runtime.sharing_set import SharingSet
from mullion.runtime.state_memory import Holder
from mullion.runtime.stream_state import StreamState
from mullion.slices.answering_room import opened_bytes

COUNTED = 10
"""So many times more pairs of a group and a value stay on the driver than groups: they hold no states but a count."""
HELD = 40
"""Rows of sub-windows that stay on the driver, for each group that may."""


class ShardingChoice:
    def __init__(self, state: StreamState) -> None:
        self._state = state

    def move_the_large(self, sharing_set: SharingSet, plan: Plan, batch: Batch) -> None:
        """Move groupings with very many groups to shards, before their partials would come to the driver. While events
        are shed only those go whose sub-windows might not fit with those of a batch: the burst passes, nothing comes
        back from shards, and to move is the most work just when there is no time for it."""
        self.keep_together(sharing_set, plan)
        for family in _families(plan):
            here = [grouping for grouping in family if grouping.name not in sharing_set.shards]
            if any(self._is_large(sharing_set, grouping, plan, batch) for grouping in here):
                self._move(sharing_set, family)

    def keep_together(self, sharing_set: SharingSet, plan: Plan) -> None:
        """Move to shards what is counted for a grouping that is there: queries may enter when no batch comes any
        more."""
        for family in _families(plan):
            if any(grouping.name in sharing_set.shards for grouping in family):
                self._move(sharing_set, family)

    def move_too_large(self, own: Holder, family: Sequence[Grouping]) -> bool:
        """Move what cannot be answered on the driver to shards, which go through their groups in parts; False where it
        cannot be there: over another axis than time, without keys, and where all events are looked at on the driver."""
        if not isinstance(own, SharingSet) or not family[0].keys or self._state.punctuations is not None:
            return False
        self._move(own, family)
        return True

    def _is_large(self, sharing_set: SharingSet, grouping: Grouping, plan: Plan, batch: Batch) -> bool:
        held = [entry for entry in sharing_set.tier.entries if entry.grouping == grouping.name]
        if not self._state.overload.thinning.is_whole:
            memory = self._state.memory()
            return ANSWERING * (sum(entry.size for entry in held) + memory.collected) > memory.answering
        limit = self._most_groups(grouping)
        if grouping.name not in sharing_set.groups:
            sharing_set.groups[grouping.name] = self._groups(grouping, plan, batch, limit)
        most = limit * COUNTED if grouping.counted else limit
        return sharing_set.groups[grouping.name] > most or sum(len(entry.slices) for entry in held) > HELD * limit

    def _most_groups(self, grouping: Grouping) -> int:
        """How many groups stay on the driver: fewer where their states would take too much when they are opened."""
        limit, opened = self._state.options.shard_above, opened_bytes(grouping)
        room = self._state.memory().task(self._state.source.tasks).usual if opened else 0
        return min(limit, room // opened) if opened else limit

    def _groups(self, grouping: Grouping, plan: Plan, batch: Batch, limit: int) -> int:
        """About how many groups a grouping has: from the statistics of the batch, or from its first events."""
        statistics = self._state.statistics
        known = None if statistics is None else statistics.groups.get(grouping.name)
        if known is not None:
            return known.number
        tables = self._state.lookups.at(plan.groupings, batch.number)
        return 2 * batch.groups(plan, grouping, tables, max(limit, 1))

    def _move(self, sharing_set: SharingSet, family: Sequence[Grouping]) -> None:
        for grouping in family:
            if grouping.name not in sharing_set.shards:
                sharing_set.shards[grouping.name] = self._in_shards(sharing_set, grouping)

    def _in_shards(self, sharing_set: SharingSet, grouping: Grouping) -> Shards:
        label = next(label for label, own in self._state.sets.items() if own is sharing_set)
        name = sha256(f"{label} {grouping.name}".encode()).hexdigest()[:16]
        shards = Shards(self._state.files, f"shards/{name}", SHARDS)
        for i, entry in enumerate(sharing_set.tier.take_out(grouping.name)):
            moved = f"moved-{i}"
            shards.adopt(entry, moved, dict(self._state.source.adopt(shards, entry, grouping, moved)))
        return shards


def _families(plan: Plan) -> Iterator[tuple[Grouping, ...]]:
    """Groupings by keys, each with those that count values for it: a shard answers from all of them."""
    return ((grouping, *plan.counting(grouping)) for grouping in plan.answering if grouping.keys)
