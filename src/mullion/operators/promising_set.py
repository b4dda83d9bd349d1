"""Results that were offered and not yet answered, the most promising first: the promising set of a query (ali 2, 5).

    offers of a step --+--> in order: DESC, ASC --> told, as far as the budget reaches; the rest waits for the next step
    what waits --------'    by shares: WEIGHTED --> told, drawn; the rest is shed

An entry stands for pairs of rows of a join, or for one row of a selection; whoever offers it knows which (`Offered`).
Entries are told in order, the last one in part. What waits is told when a step has time to spare, and goes when its
rows do. A sample that is told later would be one of another time: so nothing of it waits.

Where groups are made of what is told, it also says when pairs are missing, and each pair of a sample is drawn by itself
with a chance that is known, so that aggregates of all can be estimated. So about as many as the budget are drawn.

Time: O(n log n) a step with shortage, for n entries. Space: one entry for each row that waits.
Guarantee: what is offered is told, waits, has expired or was shed, and each pair is one of these.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from mullion.algebra.nodes import Promising
from mullion.expressions.arrays import Codes, Counts, Index, Real
from mullion.instants import EVER_BEFORE, THE_END
from mullion.language.query import Budget
from mullion.operators.agenda import Entries
from mullion.operators.auto_time import AutoTime
from mullion.operators.base import Parts
from mullion.operators.kernels.chosen_pairs import dice
from mullion.operators.missing import NOTHING, Missing
from mullion.operators.pace import PairPace
from mullion.operators.promise_budget import LEARNT, LEAST, Below, StepBudget
from mullion.operators.promise_orders import WEIGHTED, by_promise, chances, phases, shares
from mullion.operators.promise_tally import PromiseTally
from mullion.operators.timed_rows import TimedRows

SAMPLED = 100
"""About so many pairs are drawn for estimates where a step has no time left."""
SECOND = 1_000_000


class Offered(Protocol):
    """What knows the pairs that entries stand for."""

    def promise(self, entries: Entries) -> Real:
        """What each entry promises in this step."""

    def alive(self, entries: Entries) -> Counts:
        """How many pairs each entry still has."""

    def split(self, entry: Entries, most: int) -> tuple[Entries, int, int]:
        """So many pairs of an entry, with the rows that came last; before which number those came that are left to it,
        and how many they are."""

    def rows(self, entries: Entries, drawn: Counts) -> tuple[list[TimedRows], Counts]:
        """So many pairs of each entry, as rows, and how many pairs each still has."""


@dataclass(frozen=True)
class LastStep:
    """What became in the last step of what was new or had waited."""

    events: int
    """Rows that came."""
    offered: int
    told: int
    expired: int
    shed: int
    oldest: float | None
    """The seconds that the row has been there which waits longest."""
    seconds: float
    looking: float | None
    """The seconds until it was known what there is to tell; None where that was not asked."""
    allowed: float | None
    """The seconds that AUTO had, where these were limited."""


@dataclass(frozen=True)
class PairSample:
    """What the pairs of each entry stand for, and the number by which these were drawn together, if they were."""

    weight: Real
    unit: Codes | None


class PromisingSet:
    def __init__(self, node: Promising, offered: Offered) -> None:
        self.node, self._offered = node, offered
        self.agenda, self.tally = Entries.none(), PromiseTally()
        self.before = EVER_BEFORE
        """The `now` of the last step."""
        self.is_auto = node.budget == Budget()
        self.time = AutoTime()
        """What AUTO has of the time of a step."""
        self.pace, self.whole_pace = PairPace(), PairPace()
        """What telling takes of entries, and what it takes of everything, without a choice."""
        self.missing, self.lacking = NOTHING, NOTHING
        """When pairs are missing for good, and when any are as far as is known, where groups are made of them."""
        self.chance: Real | None = None
        """With which chance pairs of the entries that are told are drawn, each by itself; None: all are told."""
        self.sample: PairSample | None = None
        """What the entries that are told stand for; None: for themselves."""
        self.last: LastStep | None = None
        self._known, self._allowed = PromiseTally(), math.inf
        """How it was before the step, and the seconds that AUTO has for it."""
        self._telling, self._told_at, self._after = -math.inf, -math.inf, 0.0
        """When pairs began to be told and when the last one was, and how many seconds steps take after that."""
        self._owed, self._silent = 0.0, 0
        """The seconds by which steps took too long, and how many steps told nothing of what there was."""

    # A step

    def begin(self, began: float, most: int, spent_below: float = 0.0) -> StepBudget:
        """The budget of a step, which gives so many rows at the most. Joins below have taken a part of it."""
        self._known = replace(self.tally)
        self.missing = self.lacking = self.missing.after(self.before)
        self._allowed = self.time.turn()
        below = Below(spent_below, self.node.joins)
        return StepBudget(self.node.budget, began, self._allowed, self.pace, most, self._after + self._owed, below)

    def end(self, began: float, events: int, budget: StepBudget) -> None:
        """A step that so many new rows came in."""
        ended = time.perf_counter()
        seconds, is_short = ended - began, self._telling >= began
        self.time.spend(seconds)
        if is_short:
            self._after += LEARNT * (ended - self._told_at - self._after)
        known, tally = self._known, self.tally
        self._owed = min(max(0.0, self._owed + budget.overrun), (self.node.budget.time or 0) / SECOND)
        self._silent = self._silent + 1 if is_short and tally.told == known.told else 0
        oldest = None
        if len(self.agenda) and self.before != THE_END:
            oldest = max(0, self.before - int(self.agenda.start.min())) / SECOND
        self.last = LastStep(
            events,
            known.waiting + tally.offered - known.offered,
            tally.told - known.told,
            tally.expired - known.expired,
            tally.shed - known.shed,
            oldest,
            seconds,
            self._telling - began if is_short else None,
            self._allowed if self.is_auto and self._allowed < math.inf else None,
        )

    def facts(self) -> dict[str, Any]:
        """For statistics: what became of all that was offered, and of the last step."""
        last = {} if self.last is None else {"last_step": asdict(self.last), "pair_seconds": self._pair_seconds}
        return {**self.tally.facts(), **last}

    # What is told

    def tell(self, offers: Sequence[Entries], budget: StepBudget, number: int) -> list[TimedRows]:
        """The most promising part of what waits and of new offers, or a sample of these. `number`: that of the row that
        came last, by which samples differ."""
        self.tally.offered += sum(int(entries.pairs.sum()) for entries in offers)
        entries = Entries.concat([self.agenda, *offers])
        if self.node.order == WEIGHTED:
            self._tell_now(budget)
            rows = self._drawn(entries, budget, float(phases(np.array([number]))[0]))
        else:
            order = by_promise(self._offered.promise(entries))
            self._tell_now(budget)
            rows = self._in_order(entries, order, budget)
        if self.node.aggregated:
            self.lacking = Missing.union(
                [self.missing, Missing.of(self.agenda.start, self.agenda.end, self.agenda.key)]
            )
        self._told_at = time.perf_counter()
        return rows

    def _tell_now(self, budget: StepBudget) -> None:
        """What there is, is known."""
        if self.node.order == WEIGHTED:
            budget.tell(max(SAMPLED, budget.part()))
        else:
            budget.tell(budget.part(without_look=True) if self._silent + 1 >= LEAST else 0.0)
        self._telling = time.perf_counter()

    def _in_order(self, entries: Entries, order: Index, budget: StepBudget) -> list[TimedRows]:
        """Entries in the order of their promises, until the budget is spent. The others wait. What waited has at most
        as many pairs as it had; how many, is seen when they are told, or where so many do not fit."""
        at, rows, look = 0, list[TimedRows](), 1
        is_counted = np.arange(len(entries)) >= len(self.agenda)
        while at < len(order) and not budget.is_spent:
            whole = budget.fitting(entries.pairs[order[at:]])
            if whole:
                rows += self._rows_of(entries.take(order[at : at + whole]), budget)
                at += whole
            elif budget.is_time and rows:
                break  # to look for a part of an entry takes longer than is left
            elif not is_counted[order[at]]:
                ahead, look = order[at : at + look], 2 * look
                entries, expired = self.counted(entries, ahead[~is_counted[ahead]])
                self.tally.expired += expired
                is_counted[ahead] = True
            else:
                part, until, left = self._offered.split(entries.take(order[at : at + 1]), budget.pairs)
                rows += self._rows_of(part, budget)
                entries = entries.cut(int(order[at]), until, left)
                at += 0 if left else 1
        self.agenda = entries.take(order[at:])
        return rows

    def counted(self, entries: Entries, some: Index) -> tuple[Entries, int]:
        """With the pairs that some entries still have, and how many are gone."""
        chosen = entries.take(some)
        alive = self._offered.alive(chosen)
        pairs = entries.pairs.copy()
        pairs[some] = alive
        return replace(entries, pairs=pairs), int(chosen.pairs.sum() - alive.sum())

    def _drawn(self, entries: Entries, budget: StepBudget, phase: float) -> list[TimedRows]:
        """Of each entry its share. What is not drawn is shed."""
        pairs = entries.pairs
        if self.node.weighs:
            return self._sampled(entries, budget)
        if budget.fits(len(entries), int(pairs.sum())):
            drawn = pairs
        elif budget.counts_events:
            drawn = pairs * shares(entries.promise, np.ones(len(entries), np.int64), budget.left, phase)
            drawn = shares(drawn.astype(np.float64), drawn, budget.rows, phase)
        else:
            drawn = shares(entries.promise, pairs, budget.pairs, phase)
        self.tally.shed += int(pairs.sum() - drawn.sum())
        some = np.flatnonzero(drawn)
        return self._rows_of(entries.take(some), budget, drawn[some])

    def _sampled(self, entries: Entries, budget: StepBudget) -> list[TimedRows]:
        """Of each entry pairs that are drawn by themselves; or entries that are, with all of their pairs."""
        pairs, known, began = int(entries.pairs.sum()), replace(self.tally), time.perf_counter()
        if not budget.fits(len(entries), pairs):
            entries = self._by_chance(entries, budget)
        rows, _ = self._offered.rows(entries, entries.pairs)
        self.chance = self.sample = None
        drawn = self.tally.told - known.told + known.offered - self.tally.offered
        self.tally.shed += pairs - drawn
        self.pace.learn(drawn, time.perf_counter() - began)
        budget.spend(entries.pairs if budget.counts_events else np.array([drawn]))
        return rows

    def _by_chance(self, entries: Entries, budget: StepBudget) -> Entries:
        """The entries of which pairs are to be told, and what these stand for."""
        if budget.counts_events:
            each, pairs = np.ones(len(entries), np.int64), entries.pairs
            chance = chances(entries.promise, each, budget.left)
            chance *= min(1.0, budget.rows / float((chance * pairs).sum()))
            codes = entries.codes(self.node.salt)
            drawn = (dice(codes) < chance) | (chance == 1)
            self.sample = PairSample(1 / chance[drawn], codes[drawn])
        else:
            most = max(budget.pairs, SAMPLED if budget.is_time else 1)
            self.chance = chance = chances(entries.promise, entries.pairs, most)
            drawn = np.ones(len(entries), np.bool_)
            self.sample = PairSample(1 / chance, None)
        shed = entries.take(chance < 1)
        self.missing = Missing.union([self.missing, Missing.of(shed.start, shed.end, shed.key)])
        return entries.take(drawn)

    def _rows_of(self, entries: Entries, budget: StepBudget, drawn: Counts | None = None) -> list[TimedRows]:
        """The pairs of some entries, or as many as are drawn of them, as rows."""
        taken = entries.pairs if drawn is None else drawn
        began = time.perf_counter()
        rows, alive = self._offered.rows(entries, taken)
        if drawn is None:
            self.tally.expired += int(taken.sum() - alive.sum())
            taken = alive
        self.pace.learn(int(taken.sum()), time.perf_counter() - began)
        budget.spend(taken)
        return rows

    @property
    def _pair_seconds(self) -> float:
        """What a pair takes where all are told."""
        return (self.whole_pace if self.whole_pace.is_known else self.pace).each

    # What leaves

    def lose(self, since: int, until: int) -> None:
        """Rows were evicted, which would have met others between these times."""
        if self.node.aggregated:
            self.missing = Missing.union([self.missing, Missing.between(since, until)])

    def expire(self, now: int) -> None:
        """Entries leave with their rows: the step has gone on to `now`."""
        over = self.agenda.end <= now
        if over.any():
            self.tally.expired += int(self.agenda.pairs[over].sum())
            self.agenda = self.agenda.take(~over)
        self.before = now

    # What a restart needs

    def parts(self) -> Parts:
        missing = {"missing": [self.missing.to_table()]} if self.node.aggregated else {}
        return {"agenda": [self.agenda.to_table()], "tally": [self.tally.to_table()], **missing}

    def restore(self, parts: Parts, before: int) -> None:
        self.before = before
        for table in parts.get("agenda", ()):
            self.agenda = Entries.from_table(table)
        for table in parts.get("tally", ()):
            self.tally = PromiseTally.from_table(table)
        for table in parts.get("missing", ()):
            self.missing = Missing.from_table(table)
