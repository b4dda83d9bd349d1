"""What each kind of node means, by its definition."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Filter,
    Join,
    JoinView,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
    Union,
    nodes,
    scans,
)
from mullion.instants import EVER_BEFORE, FOREVER
from mullion.reference.duplicates import distinct
from mullion.reference.expressions import equal, one_value, values_of
from mullion.reference.grouping import at_changes, at_instants
from mullion.reference.instants import Instants
from mullion.reference.lifetimes import lifetimes
from mullion.reference.registry import as_inputs, is_strict, meaning_of
from mullion.reference.rows import Row
from mullion.reference.subtraction import difference, negation
from mullion.reference.table_versions import looked_up
from mullion.reference.world import World


def _counts_rows(node: Scan | ResultWindow) -> bool:
    return node.window.rows is not None and not node.window.internal


def _follows_a_table(node: TableLookup) -> bool:
    return node.retroactive or as_inputs(node)


@meaning_of(Scan, strict=_counts_rows)
def scan(world: World, node: Scan) -> list[Row]:
    events = world.events[node.stream]
    values = [tuple(event[name] for name, _ in node.stream_columns) for _, event in events]
    keys = [values_of(key, node.stream_columns, values) for key in node.partition]
    partitions = [one_value([of[i] for of in keys]) for i in range(len(events))]
    spans = lifetimes(node.window, [time for time, _ in events], partitions)
    rows = []
    for number, ((time, _), (start, end)) in enumerate(zip(events, spans, strict=True)):
        if start < end and (node.since is None or time >= node.since):
            shown = FOREVER if node.window.internal else end
            rows.append(Row(values[number], (number,), start, shown, end))
    return rows


@meaning_of(ResultWindow, strict=_counts_rows)
def result_window(world: World, node: ResultWindow) -> list[Row]:
    """New results are the events of a stream, in the order in which they start."""
    results = sorted(world.rows(node.input), key=lambda row: (row.start, row.id))
    rows = []
    for row, (start, end) in zip(results, lifetimes(node.window, [row.start for row in results]), strict=True):
        if start < end:
            rows.append(replace(row, start=start, end=end, held_until=end))
    return rows


@meaning_of(Filter, strict=as_inputs)
def selection(world: World, node: Filter) -> list[Row]:
    true = world.values(node.input, node.predicate)
    return [row for row, passes in zip(world.rows(node.input), true, strict=True) if passes is True]


@meaning_of(Project, strict=as_inputs)
def projection(world: World, node: Project) -> list[Row]:
    values = world.keys(node.input, [expr for _, expr, _ in node.items])
    return [replace(row, values=new) for row, new in zip(world.rows(node.input), values, strict=True)]


@meaning_of(Join, strict=as_inputs)
def join(world: World, node: Join) -> list[Row]:
    """By nested loops: rows that are held at the same time and have equal keys."""
    keyed = [
        list(zip(world.rows(part), world.keys(part, keys), strict=True))
        for part, keys in zip(node.parts, node.keys, strict=True)
    ]
    joined = []
    for combination in product(*keyed):
        (_, keys), *others = combination
        if all(all(map(equal, keys, other)) for _, other in others):
            rows = [row for row, _ in combination]
            start, held_until = max(row.start for row in rows), min(row.held_until for row in rows)
            if start < held_until:
                values = tuple(value for row in rows for value in row.values)
                id_ = tuple(number for row in rows for number in row.id)
                joined.append(Row(values, id_, start, min(row.end for row in rows), held_until))
    if node.residual is None:
        return joined
    true = values_of(node.residual, node.columns, [row.values for row in joined])
    return [row for row, passes in zip(joined, true, strict=True) if passes is True]


@meaning_of(JoinView, strict=as_inputs)
def join_view(world: World, node: JoinView) -> list[Row]:
    return join(world, node.meaning)


@meaning_of(Union, strict=as_inputs)
def union(world: World, node: Union) -> list[Row]:
    return [replace(row, id=(i, *row.id)) for i, part in enumerate(node.parts) for row in world.rows(part)]


@meaning_of(Distinct, strict=as_inputs)
def each_once(world: World, node: Distinct) -> list[Row]:
    return distinct(world.rows(node.input), strict=is_strict(node.input))


@meaning_of(AntiJoin)
def anti_join(world: World, node: AntiJoin) -> list[Row]:
    left_keys, right_keys = world.keys(node.left, node.left_keys), world.keys(node.right, node.right_keys)
    return negation(world.rows(node.left), world.rows(node.right), left_keys, right_keys)


@meaning_of(Difference)
def except_all(world: World, node: Difference) -> list[Row]:
    return difference(world.rows(node.left), world.rows(node.right))


@meaning_of(TableLookup, strict=_follows_a_table)
def table_lookup(world: World, node: TableLookup) -> list[Row]:
    later = world.versions.get(node.lookup.table, ())
    return looked_up(node, world.rows(node.input), [(EVER_BEFORE, world.tables[node.lookup.table][1]), *later])


@meaning_of(Aggregated)
def aggregated(world: World, node: Aggregated) -> list[Row]:
    rows, stay = world.rows(node.input), all(scan.window.internal for scan in scans(node))
    whole = world.rows(node.input.inputs[0]) if node.input.is_part else rows
    windows = [below for below in nodes(node) if below.own_window is not None]
    in_windows = [row for window in windows for row in world.rows(window)]
    if not in_windows:
        return []
    assert world.newest is not None
    first, last = min(row.start for row in in_windows), max(row.held_until for row in in_windows)
    if node.slide is None:
        return at_changes(node, rows, whole, first, max(last, world.newest), stay=stay)
    every = Instants(node.slide, node.offset)
    endless = last == FOREVER
    last = world.last(every) if endless else every.until(last)
    instants = [t for t in every.between(first, last) if any(row.is_held_at(t - 1) for row in in_windows)]
    if instants and not node.keys:
        instants = list(every.between(instants[0], max(instants[-1], world.newest)))
    return at_instants(node, rows, whole, instants, stay=stay, endless=endless)
