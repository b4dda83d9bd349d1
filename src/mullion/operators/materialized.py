"""CREATE QUERY .. MATERIALIZED: the result of a standing query kept on disk, for one-time questions FROM it.

    deltas --apply--> waiting (in memory) --every interval--> LifetimeIndex (on disk) --read--> rows, by key or all

Rows of a join live for different times, so they are kept in a doubly partitioned index (golab 4). What comes between
two updates of the index waits in memory, as the paper has it; a reader sees both.
"""

from __future__ import annotations

import json
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Join, Node, Project
from mullion.algebra.relation import Relation
from mullion.errors import NotSupported
from mullion.expressions.arrays import Ids, numbers
from mullion.expressions.vector import arrow_type
from mullion.instants import EVER_BEFORE
from mullion.language.query import Column
from mullion.operators.base import Parts
from mullion.operators.timed_rows import Delta, TimedRows
from mullion.storage.lifetime_index import END, START, Calendar, Definition, DoublyPartitioned, LifetimeIndex
from mullion.storage.lifetime_index.keys import NOT_THERE, IndexKeys
from mullion.storage.lifetime_index.rows import alive, matching, stored_schema, timed
from mullion.storage.lifetime_index.snapshot import Snapshot
from mullion.storage.lifetime_index.sub_index import SubIndex

PARTITIONING = DoublyPartitioned(4, 4)
"""An update touches 7 of 16 sub-indices, and searches are still fast (golab 4.4.6)."""
UPDATES = 16
"""Updates within the longest range."""
UNKNOWN_RANGE = 3_600_000_000
"""For results without one: it only tells how often the index is updated."""
MOST_WAITING = 1 << 18
"""Rows in memory; with more the index is updated early."""


@dataclass(frozen=True)
class _Copied:
    """What the last update put into the index, for those who have read some of the index before it (golab 7.4.3). Only
    they hold that index, and its files."""

    before: weakref.ref[Snapshot]
    rows: pa.Table
    gone: pa.Table


@dataclass(frozen=True)
class _View:
    """What readers see: replaced as a whole."""

    index: Snapshot
    waiting: pa.Table
    gone: pa.Table
    """Ids of rows in the index that ended before they promised."""
    now: int
    copied: _Copied | None = None


@dataclass(frozen=True)
class KeptResult:
    """A result as it was at one time. Nothing of it changes."""

    relation: Relation
    items: pa.Schema
    item: int
    """The place of the key."""
    view: _View | None

    @property
    def key(self) -> str:
        """The column by which rows are found fast."""
        return self.relation.names[self.item]

    @property
    def now(self) -> int:
        """Up to when it is known."""
        return EVER_BEFORE if self.view is None else self.view.now

    def read(self, now: int | None = None, key: str | None = None, value: Any = None) -> pa.Table:
        """What is there at `now`, by default the latest that is known: the items, `#start` and `#end`.

        `key` and `value`: only rows with this value in this column, or one of a list of values.
        """
        base = self.base(None)
        return self.rows([read() for read in self.reads(base, key, value)], base, key, value, now)

    def base(self, begun: Snapshot | None) -> Snapshot | None:
        """The index to be read: the one of which some was read already, if what came into it since is known."""
        view = self.view
        if view is None or begun is None:
            return None if view is None else view.index
        copied = view.copied is not None and view.copied.before() is begun
        return begun if copied else view.index

    def reads(self, base: Snapshot | None, key: str | None, value: Any) -> list[Callable[[], pa.Table]]:
        """How its sub-indices are read, one by one."""
        if base is None:
            return []
        subs = [sub for sub in base.subs if sub.rows]
        if key != self.key:
            return [partial(_all_of, sub, base) for sub in subs]
        wanted = _values(value, self.items.field(self.item).type)
        return [partial(sub.search, wanted) for sub in subs]

    def rows(
        self,
        read: Sequence[pa.Table],
        base: Snapshot | None,
        key: str | None = None,
        value: Any = None,
        now: int | None = None,
    ) -> pa.Table:
        """What is there, from what was read of a base: what waits to be put into the index is added, and what was put
        there after the base."""
        view = self.view
        if view is None or base is None:
            return self._named(stored_schema(self.items).empty_table())
        now = view.now if now is None else now
        if now < view.now:
            raise ValueError(f"the result is known up to {view.now}: what was there at {now} is kept no more")
        stored = pa.concat_tables([view.waiting.slice(0, 0), *read])
        if base is not view.index:
            assert view.copied is not None and view.copied.before() is base
            stored = pa.concat_tables([_without(stored, view.copied.gone), view.copied.rows])
        rows = alive(pa.concat_tables([_without(stored, view.gone), view.waiting]), now - 1)
        if key is not None:
            wanted = _values(value, self.items.field(self._item(key)).type)
            keys, _ = IndexKeys.none(wanted.type).extended(wanted)
            rows = rows.filter(pa.array(keys.codes(rows.column(f"c{self._item(key)}")) != NOT_THERE))
        return self._named(rows)

    def _item(self, name: str) -> int:
        if name not in self.relation.names:
            raise ValueError(f"{self.relation.name} has no column {name}")
        return self.relation.names.index(name)

    def _named(self, rows: pa.Table) -> pa.Table:
        selected = rows.select([*self.items.names, START, END])
        return selected.rename_columns([*self.relation.names, START, END])


