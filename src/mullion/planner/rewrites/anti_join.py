"""Where NOT EXISTS stands, and what it is asked with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mullion.algebra.column_names import inside, outside, parts_in
from mullion.algebra.nodes import AntiJoin, Join, Node, Project, Union
from mullion.language.query import Column, Expr
from mullion.planner.rewrites.rule import Rule


def project_keys(node: Node) -> Iterator[Node]:
    """The right side of NOT EXISTS is asked for its keys only."""
    if isinstance(node, AntiJoin) and not _is_keys(node.right, node.right_keys):
        types = [node.right.types[k.name] if isinstance(k, Column) else None for k in node.right_keys]
        if None in types:
            return
        names = tuple(f"k{i}" for i in range(len(node.right_keys)))
        items = tuple((n, k, t) for n, k, t in zip(names, node.right_keys, types, strict=True) if t is not None)
        yield replace(node, right=Project(node.right, items), right_keys=tuple(map(Column, names)))


def _is_keys(right: Node, keys: Sequence[Expr]) -> bool:
    return {Column(name) for name in right.types} == set(keys)


def pull_up_negation(node: Node) -> Iterator[Node]:
    """NOT EXISTS above a join or a union, so that what is below it hears of no negative tuples."""
    match node:
        case Join(parts=parts) if not any(part.is_internal for part in parts):
            for i, part in enumerate(parts):
                negation = _as_negation(part)
                if negation is not None and not negation.left.is_internal:
                    joined = replace(node, parts=(*parts[:i], negation.left, *parts[i + 1 :]))
                    keys = tuple(_first_equal(node, outside(key, i)) for key in negation.left_keys)
                    yield AntiJoin(joined, negation.right, keys, negation.right_keys)
        case Union(parts=parts):
            tested = [part for part in parts if isinstance(part, AntiJoin)]
            if len(tested) == len(parts) and len({(n.right, n.left_keys, n.right_keys) for n in tested}) == 1:
                yield replace(tested[0], left=Union(tuple(n.left for n in tested)))
        case _:
            return


def _first_equal(join: Join, key: Expr) -> Expr:
    """The first input's key, where the join makes it equal to this one: so that equal plans are the same."""
    return next(
        (
            outside(join.keys[0][place], 0)
            for i, keys in enumerate(join.keys)
            for place, own in enumerate(keys)
            if outside(own, i) == key
        ),
        key,
    )


def _as_negation(node: Node) -> AntiJoin | None:
    """A negation, perhaps below a projection that keeps its keys."""
    if isinstance(node, Project) and isinstance(node.input, AntiJoin):
        negation = node.input
        keys = [node.above(key) for key in negation.left_keys]
        if None in keys:
            return None
        return AntiJoin(
            replace(node, input=negation.left), negation.right, tuple(k for k in keys if k), negation.right_keys
        )
    return node if isinstance(node, AntiJoin) else None


def push_down_negation(node: Node) -> Iterator[Node]:
    """NOT EXISTS below a join, on an input that has the keys that it tests: fewer rows reach the join."""
    if not isinstance(node, AntiJoin):
        return
    match node.left:
        case Join(parts=parts) as join if not any(part.is_internal for part in parts):
            for i, part in enumerate(parts):
                keys = [_key_in_part(join, key, i) for key in node.left_keys]
                if None not in keys:
                    tested = replace(node, left=part, left_keys=tuple(k for k in keys if k))
                    yield replace(join, parts=(*parts[:i], tested, *parts[i + 1 :]))
        case _:
            return


def _key_in_part(join: Join, key: Expr, part: int) -> Expr | None:
    """A key of the join's results over one input: its own, or the one that the join makes equal to it."""
    if parts_in(key) == {part}:
        return inside(key)
    for i, keys in enumerate(join.keys):
        for place, own in enumerate(keys):
            if outside(own, i) == key:
                return join.keys[part][place]
    return None


def swap_negations(node: Node) -> Iterator[Node]:
    """Two NOT EXISTS in the other order: the one that lets fewer rows through first."""
    if isinstance(node, AntiJoin) and isinstance(node.left, AntiJoin):
        yield replace(node.left, left=replace(node, left=node.left.left))


PROJECT_KEYS = Rule("project_keys", "NOT EXISTS asks for keys only, so only they are kept", project_keys)
PULL_UP = Rule(
    "pull_up_negation",
    "update pattern simplification: below the negation no operator hears of negative tuples",
    pull_up_negation,
)
PUSH_DOWN = Rule(
    "push_down_negation", "the negation lets few rows through, so fewer reach the join", push_down_negation
)
SWAP = Rule("swap_negations", "the negation that lets fewer rows through goes first", swap_negations)
