"""Where an operator keeps rows, by how they leave (golab 3.5.2).

| store | for | rows leave |
|---|---|---|
| Fifo | weakest, monotonic | in the order in which they came: whole sub-windows are dropped from the front |
| CalendarQueue | weak | at times known before: rows are partitioned by their ends into days; whole days are dropped |
| Hash | strict, results | when retractions or their owner say so: rows are found by their ids |
| ScannedList | any, where patterns are not used | whenever: one list that is looked through at every step |

All hold sub-windows sorted by key, so that all of them are probed in the same way, and all can cut rows off. They
differ in how rows are put together and in what it costs to let them go. A few large sub-windows are faster to probe
than many small ones, so neighbours are merged (see `merging`).

Requires: an update pattern for each input, which the algebra gives; `ScannedList` and `Hash` serve any.
Time: O(log n) copies of a row in its life; expiry is free in `Fifo` and `CalendarQueue`, which drop whole sub-windows.
Space: the rows that live, and those of sub-windows that are not yet dropped: less than a day in a `CalendarQueue`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from mullion.expressions.arrays import Index, Mask, Times, numbers
from mullion.expressions.coding.hashes import Keys, keys_of
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.operators.base import Parts
from mullion.operators.expressions import KeyFunction
from mullion.operators.keyed_sub_window import KeyedSubWindow, codes_of_ids, equal_codes, restored
from mullion.operators.merging import SMALL, is_merged
from mullion.operators.sub_windows import SubWindows
from mullion.operators.timed_rows import Retractions, TimedRows
from mullion.operators.timed_tables import END, HELD, START, id_names

SHARE_OF_LIFE = 4
"""Sub-windows are not merged beyond this part of their rows' lives, so that few rows wait for others to expire."""
DAYS = 4
"""So many days of a calendar make the longest life of a row."""


@dataclass(frozen=True)
class CutRows:
    """Rows of a sub-window that were cut off."""

    window: KeyedSubWindow
    rows: Index


def no_key(rows: pa.Table) -> Keys:
    """For rows that are not found by key."""
    return keys_of([], rows.num_rows)