class MaterializedResult:
    """The rows of a relation, found by a key.

    The key is the first item that a join is on, or else the first item that an index can have. At `now` a reader sees
    what a periodic query would: rows with start < now <= end.
    """

    def __init__(self, relation: Relation, directory: Path) -> None:
        self.relation = relation
        self.directory = directory
        columns = relation.root.columns[: len(relation.names)]
        self._items = pa.schema([(f"c{i}", arrow_type(type_)) for i, (_, type_) in enumerate(columns)])
        self._key = key_item(relation)
        self._index: LifetimeIndex | None = None
        self._view: _View | None = None
        self._safe: deque[Snapshot] = deque(maxlen=2)
        """What the last two saved states name: a crash may go back to either."""

    @property
    def files(self) -> set[str]:
        """The files of the index."""
        return set() if self._view is None else self._view.index.files

    def apply(self, delta: Delta, *, until: int | None = None) -> None:
        """Follow the relation. `until`: at the end of the input, which tells of all times to come, the time up to which
        the result is kept."""
        now = delta.now if until is None else min(until, delta.now)
        view = self._view or self._begin(delta)
        waiting, gone = view.waiting, view.gone
        ended = _id_table(delta.retracted.ids[delta.retracted.at < now])
        if len(ended):
            waiting = waiting.filter(pa.array(~matching(waiting, ended)))
            gone = pa.concat_tables([gone, ended])
        waiting = pa.concat_tables([waiting, self._rows(delta.fresh.take(delta.fresh.start < now), waiting.schema)])
        self._view = self._flushed(_View(view.index, waiting, gone, max(now, view.now), view.copied))

    def shown(self) -> KeptResult:
        """What there is now, for readers: it stays as it is."""
        return KeptResult(self.relation, self._items, self._key, self._view)

    def parts(self) -> Parts:
        """The state, for a restart: what waits in memory, and the names of the index's files."""
        if self._view is None or self._index is None:
            return {}
        if not self._safe or self._safe[-1] is not self._view.index:
            self._safe.append(self._view.index)
        index = pa.table({"index": [json.dumps(self._index.state())], "now": [self._view.now]})
        return {"index": [index], "waiting": [self._view.waiting], "gone": [self._view.gone]}

    def restore(self, parts: Parts) -> None:
        """Go on from a state that one of the last two calls of `parts` gave."""
        if not parts.get("index"):
            return
        saved = parts["index"][0].to_pylist()[0]
        self._index = LifetimeIndex.restore(self.directory, json.loads(saved["index"]))
        waiting, gone = (pa.concat_tables(parts[name]) for name in ("waiting", "gone"))
        self._view = _View(self._index.snapshot(), waiting, gone, saved["now"])
        self._safe.append(self._view.index)

    def _begin(self, delta: Delta) -> _View:
        ids = _id_table(delta.fresh.ids[:0])
        schema = pa.schema([*self._items, *ids.schema])
        longest = self.relation.longest or UNKNOWN_RANGE
        interval = min(longest, max(1, longest // UPDATES, self.relation.slide or 0))
        calendar = Calendar(PARTITIONING, longest, interval, origin=self.relation.offset - 1)
        definition = Definition(schema, f"c{self._key}", calendar)
        self._index = LifetimeIndex.create(self.directory, definition)
        return _View(self._index.snapshot(), stored_schema(schema).empty_table(), ids, EVER_BEFORE)

    def _rows(self, fresh: TimedRows, schema: pa.Schema) -> pa.Table:
        names = [name for name, _ in self.relation.root.columns[: len(self._items)]]
        items = fresh.rows.select(names).rename_columns(self._items.names)
        ids = _id_table(fresh.ids)
        for name in ids.schema.names:
            items = items.append_column(name, ids.column(name))
        return timed(items, fresh.start, fresh.end, schema)

    def _flushed(self, view: _View) -> _View:
        """With what came up to the last time at which the index is updated in the index; everything if it is much."""
        index = self._index
        assert index is not None
        calendar = index.definition.calendar
        slot = int(calendar.slots(np.array([view.now]))[0])
        until = calendar.origin + slot * calendar.interval
        if len(view.waiting) > MOST_WAITING:
            until = view.now - 1
        elif index.now is not None and until <= index.now:
            return view
        start, end = numbers(view.waiting, START), numbers(view.waiting, END)
        due = start <= until
        moved = view.waiting.filter(pa.array(due))
        index.update(until, moved.drop_columns([START, END]), start[due], end[due], gone=view.gone)
        waiting, copied = view.waiting.filter(pa.array(~due)), _Copied(weakref.ref(view.index), moved, view.gone)
        return _View(index.snapshot(), waiting, view.gone.slice(0, 0), view.now, copied)


def key_item(relation: Relation) -> int:
    """Which item is the search key.

    The first column of the result that one of its joins compares, if its items are plain columns of the join; or else
    the first that can be a key.
    """
    columns = relation.root.columns[: len(relation.names)]
    compared = _compared(relation.root)
    if compared is not None:
        project, names = compared
        for i, (_, expression, _) in enumerate(project.items[: len(columns)]):
            if isinstance(expression, Column) and expression.table is None and expression.name in names:
                return i
    for i, (_, type_) in enumerate(columns):
        try:
            IndexKeys.none(arrow_type(type_))
        except NotSupported:
            continue
        return i
    raise NotSupported(f"a materialised result of {relation.name}, none of whose items can be a key")


def _compared(node: Node) -> tuple[Project, set[str]] | None:
    """The items of the result, and the columns below them that a join compares."""
    project = _selected_from(node)
    if not isinstance(project, Project):
        return None
    join = _selected_from(project.input)
    if not isinstance(join, Join):
        return None
    return project, join.compared


def _selected_from(node: Node) -> Node:
    """The node of whose rows it keeps some, each as it is."""
    while node.keeps_some:
        (node,) = node.origins
    return node


def _id_table(ids: Ids) -> pa.Table:
    return pa.table({f"#id{i}": pa.array(ids[:, i], pa.int64()) for i in range(ids.shape[1])})


def _all_of(sub: SubIndex, base: Snapshot) -> pa.Table:
    return pa.concat_tables([base.spec.stored.empty_table(), *sub.tables()])


def _without(rows: pa.Table, gone: pa.Table) -> pa.Table:
    return rows.filter(pa.array(~matching(rows, gone))) if len(gone) else rows


def _values(value: Any, type_: pa.DataType) -> pa.Array:
    return pa.array(value if isinstance(value, list | tuple) else [value], type_)
