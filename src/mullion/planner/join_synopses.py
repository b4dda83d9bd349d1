"""Aggregates over windows of one join are answered from one synopsis of its results (golab 8.3.2, rules SS3 and CS5).

    GROUP BY g every 10 s over a join of 1 min              synopsis of the join by g
    GROUP BY g every 10 s over the same of 5 min    ==>     /          |          \\
    GROUP BY g every 30 s over the same of 2 min      1 min, 10 s   5 min, 10 s   2 min, 30 s

Those that group the same results by the same keys share it, if their windows differ by the same on all inputs: windows
of one length each always do. Whether an aggregate takes part depends on itself alone, so that its state never has to be
had from rows that are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mullion.algebra.nodes import Aggregated, Join, Node
from mullion.algebra.nodes.join_synopsis import JoinSynopsis
from mullion.expressions.evaluate import is_fallible


class OverJoin(NamedTuple):
    """An aggregate over a join that may be shared: the join of all that ever came with its own conditions, what it
    reads of the one that is shared, and the lengths of its windows."""

    aggregated: Aggregated
    own: Join
    source: Node
    ranges: tuple[int, ...]

    @property
    def shape(self) -> JoinSynopsis:
        """What it has in common with all that share a synopsis with it, now or later."""
        longer = tuple(length - self.ranges[0] for length in self.ranges)
        return JoinSynopsis(self.own, self.aggregated.keys, longer)


class Synopses(NamedTuple):
    """For each aggregate its synopsis, and for each synopsis its shape: it keeps its state while that is the same."""

    of: Mapping[Aggregated, JoinSynopsis]
    shapes: Mapping[Node, Node]


def join_synopses(found: Iterable[OverJoin]) -> Synopses:
    """The synopses of aggregates over joins."""
    groups: dict[JoinSynopsis, list[OverJoin]] = {}
    for over in found:
        groups.setdefault(over.shape, []).append(over)
    of: dict[Aggregated, JoinSynopsis] = {}
    shapes: dict[Node, Node] = {}
    for shape, members in groups.items():
        called = tuple(dict.fromkeys(bound for over in members for bound in over.aggregated.aggregates))
        probes = tuple(sorted({over.aggregated.probe for over in members}))
        made = JoinSynopsis(members[0].source, shape.keys, shape.longer, called, probes)
        of |= {over.aggregated: made for over in members}
        shapes[made] = shape
    return Synopses(of, shapes)


def is_probed(node: Aggregated) -> bool:
    """Whether an aggregate over a join of windows of time can be answered from a synopsis: at instants, of states that
    cells can hold. Bad values are counted on the results of a query's own windows, so nothing may meet one."""
    join = node.input
    if node.slide is None or node.is_marked or not isinstance(join, Join):
        return False
    windows = join.time_windows()
    if windows is None or any(bound.values or bound.where for bound in node.aggregates):
        return False
    partials = (partial for bound in node.aggregates for partial in bound.aggregate.partials(bound.argument_type))
    evaluated = [key for key, _ in node.keys] + [expr for bound in node.aggregates for expr in bound.expressions()]
    evaluated += [] if join.residual is None else [join.residual]
    on_inputs = ((expr, scan.types) for scan, predicates in windows for expr in predicates)
    return (
        all(partial.is_dense and partial.stands_alone for partial in partials)
        and not any(is_fallible(expr, join.types) for expr in evaluated)
        and not any(is_fallible(expr, types) for expr, types in on_inputs)
    )
