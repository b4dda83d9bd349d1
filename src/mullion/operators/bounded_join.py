"""A join whose windows keep a limited number of rows: others are evicted before their time (golab 2.4.3, memory short).

    events of a step --cut where a window becomes full--> join --> results
                                    |                      ^
                                    '-- rows that go first-'

What goes depends on the instants of event time at which windows are full, and not on steps: so a step is made in parts,
each up to such an instant. Between two of them a sixteenth of a window has come, so that rows go many at a time.

| SHED | which go first |
|---|---|
| OLDEST | those that end soonest |
| RAREST | those with the fewest expected partners: as many as kept rows of the other inputs have the key now |

Requires: windows of time over streams, by filters and tables at most: rows end in the order in which they came.
Time: as the join; beside it O(log n) for each row that comes, as long as there is room, and O(n log n) for each
sixteenth of a window of n rows that comes when there is none.
Space: the limits of its windows, and what a step brings.
Guarantee: every result is one of the join's, once. What is lost follows from the events and their times alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Bounded, Node
from mullion.expressions.arrays import Ids, Mask, Times
from mullion.instants import EVER_BEFORE
from mullion.operators.base import Operator, Parts, TooManyRows
from mullion.operators.column_pruning import nodes_in_order
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.join import JoinOperator
from mullion.operators.join_probe import same_key
from mullion.operators.missing import NOTHING, Missing
from mullion.operators.registry import implements
from mullion.operators.row_store import RowStore
from mullion.operators.timed_rows import Delta, TimedRows


class BoundedJoinOperator(JoinOperator):
    def __init__(self, node: Bounded, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        super().__init__(node.join, inputs, construction)
        self.bounded = node
        self.evicted_rows = [0] * len(inputs)
        """How many rows of each input went before their time."""
        self.missing = NOTHING
        """When results are missing, where groups are made of them."""
        self._before = EVER_BEFORE

    # A step

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        assert not any(len(delta.retracted) for delta in inputs), "rows end when they promised to"
        self.missing = self.missing.after(self._before)
        coming = [_Coming.of(delta) for delta in inputs]
        results: list[TimedRows] = []
        while (until := self._next(coming)) is not None:
            results.append(super().advance([own.up_to(until) for own in coming], until + 1).fresh)
            if sum(map(len, results)) > self.most_rows:
                raise TooManyRows(sum(map(len, results)))
            self._make_room(until)
        rest = super().advance([own.rest() for own in coming], now)
        self._before = now
        fresh = TimedRows.concat([*results, rest.fresh]) if results else rest.fresh
        return replace(rest, fresh=fresh, missing=self.missing if self.bounded.aggregated else None)

    def _next(self, coming: Sequence[_Coming]) -> int | None:
        """Up to when rows can be taken before some may have to go; None: all of them."""
        found = [
            own.full(store, most)
            for own, store, most in zip(coming, self.stores, self.bounded.most, strict=True)
            if most is not None and store.rows_held + own.left > most
        ]
        return min((at for at in found if at is not None), default=None)

    def _make_room(self, now: int) -> None:
        """Let rows go of inputs that have more than they may at an instant. Which ones is known before any goes."""
        if any(self.bounded.rarest):
            for store in self.stores:
                store.keep(lambda rows: rows.end > now + 1, exactly=True)
        chosen = [
            (i, self._going(i, most, now))
            for i, most in enumerate(self.bounded.most)
            if most is not None and self.stores[i].rows_held > most
        ]
        for i, going in chosen:
            if len(going.ends):
                self.evicted_rows[i] += len(going.ends)
                self.stores[i].keep(going.others, exactly=True)
                missing = Missing.between(now + 1, int(going.ends.max()))
                self.missing = Missing.union([self.missing, missing])

    def _going(self, i: int, most: int, now: int) -> _Going:
        """The rows of an input that go. Those that came first are those that end first, and they have the least ids."""
        windows, others = self.stores[i].windows, [other for j, other in enumerate(self.stores) if j != i]
        ids = np.concatenate([window.ids[:, 0] for window in windows])
        end = np.concatenate([window.end for window in windows])
        alive = int(np.count_nonzero(end > now + 1))
        if alive <= most:
            return _Going(ids[:0], end[:0])
        stays = self.bounded.stays(i)
        if not self.bounded.rarest[i]:
            first = int(np.partition(ids, len(ids) - stays)[len(ids) - stays])
            return _Going(ids[:0], end[(ids < first) & (end > now + 1)], first)
        partners = np.concatenate([prod(same_key(window, other) for other in others) for window in windows])
        going = np.lexsort((ids, partners))[: len(ids) - stays]
        return _Going(np.sort(ids[going]), end[going])

    def _lets_go(self, i: int) -> bool:
        """Rows of keys that are over stay: when that is heard of depends on steps."""
        return False

    # State

    def parts(self) -> Parts:
        missing = {"missing": [self.missing.to_table()]} if self.bounded.aggregated else {}
        return {**super().parts(), "let_go": [pa.table({"#rows": self.evicted_rows})], **missing}

    def restore(self, parts: Parts) -> None:
        super().restore(parts)
        for table in parts.get("let_go", ()):
            self.evicted_rows = table["#rows"].to_pylist()
        for table in parts.get("missing", ()):
            self.missing = Missing.from_table(table)


@implements(Bounded)
def bounded(node: Bounded, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> Operator:
    """Where negative tuples tell when rows end, the join keeps all rows: how many there are is known too late."""
    if any(construction.has_retractions(part.pattern) for part in node.join.parts):
        return JoinOperator(node.join, inputs, construction)
    return BoundedJoinOperator(node, inputs, construction)


LOOKED_AT = 4
"""One of so many parts of a window is looked at beyond the room in it, to see where it becomes full."""


@dataclass(frozen=True)
class _Going:
    """Rows that go: those of some ids, in order, and those before one."""

    ids: Ids
    ends: Times
    """When they would have ended."""
    before: int = 0

    def others(self, rows: TimedRows) -> Mask:
        """Which rows stay."""
        own = rows.ids[:, 0]
        stays: Mask = own >= self.before
        if len(self.ids):
            at = np.minimum(np.searchsorted(self.ids, own), len(self.ids) - 1)
            stays &= self.ids[at] != own
        return stays


@dataclass
class _Coming:
    """New rows of an input, in the order of time, of which those before `at` were taken."""

    delta: Delta
    at: int = 0
    _until: int = EVER_BEFORE
    _known: tuple[Times, Times] | None = None

    @staticmethod
    def of(delta: Delta) -> _Coming:
        start = delta.fresh.start
        if len(start) > 1 and (start[1:] < start[:-1]).any():
            delta = replace(delta, fresh=delta.fresh.take(np.argsort(start, kind="stable")))
        return _Coming(delta)

    @property
    def left(self) -> int:
        return len(self.delta.fresh) - self.at

    def full(self, store: RowStore, most: int) -> int | None:
        """The first instant at which there are more than so many rows, with those that are kept. It looks no further
        than about a quarter of them beyond the room that there is, and gives the last instant there where none is full
        before; None where no more come."""
        start, end = self._lives(store)
        held = store.rows_held
        some = start[: max(most - held, 0) + most // LOOKED_AT + 1]
        if not len(some):
            return None
        kept = np.concatenate([np.zeros(0, np.int64), *(window.end for window in store.windows)])
        after = some + 1
        leaving = np.sort(kept[kept <= after[-1]])
        came = np.searchsorted(start, some, "right")
        ended = np.searchsorted(end, after, "right") + np.searchsorted(leaving, after, "right")
        full = np.flatnonzero(held + came - ended > most)
        if len(full):
            return int(some[full[0]])
        return int(some[-1]) if len(some) < len(start) else None

    def _lives(self, store: RowStore) -> tuple[Times, Times]:
        """When those of the rows start and end that have a key: others are not kept."""
        if self._known is None:
            fresh = self.delta.fresh
            known = store.key(fresh.rows).known
            self._known = (fresh.start, fresh.end) if known is None else (fresh.start[known], fresh.end[known])
        start, end = self._known
        taken = int(np.searchsorted(start, self._until, "right"))
        return start[taken:], end[taken:]

    def up_to(self, instant: int) -> Delta:
        """The rows that come until an instant, which are taken by that."""
        fresh, first = self.delta.fresh, self.at
        self.at, self._until = int(np.searchsorted(fresh.start, instant, "right")), instant
        return replace(self.delta, fresh=fresh.take(np.arange(first, self.at)), now=instant + 1)

    def rest(self) -> Delta:
        if not self.at:
            return self.delta
        return replace(self.delta, fresh=self.delta.fresh.take(np.arange(self.at, len(self.delta.fresh))))


def evicted_of(plans: Mapping[Node, Node], operators: Mapping[Node, Operator]) -> dict[Node, list[dict[str, Any]]]:
    """How many rows joins evicted from each window before their time, by the roots whose plans have such a join."""
    own = {node: operator for node, operator in operators.items() if isinstance(operator, BoundedJoinOperator)}
    below = {root: [n for n in nodes_in_order([plan]) if n in own] for root, plan in plans.items() if own}
    return {root: [fact for node in found for fact in _facts(own[node])] for root, found in below.items() if found}


def _facts(operator: BoundedJoinOperator) -> list[dict[str, Any]]:
    node = operator.bounded
    windows = [(node.window(i), most, operator.evicted_rows[i]) for i, most in enumerate(node.most) if most is not None]
    return [{"stream": own.stream, "window": own.explained, "memory": most, "rows": n} for own, most, n in windows]


__all__ = ["BoundedJoinOperator", "evicted_of"]
