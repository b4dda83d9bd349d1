"""All relations of all standing queries at work: each is computed once, for all plans that contain it.

    set_roots(roots)                    which plans there are now; nodes come and go with them
    advance(events, now) -> deltas      events of all streams before `now`; what became known of every root

Equal nodes are one operator, and joins that differ only in their windows and predicates are one join with views of it
(`planner.network_plans`); its state is handed on when windows of other lengths come or go. A node that comes while
others run starts empty: queries that enter late answer when all their windows began after they entered.

Relations carry only the columns that a node above them reads (`needs`). When a new query needs more of what is there
already, operators are built anew with the state that they had; in rows that came before, the new columns are
NULL, and no answer of the new query ever sees these rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mullion.algebra.lookups import READ
from mullion.algebra.nodes import (
    Aggregated,
    Join,
    JoinView,
    Node,
    ResultWindow,
    Scan,
    nodes,
)
from mullion.expressions.arrays import Ids, Times
from mullion.expressions.vector import arrow_type
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.operators.aggregated import AggregatedOperator
from mullion.operators.auto_time import AutoTime
from mullion.operators.bad_values import BadEvents
from mullion.operators.base import Operator, Parts, TooManyRows
from mullion.operators.closed_keys import ClosedKeys
from mullion.operators.column_pruning import needs, nodes_in_order, takes
from mullion.operators.construction import Construction
from mullion.operators.expressions import schema_of
from mullion.operators.join import JoinOperator
from mullion.operators.join_migration import refit_state
from mullion.operators.join_view import views_in, views_of
from mullion.operators.make import make
from mullion.operators.promising_network import refuse_own_rows, share_time, with_promises
from mullion.operators.stateless import Narrowed
from mullion.operators.structures import StreamEvents
from mullion.operators.timed_rows import Delta, Retractions, TimedRows
from mullion.operators.window_occupancy import OccupancyListener, occupancy_listeners, with_length
from mullion.options import Expiry
from mullion.planner.network_plans import network_plans
from mullion.questions_first import give_way


@dataclass(frozen=True)
class StepEvents:
    """Events of a stream, in the order of time and arrival. `numbers`: how many of the stream came before each, where
    the caller counts them."""

    rows: pa.Table
    times: Times
    numbers: Times | None = None
    ended: pa.Table | None = None
    """The keys that are over with these events; None: those that the events say, which then come in their order."""


@dataclass(frozen=True)
class Working:
    """A node at work: its operator, the columns it delivers, and for every input those that it takes."""

    node: Node
    operator: Operator
    needed: tuple[str, ...]
    takes: tuple[tuple[str, ...], ...]
    inputs: Sequence[Operator]


class Network:
    def __init__(self, expiry: str = Expiry.PATTERN_AWARE, *, most: int = sys.maxsize) -> None:
        """`most`: how many rows an operator may give in one step."""
        self.expiry, self._most = Expiry(expiry), most
        self.failed: dict[Node, int] = {}
        """Nodes that would have given more rows than they may, and how many: queries whose plans contain them must
        leave. Of joins that are shared, a view with windows of its own."""
        self.roots: tuple[Node, ...] = ()
        self.plans: dict[Node, Node] = {}
        """What is computed for each root: the same rows, from joins that are shared."""
        self.shapes: dict[Join, Join] = {}
        self._asked: dict[Node, Node] = {}
        """The node of a root that a node above a shared join stands for. That stays the same when the join becomes
        another one with other queries, and so does the state."""
        self.working: dict[Node, Working] = {}
        self._listeners: dict[Node, list[OccupancyListener]] = {}
        self.counts: dict[str, int] = {}
        """How many events of each stream have come."""
        self.newest = EVER_BEFORE
        """The time of the newest of them."""
        self._columns: dict[str, tuple[str, ...]] = {}
        self.closed: dict[str, ClosedKeys] = {}
        """The keys that are over, of streams with PUNCTUATE."""
        self._fresh: dict[Node, TimedRows] = {}
        self._bad_events = BadEvents(())
        self._promising: list[Operator] = []
        self.time = AutoTime()
        """What BUDGET AUTO has of a step. Whoever makes steps says how long they took."""

    # Which plans there are

    def set_roots(self, roots: Iterable[Node]) -> None:
        """Work for these plans from now on."""
        self.roots = tuple(dict.fromkeys(roots))
        before, shaped = self.working, {shape: join for join, shape in self.shapes.items()}
        stood_for = {self._asked.get(node, node): working for node, working in before.items()}
        shared = network_plans(self.roots, self.expiry)
        self.plans, self.shapes, self._asked = dict(shared.plans), dict(shared.shapes), dict(shared.asked)
        old = stood_for | {node: stood_for[own] for node, own in self._asked.items() if own in stood_for}
        old |= {join: before[shaped[shape]] for join, shape in self.shapes.items() if shape in shaped}
        self._build({node: working.needed for node, working in old.items()}, old)

    def _build(self, known: Mapping[Node, Sequence[str]], before: Mapping[Node, Working]) -> None:
        working: dict[Node, Working] = {}
        for node, needed in needs(tuple(self.plans.values()), known).items():
            old = before.get(node)
            same = old is not None and old.node == node and old.needed == needed
            working[node] = old if old is not None and same else self._start(node, needed, working, old)
        self.working = working
        self._columns = _columns(working)
        self._promising = with_promises(own.operator for own in working.values())
        ending = {node.stream: node for node in working if isinstance(node, Scan) and node.punctuation is not None}
        self.closed = {stream: self.closed.get(stream) or _no_keys(scan) for stream, scan in ending.items()}
        for own in working.values():
            own.operator.closed = self.closed
        for join, views in views_of(self.plans.values()).items():
            operator = working[join].operator
            assert isinstance(operator, JoinOperator)
            operator.views = views
        self._listeners = occupancy_listeners(self.plans.values())
        self._bad_events = BadEvents(self.roots)

    def _start(
        self, node: Node, needed: tuple[str, ...], working: Mapping[Node, Working], old: Working | None
    ) -> Working:
        taken = takes(node, needed)
        if isinstance(node, Scan):
            inputs: list[Operator] = [StreamEvents(node, taken[0])]
        else:
            below = [working[source].operator for source in node.operator_inputs]
            inputs = [Narrowed(source, names) for source, names in zip(below, taken, strict=True)]
        operator = make(node, inputs, Construction(self.expiry, needed))
        operator.most_rows = self._most
        started = Working(node, operator, needed, taken, inputs)
        if old is not None:
            self._hand_on(old.operator.parts(), old.takes, started)
        return started

    def _hand_on(self, parts: Parts, takes: Sequence[Sequence[str]], working: Working) -> None:
        """Go on with the state of an operator that took other columns, or had windows of other lengths."""
        parts = _widened(parts, takes, [source.schema for source in working.inputs])
        if isinstance(working.node, Join) and working.node in self.shapes:
            parts = refit_state(parts, working.node)
        working.operator.restore(parts)

    def columns_needed(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that each stream must deliver."""
        return self._columns

    def operator(self, node: Node) -> Operator:
        """The operator of a node; of a root, that of the plan that is computed for it."""
        return self.working[self.plans.get(node, node)].operator

    def take_bad(self) -> dict[Node, int]:
        """How many bad values each root met since this was asked before."""
        met = {node: working.operator.bad for node, working in self.working.items() if working.operator.bad}
        for node in met:
            self.working[node].operator.bad = 0
        events = self._bad_events.collect()
        if not met and not events:
            return {}
        own = {root: sum(met.get(node, 0) for node in nodes_in_order([plan])) for root, plan in self.plans.items()}
        return {root: number + events.get(root, 0) for root, number in own.items()}

    # Time goes on

    def advance(self, events: Mapping[str, StepEvents], now: int) -> dict[Node, Delta]:
        """Go on to `now` with the events before it. Returns what became known of every root."""
        streams = {stream: self._numbered(stream, events.get(stream)) for stream in self.columns_needed()}
        first = (int(arrived[0].times[0]) for arrived in streams.values() if arrived is not None)
        share_time(self.time, self._promising, now, first)
        deltas: dict[Node, Delta] = {}
        self._fresh = {}
        for stream, arrived in streams.items():
            if arrived is not None:
                self._bad_events.observe(stream, arrived[0].rows, arrived[0].times)
        for node, working in self.working.items():
            if isinstance(node, Scan):
                arriving = _arriving(node, working.takes[0], streams[node.stream], now)
                deltas[node] = working.operator.advance([arriving], now)
                self._widen(node, deltas[node].fresh)
        for node, working in self.working.items():
            give_way()
            if not isinstance(node, Scan):
                below = zip(node.operator_inputs, working.takes, strict=True)
                inputs = [_passed(working, deltas[source], names) for source, names in below]
                deltas[node] = self._advanced(node, working.operator, inputs, now)
                if isinstance(node, ResultWindow):
                    self._widen(node, deltas[node].fresh)
        for working in self.working.values():
            working.operator.end_step(now)
        self._close_keys(streams, events, now)
        return {root: _narrowed(deltas[plan], list(plan.types)) for root, plan in self.plans.items()}

    def _close_keys(
        self, streams: Mapping[str, tuple[StepEvents, Ids] | None], events: Mapping[str, StepEvents], now: int
    ) -> None:
        """The step has gone through everything: what it says of keys holds from now on."""
        ended = {}
        for stream, closed in self.closed.items():
            arrived, step = streams[stream], events.get(stream)
            if step is not None and step.ended is not None:
                ended[stream] = closed.close_ended(step.ended)
            elif arrived is not None:
                ended[stream] = closed.add(arrived[0].rows, arrived[0].times)
            closed.expire(now)
        ended = {stream: keys for stream, keys in ended.items() if len(keys)}
        for working in self.working.values() if ended else ():
            working.operator.purge(ended)

    def _advanced(self, node: Node, operator: Operator, inputs: Sequence[Delta], now: int) -> Delta:
        try:
            delta = operator.advance(inputs, now)
            if isinstance(node, Join) and isinstance(operator, JoinOperator):
                self.failed |= {JoinView(node, ranges): rows for ranges, rows in operator.too_many.items()}
            return delta
        except TooManyRows as problem:
            self.failed[node] = problem.rows
            return Delta(TimedRows.empty(operator.schema, operator.width), Retractions.none(operator.width), now)

    def without(self, root: Node) -> int | None:
        """If a plan stands on a node that failed, how many rows that would have given."""
        if not self.failed:
            return None
        plan = self.plans[root]
        return next((self.failed[n] for n in (*nodes_in_order([plan]), *views_in(plan)) if n in self.failed), None)

    def held_for(self, root: Node) -> int:
        """How many rows are held for a plan; of what it shares with longer windows, the share of its own."""
        plan = self.plans[root]
        held = sum(float(self.working[node].operator.rows_held) for node in nodes_in_order([plan]))
        for view in dict.fromkeys(views_in(plan)):
            longest = sum(scan.window.range or 0 for scan, _ in view.input.time_windows() or ())
            if longest:
                held -= self.working[view.input].operator.rows_held * (1 - sum(view.ranges) / longest)
        for node in nodes(plan):
            if isinstance(node, Aggregated) and node.synopsis is not None:
                held -= self.working[node.synopsis].operator.rows_held * (1 - node.probe.range / node.synopsis.longest)
        return int(held)

    def _widen(self, window: Scan | ResultWindow, fresh: TimedRows) -> None:
        """Tell aggregates what came into a window."""
        self._fresh[window] = fresh
        for listener in self._listeners.get(window, ()):
            operator = self.working[listener.aggregated].operator
            assert isinstance(operator, AggregatedOperator)
            operator.newest = self.newest
            operator.widen(with_length(fresh, listener.length), is_below=listener.is_below)

    def came(self, root: Node) -> list[TimedRows]:
        """What the last `advance` brought into the windows of a plan."""
        windows = dict.fromkeys(self.plans[root].windows())
        return [with_length(self._fresh[window], length) for window, length in windows]

    def _numbered(self, stream: str, events: StepEvents | None) -> tuple[StepEvents, Ids] | None:
        if events is None or not len(events.times):
            return None
        before = self.counts.get(stream, 0)
        numbers = before + np.arange(len(events.times)) if events.numbers is None else events.numbers
        self.counts[stream] = int(numbers[-1]) + 1
        self.newest = max(self.newest, int(events.times[-1]))
        return events, numbers.reshape(-1, 1)

    # State

    def rows_held(self) -> dict[str, int]:
        """How many rows each operator holds, by the names of their nodes."""
        return {self._name(node): working.operator.rows_held for node, working in self.working.items()}

    def _name(self, node: Node) -> str:
        """Shared joins go by their shape, whatever the length of their windows, and nodes above them by what they stand
        for."""
        shape = self.shapes.get(node) if isinstance(node, Join) else None
        return self._asked.get(node, node).name if shape is None else f"shared-{shape.name}"

    def parts(self) -> dict[str, Parts]:
        """The state of everything, by the names of nodes."""
        counts = pa.table({"stream": list(self.counts), "count": pa.array(self.counts.values(), pa.int64())})
        newest = pa.table({"newest": [self.newest]})
        parts: dict[str, Parts] = {"streams": {"counts": [counts], "newest": [newest]}}
        parts |= {f"closed {stream}": closed.parts() for stream, closed in self.closed.items()}
        for node, working in self.working.items():
            needed = pa.table({"column": pa.array(working.needed, pa.string())})
            parts[self._name(node)] = {**working.operator.parts(), "#needed": [needed]}
        return parts

    def restore(self, parts: Mapping[str, Parts]) -> None:
        """Go on with a state that `parts` gave. To be called after `set_roots` and before the first `advance`. Nodes
        that were not there then start empty."""
        for table in parts.get("streams", {}).get("counts", ()):
            self.counts = dict(zip(table["stream"].to_pylist(), table["count"].to_pylist(), strict=True))
        for table in parts.get("streams", {}).get("newest", ()):
            self.newest = table["newest"][0].as_py()
        refuse_own_rows(parts)
        names = {node: next((n for n in (self._name(node), node.name) if n in parts), "") for node in self.working}
        saved = {node: parts[name] for node, name in names.items() if name}
        known = {node: own["#needed"][0]["column"].to_pylist() for node, own in saved.items()}
        self._build(known, {})
        for node, own in saved.items():
            state = {name: tables for name, tables in own.items() if name != "#needed"}
            self._hand_on(state, takes(node, known[node]), self.working[node])
        for stream, closed in self.closed.items():
            closed.restore(parts.get(f"closed {stream}", {}))


