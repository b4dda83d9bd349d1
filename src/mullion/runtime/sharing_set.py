"""Queries that are answered from the same partials, and what batches showed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from mullion.planner.expected import Expected, far_off
from mullion.planner.observed import NOTHING_SEEN, Observed
from mullion.planner.plan import Grouping, Plan
from mullion.runtime.sharding import Shards
from mullion.slices.kept_stretches import KeptStretches
from mullion.slices.subwindow import PartialSubWindows
from mullion.slices.tally import Tally
from mullion.slices.tier import WindowTier
from mullion.storage.files import CommittedFiles


@dataclass
class SharingSet:
    """A cluster: queries that are answered from the same partials. All of them are one, or those whose sharing pays
    (`planner.clusters`), or each is its own when sharing is off."""

    members: frozenset[str] = frozenset()
    """The names of its queries."""
    tier: WindowTier = field(default_factory=WindowTier)
    kept_stretches: KeptStretches = field(default_factory=KeptStretches)
    plan: Plan | None = None
    seen: Observed = NOTHING_SEEN
    shards: dict[str, Shards] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    """About how many groups a grouping has: from a sample before its first batch, from each batch after it."""
    expected: dict[str, Expected] = field(default_factory=dict)
    """What the plan expects of a batch, by grouping: by statistics, or else that it is as the first one was."""

    @property
    def beside(self) -> int:
        """Bytes that are held beside sub-windows: too few to count."""
        return 0

    def at_work(self, needed: int, together: Sequence[Grouping], room: int) -> int:
        """Bytes that are at work when windows of groupings are answered, `needed` for all of their rows."""
        return needed

    def snapshot(self) -> dict[str, Any]:
        return {
            "members": sorted(self.members),
            "tier": self.tier.snapshot(),
            "seen": asdict(self.seen) if self.seen is not NOTHING_SEEN else None,
            "groups": self.groups,
            "shards": {name: shards.snapshot() for name, shards in self.shards.items()},
        }

    def restore(self, state: dict[str, Any], tables: Sequence[pa.Table], files: CommittedFiles) -> None:
        self.members = frozenset(state["members"])
        self.seen = Observed(**state["seen"]) if state["seen"] else NOTHING_SEEN
        self.groups = dict(state["groups"])
        self.shards |= {name: Shards.restored(files, shards) for name, shards in state["shards"].items()}
        self.tier.restore(state["tier"], tables)
        for name in self.shards:  # commits before these were moved hold them, too
            self.tier.take_out(name)

    def misjudged(self, taken: Sequence[CountedPartials]) -> dict[str, str]:
        """What the plan expected and what came of it, where these are far apart."""
        made = {g.name: Expected(counted.partials, counted.groups, counted.events) for g, _, counted in taken}
        wrong = far_off(self.expected, made)
        self.expected = {name: own for name, own in made.items() if own.events} | self.expected
        queries = {grouping.name: [query.name for query in grouping.queries] for grouping, _, _ in taken}
        return {f"{name} of {listed(queries[name])}": text for name, text in wrong.items()}


OLDEST_COUNT = 64
"""Batches by dense rows after which the number of fragments, which they do not show, counts as unknown again."""

CountedPartials = tuple[Grouping, list[PartialSubWindows] | None, Tally]
"""A grouping, its sub-windows when they are on the driver, and what its partials say of the batch."""


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many there are besides.

    >>> listed(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def observed(before: Observed, partials: Sequence[CountedPartials], span: int) -> Observed:
    """What a batch showed; of fragments, what the last batch showed that made some."""
    events = partials[0][2].events
    groups = max(counted.groups for _, _, counted in partials)
    most = max((counted for grouping, _, counted in partials if grouping.bits), key=lambda t: t.members, default=None)
    if most is None:
        return Observed(events, span, groups)
    alpha = most.members / events
    if most.bits is None:
        if before.fragments is None or before.age >= OLDEST_COUNT:
            return Observed(events, span, groups, None, alpha)
        k = min(events, before.fragments * events // max(1, before.events))
        return Observed(events, span, groups, k, alpha, before.beta, before.age + 1)
    return Observed(events, span, groups, most.fragments, alpha, most.bits / max(1, most.fragments))
