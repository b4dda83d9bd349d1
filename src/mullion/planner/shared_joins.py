"""Joins of the same streams by the same keys are computed once, however long the windows and whatever the predicates.

    a [10 min] join b [10 min]                                    join of a [1 h] and b [20 min]
    a [1 h] where v > 3, join b [5 min]             ==>           /             |              \\
    a [30 min] join b [20 min] where a.v < b.v             10, 10 min    1 h, 5 min, v > 3    30, 20 min, a.v < b.v

The join has the longest windows and the rows that any of the queries wants; every query has a view of it (`JoinView`
and a Filter), which looks at each result once. Whether joins are shared depends on their streams and keys alone. So
the state of a shape can be handed on when windows grow with new queries, or shrink when queries leave.

Only joins of [RANGE r] windows over streams take part: their ends are known from when their rows came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mullion.algebra.column_names import conjunction, conjuncts, outside
from mullion.algebra.nodes import Aggregated, Filter, Join, JoinView, Node, Scan, nodes
from mullion.algebra.nodes.join_synopsis import JoinSynopsis
from mullion.expressions.evaluate import is_fallible
from mullion.language.query import Call, Expr, Window
from mullion.planner.join_synopses import OverJoin, is_probed, join_synopses

MOST_ALTERNATIVES = 1000
"""More different predicates on an input than these are not looked at before the join."""


@dataclass(frozen=True)
class SharedJoins:
    """Plans that share joins.

    - `plans`: for each plan, what to compute instead; the rows are the same.
    - `shapes`: for each join that may be shared, its shape: the same join over everything that ever came.
    - `asked`: for each node above such a join, what it stands for, whatever the others share: the node of a plan, or
      the shape of a synopsis.
    """

    plans: Mapping[Node, Node]
    shapes: Mapping[Join, Join]
    asked: Mapping[Node, Node]


@dataclass(frozen=True)
class _Member:
    """A join of a query: its shape, the length of each window, the predicates on each input, and the residual."""

    shape: Join
    ranges: tuple[int, ...]
    predicates: tuple[tuple[Expr, ...], ...]
    residual: Expr | None


def share_joins(roots: Iterable[Node]) -> SharedJoins:
    """The joins that some plans can share, and the plans over them."""
    roots = tuple(roots)
    by_join: dict[Join, _Member] = {}
    for root in roots:
        _collect(root, by_join)
    groups: dict[Join, list[_Member]] = {}
    for member in by_join.values():
        groups.setdefault(member.shape, []).append(member)
    wide = {shape: _widest(members) for shape, members in groups.items()}
    views: dict[Node, Node] = {join: _view(member, wide[member.shape]) for join, member in by_join.items()}
    over = dict.fromkeys(node for root in roots for node in _probed(root) if node.input in by_join)
    synopses = join_synopses(_over_join(node, by_join, wide, views) for node in over)
    asked: dict[Node, Node] = dict(synopses.shapes)
    plans = {root: _replaced(root, views, synopses.of, asked) for root in roots}
    return SharedJoins(plans, {join: shape for shape, join in wide.items()}, asked)


def _collect(node: Node, members: dict[Join, _Member]) -> None:
    """What a promising or bounded join tells is a part of its own: it does not take part."""
    if node.is_part:
        return
    if isinstance(node, Join) and node not in members:
        member = _member(node)
        if member is not None:
            members[node] = member
            return
    for below in node.inputs:
        _collect(below, members)


def _member(join: Join) -> _Member | None:
    parts = join.time_windows()
    if parts is None:
        return None
    endless = tuple(replace(scan, window=Window(unbounded=True)) for scan, _ in parts)
    ranges = tuple(scan.window.range or 0 for scan, _ in parts)
    return _Member(Join(endless, join.keys), ranges, tuple(predicates for _, predicates in parts), join.residual)


def _widest(members: Sequence[_Member]) -> Join:
    """The join that has all rows of all members."""
    shape = members[0].shape
    parts: list[Node] = []
    for i, scan in enumerate(shape.parts):
        assert isinstance(scan, Scan)
        longest = max(member.ranges[i] for member in members)
        wanted = _any_of([member.predicates[i] for member in members])
        whole = replace(scan, window=Window(range=longest))
        parts.append(whole if wanted is None else Filter(whole, wanted))
    return replace(shape, parts=tuple(parts), residual=_shared_residual(members))


def _shared_residual(members: Sequence[_Member]) -> Expr | None:
    """What the join itself can drop. Where a residual can meet a bad value each view looks by itself: it is counted for
    a query on the combinations of its own windows alone."""
    if len({member.residual for member in members}) == 1:
        return members[0].residual if len(members) == 1 or not _is_fallible(members[0]) else None
    asked = [() if member.residual is None else tuple(conjuncts(member.residual)) for member in members]
    types = members[0].shape.types
    common = [part for part in asked[0] if all(part in own for own in asked) and not is_fallible(part, types)]
    others = None
    if not any(map(_is_fallible, members)):
        others = _any_of([tuple(part for part in own if part not in common) for own in asked])
    parts = [*common, *([] if others is None else [others])]
    return conjunction(parts) if parts else None


def _is_fallible(member: _Member) -> bool:
    return member.residual is not None and is_fallible(member.residual, member.shape.types)


def _any_of(wanted: Sequence[tuple[Expr, ...]]) -> Expr | None:
    """A predicate for the rows that any of them wants; None: all rows."""
    alternatives = list(dict.fromkeys(wanted))
    if () in alternatives or len(alternatives) > MOST_ALTERNATIVES:
        return None
    terms = [conjunction(alternative) for alternative in alternatives]
    while len(terms) > 1:
        pairs = [Call("or", (left, right)) for left, right in zip(terms[::2], terms[1::2], strict=False)]
        terms = [*pairs, *terms[2 * len(pairs) :]]
    return terms[0]


def _view(member: _Member, wide: Join) -> Node:
    """What a query sees of the shared join."""
    asked: list[Expr] = []
    windows = wide.time_windows()
    assert windows is not None
    for i, ((_, given), predicates) in enumerate(zip(windows, member.predicates, strict=True)):
        asked += [outside(predicate, i) for predicate in predicates if given != predicates]
    if member.residual is not None and member.residual != wide.residual:
        asked.append(member.residual)
    longest = tuple(scan.window.range for scan, _ in windows)
    view: Node = wide if longest == member.ranges else JoinView(wide, member.ranges)
    return Filter(view, conjunction(asked)) if asked else view


def _probed(root: Node) -> Iterator[Aggregated]:
    """The aggregates of a plan that a synopsis can answer."""
    return (node for node in nodes(root) if isinstance(node, Aggregated) and is_probed(node))


def _over_join(
    node: Aggregated, members: Mapping[Join, _Member], wide: Mapping[Join, Join], views: Mapping[Node, Node]
) -> OverJoin:
    assert isinstance(node.input, Join)
    member, view = members[node.input], views[node.input]
    parts = zip(member.shape.parts, member.predicates, strict=True)
    kept = tuple(Filter(part, conjunction(predicates)) if predicates else part for part, predicates in parts)
    own, shared = replace(member.shape, parts=kept, residual=member.residual), wide[member.shape]
    source = replace(view, input=shared) if isinstance(view, Filter) else shared
    return OverJoin(node, own, source, member.ranges)


def _replaced(
    node: Node, views: Mapping[Node, Node], synopses: Mapping[Aggregated, JoinSynopsis], asked: dict[Node, Node]
) -> Node:
    view = views.get(node)
    if node.is_part or view is not None:
        return node if view is None else view
    made = node.with_inputs(tuple(_replaced(below, views, synopses, asked) for below in node.inputs))
    if isinstance(node, Aggregated) and isinstance(made, Aggregated) and node in synopses:
        made = replace(made, synopsis=synopses[node])
    if made is not node:
        asked.setdefault(made, node)
    return made