def _columns(working: Mapping[Node, Working]) -> dict[str, tuple[str, ...]]:
    """The columns that windows take of each stream."""
    needed: dict[str, dict[str, None]] = {}
    for node, own in working.items():
        if isinstance(node, Scan):
            names = needed.setdefault(node.stream, {})
            names |= dict.fromkeys(own.takes[0])
    return {stream: tuple(names) for stream, names in needed.items()}


def _no_keys(scan: Scan) -> ClosedKeys:
    assert scan.punctuation is not None
    return ClosedKeys(scan.punctuation, scan.types)


def _arriving(node: Scan, names: Sequence[str], arrived: tuple[StepEvents, Ids] | None, now: int) -> Delta:
    if arrived is None:
        return Delta(TimedRows.empty(schema_of((n, node.event_types[n]) for n in names), 1), Retractions.none(1), now)
    events, ids = arrived
    columns = [_column(events.rows, name, arrow_type(node.event_types[name])) for name in names]
    rows = pa.Table.from_arrays(columns, names=list(names))
    return Delta(TimedRows(rows, ids, events.times, np.full(len(ids), FOREVER)), Retractions.none(1), now)


def _column(events: pa.Table, name: str, wanted: pa.DataType) -> pa.ChunkedArray | pa.Array:
    """Nobody may have noted which batch events came with."""
    if name == READ and READ not in events.column_names:
        return pa.nulls(len(events), wanted)
    column = events.column(name)
    return column if column.type == wanted else column.cast(wanted)


