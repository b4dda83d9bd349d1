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

from collections.abc import Mapping

from mullion.algebra.nodes import Distinct, Node, Project, Scan, scans
from mullion.algebra.relation import Relation
from mullion.algebra.splitting import KeyExpressions, ShardKeys, by_any
from mullion.language.query import Column
from mullion.language.render import render


def shard_keys(root: Node) -> ShardKeys | None:
    """For every window the expressions over its events by which these can be split; None if they can't be.

    All windows over a stream have the same ones, since an event goes to one shard.

    >>> from mullion.algebra.nodes import Join
    >>> from mullion.language.query import Window
    >>> from mullion.language.types import INT
    >>> a, b = (Scan(name, Window(range=60_000_000), (("k", INT), ("v", INT))) for name in "ab")
    >>> found = shard_keys(Join((a, b), ((Column("k"),), (Column("v"),))))
    >>> {scan.stream: [render(key) for key in keys] for scan, keys in found.items()}
    {'a': ['k'], 'b': ['v']}
    """
    return root.split_where_rows_meet() or by_any(root, [Column(name) for name in root.types])


def relation_keys(relation: Relation) -> dict[str, KeyExpressions] | None:
    """The keys by which each stream's events are split so that the answers of the shards together are the query's; None
    if there are none.

    - An order or a limit is one of the whole result; so is a window over it (WSTREAM), and an index (MATERIALIZED).
    - ISTREAM and DSTREAM compare values, so equal ones must be in one shard, as for DISTINCT.
    - The whole result at every change (RSTREAM without SLIDE) has the changes of all shards.
    - At the end of the input, rows that never leave are answered as long as there are others, perhaps in another shard.
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
    by_scan = shard_keys(root)
    return None if by_scan is None else {scan.stream: keys for scan, keys in by_scan.items()}


def describe_keys(keys: Mapping[str, KeyExpressions]) -> str:
    """In words: `orders by id, payments by order_id`."""
    return ", ".join(f"{stream} by {' and '.join(map(render, keys[stream]))}" for stream in sorted(keys))


def _leaves(scan: Scan) -> bool:
    """Whether every event leaves the window at a known time."""
    window = scan.window
    return not (window.is_endless or window.internal) and window.rows is None