class RowStore(SubWindows, ABC):
    """Rows of one relation. `key` gives the keys by which they are probed; rows whose key is NULL match nothing and are
    not kept. Rows that are never probed have no key."""

    kept_in: ClassVar[str]
    """The structure, in words for people."""

    def __init__(self, schema: pa.Schema, width: int, key: KeyFunction | None = None) -> None:
        self.schema, self.width = schema, width
        self.key = no_key if key is None else key
        self._small = 0 if key is None else SMALL
        super().__init__([])
        self.now = EVER_BEFORE

    # Rows come

    def insert(self, rows: TimedRows) -> KeyedSubWindow | None:
        """Add rows. Returns them in the order of their keys, or None when there are none."""
        fresh = self.sorted(rows)
        if fresh is not None:
            self.add(fresh)
        return fresh

    def sorted(self, rows: TimedRows) -> KeyedSubWindow | None:
        """Rows as a sub-window, without those whose key is NULL."""
        if not len(rows):
            return None
        rows = rows.with_rows(rows.rows.select(self.schema.names))
        keys = self.key(rows.rows)
        if keys.known is not None:
            known = np.flatnonzero(keys.known)
            rows, keys = rows.take(known), keys.take(known)
            keys = Keys(keys.codes, None, keys.exact, keys.columns)
        return KeyedSubWindow.of(rows, keys) if len(rows) else None

    @abstractmethod
    def add(self, fresh: KeyedSubWindow) -> None:
        """Add rows that `sorted` has put in order."""

    # Rows leave

    @abstractmethod
    def expire(self, now: int) -> None:
        """Drop what has ended. Rows that ended may be held for longer; a probe compares starts and ends."""

    def keep(self, needed: Callable[[TimedRows], Mask], *, exactly: bool = False) -> None:
        """Only rows that are needed must stay. Sub-windows of which half is needed stay as they are, unless exactly
        these are to stay."""
        self.windows = _kept(self.windows, needed, exactly=exactly)

    def drop(self, gone: Mask) -> None:
        """Rows that nobody needs any more, counted through all sub-windows. Sub-windows of which half is needed stay,
        and know which rows have ended."""
        for window, offset in zip(self.windows, self.offsets().tolist(), strict=True):
            rows = np.flatnonzero(gone[offset : offset + len(window)])
            if len(rows):
                window.cut(rows, np.minimum(window.end[rows], self.now))
                window.settle()
        if gone.any():
            self.keep(lambda rows: (rows.end if rows.held_until is None else rows.held_until) > self.now)

    def cut(self, retracted: Retractions, *, released: bool = False) -> list[CutRows]:
        """End rows earlier than they promised, or only hold them no longer. How it was stays known until `settle`."""
        codes = codes_of_ids(retracted.ids)
        windows = self.windows if len(retracted) else ()
        matches = [(window, *self._find(window, retracted, codes, released=released)) for window in windows]
        return self._cut(matches, retracted, released=released)

    def cut_all(self, retracted: Retractions, part: slice) -> list[CutRows]:
        """As `cut`, for all rows that were made of a row that is retracted: its id is a part of theirs."""
        codes, matches = codes_of_ids(retracted.ids), []
        for window in self.windows if len(retracted) else ():
            rows, which = equal_codes(codes_of_ids(window.ids[:, part]), codes)
            meant = window.is_meant(retracted, which, rows, released=False, part=part)
            matches.append((window, rows[meant], which[meant]))
        return self._cut(matches, retracted, released=False)

    @staticmethod
    def _cut(
        matches: Sequence[tuple[KeyedSubWindow, Index, Index]], retracted: Retractions, *, released: bool
    ) -> list[CutRows]:
        cuts = []
        for window, rows, which in matches:
            if len(rows):
                (window.release if released else window.cut)(rows, retracted.at[which])
                cuts.append(CutRows(window, rows))
        return cuts

    def _find(
        self, window: KeyedSubWindow, retracted: Retractions, codes: Times, *, released: bool
    ) -> tuple[Index, Index]:
        return window.find(retracted, codes, released=released)

    def settle(self) -> None:
        """The last cuts are history."""
        for window in self.windows:
            window.settle()

    # What is there

    def rows(self) -> TimedRows:
        """All rows that have not ended."""
        if not self.windows:
            return TimedRows.empty(self.schema, self.width)
        return TimedRows.concat([_taken(window, window.alive(self.now)) for window in self.windows])

    # What a restart needs

    def parts(self) -> Parts:
        """Sub-windows as they are, and the cuts among them."""
        cuts = [pa.table({name: np.zeros(0, np.int64) for name in ("window", "row", "end", "held")})]
        for i, window in enumerate(self.windows):
            rows = window.changed()
            own = np.full(len(rows), i), rows, window.end[rows], window.meets[rows]
            cuts.append(pa.table(dict(zip(cuts[0].column_names, own, strict=True))))
        cut = pa.concat_tables(cuts)
        return {"rows": [window.table for window in self.windows], "cuts": [cut.combine_chunks()] if len(cut) else []}

    def restore(self, parts: Mapping[str, Sequence[pa.Table]]) -> None:
        for i, saved in enumerate(parts.get("rows", ())):
            table = self._with_all_columns(saved)
            window = restored(table, self.key(table))
            for cuts in [*parts.get("cuts", ()), *map(_as_cuts, parts.get("ends", ()))]:
                own = cuts.filter(pa.array(numbers(cuts, "window") == i))
                if not len(own):
                    continue
                window.cut(numbers(own, "row"), numbers(own, "end"))
                if window.held_until is not None:
                    window.release(numbers(own, "row"), numbers(own, "held"))
            window.settle()
            self.windows.append(window)

    def _with_all_columns(self, table: pa.Table) -> pa.Table:
        """Columns that no plan needed when the rows came are NULL."""
        names = [*self.schema.names, *id_names(self.width), START, END]
        names += [HELD] if HELD in table.column_names else []
        if table.column_names == names:
            return table
        for field in self.schema:
            if field.name not in table.column_names:
                table = table.append_column(field, pa.nulls(len(table), field.type))
        return table.select(names)

    # Merging

    def merged(self, windows: Sequence[KeyedSubWindow]) -> KeyedSubWindow | None:
        """One sub-window for several, without what has ended."""
        alive = [(window, window.alive(self.now)) for window in windows]
        alive = [(window, rows) for window, rows in alive if len(rows)]
        if len(alive) == 1 and len(alive[0][1]) == len(alive[0][0]):
            return alive[0][0]
        rows = [_taken(window, rows) for window, rows in alive]
        keys = [window.keys if len(rows) == len(window) else window.keys.take(rows) for window, rows in alive]
        return KeyedSubWindow.of(TimedRows.concat(rows), Keys.concat(keys)) if alive else None

    def _append(self, windows: list[KeyedSubWindow], fresh: KeyedSubWindow, *, within_life: bool = False) -> None:
        """Add a sub-window after others, merged with those before it that are not much larger."""
        while windows and is_merged(len(windows[-1]), len(fresh), small=self._small):
            last = windows[-1]
            if within_life and len(last) + len(fresh) > self._small and not _close(last, fresh):
                break
            both = self.merged([last, fresh])
            windows.pop()
            if both is None:
                return
            fresh = both
        windows.append(fresh)


