"""Which columns every relation of a plan must deliver: only what somebody above it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mullion.algebra.nodes import Aggregated, AntiJoin, Filter, Join, JoinView, Node, Project, Scan, TableLookup, Union
from mullion.operators.expressions import names_in
from mullion.planner.shared_joins import windows_of

HIDDEN_START = "#s"
"""#s0, #s1, ...: the starts of the rows of a join's result, for views with windows of their own (`JoinView`)."""


def inputs_of(node: Node) -> tuple[Node, ...]:
    """What a node stands on. A filtered view of a join stands on the join: it is one with the view."""
    return node.input.inputs if isinstance(node, Filter) and isinstance(node.input, JoinView) else node.inputs


def in_order(roots: Iterable[Node]) -> list[Node]:
    """All nodes of some plans, each once, after its inputs."""
    found: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in found:
            for below in inputs_of(node):
                visit(below)
            found[node] = None

    for root in roots:
        visit(root)
    return list(found)


def needs(roots: Collection[Node], known: Mapping[Node, Collection[str]] | None = None) -> dict[Node, tuple[str, ...]]:
    """The columns that each node must have, in its order; at least one, so that rows can be counted.

    Roots need all of theirs. `known` are needs of before, which stay: what is kept has these columns.
    """
    found: dict[Node, set[str]] = {node: set() for node in in_order(roots)}
    for root in roots:
        found[root] |= set(root.types)
    for node in reversed(found):
        found[node] = set(chosen(node, found[node] | set((known or {}).get(node, ()))))
        for below, names in zip(inputs_of(node), needs_of(node, found[node]), strict=True):
            found[below] |= set(chosen(below, names))
    return {node: chosen(node, names) for node, names in found.items()}


def chosen(node: Node, names: Collection[str]) -> tuple[str, ...]:
    """Columns in the order of the node, with its first one if there is none."""
    own = tuple(name for name, _ in node.columns if name in names)
    hidden = tuple(sorted(set(names) - set(node.types)))
    return (*own, *hidden) or (node.columns[0][0],)


def needs_of(node: Node, needed: Collection[str]) -> list[set[str]]:
    """What a node reads of its inputs in order to deliver some columns."""
    match node:
        case Scan():
            return []
        case Filter(input=JoinView(input=join), predicate=predicate):
            return [set(needed) | names_in([predicate]) | _hidden_starts(join)]
        case Filter(predicate=predicate):
            return [set(needed) | names_in([predicate])]
        case Project(items=items):
            return [names_in(expr for _, expr, _ in items)]
        case TableLookup(input=below, lookup=lookup):
            return [set(needed) & set(below.types) | names_in(event for event, _ in lookup.keys)]
        case Join(parts=parts, keys=keys, residual=residual):
            names = set(needed) | (names_in([residual]) if residual is not None else set())
            # Shared joins keep what they were asked for, to know which rows are still wanted when queries leave.
            wanted = [predicate for _, predicate in windows_of(node)] or [None] * len(parts)
            return [
                {name for name in part.types if f"{i}.{name}" in names}
                | names_in(own if predicate is None else (*own, predicate))
                for i, (part, own, predicate) in enumerate(zip(parts, keys, wanted, strict=True))
            ]
        case JoinView(input=join):
            return [set(needed) | _hidden_starts(join)]
        case AntiJoin(left_keys=left_keys, right_keys=right_keys):
            return [set(needed) | names_in(left_keys), names_in(right_keys)]
        case Union(parts=parts):
            return [set(needed) for _ in parts]
        case Aggregated(keys=keys, aggregates=aggregates):
            read = [expr for bound in aggregates for expr in bound.expressions()]
            return [names_in([*(key for key, _ in keys), *read])]
        case _:
            return [set(below.types) for below in node.inputs]


def _hidden_starts(join: Join) -> set[str]:
    return {f"{HIDDEN_START}{i}" for i in range(len(join.parts))}


def scan_needs(node: Scan, needed: Collection[str]) -> tuple[str, ...]:
    """The columns of its stream that a window needs."""
    return chosen(node, set(needed) | names_in(node.partition))


__all__ = ["HIDDEN_START", "chosen", "in_order", "inputs_of", "needs", "needs_of", "scan_needs"]
