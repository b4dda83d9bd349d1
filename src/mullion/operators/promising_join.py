"""The promising join: the whole join while the budget of a step reaches, otherwise its most promising part (ali 5.1).

    new rows of input 0 --how many would each meet in 1?--. entries, with promises --order--> told, as far as the budget
    new rows of input 1 --how many would each meet in 0?--'                                   the rest waits or is shed

Where all that is offered fits, it is told by `JoinOperator` itself. Otherwise every new row that meets others is an
entry of the agenda. DESC and ASC tell entries in order, the last one in part; what is left waits for a step with time
to spare, and goes when its rows do. WEIGHTED draws from each its share, and what is not drawn is shed: a sample that
is told later would be one of another time.

Estimates are exact counts: the rows are in memory, sorted by key, and can be counted without being gathered. The paper
has sketches there, since its tuples lie in lists.

Where MEMORY is short, rows are let go before their time (see `promise_memory`), and what waits with them is shed.

Requires: two inputs whose rows end when they promised to.
Time: as the join for what is told; for what is offered, counting.
Space: the windows of the inputs, and one entry for each row that waits; MEMORY at most, and what a step brings.
Guarantee: every row that is told is one of the join's, once; without shortage it is the join.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Promising
from mullion.expressions.arrays import Counts, Index
from mullion.instants import EVER_BEFORE
from mullion.language.query import Budget
from mullion.operators.agenda import Entries
from mullion.operators.auto_time import AutoTime
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import key_function
from mullion.operators.join import JoinOperator
from mullion.operators.join_probe import Partial, choose, extended
from mullion.operators.kernels.chosen_pairs import Wanted
from mullion.operators.kernels.join import PORTION, Pairs, common_runs
from mullion.operators.keyed_sub_window import KeyedSubWindow, equal_codes
from mullion.operators.promise_budget import FIRST_GUESS, LEARNT, StepBudget
from mullion.operators.promise_memory import PromiseMemory, key_stores
from mullion.operators.promise_offers import NUMBER, numbers_of, offers_of
from mullion.operators.promise_orders import WEIGHTED, phases, ranked, shares
from mullion.operators.promise_tally import PromiseTally
from mullion.operators.registry import implements
from mullion.operators.row_store import RowStore
from mullion.operators.timed_rows import Delta, Retractions, TimedRows

TELLING = 1000
"""Pairs from whose time one can tell what one takes."""
AHEAD = 1.5
"""Entries that waited are counted anew for so many times the budget, since some of their pairs have expired."""


class PromisingJoinOperator(JoinOperator):
    def __init__(self, node: Promising, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        super().__init__(node.input, inputs, construction)
        self.promising = node
        number = pa.field(NUMBER, pa.int64())
        self.stores = [
            construction.store(part.kept_as, source.schema.append(number), source.width, key_function(keys, part.types))
            for part, keys, source in zip(node.input.parts, node.input.keys, inputs, strict=True)
        ]
        self.memory = PromiseMemory(node, self.stores, key_stores(node, inputs, construction))
        self.agenda, self.tally = Entries.none(), PromiseTally()
        self.came = [0, 0]
        """How many rows of each input have come."""
        self.before = EVER_BEFORE
        """The `now` of the last step."""
        self.is_auto = node.budget == Budget()
        self.time = AutoTime()
        """What AUTO has of the time of a step."""
        self.pair_seconds = FIRST_GUESS
        self._looked_at = 0

    # A step

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        began = time.perf_counter()
        assert not any(len(delta.retracted) for delta in inputs), "rows end when they promised to"
        numbered = [self._numbered(i, delta) for i, delta in enumerate(inputs)]
        missed = sum(self.memory.missed(i, self._sorted(i, delta.fresh)) for i, delta in enumerate(numbered))
        self.tally.offered += missed
        self.tally.lose(missed)
        told = self._told(numbered, now, began)
        self.before = now
        self._leave(now)
        self.time.spend(time.perf_counter() - began)
        return told

    def _told(self, inputs: Sequence[Delta], now: int, began: float) -> Delta:
        budget = StepBudget(self.promising.budget, began, self.time.turn(), self.pair_seconds, self.most_rows)
        if self._surely_fits(inputs, budget):
            began, looked_at = time.perf_counter(), self._looked_at
            whole = super().advance(inputs, now)
            self.tally.offered += self._looked_at - looked_at
            self._learn(began, looked_at)
            return whole
        offers = [self.agenda]
        for i, delta in enumerate(inputs):
            self.bad += self._bad_keys[i].among(delta.fresh.rows)
            fresh = self._sorted(i, delta.fresh)
            if fresh is not None:
                until = self.came[0] if i else self.came[1] - len(inputs[1].fresh)
                offers.append(offers_of(self.promising, i, fresh, self.stores[1 - i], until))
                self.stores[i].add(fresh)
        self._see(inputs, sum(int(entries.pairs.sum()) for entries in offers[1:]))
        entries = Entries.concat(offers)
        rows = self._drawn(entries, budget) if self.promising.order == WEIGHTED else self._in_order(entries, budget)
        for store in self.stores:
            store.expire(now)
        joined = TimedRows.concat(rows) if rows else TimedRows.empty(self.schema, self.width)
        return Delta(joined, Retractions.none(self.width), now)

    def _numbered(self, i: int, delta: Delta) -> Delta:
        """Rows with the numbers in which they came, in the order of their starts."""
        rows, count = delta.fresh, len(delta.fresh)
        number = np.empty(count, np.int64)
        number[np.argsort(rows.start, kind="stable")] = self.came[i] + np.arange(count)
        self.came[i] += count
        return replace(delta, fresh=rows.with_rows(rows.rows.append_column(NUMBER, pa.array(number))))

    def _sorted(self, i: int, rows: TimedRows) -> KeyedSubWindow | None:
        """Once, although they are counted before they are told."""
        if "sorted" not in rows.noted:
            rows.noted["sorted"] = super()._sorted(i, rows)
        found: KeyedSubWindow | None = rows.noted["sorted"]
        return found

    def _surely_fits(self, inputs: Sequence[Delta], budget: StepBudget) -> bool:
        """Whether nothing waits, and all that new rows can meet fits."""
        if len(self.agenda):
            return False
        new = [len(delta.fresh) for delta in inputs]
        held = [store.held for store in self.stores]
        at_most = new[0] * held[1] + new[1] * (held[0] + new[0])
        if budget.fits(sum(new), at_most):
            return True
        fresh = [self._sorted(i, delta.fresh) for i, delta in enumerate(inputs)]
        return budget.fits(sum(new), _at_most(fresh, self.stores))

    def _see(self, inputs: Sequence[Delta], met: int) -> None:
        """Count what is offered; the planner asks what share of all combinations that is."""
        self.tally.offered += met
        new, held = [len(delta.fresh) for delta in inputs], [store.held for store in self.stores]
        self.met.step()
        self.passed.step()
        self.met.see(new[0] * max(held[1] - new[1], 0) + new[1] * held[0], met)

    # What is told

    def _in_order(self, entries: Entries, budget: StepBudget) -> list[TimedRows]:
        """Entries in the order of their promises, until the budget is spent. The others wait."""
        order, at, rows = ranked(entries.promise), 0, list[TimedRows]()
        is_counted = np.arange(len(entries)) >= len(self.agenda)
        while at < len(order) and not budget.is_spent:
            ahead = order[at : at + 1 + budget.fitting(entries.pairs[order[at:]], AHEAD)]
            if not is_counted[ahead].all():
                entries, expired = self._counted(entries, ahead[~is_counted[ahead]])
                self.tally.expired += expired
                is_counted[ahead] = True
                continue
            whole = budget.fitting(entries.pairs[order[at:]])
            if whole:
                rows += self._tell(entries.take(order[at : at + whole]), budget)
                at += whole
            else:
                part, until, left = self._split(entries.take(order[at : at + 1]), budget.pairs)
                rows += self._tell(part, budget)
                entries = entries.cut(int(order[at]), until, left)
                at += 0 if left else 1
        self.agenda = entries.take(order[at:])
        return rows

    def _counted(self, entries: Entries, some: Index) -> tuple[Entries, int]:
        """With the pairs that some entries still have, and how many are gone."""
        chosen = entries.take(some)
        alive = np.zeros(len(some), np.int64)
        for _ in self._met(chosen, np.zeros(len(some), np.int64), alive):
            pass
        pairs = entries.pairs.copy()
        pairs[some] = alive
        return replace(entries, pairs=pairs), int(chosen.pairs.sum() - alive.sum())

    def _split(self, entry: Entries, most: int) -> tuple[Entries, int, int]:
        """So many pairs of an entry, with the rows that came last; before which number those came that are left to it,
        and how many they are."""
        kept = [numbers_of(store.windows) for store in self.stores]
        number = np.sort(np.concatenate([kept[1 - m.side][m.pairs.stored] for m in self._met(entry, entry.pairs)]))
        first = int(number[-most])
        left = len(number) - most
        part = replace(entry, since=np.array([first]), pairs=np.array([most]))
        return part, first, left

    def _drawn(self, entries: Entries, budget: StepBudget) -> list[TimedRows]:
        """Of each entry its share. What is not drawn is shed."""
        pairs, phase = entries.pairs, float(phases(np.array([sum(self.came)]))[0])
        if budget.fits(len(entries), int(pairs.sum())):
            drawn = pairs
        elif budget.counts_events:
            drawn = pairs * shares(entries.promise, np.ones(len(entries), np.int64), budget.left, phase)
            drawn = shares(drawn.astype(np.float64), drawn, budget.rows, phase)
        else:
            drawn = shares(entries.promise, pairs, budget.pairs, phase)
        self.tally.shed += int(pairs.sum() - drawn.sum())
        some = np.flatnonzero(drawn)
        return self._tell(entries.take(some), budget, drawn[some])

    def _tell(self, entries: Entries, budget: StepBudget, drawn: Counts | None = None) -> list[TimedRows]:
        """The pairs of some entries, or as many as are drawn of them, as rows."""
        began, looked_at = time.perf_counter(), self._looked_at
        rows: list[TimedRows] = []
        together: list[_Met] = []
        for met in self._met(entries, entries.pairs if drawn is None else drawn):
            if together and (together[0].window is not met.window or sum(map(len, together)) > PORTION):
                rows += self._rows(together)
                together = []
            together.append(met)
        rows += self._rows(together) if together else []
        budget.spend(entries.pairs if drawn is None else drawn)
        self._learn(began, looked_at)
        return rows

    def _learn(self, began: float, looked_at: int) -> None:
        """How long a pair takes, from as many as tell."""
        if (pairs := self._looked_at - looked_at) >= TELLING:
            self.pair_seconds += LEARNT * ((time.perf_counter() - began) / pairs - self.pair_seconds)

    def _met(self, entries: Entries, taken: Counts, alive: Counts | None = None) -> Iterator[_Met]:
        """So many of the pairs that entries still have. `alive` counts all of these."""
        phase = phases(entries.probe + sum(self.came))
        for i in (0, 1):
            mine, other = np.flatnonzero(entries.side == i), self.stores[1 - i]
            stored = [numbers_of([window]) for window in other.windows]
            for window in self.stores[i].windows if len(mine) else ():
                rows, which = equal_codes(numbers_of([window]), entries.probe[mine])
                if not len(rows):
                    continue
                partial, which = Partial.of(i, window, rows), mine[which]
                own = entries.take(which)
                seen = np.zeros(len(which), np.int64)
                wanted = Wanted(own.since, own.until, taken[which], own.pairs, phase[which], seen)
                for number, met, first in zip(stored, other.windows, other.offsets().tolist(), strict=True):
                    for pairs in choose(partial, met, number, wanted, self.before):
                        if len(pairs):
                            yield _Met(i, window, partial, replace(pairs, stored=pairs.stored + first))
                if alive is not None:
                    alive[which] = wanted.seen

    def _rows(self, together: Sequence[_Met]) -> list[TimedRows]:
        """Pairs of the rows of one sub-window as rows of the join."""
        i, window, partial = together[0].side, together[0].window, together[0].partial
        met = extended(partial, Pairs.concat([chunk.pairs for chunk in together]), 1 - i, is_last=True)
        passing = self._where_residual(i, window, met)
        self.passed.see(len(met), len(passing))
        return [self._timed(i, window, passing)] if len(passing) else []

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
        """Entries leave with their rows."""
        over = self.agenda.end <= now
        if over.any():
            self.tally.expired += int(self.agenda.pairs[over].sum())
            self.agenda = self.agenda.take(~over)
        self.memory.expire(now)
        if self.memory.is_short(self.agenda):
            self._save_memory(now)
        self.tally.waiting = int(self.agenda.pairs.sum())
        self.tally.bytes = self.memory.size(self.agenda)

    def _save_memory(self, now: int) -> None:
        """Let rows go. What waited with them is shed, but for what had expired."""
        everything = np.arange(len(self.agenda))
        counted, expired = self._counted(self.agenda, everything)
        self.tally.rows_shed += self.memory.shed(counted, now)
        left, shed = self._counted(counted, everything)
        self.agenda = left.take(left.pairs > 0)
        self.tally.expired += expired
        self.tally.lose(shed)

    # State

    @property
    def held(self) -> int:
        return super().held + len(self.agenda)

    def structures(self) -> dict[str, str]:
        return {**super().structures(), "agenda": "entries by promise"}

    def parts(self) -> Parts:
        at = pa.table({"#came": self.came, "#before": [self.before] * 2, "#halvings": [self.memory.halvings] * 2})
        return {**super().parts(), "agenda": [self.agenda.to_table()], "tally": [self.tally.to_table()], "at": [at]}

    def restore(self, parts: Parts) -> None:
        super().restore(parts)
        for table in parts.get("agenda", ()):
            self.agenda = Entries.from_table(table)
        for table in parts.get("tally", ()):
            self.tally = PromiseTally.from_table(table)
        for table in parts.get("at", ()):
            self.came, self.before = table["#came"].to_pylist(), table["#before"][0].as_py()
            self.memory.halvings = table["#halvings"][0].as_py()
        for store in self._all_stores().values():
            store.expire(self.before)  # so that it merges, and takes memory, as without a restart

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


@implements(Promising)
def promising_join(node: Promising, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> Operator:
    """Where negative tuples tell when rows end, all of the join is told: to take back what was told of a row, one must
    know which part that was."""
    if any(construction.has_retractions(part.pattern) for part in node.input.parts):
        return JoinOperator(node.input, inputs, construction)
    return PromisingJoinOperator(node, inputs, construction)


__all__ = ["PromisingJoinOperator"]
