"""The relational algebra of standing queries: what a query makes of its windows at every instant.

    SELECT a.k, b.v FROM a [RANGE 10 min], b [RANGE 5 min] WHERE a.k = b.k AND b.v > 1

    Project(k = 0.k, v = 1.v)
      Join(0: k, 1: k)
        Scan(a, 10 min)
        Filter(v > 1)
          Scan(b, 5 min)

A node is a relation that changes with time (golab, Definition 2.1): at every instant it is what the relational operator
makes of its inputs at that instant. Nodes carry resolved expressions over the columns of their inputs and no names of
users, so that equal nodes of different queries are recognised and computed once.

Columns: a Scan has those of its stream; a Join those of its inputs, in order, with the input's number before them
(`0.k`, `1.v`, `1.0.x` for a join in a join); a Project, an Aggregated and a Union the names that they give; all others
those of their (first) input.

A kind of node is a class in a file of its own, which owns all that is known of the kind; `registry.KINDS` has them all.
`registry.PHYSICAL` has the kinds that no plan has and operators stand on.
"""

from __future__ import annotations

from mullion.algebra.nodes.aggregated import Aggregated
from mullion.algebra.nodes.anti_join import AntiJoin
from mullion.algebra.nodes.base import Columns, Node, nodes
from mullion.algebra.nodes.bounded import Bounded
from mullion.algebra.nodes.difference import Difference
from mullion.algebra.nodes.distinct import Distinct
from mullion.algebra.nodes.filter import Filter
from mullion.algebra.nodes.join import Join
from mullion.algebra.nodes.join_synopsis import JoinSynopsis
from mullion.algebra.nodes.join_view import JoinView
from mullion.algebra.nodes.offering import Offering
from mullion.algebra.nodes.project import Project
from mullion.algebra.nodes.promising import Promising
from mullion.algebra.nodes.registry import KINDS, PHYSICAL
from mullion.algebra.nodes.result_window import ResultWindow
from mullion.algebra.nodes.scan import Scan
from mullion.algebra.nodes.table_lookup import TableLookup
from mullion.algebra.nodes.union import Union
from mullion.algebra.nodes.walk import comes_at_instants, has_total, is_aggregates, scans, tables_of

__all__ = [
    "KINDS",
    "PHYSICAL",
    "Aggregated",
    "AntiJoin",
    "Bounded",
    "Columns",
    "Difference",
    "Distinct",
    "Filter",
    "Join",
    "JoinSynopsis",
    "JoinView",
    "Node",
    "Offering",
    "Project",
    "Promising",
    "ResultWindow",
    "Scan",
    "TableLookup",
    "Union",
    "comes_at_instants",
    "has_total",
    "is_aggregates",
    "nodes",
    "scans",
    "tables_of",
]