class Fifo(RowStore):
    """Sub-windows in the order in which they came. Those whose rows have all ended leave from the front."""

    kept_in = "FIFO queue"

    def add(self, fresh: KeyedSubWindow) -> None:
        self._append(self.windows, fresh, within_life=True)

    def expire(self, now: int) -> None:
        self.now = now
        over = 0
        while over < len(self.windows) and self.windows[over].last_end <= now:
            over += 1
        del self.windows[:over]


class CalendarQueue(RowStore):
    """Rows partitioned by when they end.

        days            | [0, 5) | [5, 10) | [10, 15) | FOREVER
        sub-windows     |  a  b  |  c      |  d  e    |  f

    A row that ends at 7 is put into the second day, whenever it comes; when it is 10, the day is dropped as a whole.
    A day is about a fourth of the longest life.
    """

    kept_in = "calendar queue"

    def __init__(self, schema: pa.Schema, width: int, key: KeyFunction | None = None) -> None:
        super().__init__(schema, width, key)
        self.day = 1
        self.days: dict[int, list[KeyedSubWindow]] = {}

    def add(self, fresh: KeyedSubWindow) -> None:
        self._lengthen_days(fresh)
        self._put(fresh)
        self._list()

    def _lengthen_days(self, fresh: KeyedSubWindow) -> None:
        """Days that turn out to be much too short are made longer, and what is there is put into new ones."""
        lengths = np.where(fresh.meets >= FOREVER, 0, fresh.meets - fresh.start)
        longest = int(lengths.max())
        if longest > 2 * DAYS * self.day:
            self.day = max(longest // DAYS, 1)
            for window in self._emptied():
                self._put(window)

    def _emptied(self) -> list[KeyedSubWindow]:
        windows, self.days = self.windows, {}
        return windows

    def _put(self, fresh: KeyedSubWindow) -> None:
        days = np.where(fresh.meets_saved >= FOREVER, FOREVER, fresh.meets_saved // self.day)
        for day in np.unique(days).tolist():
            rows = np.flatnonzero(days == day)
            own = fresh if len(rows) == len(fresh) else KeyedSubWindow.of(fresh.timed.take(rows), fresh.keys.take(rows))
            self._append(self.days.setdefault(day, []), own)

    def _list(self) -> None:
        self.windows = [window for day in sorted(self.days) for window in self.days[day]]

    def expire(self, now: int) -> None:
        self.now = now
        over = [day for day in self.days if (day + 1) * self.day <= now + 1]
        for day in over:
            del self.days[day]
        if over:
            self._list()

    def keep(self, needed: Callable[[TimedRows], Mask], *, exactly: bool = False) -> None:
        kept = {day: _kept(own, needed, exactly=exactly) for day, own in self.days.items()}
        self.days = {day: windows for day, windows in kept.items() if windows}
        self._list()

    def parts(self) -> Parts:
        return {**super().parts(), "day": [pa.table({"day": [self.day]})]}

    def restore(self, parts: Mapping[str, Sequence[pa.Table]]) -> None:
        for table in parts.get("day", ()):
            self.day = table["day"][0].as_py()
        super().restore(parts)
        for window in self._emptied():
            last = int(window.meets_saved.max())
            self.days.setdefault(FOREVER if last >= FOREVER else last // self.day, []).append(window)
        self._list()


class Hash(RowStore):
    """Rows found by their ids. Sub-windows with more ended than living rows are made anew."""

    kept_in = "hash by id"

    def add(self, fresh: KeyedSubWindow) -> None:
        self._append(self.windows, fresh)

    def expire(self, now: int) -> None:
        self.now = now
        self.keep(lambda rows: (rows.end if rows.held_until is None else rows.held_until) > now)


class ScannedList(RowStore):
    """One list of all rows. It is looked through at every step, for rows that have ended and for retractions."""

    kept_in = "list"

    def add(self, fresh: KeyedSubWindow) -> None:
        both = self.merged([*self.windows, fresh])
        self.windows = [] if both is None else [both]

    def expire(self, now: int) -> None:
        self.now = now
        kept = self.merged(self.windows)
        self.windows = [] if kept is None else [kept]

    def _find(
        self, window: KeyedSubWindow, retracted: Retractions, codes: Times, *, released: bool
    ) -> tuple[Index, Index]:
        return window.scan(retracted, codes, released=released)


def saved_stores(stores: Mapping[str, RowStore]) -> Parts:
    """The state of several stores, under their names."""
    return {f"{name}.{kind}": tables for name, store in stores.items() for kind, tables in store.parts().items()}


def restore_stores(stores: Mapping[str, RowStore], parts: Parts) -> None:
    """Go on with what `saved_stores` gave."""
    for name, store in stores.items():
        store.restore({k.removeprefix(f"{name}."): own for k, own in parts.items() if k.startswith(f"{name}.")})


def _kept(
    windows: Sequence[KeyedSubWindow], needed: Callable[[TimedRows], Mask], *, exactly: bool
) -> list[KeyedSubWindow]:
    kept = []
    for window in windows:
        mask = needed(window.timed)
        count = int(np.count_nonzero(mask))
        if (1 if exactly else 2) * count >= len(window):
            kept.append(window)
        elif count:
            rows = np.flatnonzero(mask)
            kept.append(KeyedSubWindow.of(window.timed.take(rows), window.keys.take(rows)))
    return kept


def _taken(window: KeyedSubWindow, rows: Index) -> TimedRows:
    return window.timed if len(rows) == len(window) else window.timed.take(rows)


def _close(last: KeyedSubWindow, fresh: KeyedSubWindow) -> bool:
    """Whether the rows of both end so close to each other that they may wait for the last of them."""
    span = max(last.last_end, fresh.last_end) - min(last.first_end, fresh.first_end)
    return span * SHARE_OF_LIFE <= fresh.last_end - int(fresh.start.min())


def _as_cuts(ends: pa.Table) -> pa.Table:
    """Early ends of results as checkpoints had them when results were kept in a store of their own."""
    return ends.rename_columns({"chunk": "window"}).append_column("held", ends["end"])
