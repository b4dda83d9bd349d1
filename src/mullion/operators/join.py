"""The join of n windows: rows with equal keys that live at the same time (golab 2.3.2, 5.2).

    new rows of input 0 --probe--> what is kept of 1 --probe--> what is kept of 2 --> results
    then they are kept, and the new rows of input 1 probe 0 and 2, and so on

So every combination is found once: by the last of its rows to be kept. A result lives while all its rows do: from the
latest start until the earliest end. INTERNAL windows only say which rows meet: their rows do not end when they are held
no more, and so results stay (3.3.2).

When a row of an earlier step is retracted, the results that it is part of and that promised to live longer are
retracted too. They need not be kept for that: the row probes the others once more, as they were before.

Only where INTERNAL windows meet strict inputs are results kept, by their ids: a row may be forgotten long before its
results end.

Requires: equal keys; any other condition is checked on the pairs that keys find.
Time: O(f log n + r) a step for f new rows that probe n kept ones and find r results, for each sub-window that is
probed: at most log2(n) + 1 of them.
Space: the windows of the inputs, with the columns that anybody reads.
Guarantee: each result once, found by the last of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import names_in
from mullion.algebra.nodes import Join
from mullion.algebra.nodes.join_view import HIDDEN_START
from mullion.expressions.arrays import Ids, Times
from mullion.expressions.coding.hashes import Keys, keys_of
from mullion.instants import FOREVER
from mullion.operators.bad_values import BadConditions, bad_keys
from mullion.operators.base import Operator, Parts, TooManyRows
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.expressions import is_true, key_function
from mullion.operators.gathering import gathered
from mullion.operators.join_probe import Combinations, extended, probe
from mullion.operators.keyed_sub_window import KeyedSubWindow
from mullion.operators.observations import Observations
from mullion.operators.punctuated import Punctuated, purge
from mullion.operators.registry import implements
from mullion.operators.row_store import CutRows, Hash, RowStore, restore_stores, saved_stores
from mullion.operators.share import Share
from mullion.operators.timed_rows import Delta, Retractions, TimedRows, in_time_order
from mullion.operators.timed_tables import START
from mullion.operators.unprobed import parted, probing_weights
from mullion.planner.join_order import JoinOrder, probing_order

T = TypeVar("T")


@implements(Join)
class JoinOperator(Operator):
    """Keeps the rows of each input, and gives the columns that an operator above reads."""

    picks_columns = True

    def __init__(self, node: Join, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        self.node = node
        self.types = node.types
        self.widths = [source.width for source in inputs]
        self.width = sum(self.widths)
        self.releases = any(part.releases for part in node.parts)
        self.stores = [
            construction.store(part.kept_as, source.schema, source.width, key_function(keys, part.types))
            for part, keys, source in zip(node.parts, node.keys, inputs, strict=True)
        ]
        self.places = {f"{i}.{name}": (i, name) for i, source in enumerate(inputs) for name in source.schema.names}
        self.places |= {f"{HIDDEN_START}{i}": (i, START) for i in range(len(inputs))}
        self.schema = self._schema(inputs, construction.needed)
        self._bad_keys = [bad_keys(keys, part) for part, keys in zip(node.parts, node.keys, strict=True)]
        self._bad_residual = BadConditions(node.residual, node)
        self._weights = probing_weights(node)
        strict = any(construction.has_retractions(part.pattern) for part in node.parts)
        self.results = Hash(pa.schema([]), self.width) if strict and self.releases else None
        ending = [None if strict else Punctuated.of(p, keys) for p, keys in zip(node.parts, node.keys, strict=True)]
        self._ending = [own if own and own.in_order_of(node.keys[0]) else None for own in ending]
        """The inputs of whose keys a stream tells that they are over."""
        self.met, self.passed = Share(), Share()
        """Of all combinations with new rows those with equal keys, and of these those that the residual let pass."""
        self.order: JoinOrder = ()
        """In which order new rows probe the inputs; those with the fewest rows first as long as none was chosen."""
        self.views: Sequence[tuple[int, ...]] = ()
        """The lengths of windows that are looked at, where several share the join: the longest first."""
        self.too_many: dict[tuple[int, ...], int] = {}
        """Views that were given up in the last step, and how many results there were then."""

    def _schema(self, inputs: Sequence[Operator], needed: Collection[str] | None) -> pa.Schema:
        offered = [(f"{i}.{field.name}", field.type) for i, source in enumerate(inputs) for field in source.schema]
        if needed is None:
            return pa.schema(offered)
        chosen = [(name, type_) for name, type_ in offered if name in needed]
        chosen += [(name, pa.int64()) for name in self.places if name in needed and name.startswith(HIDDEN_START)]
        return pa.schema(chosen or offered[:1])

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        retracted, released = self._retractions(inputs)
        results: list[TimedRows] = []
        self.too_many, views = {}, list(self.views)
        self.met.step()
        self.passed.step()
        for i, fresh in enumerate(self._probing(inputs)):
            if fresh is not None:
                for rows in self._results(i, fresh):
                    results.append(_seen_by(views, rows) if self.too_many else rows)
                    results = self._within_limit(results, views)
                self._keep(i, fresh)
        for store in self.stores:
            store.expire(now)
        joined = TimedRows.concat(results) if results else TimedRows.empty(self.schema, self.width)
        if self.views and (order := in_time_order(joined.start, joined.ids)) is not None:
            # Once for all that look at it: what each sees is then in the order in which it is told.
            joined = joined.take(order)
        if self.results is not None:
            self.results.insert(TimedRows(joined.rows, joined.ids, joined.start, joined.end))
            self.results.expire(now)
        return Delta(joined, retracted, now, released)

    def _probing(self, inputs: Sequence[Delta]) -> list[KeyedSubWindow | None]:
        """The new rows of each input that look for others. Those that do not are kept before."""
        probing: list[KeyedSubWindow | None] = []
        for i, (delta, weight) in enumerate(zip(inputs, self._weights, strict=True)):
            self.bad += self._bad_keys[i].among(delta.fresh.rows)
            fresh = self._sorted(i, delta.fresh)
            if weight is not None and fresh is not None:
                unprobed, fresh = parted(fresh, weight)
                if unprobed is not None:
                    self._keep(i, unprobed)
            probing.append(fresh)
        return probing

    def _sorted(self, i: int, rows: TimedRows) -> KeyedSubWindow | None:
        """New rows of input i in the order of their keys; None when there are none."""
        return self.stores[i].sorted(rows)

    # Keys that are over

    def _lets_go(self, i: int) -> bool:
        """Whether streams tell when the rows of an input will meet no other any more."""
        return all(own is not None for j, own in enumerate(self._ending) if j != i)

    def _over_until(self, i: int, columns: Sequence[T], keys: Callable[[list[T]], Keys]) -> Times:
        """Until when all inputs but one are over, for the keys that are made of the punctuated columns of each."""
        others = [own for j, own in enumerate(self._ending) if j != i and own is not None]
        until = [self.closed[own.stream].until(keys(own.chosen(columns))) for own in others]
        return np.asarray(np.minimum.reduce(until), np.int64)

    def _keep(self, i: int, fresh: KeyedSubWindow) -> None:
        """Keep the new rows that may still meet others."""
        if not self._lets_go(i) or not any(map(len, self.closed.values())):
            self.stores[i].add(fresh)
            return
        own, types = self.node.keys[i], self.node.parts[i].types
        until = self._over_until(i, own, lambda columns: key_function(columns, types)(fresh.rows))
        rows = np.flatnonzero(until < fresh.meets)
        if len(rows):
            lasting = KeyedSubWindow.of(fresh.timed.take(rows), fresh.keys.take(rows))
            self.stores[i].add(fresh if len(rows) == len(fresh) else lasting)

    def purge(self, ended: Mapping[str, pa.Table]) -> None:
        for i, store in enumerate(self.stores):
            streams = {own.stream: own for j, own in enumerate(self._ending) if j != i and own is not None}
            for stream in ended.keys() & streams.keys() if self._lets_go(i) else ():
                order = streams[stream].in_order_of(self.node.keys[0])
                assert order is not None
                over = [ended[stream].column(name) for name in order]
                purge(store, _keys_in(over), self._over_until(i, over, _keys_in))

    def _within_limit(self, results: list[TimedRows], views: list[tuple[int, ...]]) -> list[TimedRows]:
        """The results, if they are not too many. Otherwise the views with the longest windows are given up, one after
        the other, so that those with shorter ones have theirs."""
        while (count := sum(map(len, results))) > self.most_rows:
            if len(views) < 2:
                raise TooManyRows(count)
            self.too_many[views.pop(0)] = count
            results = [_seen_by(views, rows) for rows in results]
        return results

    def show(self, observed: Observations) -> None:
        observed.see_keys(self.node, self.stores)
        observed.see_passing(self.node, self.node.residual, self.passed.value)
        observed.meetings.append((self.node, self.met.value))

    def structures(self) -> dict[str, str]:
        inputs = {f"{i}": store.kept_in for i, store in enumerate(self.stores)}
        for i in filter(self._lets_go, range(len(self.stores))):
            streams = sorted({own.stream for j, own in enumerate(self._ending) if j != i and own is not None})
            inputs[f"{i}"] += f", without keys that are over in {' and '.join(streams)}"
        return inputs if self.results is None else {**inputs, "results": self.results.kept_in}

    @property
    def rows_held(self) -> int:
        return sum(store.rows_held for store in self._all_stores().values())

    def parts(self) -> Parts:
        return saved_stores(self._all_stores())

    def restore(self, parts: Parts) -> None:
        restore_stores(self._all_stores(), parts)

    def _all_stores(self) -> dict[str, RowStore]:
        stores = {str(i): store for i, store in enumerate(self.stores)}
        return stores if self.results is None else {**stores, "results": self.results}

    # Combinations

    def _combinations(self, i: int, rows: Combinations, *, before_cuts: bool = False) -> Iterator[Combinations]:
        """Rows of input i with those of all others that live at the same time."""
        others = [j for j in range(len(self.stores)) if j != i]
        order = probing_order(self.order, i) or sorted(others, key=lambda j: self.stores[j].rows_held)
        portions = iter([rows])
        for j in order:
            portions = self._probed(portions, j, before_cuts=before_cuts, is_last=j == order[-1])
        return portions

    def _probed(
        self, portions: Iterator[Combinations], j: int, *, before_cuts: bool, is_last: bool
    ) -> Iterator[Combinations]:
        for combinations in portions:
            for pairs in probe(combinations, self.stores[j], before_cuts=before_cuts):
                yield extended(combinations, pairs, j, is_last=is_last)

    def _gathered(
        self, i: int, own: KeyedSubWindow, combinations: Combinations, names: Sequence[str]
    ) -> tuple[pa.Table, Ids]:
        """Columns of the join, and ids, of combinations that rows of input i found, which stand in a sub-window of
        their own."""
        stored = {part: store for part, store in enumerate(self.stores) if part != i}
        return gathered(i, own, combinations, stored, self.widths, {name: self.places[name] for name in names})

    def _where_residual(
        self, i: int, own: KeyedSubWindow, combinations: Combinations, *, are_new: bool = True
    ) -> Combinations:
        """The combinations for which the residual predicate is true. Bad values are those of new ones."""
        if self.node.residual is None:
            return combinations
        rows, ids = self._gathered(i, own, combinations, sorted(names_in(self.node.residual)))
        timed = TimedRows(rows, ids, combinations.start, combinations.end)
        self.bad += self._bad_residual.among(timed) if are_new else 0
        return combinations.take(np.flatnonzero(is_true(self.node.residual, timed, self.types)))

    # New results

    def _results(self, i: int, fresh: KeyedSubWindow) -> Iterator[TimedRows]:
        self.met.see(len(fresh) * prod(float(store.rows_held) for j, store in enumerate(self.stores) if j != i), 0)
        for combinations in self._combinations(i, Combinations.of(i, fresh)):
            passing = self._where_residual(i, fresh, combinations)
            self.met.see(0, len(combinations))
            self.passed.see(len(combinations), len(passing))
            if len(passing):
                yield self._timed(i, fresh, passing)

    def _timed(self, i: int, own: KeyedSubWindow, passing: Combinations) -> TimedRows:
        """Combinations as rows."""
        rows, ids = self._gathered(i, own, passing, self.schema.names)
        if self.releases:
            return TimedRows(rows, ids, passing.start, _ends(self.stores, i, own, passing), passing.end)
        return TimedRows(rows, ids, passing.start, passing.end)

    # Retractions

    def _retractions(self, inputs: Sequence[Delta]) -> tuple[Retractions, Retractions | None]:
        """The results that end, and those that are held no more, before they promised to."""
        if not any(len(delta.retracted) or delta.released is not None for delta in inputs):
            return Retractions.none(self.width), None
        cuts = [store.cut(delta.retracted) for store, delta in zip(self.stores, inputs, strict=True)]
        for store, delta, own in zip(self.stores, inputs, cuts, strict=True):
            own += [] if delta.released is None else store.cut(delta.released, released=True)
        retractions = [
            retracted for i, own in enumerate(cuts) for cut in own for retracted in self._retractions_with(i, cut)
        ]
        retracted, released = Retractions.concat([Retractions.none(self.width), *retractions]), None
        if self.releases:
            stored = (
                []
                if self.results is None
                else _stored_retractions(self.results, self.widths, [delta.retracted for delta in inputs])
            )
            retracted, released = Retractions.concat([Retractions.none(self.width), *stored]), retracted
        for store in self._all_stores().values():
            store.settle()
        return retracted, released

    def _retractions_with(self, i: int, cut: CutRows) -> Iterator[Retractions]:
        """The results of rows that were cut, when they promised to live longer. Those of several rows that were cut are
        retracted with the first of them."""
        for combinations in self._combinations(i, Combinations.of(i, cut.window, cut.rows), before_cuts=True):
            at = cut.window.meets[combinations.at[i]]
            is_retracted = np.zeros(len(combinations), np.bool_)
            for j, store in enumerate(self.stores):
                if j != i:
                    until = store.meets()[combinations.at[j]]
                    at = np.minimum(at, until)
                    if j < i:
                        is_retracted |= until != store.meets(before_cuts=True)[combinations.at[j]]
            early = np.flatnonzero((at < combinations.end) & ~is_retracted)
            sooner = replace(combinations.take(early), end=at[early])
            passing = self._where_residual(i, cut.window, sooner, are_new=False)
            if len(passing):
                yield Retractions(self._gathered(i, cut.window, passing, ())[1], passing.end)


def _ends(stores: Sequence[RowStore], i: int, fresh: KeyedSubWindow, combinations: Combinations) -> Times:
    """When the first of the rows ends, which may be after it is held no more."""
    end = np.full(len(combinations), FOREVER, np.int64)
    for part, store in enumerate(stores):
        end = np.minimum(end, (fresh.end if part == i else store.ends())[combinations.at[part]])
    return end


def _keys_in(columns: Sequence[pa.ChunkedArray]) -> Keys:
    """The keys that some columns are."""
    return keys_of(columns, len(columns[0]))


def _seen_by(views: Sequence[tuple[int, ...]], timed: TimedRows) -> TimedRows:
    """The results that some of the views see."""
    ages = [timed.start - timed.rows.column(f"{HIDDEN_START}{i}").to_numpy() for i in range(len(views[0]))]
    seen = [np.logical_and.reduce([age < own for age, own in zip(ages, view, strict=True)]) for view in views]
    return timed.take(np.logical_or.reduce(seen))


def _stored_retractions(
    results: RowStore, widths: Sequence[int], inputs: Sequence[Retractions]
) -> Iterator[Retractions]:
    """The results that end, when results are kept."""
    last = np.cumsum(widths)
    for i, retracted in enumerate(inputs):
        results.cut_all(retracted, slice(last[i] - widths[i], last[i]))
    for window in results.windows:
        yield window.retracted()
