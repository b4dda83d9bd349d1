"""Which columns every relation of a plan must deliver: only what a node above it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mullion.algebra.nodes import Node, Scan


def nodes_in_order(roots: Iterable[Node]) -> list[Node]:
    """All nodes of some plans, each once, after its inputs."""
    ordered: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in ordered:
            for below in node.operator_inputs:
                visit(below)
            ordered[node] = None

    for root in roots:
        visit(root)
    return list(ordered)


def needs(roots: Collection[Node], known: Mapping[Node, Collection[str]] | None = None) -> dict[Node, tuple[str, ...]]:
    """The columns that each node must have, in its order; at least one, so that rows can be counted.

    Roots need all of theirs. `known` are needs of before, which stay: what is kept has these columns.
    """
    needed: dict[Node, set[str]] = {node: set() for node in nodes_in_order(roots)}
    for root in roots:
        needed[root] |= set(root.types)
    for node in reversed(needed):
        needed[node] = set(chosen(node, needed[node] | set((known or {}).get(node, ()))))
        for below, names in zip(node.operator_inputs, node.needs(needed[node]), strict=True):
            needed[below] |= set(chosen(below, names))
    return {node: chosen(node, names) for node, names in needed.items()}


def chosen(node: Node, names: Collection[str]) -> tuple[str, ...]:
    """Columns in the order of the node, with its first one if there is none."""
    own = tuple(name for name, _ in node.columns if name in names)
    hidden = tuple(sorted(set(names) - set(node.types)))
    return (*own, *hidden) or (node.columns[0][0],)


def takes(node: Node, needed: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """The columns that a node takes from each input of its operator, or a window from its stream."""
    if isinstance(node, Scan):
        return (chosen(node, node.reads(needed)),)
    return tuple(chosen(below, names) for below, names in zip(node.operator_inputs, node.needs(needed), strict=True))
