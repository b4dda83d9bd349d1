"""The promising join: the whole join while the budget of a step reaches, otherwise its most promising part (ali 5.1).

    new rows of input 0 --how many would each meet in 1?--. entries, with promises --order--> told, as far as the budget
    new rows of input 1 --how many would each meet in 0?--'                                   the rest waits or is shed

Where all that is offered fits, it is told by `JoinOperator` itself. Otherwise every new row that meets others is an
entry of its `PromisingSet`, which says what is told.

Estimates are exact counts: the rows are in memory, sorted by key, and can be counted without being gathered. The paper
has sketches there, since its tuples lie in lists.

Where MEMORY is short, rows are let go before their time (see `promise_memory`), and what waits with them is shed.

A join of three or more streams is a stack of these. What a lower one tells late comes late to the one above, and meets
there what is still alive.

Requires: two inputs whose rows end when they promised to.
Time: as the join for what is told; for what is offered, counting.
Space: the windows of the inputs, and one entry for each row that waits; MEMORY at most, and what a step brings.
Guarantee: every row that is told is one of the join's, once; without shortage it is the join. Where groups are made of
them, weights are the reciprocals of chances, and times at which rows are missing are told; at others none is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Promising
from mullion.algebra.nodes.promising import KEPT, KEPT_UNIT
from mullion.algebra.streams import WEIGHT
from mullion.expressions.arrays import Array, Counts, Real
from mullion.operators.agenda import Entries
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import key_function
from mullion.operators.join_probe import Partial, choose, extended
from mullion.operators.kernels.chosen_pairs import Wanted, codes_of
from mullion.operators.kernels.join import PORTION, Pairs, common_runs
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.missing import Missing
from mullion.operators.promise_budget import StepBudget
from mullion.operators.promise_memory import PromiseMemory, key_stores
from mullion.operators.promise_offers import NUMBER, number_of, numbered, numbered_rows, numbers_of, offers_of
from mullion.operators.promise_orders import phases
from mullion.operators.promise_tally import PromiseTally
from mullion.operators.promising_set import PromisingSet
from mullion.operators.row_store import RowStore
from mullion.operators.timed_rows import Delta, Retractions, TimedRows
from mullion.operators.weighed_join import WeighedJoin

ENTRY = 2
"""The place in `Partial.at`, beside those of the two inputs, of the entry by which a pair is told."""


class PromisingJoinOperator(WeighedJoin):
    def __init__(self, node: Promising, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        super().__init__(node, inputs, construction)
        self.promising = node
        number = pa.field(NUMBER, pa.int64())
        self.stores = [
            construction.store(part.kept_as, source.schema.append(number), source.width, key_function(keys, part.types))
            for part, keys, source in zip(node.parts, node.keys, inputs, strict=True)
        ]
        self.memory = PromiseMemory(node, self.stores, key_stores(node, inputs, construction))
        self.promises = PromisingSet(node, self)
        self.came = [0, 0]
        """How many rows of each input have come."""
        self._looked_at = 0

    # A step

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        began = time.perf_counter()
        assert not any(len(delta.retracted) for delta in inputs), "rows end when they promised to"
        budget = self.promises.begin(began, self.most_rows, sum(delta.spent for delta in inputs))
        inputs = [self._numbered(i, delta) for i, delta in enumerate(inputs)]
        missed = sum(self.memory.missed(i, self._sorted(i, delta.fresh)) for i, delta in enumerate(inputs))
        self.tally.offered += missed
        self.tally.lose(missed)
        told = self._told(inputs, now, budget)
        missing = [delta.missing for delta in (told, *inputs) if delta.missing is not None]
        self._leave(now)
        self.promises.end(began, sum(len(delta.fresh) for delta in inputs), budget)
        return replace(told, missing=Missing.union(missing) if missing else None, spent=budget.spent)

    def _told(self, inputs: Sequence[Delta], now: int, budget: StepBudget) -> Delta:
        if self._surely_fits(inputs, budget):
            began, looked_at = time.perf_counter(), self._looked_at
            whole = super().advance(inputs, now)
            met = self._looked_at - looked_at
            self.tally.offered += met
            self.promises.whole_pace.learn(met, time.perf_counter() - began)
            budget.spend_whole(sum(len(delta.fresh) for delta in inputs), met)
            return replace(whole, missing=self.promises.lacking)
        offers = []
        for i, delta in enumerate(inputs):
            self.bad += self._bad_keys[i].among(delta.fresh.rows)
            fresh = self._sorted(i, delta.fresh)
            if fresh is not None:
                until = self.came[0] if i else self.came[1] - len(inputs[1].fresh)
                offers.append(offers_of(self.promising, i, fresh, self.stores[1 - i], until, self.promises.before))
                self.stores[i].add(fresh)
        new, held = [len(delta.fresh) for delta in inputs], [store.held for store in self.stores]
        self.met.step()
        self.passed.step()
        combinations = new[0] * max(held[1] - new[1], 0) + new[1] * held[0]
        self.met.see(combinations, sum(int(entries.pairs.sum()) for entries in offers))
        rows = self.promises.tell(offers, budget, sum(self.came))
        for store in self.stores:
            store.expire(now)
        joined = TimedRows.concat(rows) if rows else TimedRows.empty(self.schema, self.width)
        return Delta(joined, Retractions.none(self.width), now, missing=self.promises.lacking)

    def _numbered(self, i: int, delta: Delta) -> Delta:
        fresh = numbered(delta.fresh, self.came[i])
        self.came[i] += len(fresh)
        return replace(delta, fresh=fresh)

    def _sorted(self, i: int, rows: TimedRows) -> KeyedSubWindow | None:
        """Once, although they are counted before they are told."""
        if "sorted" not in rows.noted:
            rows.noted["sorted"] = super()._sorted(i, rows)
        found: KeyedSubWindow | None = rows.noted["sorted"]
        return found

    def _surely_fits(self, inputs: Sequence[Delta], budget: StepBudget) -> bool:
        """Whether nothing waits, and all that new rows can meet fits."""
        if len(self.promises.agenda):
            return False
        new = [len(delta.fresh) for delta in inputs]
        held = [store.held for store in self.stores]
        at_most = new[0] * held[1] + new[1] * (held[0] + new[0])
        pace = self.promises.whole_pace
        if budget.fits_whole(sum(new), at_most, pace):
            return True
        fresh = [self._sorted(i, delta.fresh) for i, delta in enumerate(inputs)]
        return budget.fits_whole(sum(new), _at_most(fresh, self.stores), pace)

    def _combinations(self, i: int, rows: Partial, *, before_cuts: bool = False) -> Iterator[Partial]:
        """Without what had ended before the step: rows that a join below tells late meet what is there."""
        before = self.promises.before
        found = super()._combinations(i, rows, before_cuts=before_cuts)
        if rows.start.min(initial=before) >= before:
            return found
        return (some.take(np.flatnonzero(some.end > before)) for some in found)

    # The pairs of entries

    def promise(self, entries: Entries) -> Real:
        return entries.promise

    def alive(self, entries: Entries) -> Counts:
        alive = np.zeros(len(entries), np.int64)
        for _ in self._met(entries, np.zeros(len(entries), np.int64), alive):
            pass
        return alive

    def split(self, entry: Entries, most: int) -> tuple[Entries, int, int]:
        kept = [numbers_of(store.windows) for store in self.stores]
        number = np.sort(np.concatenate([kept[1 - m.side][m.pairs.stored] for m in self._met(entry, entry.pairs)]))
        first = int(number[-most])
        left = len(number) - most
        part = replace(entry, since=np.array([first]), pairs=np.array([most]))
        return part, first, left

    def rows(self, entries: Entries, drawn: Counts) -> tuple[list[TimedRows], Counts]:
        rows: list[TimedRows] = []
        together: list[_Met] = []
        alive = np.zeros(len(entries), np.int64)
        for met in self._met(entries, drawn, alive):
            if together and (together[0].window is not met.window or sum(map(len, together)) > PORTION):
                rows += self._joined(together)
                together = []
            together.append(met)
        return rows + (self._joined(together) if together else []), alive

    def _met(self, entries: Entries, taken: Counts, alive: Counts | None = None) -> Iterator[_Met]:
        """So many of the pairs that entries still have. `alive` counts all of these."""
        phase, chance = phases(entries.probe + sum(self.came)), self.promises.chance
        chance = np.ones(len(entries)) if chance is None else chance
        for i in (0, 1):
            mine, other = np.flatnonzero(entries.side == i), self.stores[1 - i]
            stored = [number_of(window) for window in other.windows] if len(mine) else []
            for window in self.stores[i].windows if len(mine) else ():
                rows, which = numbered_rows(window, entries.probe[mine])
                if not len(rows):
                    continue
                partial, which = Partial.of(i, window, rows), mine[which]
                partial.at[ENTRY] = which
                own, seen = entries.take(which), np.zeros(len(which), np.int64)
                drawn = taken[which], own.pairs, phase[which], chance[which]
                wanted = Wanted(own.since, own.until, *drawn, seen, own.probe, i, self.promising.salt)
                for number, met, first in zip(stored, other.windows, other.offsets().tolist(), strict=True):
                    for pairs in choose(partial, met, number, wanted, self.promises.before):
                        if len(pairs):
                            yield _Met(i, window, partial, replace(pairs, stored=pairs.stored + first))
                if alive is not None:
                    alive[which] = wanted.seen

    def _joined(self, together: Sequence[_Met]) -> list[TimedRows]:
        """Pairs of the rows of one sub-window as rows of the join."""
        i, window, partial = together[0].side, together[0].window, together[0].partial
        met = extended(partial, Pairs.concat([chunk.pairs for chunk in together]), 1 - i, is_last=True)
        passing = self._where_residual(i, window, met)
        self.passed.see(len(met), len(passing))
        return [self._timed(i, window, passing)] if len(passing) else []

    def _of_a_sample(self, name: str, i: int, own: KeyedSubWindow, partial: Partial) -> Array:
        sample, stored = self.promises.sample, partial.at[1 - i]
        if name in (KEPT, KEPT_UNIT):
            number = numbers_of(self.stores[1 - i].windows)[stored]
            return self.memory.weights(1 - i, number) if name == KEPT else 2 * number + 1 - i
        if sample is None:
            return super()._of_a_sample(name, i, own, partial)
        if name == WEIGHT:
            return sample.weight[partial.at[ENTRY]]
        if sample.unit is not None:
            return sample.unit[partial.at[ENTRY]]
        both = number_of(own)[partial.at[i]], numbers_of(self.stores[1 - i].windows)[stored]
        return codes_of(self.promising.salt, *(both if i == 0 else both[::-1]))

    def _where_residual(self, i: int, own: KeyedSubWindow, partial: Partial, *, are_new: bool = True) -> Partial:
        passing = super()._where_residual(i, own, partial, are_new=are_new)
        self._looked_at += len(partial)
        self.tally.offered -= len(partial) - len(passing)
        self.tally.told += len(passing)
        if len(passing):
            other = np.concatenate([window.start for window in self.stores[1 - i].windows])
            apart = own.start[passing.at[i]] - other[passing.at[1 - i]]
            self.tally.apart += float(np.abs(apart).sum())
        return passing

    def _lets_go(self, i: int) -> bool:
        """Rows of keys that are over stay: what waits may be with them."""
        return False

    def _leave(self, now: int) -> None:
        self.promises.expire(now)
        self.memory.expire(now)
        if self.memory.is_short(self.promises.agenda):
            self._save_memory(now)
        self.tally.waiting = int(self.promises.agenda.pairs.sum())
        self.tally.bytes = self.memory.size(self.promises.agenda)

    def _save_memory(self, now: int) -> None:
        """Let rows go. What waited with them is shed, but for what had expired."""
        ends = (int(window.meets.max()) for store in self.stores for window in store.windows)
        self.promises.lose(now, max(ends, default=now))
        everything = np.arange(len(self.promises.agenda))
        counted, expired = self.promises.counted(self.promises.agenda, everything)
        self.tally.rows_shed += self.memory.shed(counted, now, self.came)
        left, shed = self.promises.counted(counted, everything)
        self.promises.agenda = left.take(left.pairs > 0)
        self.tally.expired += expired
        self.tally.lose(shed)

    # State

    @property
    def tally(self) -> PromiseTally:
        return self.promises.tally

    @property
    def held(self) -> int:
        return super().held + len(self.promises.agenda)

    def structures(self) -> dict[str, str]:
        return {**super().structures(), "agenda": "entries by promise"}

    def parts(self) -> Parts:
        before = [self.promises.before] * 2
        at = pa.table({"#came": self.came, "#before": before, "#halvings": [self.memory.halvings] * 2})
        return {**super().parts(), **self.promises.parts(), **self.memory.parts(), "at": [at]}

    def restore(self, parts: Parts) -> None:
        super().restore(parts)
        for table in parts.get("at", ()):
            self.came = table["#came"].to_pylist()
            self.memory.halvings = table["#halvings"][0].as_py()
            self.promises.restore(parts, table["#before"][0].as_py())
        self.memory.restore(parts)
        for store in self._all_stores().values():
            store.expire(self.promises.before)  # so that it merges, and takes memory, as without a restart

    def _all_stores(self) -> dict[str, RowStore]:
        return {**super()._all_stores(), **{f"gone{i}": store for i, store in enumerate(self.memory.gone)}}


@dataclass(frozen=True)
class _Met:
    """Pairs of rows of input `side`, which stand in a sub-window, with rows of the other."""

    side: int
    window: KeyedSubWindow
    partial: Partial
    pairs: Pairs

    def __len__(self) -> int:
        return len(self.pairs)


def _at_most(fresh: Sequence[KeyedSubWindow | None], stores: Sequence[RowStore]) -> int:
    """How many pairs new rows make by their keys, whether they live at the same time or not."""
    first, second = fresh
    total = 0
    for new, others in ((first, stores[1].windows), (second, [*stores[0].windows, first])):
        for other in others:
            if new is not None and other is not None:
                own, stored = common_runs(new.runs, other.runs)
                total += int((np.diff(new.runs.first)[own] * np.diff(other.runs.first)[stored]).sum())
    return total
