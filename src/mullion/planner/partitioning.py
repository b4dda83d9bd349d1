"""By which keys the events of a plan can be split, so that its result is the union of the results of the parts.

    NOT EXISTS: orders o without payments p, o.id = p.order_id

        orders   --by id-------.   shard 0: orders and payments of 1, 4, 9, ...
                                >  shard 1: orders and payments of 2, 3, 7, ...
        payments --by order_id-'   ...

Every event goes to one shard, by the hash of its key. A plan can be split if rows meet only where their keys are
equal:

| node | can be split by |
|---|---|
| window of time | anything |
| the last rows of each partition | its partition keys; the last rows of a stream by nothing |
| selection, projection, table | what their input can be split by |
| join, negation | their keys, all or some |
| distinct, difference | what equal rows have in common |
| grouping | its keys, all or some |
| union | what each of its parts can be split by |
| window over results | what these can be split by, unless it counts rows |

Keys are asked for from above and carried down to the windows. Whoever is not sure says None: the plan then stays in one
piece. Equal keys are in one shard, also NaNs, zeros of either sign, and NULLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
    Union,
    scans,
)
from mullion.algebra.relation import Relation
from mullion.language.query import Column, Expr, rewrite
from mullion.language.render import render
from mullion.language.types import DOUBLE, FLOAT
from mullion.planner.column_names import names_in, outside, through

Keys = tuple[Expr, ...]
ShardKeys = dict[Scan, Keys]


def shard_keys(root: Node) -> ShardKeys | None:
    """For every window the expressions over its events by which these can be split; None if they can't be.

    All windows over a stream have the same ones, since an event goes to one shard.

    >>> from mullion.language.query import Window
    >>> from mullion.language.types import INT
    >>> a, b = (Scan(name, Window(range=60_000_000), (("k", INT), ("v", INT))) for name in "ab")
    >>> found = shard_keys(Join((a, b), ((Column("k"),), (Column("v"),))))
    >>> {scan.stream: [render(key) for key in keys] for scan, keys in found.items()}
    {'a': ['k'], 'b': ['v']}
    """
    return _where_rows_meet(root) or _by_any(root, [Column(name) for name in root.types])


def _where_rows_meet(root: Node) -> ShardKeys | None:
    """By the keys of the topmost nodes in which rows meet others."""
    match root:
        case Scan(partition=partition):
            return {root: partition} if partition else None
        case Filter(input=below) | Project(input=below) | TableLookup(input=below, retroactive=False):
            return _where_rows_meet(below)
        case Union(parts=parts):
            return _merged(_where_rows_meet(part) for part in parts)
        case Join(keys=keys):
            return _by_any(root, [outside(key, 0) for key in keys[0]])
        case AntiJoin(left_keys=left_keys):
            return _by_any(root, left_keys)
        case _:
            return _by_any(root, [Column(name) for name in root.types])


def _by_any(node: Node, wanted: Sequence[Expr]) -> ShardKeys | None:
    """By as many of the wanted keys as possible: many spread the rows best."""
    alone = [key for key in dict.fromkeys(wanted) if split_by(node, (key,)) is not None]
    choices = [tuple(alone), *((key,) for key in alone)] if alone else []
    return next((found for keys in choices if (found := split_by(node, keys)) is not None), None)


def split_by(node: Node, keys: Keys) -> ShardKeys | None:
    """How events are split so that the rows of a node are split by some keys over its columns."""
    match node:
        case Scan(window=window, partition=partition):
            can = all(map(names_in, keys)) and (window.rows is None or set(keys) <= set(partition))
            return {node: keys} if can else None
        case Filter(input=below):
            return split_by(below, keys)
        case Project(input=below):
            return split_by(below, tuple(through(node, key) for key in keys))
        case TableLookup(input=below, retroactive=False):
            return split_by(below, keys) if _all_names(keys) <= below.types.keys() else None
        case ResultWindow(input=below, window=window):
            return split_by(below, keys) if window.rows is None else None
        case Distinct(input=below):
            return split_by(below, keys) if _are_common(keys, node) else None
        case Union(parts=parts):
            return _merged(split_by(part, _renamed(keys, node, part)) for part in parts)
        case Difference(left=left, right=right):
            common = _are_common(keys, node)
            return _merged(split_by(side, _renamed(keys, left, side)) for side in (left, right)) if common else None
        case Join(parts=parts, keys=own):
            called = [[outside(key, i) for key in mine] for i, mine in enumerate(own)]
            return _each_by(_places(keys, called), list(zip(parts, own, strict=True)))
        case AntiJoin(left=left, right=right, left_keys=left_keys, right_keys=right_keys):
            return _each_by(_places(keys, [left_keys]), [(left, left_keys), (right, right_keys)])
        case Aggregated(input=below, keys=groups):
            called = [[Column(f"#k{i}") for i in range(len(groups))]]
            return _each_by(_places(keys, called), [(below, [key for key, _ in groups])])
        case _:
            return None


def relation_keys(relation: Relation) -> dict[str, Keys] | None:
    """By what the events of each stream are split for a query whose answers are those of its parts together; None if
    there is no such way.

    - An order or a limit is one of the whole result; so is a window over it (WSTREAM), and an index (MATERIALIZED).
    - ISTREAM and DSTREAM compare values, so equal ones must be in one shard, as for DISTINCT.
    - The whole result at every change (RSTREAM without SLIDE) has the changes of all shards.
    - At the end of the input, what never leaves is told as long as anything else is there, perhaps in another shard.
    """
    if relation.order_by or relation.limit is not None or relation.output == "wstream" or relation.materialized:
        return None
    if relation.output == "rstream" and relation.slide is None:
        return None
    if relation.slide is not None and not all(_leaves(scan) for scan in scans(relation.root)):
        return None
    root = relation.root
    if relation.output in ("istream", "dstream"):
        items = tuple((name, Column(name), type_) for name, type_ in root.columns[: len(relation.names)])
        root = Distinct(Project(root, items))
    found = shard_keys(root)
    return None if found is None else {scan.stream: keys for scan, keys in found.items()}


def describe_keys(keys: Mapping[str, Keys]) -> str:
    """In words: `orders by id, payments by order_id`."""
    return ", ".join(f"{stream} by {' and '.join(map(render, keys[stream]))}" for stream in sorted(keys))


def _leaves(scan: Scan) -> bool:
    """Whether every event leaves the window at a known time."""
    window = scan.window
    return not (window.is_endless or window.internal) and window.rows is None


def _merged(parts: Iterable[ShardKeys | None]) -> ShardKeys | None:
    """The keys of several inputs, if all can be split and each stream in one way."""
    found: ShardKeys = {}
    by_stream: dict[str, Keys] = {}
    for part in parts:
        if part is None:
            return None
        for scan, keys in part.items():
            if by_stream.setdefault(scan.stream, keys) != keys:
                return None
            found[scan] = keys
    return found


def _places(keys: Keys, called: Sequence[Sequence[Expr]]) -> list[int] | None:
    """Which keys of a node these are, by any of the names that it has for them; None if one is no key of it."""
    places = [next((list(names).index(key) for names in called if key in names), None) for key in keys]
    found = [place for place in places if place is not None]
    return found if len(found) == len(places) else None


def _each_by(places: Sequence[int] | None, inputs: Sequence[tuple[Node, Sequence[Expr]]]) -> ShardKeys | None:
    """Split each input by those of its keys that are at these places."""
    if not places:
        return None
    return _merged(split_by(node, tuple(keys[place] for place in places)) for node, keys in inputs)


def _are_common(keys: Keys, node: Node) -> bool:
    """Whether equal rows have equal keys. What is computed of a float may tell zeros apart that are equal."""
    computed = [key for key in keys if not isinstance(key, Column)]
    return not any(node.types[name] in (FLOAT, DOUBLE) for key in computed for name in names_in(key))


def _renamed(keys: Keys, node: Node, part: Node) -> Keys:
    """Keys over a node's columns, over the columns of another at the same positions."""
    names = {own: other for (own, _), (other, _) in zip(node.columns, part.columns, strict=True)}

    def other(inner: Expr) -> Expr | None:
        return Column(names[inner.name]) if isinstance(inner, Column) else None

    return tuple(rewrite(key, other) for key in keys)


def _all_names(keys: Keys) -> set[str]:
    return {name for key in keys for name in names_in(key)}


__all__ = ["Keys", "ShardKeys", "describe_keys", "relation_keys", "shard_keys", "split_by"]
