"""The promising join: the whole join if the budget of a step suffices, otherwise its most promising part (ali 5.1).

    what new rows can meet --promises--> entries --order--> told, as far as the budget
    (`StepOffers`, for all joins of the shape)              the rest waits or is shed

Where all that is offered fits, it is told as a whole. Otherwise every new row that meets others is an entry of its
`PromisingSet`, which says what is told.

Estimates are exact counts: the rows are in memory, sorted by key, and can be counted without being gathered. The paper
has sketches there, since its tuples lie in lists.

The rows are those of an `OfferingOperator`, which joins that prefer otherwise stand on too. One that enters while rows
are there offers those that came since.

Where MEMORY is short, rows are let go before their time (see `promise_memory`), and what waits with them is shed.

A join of three or more streams is a stack of these. What a lower one tells late comes late to the one above, and meets
there what is still alive.

Requires: two inputs whose rows end when they promised to.
Time: as the join for what is told; for what is offered, counting, once for all joins of the shape.
Space: one entry for each row that waits. With the windows of the inputs MEMORY at most, and what a step brings.
Guarantee: every row that is told is one of the join's, once; without shortage it is the join. Where groups are made of
them, weights are the reciprocals of chances, and times at which rows are missing are told; at others none is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Join, Promising
from mullion.algebra.nodes.promising import KEPT, KEPT_UNIT, OF_A_SAMPLE
from mullion.algebra.streams import WEIGHT
from mullion.expressions.arrays import Array, Counts, Real
from mullion.language.types import DOUBLE
from mullion.operators.agenda import Entries
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.join_probe import Combinations, choose, extended
from mullion.operators.kernels.chosen_pairs import PairChoice, pair_codes
from mullion.operators.kernels.join import PORTION, Pairs
from mullion.operators.missing import Missing
from mullion.operators.observations import Observations
from mullion.operators.offering import OfferingOperator
from mullion.operators.promise_budget import StepBudget
from mullion.operators.promise_memory import PromiseMemory, key_stores
from mullion.operators.promise_offers import number_of, numbered_rows, numbers_of
from mullion.operators.promise_orders import phases
from mullion.operators.promise_tally import PromiseTally
from mullion.operators.promising_set import PromisingSet
from mullion.operators.row_store import RowStore, restore_stores, saved_stores
from mullion.operators.share import Share
from mullion.operators.stateless import Narrowed
from mullion.operators.step_offers import OfferedPairs, Residual, Since, StepOffers
from mullion.operators.sub_windows import SubWindows
from mullion.operators.timed_rows import Delta, Retractions, TimedRows

ENTRY = 2
"""The place in `Combinations.at`, beside those of the two inputs, of the entry by which a pair is told."""
NOT_YET = (-1, -1)


class PromisingJoinOperator(Operator):
    picks_columns = True

    def __init__(self, node: Promising, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        (source,) = inputs
        assert isinstance(node.input, Join)
        self.node, self.join, self.width = node, node.input, source.width
        fields = [field for field in source.schema if construction.reads(field.name)] or [source.schema.field(0)]
        self._columns = [field.name for field in fields]
        sampled = [(name, type_) for name, type_ in node.of_a_sample.items() if construction.reads(name)]
        fields += [pa.field(name, pa.float64() if type_ == DOUBLE else pa.int64()) for name, type_ in sampled]
        self.schema = pa.schema(fields)
        self._residual = Residual(self.join)
        self.passed = Share()
        """Of the pairs that were looked at, those that the residual let pass."""
        offering = source.source if isinstance(source, Narrowed) else source
        assert isinstance(offering, OfferingOperator)
        self.memory = PromiseMemory(node, key_stores(node, offering.stores, construction))
        self.promises = PromisingSet(node, self)
        self.since: Since = NOT_YET
        """How many rows of each input had come when it entered: it offers the others."""
        self._step: StepOffers | None = None

    # A step

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        (delta,) = inputs
        step = self._step = delta.offers
        assert step is not None
        began = time.perf_counter() - step.seconds
        self.memory.stores = step.stores
        self.since = step.came if self.since == NOT_YET else self.since
        budget = self.promises.begin(began, self.most_rows, delta.spent)
        missed = sum(self.memory.missed(i, fresh) for i, fresh in enumerate(step.fresh))
        self.tally.offered += missed
        self.tally.lose(missed)
        self.passed.step()
        rows = self._whole(step, budget) if self._surely_fits(step, budget) else self._chosen(step, budget)
        fresh = TimedRows.concat(rows) if rows else TimedRows.empty(self.schema, self.width)
        lacking = [self.promises.lacking, *([] if delta.missing is None else [delta.missing])]
        self._leave(now)
        self.promises.end(began, sum(step.new), budget)
        none = Retractions.none(self.width)
        return Delta(fresh, none, now, missing=Missing.union(lacking), spent=budget.spent)

    def _surely_fits(self, step: StepOffers, budget: StepBudget) -> bool:
        """Whether nothing waits, and all that new rows can meet fits."""
        if len(self.promises.agenda):
            return False
        pace, events = self.promises.whole_pace, sum(step.new)
        return budget.fits_whole(events, step.at_most, pace) or budget.fits_whole(events, step.with_equal_keys, pace)

    def _whole(self, step: StepOffers, budget: StepBudget) -> list[TimedRows]:
        began = time.perf_counter()
        whole = step.whole(self._residual, self.since)
        rows = whole.rows.with_rows(whole.rows.rows.select(self._columns))
        rows, told = self._sampled(rows, [(found, step.met[found.side]) for found in whole.found]), len(rows)
        self.bad += whole.bad
        self._see(whole.met, told, whole.apart)
        self.tally.offered += whole.met
        self.promises.whole_pace.learn(whole.met, time.perf_counter() - began)
        budget.spend_whole(sum(step.new), whole.met)
        return [rows]

    def _chosen(self, step: StepOffers, budget: StepBudget) -> list[TimedRows]:
        offers = [step.entries(self.node, i, self.since) for i in (0, 1)]
        return self.promises.tell(offers, budget, sum(step.came) + sum(step.new))

    def _see(self, met: int, told: int, apart: float) -> None:
        """So many pairs were looked at and told. Those that the residual turns down were never offers."""
        self.passed.see(met, told)
        self.tally.offered -= met - told
        self.tally.told += told
        self.tally.apart += apart

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
        met = self._met(entry, entry.pairs)
        number = np.sort(np.concatenate([kept[1 - some.found.side][some.pairs.stored] for some in met]))
        first = int(number[-most])
        left = len(number) - most
        part = replace(entry, since=np.array([first]), pairs=np.array([most]))
        return part, first, left

    def rows(self, entries: Entries, drawn: Counts) -> tuple[list[TimedRows], Counts]:
        rows: list[TimedRows] = []
        together: list[_Met] = []
        alive = np.zeros(len(entries), np.int64)
        for met in self._met(entries, drawn, alive):
            if together and (together[0].found.own is not met.found.own or sum(map(len, together)) > PORTION):
                rows += self._joined(together)
                together = []
            together.append(met)
        return rows + (self._joined(together) if together else []), alive

    def _met(self, entries: Entries, taken: Counts, alive: Counts | None = None) -> Iterator[_Met]:
        """So many of the pairs that entries still have. `alive` counts all of these."""
        step = self._step
        assert step is not None
        phase, chance = phases(entries.probe + sum(step.came) + sum(step.new)), self.promises.chance
        chance = np.ones(len(entries)) if chance is None else chance
        for i in (0, 1):
            mine, other = np.flatnonzero(entries.side == i), self.stores[1 - i]
            stored = [number_of(window) for window in other.windows] if len(mine) else []
            for window in self.stores[i].windows if len(mine) else ():
                rows, which = numbered_rows(window, entries.probe[mine])
                if not len(rows):
                    continue
                combinations, which = Combinations.of(i, window, rows), mine[which]
                combinations.at[ENTRY] = which
                own, seen = entries.take(which), np.zeros(len(which), np.int64)
                drawn = taken[which], own.pairs, phase[which], chance[which]
                wanted = PairChoice(own.since, own.until, *drawn, seen, own.probe, i, self.node.salt)
                for number, met, first in zip(stored, other.windows, other.offsets().tolist(), strict=True):
                    for pairs in choose(combinations, met, number, wanted, self.promises.before):
                        if len(pairs):
                            counted = replace(pairs, stored=pairs.stored + first)
                            yield _Met(OfferedPairs(i, window, combinations), counted)
                if alive is not None:
                    alive[which] = wanted.seen

    def _joined(self, together: Sequence[_Met]) -> list[TimedRows]:
        """Pairs of the rows of one sub-window as rows of the join."""
        step, probing = self._step, together[0].found
        assert step is not None
        pairs, other = Pairs.concat([chunk.pairs for chunk in together]), self.stores[1 - probing.side]
        met = replace(probing, combinations=extended(probing.combinations, pairs, 1 - probing.side, is_last=True))
        passing, bad = step.passing(met, other, self._residual)
        self.bad += bad
        told = len(passing.combinations)
        self._see(len(met.combinations), told, step.apart(passing, other) if told else 0.0)
        return [self._sampled(step.timed(passing, other, self._columns), [(passing, other)])] if told else []

    # What rows stand for

    def _sampled(self, timed: TimedRows, found: Sequence[tuple[OfferedPairs, SubWindows]]) -> TimedRows:
        """Rows of some pairs, with the columns that say what each stands for."""
        rows = timed.rows
        for field in list(self.schema)[len(self._columns) :]:
            values = [pa.array(self._of_a_sample(field.name, pairs, other)) for pairs, other in found]
            rows = rows.append_column(field, pa.chunked_array(values, field.type))
        return timed.with_rows(rows)

    def _of_a_sample(self, name: str, found: OfferedPairs, other: SubWindows) -> Array:
        sample, i, at = self.promises.sample, found.side, found.combinations.at
        if name in (KEPT, KEPT_UNIT):
            number = numbers_of(other.windows)[at[1 - i]]
            return self.memory.weights(1 - i, number) if name == KEPT else 2 * number + 1 - i
        if sample is None:  # of pairs that stand for themselves alone
            count = len(found.combinations)
            return np.ones(count) if OF_A_SAMPLE[name] == DOUBLE else np.zeros(count, np.int64)
        if name == WEIGHT:
            return sample.weight[at[ENTRY]]
        if sample.unit is not None:
            return sample.unit[at[ENTRY]]
        both = number_of(found.own)[at[i]], numbers_of(other.windows)[at[1 - i]]
        return pair_codes(self.node.salt, *(both if i == 0 else both[::-1]))

    # What leaves

    def _leave(self, now: int) -> None:
        self.promises.expire(now)
        self.memory.expire(now)
        if self.node.memory is not None:  # so it is the only one that stands on the offering
            for store in self.stores:
                store.expire(now)
            if self.memory.is_short(self.promises.agenda):
                self._save_memory(now)
        self.tally.waiting = int(self.promises.agenda.pairs.sum())

    def _save_memory(self, now: int) -> None:
        """Let rows go. What waited with them is shed, but for what had expired."""
        step = self._step
        assert step is not None
        ends = (int(window.meets.max()) for store in self.stores for window in store.windows)
        self.promises.lose(now, max(ends, default=now))
        everything = np.arange(len(self.promises.agenda))
        counted, expired = self.promises.counted(self.promises.agenda, everything)
        came = [old + new for old, new in zip(step.came, step.new, strict=True)]
        self.tally.rows_shed += self.memory.shed(counted, now, came)
        left, shed = self.promises.counted(counted, everything)
        self.promises.agenda = left.take(left.pairs > 0)
        self.tally.expired += expired
        self.tally.lose(shed)

    def end_step(self, now: int) -> None:
        self._step = None
        self.tally.bytes = self.memory.size(self.promises.agenda)

    def show(self, observed: Observations) -> None:
        observed.see_passing(self.join, self.join.residual, self.passed.value)

    # State

    @property
    def stores(self) -> Sequence[RowStore]:
        """Those of the offering, since the last step. What waits is told from them."""
        return self.memory.stores

    @property
    def tally(self) -> PromiseTally:
        return self.promises.tally

    @property
    def rows_held(self) -> int:
        return len(self.promises.agenda) + sum(store.rows_held for store in self.memory.gone)

    def structures(self) -> dict[str, str]:
        return {"agenda": "entries by promise"}

    def parts(self) -> Parts:
        before, halvings = [self.promises.before] * 2, [self.memory.halvings] * 2
        at = pa.table({"#since": self.since, "#before": before, "#halvings": halvings})
        return {**saved_stores(_gone(self.memory)), **self.promises.parts(), **self.memory.parts(), "at": [at]}

    def restore(self, parts: Parts) -> None:
        restore_stores(_gone(self.memory), parts)
        for table in parts.get("at", ()):
            first, second = table["#since"].to_pylist()
            self.since = first, second
            self.memory.halvings = table["#halvings"][0].as_py()
            self.promises.restore(parts, table["#before"][0].as_py())
        self.memory.restore(parts)
        for store in self.memory.gone:
            store.expire(self.promises.before)  # so that it merges, and takes memory, as without a restart


def _gone(memory: PromiseMemory) -> dict[str, RowStore]:
    return {f"gone{i}": store for i, store in enumerate(memory.gone)}


@dataclass(frozen=True)
class _Met:
    """Pairs that rows of one sub-window found."""

    found: OfferedPairs
    pairs: Pairs

    def __len__(self) -> int:
        return len(self.pairs)
