"""The keys of a stream that are over: values of the columns that PUNCTUATE names (Tucker et al. 2003; golab 2.2.1).

    event (order 7, closed, ts 12)  -->  key 7 is over during [12, FOREVER), or [12, 12 + d) where PUNCTUATE says FOR d

Nothing of a key comes while it is over: what comes all the same breaks the punctuation and counts nowhere
(`runtime.punctuations`). So operators may let go of all that only such events could have met.

Space: the keys that are over, with FOR those of the last d alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import names_read
from mullion.expressions.arrays import Index, Mask, Times
from mullion.expressions.coding.dictionary import decoded, row_codes
from mullion.expressions.coding.hashes import Keys
from mullion.instants import EVER_BEFORE, FOREVER, NEVER
from mullion.kernels.columns import BatchColumns
from mullion.language.punctuating import Punctuation
from mullion.language.query import Column
from mullion.language.types import Type
from mullion.operators.base import Parts
from mullion.operators.expressions import key_function, schema_of
from mullion.operators.join_probe import Combinations, probe
from mullion.operators.kernels.broken_punctuations import mark_broken
from mullion.operators.kernels.join import KeyRuns
from mullion.operators.row_store import Fifo
from mullion.operators.timed_rows import TimedRows

SINCE = "#t"
"""The column that tells since when keys are over."""


class ClosedKeys:
    """`types` are those of the stream. A key with a NULL is never over."""

    def __init__(self, punctuation: Punctuation, types: Mapping[str, Type]) -> None:
        self.punctuation = punctuation
        self.columns = list(punctuation.columns)
        self._types = types
        self._key = key_function([Column(name) for name in self.columns], types)
        self._store = Fifo(schema_of((name, types[name]) for name in self.columns), 1, self._key)

    def __len__(self) -> int:
        """How many keys are known to be over."""
        return self._store.rows_held

    # Which keys are over

    def ending(self, events: pa.Table) -> Mask:
        """The events that are the last ones of their keys."""
        when = self.punctuation.when
        found = BatchColumns.of(events, {name: self._types[name] for name in names_read(when)}).value(when)
        return np.asarray(found.values.astype(np.bool_) & found.valid)

    def add(self, events: pa.Table, times: Times) -> pa.Table:
        """The keys of events that are the last ones of theirs. Returns these keys."""
        return self.close_ended(self.ended(events, times))

    def ended(self, events: pa.Table, times: Times) -> pa.Table:
        """The keys of events that are the last ones of theirs, and since when (`SINCE`)."""
        last = np.flatnonzero(self.ending(events))
        keys = decoded(events.select(self.columns)).take(pa.array(last)).cast(self._store.schema)
        return keys.append_column(SINCE, pa.array(times[last]))

    def among(self, ended: pa.Table, events: pa.Table) -> Mask:
        """Which keys some events have."""
        if not set(self.columns) <= set(events.column_names):
            return np.ones(len(ended), np.bool_)
        own, others = (decoded(t.select(self.columns)).cast(self._store.schema) for t in (ended, events))
        codes = row_codes(pa.concat_tables([own, others]))
        return np.isin(codes[: len(ended)], codes[len(ended) :])

    def none(self) -> pa.Table:
        """As `ended`, of no key."""
        return self._store.schema.append(pa.field(SINCE, pa.int64())).empty_table()

    def close(self, keys: pa.Table, times: Times) -> pa.Table:
        """Keys are over from some times on. Returns them."""
        self._store.insert(TimedRows(keys, np.zeros((len(keys), 1), np.int64), times, self._reopens(times)))
        return keys

    def close_ended(self, ended: pa.Table) -> pa.Table:
        """As `close`, of keys with the times since when they are over (`ended`)."""
        return self.close(ended.select(self.columns), ended.column(SINCE).to_numpy())

    def _reopens(self, times: Times) -> Times:
        span = self.punctuation.span
        return np.full(len(times), FOREVER) if span is None else times + span

    def expire(self, now: int) -> None:
        """Nothing before `now` is asked about any more."""
        self._store.expire(now)

    # What that says of rows

    def until(self, keys: Keys) -> Times:
        """Until when keys are over, the columns in their order; NEVER of those that are not."""
        until = np.full(len(keys), NEVER)
        for rows, ends in self._meeting(keys, np.full(len(keys), EVER_BEFORE), np.full(len(keys), FOREVER)):
            np.maximum.at(until, rows, ends)
        return until

    def broken(self, events: pa.Table, times: Times) -> Mask:
        """Which events of a batch, in the order of arrival, came after the end of their key: as it was known before, or
        through an event that came before them in the batch."""
        table = decoded(events.select(self.columns))
        keys = self._key(table)
        broken = np.zeros(len(events), np.bool_)
        for rows, _ in self._meeting(keys, times, times + 1):
            broken[rows] = True
        closes = self.ending(events)
        if keys.known is not None:
            closes &= keys.known
        if closes.any():
            codes = row_codes(table)
            order = np.argsort(codes, kind="stable")
            span = FOREVER if self.punctuation.span is None else self.punctuation.span
            mark_broken(order, KeyRuns.of(codes[order]).first, times, closes, span, broken)
        return broken

    def _meeting(self, keys: Keys, start: Times, end: Times) -> Iterator[tuple[Index, Times]]:
        """Rows whose keys are over during some of a time, and until when."""
        known = np.arange(len(keys)) if keys.known is None else np.flatnonzero(keys.known)
        if not len(known) or not self._store.windows:
            return
        order = known[np.argsort(keys.codes[known], kind="stable")]
        sought = Combinations(keys.take(order), False, start[order], end[order], {})
        ends = self._store.ends()
        for pairs in probe(sought, self._store, before_cuts=False):
            yield order[pairs.probe], ends[pairs.stored]

    # What a restart needs

    def parts(self) -> Parts:
        return self._store.parts()

    def restore(self, parts: Parts) -> None:
        self._store.restore(parts)
