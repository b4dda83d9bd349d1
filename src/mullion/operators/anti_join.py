"""NOT EXISTS over windows: the rows of the left while no row of the right has their key.

    right, key k      |-----|
    left, key k    |---------------|
    result         |--|     |------|       two rows of the result: each has the left row's id and its own start

Of the right only the presence of keys is kept when its rows end as they promise, else how many rows each key has. The
left is kept whole: a row comes back when its key is no longer present on the right (golab 2.2.2). A step works on the
keys that it touches: those whose presence changes, and those of new rows. A result promises the end of its left row; a
negative tuple tells when the right ends it earlier.

How the left finds the rows of a key (golab 3.5.2, 3.6.4):

| expiry | the left is kept in |
|---|---|
| upa | a calendar or a hash, whichever costs less for what was observed |
| nt | a hash by key and by id: every end is told by a negative tuple |
| direct | one list, scanned for keys and for rows that have expired |

In a calendar expiry costs nothing, and a key is searched for by a scan of all rows: good while the right seldom changes
or the left is small. In a hash every row is put on the list of its key, and found there.

Requires: equal keys on both sides.
Time: O(log k) for a right row that starts or ends the presence of one of k keys, constant for any other; then the left
rows of that key, found in a hash, or among all left rows in a calendar.
Space: the window of the left; of the right one entry a key, or its rows if it is strict.
Guarantee: a result for each stretch of a left row's life in which no right row has its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.column_names import names_in
from mullion.algebra.nodes import AntiJoin, Node
from mullion.algebra.update_pattern import Pattern
from mullion.expressions.arrays import Codes, Index, Times, grown
from mullion.expressions.coding.code_table import CodeTable
from mullion.expressions.coding.dictionary import decoded, decoded_schema
from mullion.expressions.coding.hashes import keys_of
from mullion.instants import EVER_BEFORE, NEVER
from mullion.kernels.columns import BatchColumns
from mullion.language.query import Column, Expr
from mullion.operators.bad_values import bad_keys
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.kernels.anti_join import KeyChanges, LeftRows, left_stays
from mullion.operators.kernels.stays import EarlyEnds, Stays
from mullion.operators.key_presence import KeyPresence
from mullion.operators.multiplicities import Crossings, Multiplicities
from mullion.operators.observations import Observations
from mullion.operators.positioned_rows import PositionedRows
from mullion.operators.punctuated import Punctuated
from mullion.operators.registry import implements
from mullion.operators.share import REMEMBERED, Share
from mullion.operators.timed_rows import Delta, TimedRows
from mullion.options import Expiry

NO_KEY = 0
"""The code of keys with a NULL, which equal nothing; those of other keys are larger."""

LINKING = 8
"""Putting a row on the list of its key is taken to cost as much as looking at so many rows of a scan. An estimate: on a
busy machine calendar and hash were too close to tell apart, with 2,000 to 200,000 rows and 1,000 new ones in a step."""


@implements(AntiJoin)
class AntiJoinOperator(Operator):
    """Rows of the left whose key no row of the right has. Ids: that of the left row, and the start of this stay."""

    def __init__(self, node: AntiJoin, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        self.node = node
        left, right = inputs
        self.schema, self.width = decoded_schema(left.schema), left.width + 1
        self._keys = _KeyCodes(node, right)
        self._bad_keys = bad_keys(node.left_keys, node.left), bad_keys(node.right_keys, node.right)
        retractable, scans = construction.has_retractions(node.left.pattern), construction.scans
        self.chosen = "list" if scans else "hash" if retractable else "calendar"
        """How the left is kept: "calendar", "hash" or "list"."""
        self._may_choose = self.chosen == "calendar"
        self._left = PositionedRows(
            self.schema,
            left.width,
            by_id=retractable and not scans,
            by_key=self.chosen == "hash",
            eager=scans,
        )
        counted = construction.expiry is not Expiry.PATTERN_AWARE or node.right.pattern is Pattern.STRICT
        self._right = Multiplicities(self._keys.schema, right.width, scans=scans) if counted else KeyPresence()
        self._since = np.empty(0, np.int64)
        self._before = EVER_BEFORE
        self.seen = _Seen()
        ending = [Punctuated.of(node.left, node.left_keys), Punctuated.of(node.right, node.right_keys)]
        lasting = not retractable and isinstance(self._right, KeyPresence)
        self._ending = [own if own and lasting and own.in_order_of(node.left_keys) else None for own in ending]
        """The sides of whose keys a stream tells that they are over."""

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        left, right = inputs
        self.bad += sum(bad.among(delta.fresh.rows) for bad, delta in zip(self._bad_keys, inputs, strict=True))
        changes, arrived = self._presence_changes(right, now)
        early, at = self._left.find(left.retracted)
        old = np.union1d(self._left.of_codes(np.unique(changes.code), self._before), early)
        fresh = left.fresh.lasting().without_dictionaries()
        inserted = self._left.add(fresh, self._keys.of_left(fresh.rows))
        self._see_meetings(inserted)
        delta = self._stays(np.concatenate([old, inserted]), len(old), early, at, changes, now)
        self._left.ended(early)
        self._note(changes)
        if any(own is not None and len(self.closed[own.stream]) for own in self._ending):
            self._release(np.union1d(self._left.code[inserted], arrived), now)
        self._tidy(now)
        self._before = now
        self.seen.step(len(inserted), len(changes.code) > 0, len(self._left))
        if self._may_choose:
            self._choose()
        return delta

    def _see_meetings(self, inserted: Index) -> None:
        codes = self._left.code[inserted]
        codes = codes[codes != NO_KEY]
        self.seen.free.see(len(codes), len(codes) - int(np.count_nonzero(self._right.present(codes))))

    def _presence_changes(self, right: Delta, now: int) -> tuple[Crossings, Codes]:
        """When keys come to be present on the right, and when they no longer are, by key and then in the order of
        time; and the keys of new rows."""
        fresh = right.fresh.lasting().without_dictionaries()
        keys = self._keys.of_right(fresh.rows)
        codes = self._keys.codes(keys)
        of_right = TimedRows(keys, fresh.ids, fresh.start, fresh.end)
        changes = self._right.advance(of_right, codes, right.retracted, now)
        order = np.argsort(changes.code, kind="stable")
        order = order[changes.code[order] != NO_KEY]
        crossed = Crossings(changes.code[order], changes.time[order], changes.on[order], changes.ids[order])
        return crossed, codes

    def _stays(self, rows: Index, old: int, early: Index, at: Times, changes: Crossings, now: int) -> Delta:
        """What the changes leave of rows of the left. The first `old` of them were there before the step."""
        left = self._left
        self._since = grown(self._since, self._keys.room, EVER_BEFORE)
        start, code, promised = left.start[rows], left.code[rows], left.end[rows]
        end = promised.copy()
        end[np.searchsorted(rows[:old], early)] = at
        first, behind = np.searchsorted(changes.code, code), np.searchsorted(changes.code, code, side="right")
        # Changes of a key alternate: before the first of them it was the other way round.
        was_present = self._right.present(code) & (code != NO_KEY)
        changed = first < behind
        was_present[changed] = ~changes.on[first[changed]]
        most = int(((behind - first) // 2 + 1).sum())
        stays, early_ends = Stays.room(most), EarlyEnds.room(old)
        is_old = np.arange(len(rows)) < old
        of_left = LeftRows(start, promised, end, is_old, was_present, self._since[code], first, behind)
        of_right = KeyChanges(changes.code, changes.time, changes.on)
        count, ended, premature = left_stays(of_left, of_right, stays, early_ends)
        self.seen.ended.see(count, premature)
        return left.delta_of(rows, stays.first(count), early_ends.first(ended), now)

    def _note(self, changes: Crossings) -> None:
        off = ~changes.on
        self._since = grown(self._since, self._keys.room, EVER_BEFORE)
        self._since[changes.code[off]] = changes.time[off]

    def _tidy(self, now: int) -> None:
        """Forget rows that have ended, and keys that neither side has."""
        compacted = self._left.forget_ended(now) is not None
        if not compacted and not self._keys.are_many:
            return
        left = self._left
        known = self._keys.known()
        needed = np.zeros(self._keys.room, np.bool_)
        needed[left.code[: len(left)][left.end[: len(left)] >= now]] = True
        over = known[~needed[known] & ~self._right.present(known)]
        left.unlink(over)
        self._since[over] = EVER_BEFORE
        self._keys.forget(over)

    # Keys that are over

    def purge(self, ended: Mapping[str, pa.Table]) -> None:
        for own in self._ending:
            if own is not None and own.stream in ended:
                order = own.in_order_of(self.node.left_keys)
                assert order is not None
                keys = ended[own.stream].select(order).rename_columns(self._keys.schema.names)
                self._release(self._keys.codes(decoded(keys).cast(self._keys.schema)), self._before)

    def _release(self, codes: Codes, now: int) -> None:
        """Let go of what nothing can change any more, of some keys: left rows that stay as they are until they end, and
        the presence on the right of keys that no left row has or will have."""
        codes = np.unique(codes[codes != NO_KEY])
        if not len(codes) or not isinstance(self._right, KeyPresence):
            return
        of_left, of_right = (self._over_until(own, codes) for own in self._ending)
        present = self._right.ends(codes)
        rows = self._left.of_codes(codes, now - 1)
        at = np.searchsorted(codes, self._left.code[rows])
        until = np.where(present > NEVER, present, of_right)[at]
        stays = until >= self._left.end[rows]
        self._left.ended(rows[stays])
        has_left = np.zeros(len(codes), np.bool_)
        has_left[at[~stays]] = True
        self._right.purge(codes[(present > NEVER) & ~has_left & (of_left >= present)])

    def _over_until(self, own: Punctuated | None, codes: Codes) -> Times:
        """Until when keys are over on a side; NEVER where they are not."""
        if own is None:
            return np.full(len(codes), NEVER)
        columns = own.chosen(self._keys.rows(codes).columns)
        return self.closed[own.stream].until(keys_of(columns, len(codes)))

    def _choose(self) -> None:
        chosen = self.seen.cheaper(self.chosen)
        if chosen != self.chosen:
            self.chosen = chosen
            self._left.use_keys(chosen == "hash")

    def show(self, observed: Observations) -> None:
        observed.see_ended(self.node.right, self.seen.ended.value)
        observed.meetings.append((self.node, self.seen.free.value))

    def structures(self) -> dict[str, str]:
        left = "array or hash by key" if self._may_choose else self._left.kept_in
        over = " and ".join(sorted({own.stream for own in self._ending if own is not None}))
        without = f", without keys that are over in {over}" if over else ""
        return {"left": left + without, "right": self._right.kept_in + without}

    @property
    def rows_held(self) -> int:
        return len(self._left) + len(self._right)

    def parts(self) -> Parts:
        known = self._keys.known()
        keys = self._keys.rows(known)
        self._since = grown(self._since, self._keys.room, EVER_BEFORE)
        keys = keys.append_column("#since", pa.array(self._since[known]))
        parts = {**self._left.parts("left"), "before": [pa.table({"before": [self._before]})]}
        if isinstance(self._right, Multiplicities):
            parts.update(self._right.parts("right"))
        else:
            keys = keys.append_column("#until", pa.array(self._right.ends(known)))
        return {**parts, "keys": [keys]}

    def restore(self, parts: Parts) -> None:
        (keys,) = parts["keys"]
        codes = self._keys.codes(keys.select(self._keys.schema.names))
        self._since = grown(self._since, self._keys.room, EVER_BEFORE)
        self._since[codes] = np.asarray(keys["#since"])
        if isinstance(self._right, Multiplicities):
            self._right.restore(parts, "right", self._keys.codes)
        else:
            self._right.restore(codes, np.asarray(keys["#until"]))
        self._left.restore(parts, "left", self._keys.of_left)
        self._before = parts["before"][0]["before"][0].as_py()


class _KeyCodes:
    """The keys of both sides as numbers."""

    def __init__(self, node: AntiJoin, right: Operator) -> None:
        self._left, self._right = (node.left, node.left_keys), (node.right, node.right_keys)
        self.schema = _evaluate(decoded_schema(right.schema).empty_table(), *self._right).schema
        self._values = CodeTable(self.schema)
        self._few = 1024

    @property
    def room(self) -> int:
        return self._values.room + 1

    @property
    def are_many(self) -> bool:
        """Whether it is time to look for keys that are no longer needed."""
        return len(self._values) > 2 * self._few

    def of_left(self, rows: pa.Table) -> Codes:
        keys = _evaluate(rows, *self._left)
        return self.codes(keys if keys.schema.equals(self.schema) else keys.cast(self.schema))

    def of_right(self, rows: pa.Table) -> pa.Table:
        return _evaluate(rows, *self._right)

    def codes(self, keys: pa.Table) -> Codes:
        codes = np.full(len(keys), NO_KEY, np.int64)
        whole = np.ones(len(keys), np.bool_)
        for column in keys.columns:
            if column.null_count:
                whole &= np.asarray(column.is_valid())
        if whole.all():
            return self._values.codes(keys) + 1
        codes[whole] = self._values.codes(keys.filter(pa.array(whole))) + 1
        return codes

    def known(self) -> Codes:
        return self._values.known() + 1

    def rows(self, codes: Codes) -> pa.Table:
        return self._values.rows(codes - 1)

    def forget(self, codes: Codes) -> None:
        self._values.forget(codes - 1)
        self._few = max(1024, len(self._values))


class _Seen:
    """What was observed of late, for the choice between calendar and hash: a scan looks at all rows whenever the right
    changes; lists cost something for every row that comes, whether it is looked for or not."""

    def __init__(self) -> None:
        self._inserted, self._scans, self._held = 0.0, 0.0, 0.0
        self.ended, self.free = Share(), Share()
        """Of the results those that the right ended, and of new rows those whose key the right had not."""

    def step(self, inserted: int, is_searched: bool, held: int) -> None:
        self.ended.step()
        self.free.step()
        self._inserted = REMEMBERED * self._inserted + inserted
        self._scans = REMEMBERED * self._scans + is_searched
        self._held = held

    def cheaper(self, present: str) -> str:
        """Changes only when the other is clearly better, because changing costs too."""
        scanning, linking = self._scans * self._held, self._inserted * LINKING
        if present == "calendar":
            return "hash" if scanning > 2 * linking else "calendar"
        return "calendar" if linking > 2 * scanning else "hash"


def _evaluate(rows: pa.Table, node: Node, keys: Sequence[Expr]) -> pa.Table:
    """The keys of rows as a table; without keys all rows have the same one."""
    computed = [key for key in keys if not isinstance(key, Column)]
    columns = BatchColumns.of(rows, {name: node.types[name] for name in names_in(*computed)})
    arrays = [rows.column(key.name) if isinstance(key, Column) else columns.array(key) for key in keys]
    arrays = arrays or [pa.array(np.zeros(len(rows), np.int8))]
    return decoded(pa.Table.from_arrays(arrays, names=list(map(str, range(len(arrays))))))