def _passed(working: Working, delta: Delta, names: Sequence[str]) -> Delta:
    """What a node gets of an input. Aggregates get the rows that windows hold. Operators that keep whole rows get only
    the columns that they asked for."""
    if isinstance(working.node, Aggregated):
        delta = delta.as_held()
    return delta if working.operator.picks_columns else _narrowed(delta, list(names))


def _narrowed(delta: Delta, names: list[str]) -> Delta:
    rows = delta.fresh.rows
    if rows.column_names == names:
        return delta
    return replace(delta, fresh=delta.fresh.with_rows(rows.select(names)))


def _widened(parts: Parts, takes: Sequence[Sequence[str]], schemas: Sequence[pa.Schema]) -> Parts:
    """State of an operator whose inputs now have more columns: in tables with the columns that it took before, the new
    ones are NULL."""
    for before, schema in zip(takes, schemas, strict=True):
        if tuple(before) != tuple(schema.names):
            parts = {name: [_wider(table, before, schema) for table in tables] for name, tables in parts.items()}
    return parts


def _wider(table: pa.Table, before: Sequence[str], schema: pa.Schema) -> pa.Table:
    if not set(before) <= set(table.column_names):
        return table
    added = [
        table.column(field.name) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    others = [name for name in table.column_names if name not in schema.names]
    return pa.Table.from_arrays([*added, *(table.column(name) for name in others)], names=[*schema.names, *others])
