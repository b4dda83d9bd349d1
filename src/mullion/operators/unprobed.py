"""New rows of a join that need not look for others: their stream sheds probes (golab 2.4.3, processor short).

    new rows that weigh 0 of all inputs --> kept, as if they had been there before
    the other new rows --probe--> what is kept, these among it --residual--> results

The residual asks of every combination that its last event weighs something (`binding.shed_streams`). All new rows are
later than those that are kept, so a combination without a new row that weighs something is none of the results, and
nobody need find it. Of the others the residual tells which count.

Requires: windows of time over streams, by filters and projections at most: their rows come when their events do.
"""

from __future__ import annotations

import numpy as np

from mullion.algebra.column_names import names_in
from mullion.algebra.nodes import Join, Node, Scan, nodes
from mullion.algebra.streams import WEIGHT
from mullion.expressions.arrays import Index
from mullion.language.query import Column
from mullion.operators.keyed_sub_window import KeyedSubWindow


def probing_weights(join: Join) -> list[str | None]:
    """For each input the column that says with which of its rows to probe; None: with all."""
    weights = _weights_asked(join) if all(map(_comes_in_time, join.parts)) else set()
    return [WEIGHT if f"{i}.{WEIGHT}" in weights else None for i in range(len(join.parts))]


def shed_probes(plan: Node) -> set[str]:
    """The streams whose probes joins of a plan may leave out."""
    joins = [node for node in nodes(plan) if isinstance(node, Join)]
    traced = [join.traced(Column(name)) for join in joins for name in _weights_asked(join)]
    return {found[0].stream for found in traced if found is not None}


def _weights_asked(join: Join) -> set[str]:
    """The weights that the residual asks about: only those that shed probes are asked for (`binding.shed_streams`)."""
    names = set() if join.residual is None else names_in(join.residual)
    return {name for name in names if name.rpartition(".")[2] == WEIGHT}


def _comes_in_time(node: Node) -> bool:
    """Whether its rows come when their events do."""
    scan = node.selected_from
    return isinstance(scan, Scan) and scan.window.rows is None and scan.window.attribute is None


def parted(fresh: KeyedSubWindow, weight: str) -> tuple[KeyedSubWindow | None, KeyedSubWindow | None]:
    """The rows that weigh nothing, and the others."""
    probes = fresh.rows.column(weight).to_numpy() > 0
    if probes.all():
        return None, fresh
    return _some(fresh, np.flatnonzero(~probes)), _some(fresh, np.flatnonzero(probes))


def _some(fresh: KeyedSubWindow, rows: Index) -> KeyedSubWindow | None:
    return KeyedSubWindow.of(fresh.timed.take(rows), fresh.keys.take(rows)) if len(rows) else None
