"""Joins of windows: which equalities hold them together, and the Join nodes that they become.

    a.k = b.k AND b.k = c.k AND c.j = d.j AND a.x < d.y

    classes of equal columns      {a.k, b.k, c.k}  {c.j, d.j}
    the largest is joined first   Join(a, b, c on k)
    then the rest                 Join(Join(a, b, c), d on j, residual a.x < d.y)

All sources that one class holds together become one Join of them all. Parts of a join stand in an order of their own,
so that queries which write their sources in another order share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mullion.algebra.nodes import Join, Node, scans
from mullion.binding.layouts import Layout, predicate, together
from mullion.binding.scope import Columned, Scope, qualifier_of
from mullion.errors import CheckError, Place
from mullion.expressions.shared import shared
from mullion.expressions.typing import resolve
from mullion.language.query import Call, Column, Expr, rewrite
from mullion.language.render import render
from mullion.language.types import TIMESTAMP, Type

Member = tuple[int, Expr]
"""A resolved expression over the columns of one part."""


def equi_join(layouts: Sequence[Layout], conditions: Sequence[Expr], scope: Scope) -> Layout:
    """One relation of all parts, which hold different sources. `conditions` are qualified, each over several parts."""
    if len(layouts) == 1:
        return layouts[0]
    return _Joining(list(layouts), conditions, scope).join()


def equal_keys(
    left: Expr, left_types: Mapping[str, Type], right: Expr, right_types: Mapping[str, Type], place: Place | None
) -> tuple[Expr, Expr] | None:
    """Two sides of an equality, each over its own columns, in the type that they are compared in."""
    types = {f"0.{name}": type_ for name, type_ in left_types.items()}
    types |= {f"1.{name}": type_ for name, type_ in right_types.items()}
    resolved, _ = resolve(Call("eq", (_prefixed(left, "0."), _prefixed(right, "1.")), place=place), types)
    if not isinstance(resolved, Call) or resolved.function != "eq":
        return None
    return shared(_cut(resolved.args[0])), shared(_cut(resolved.args[1]))


def _prefixed(expr: Expr, prefix: str) -> Expr:
    return rewrite(expr, lambda n: Column(prefix + n.name, place=n.place) if isinstance(n, Column) else None)


def _cut(expr: Expr) -> Expr:
    return rewrite(expr, lambda n: Column(n.name[2:], place=n.place) if isinstance(n, Column) else None)


@dataclass(frozen=True)
class _Cluster:
    """Parts that are joined already. Their columns are those of the part with a prefix."""

    node: Node
    prefixes: Mapping[int, str]

    def member(self, members: Iterable[Member]) -> Expr | None:
        """The first of the members that is in the cluster, over the columns of the cluster."""
        return next((_prefixed(expr, self.prefixes[i]) for i, expr in members if i in self.prefixes), None)


class _Joining:
    def __init__(self, layouts: list[Layout], conditions: Sequence[Expr], scope: Scope) -> None:
        self.scope, self.layouts = scope, layouts
        self.part_of = {source: i for i, layout in enumerate(layouts) for source, _ in layout.columns}
        self.classes: list[list[Member]] = []
        self.rest: list[Expr] = []
        for condition in conditions:
            pair = self._pair(condition)
            if pair is None:
                self.rest.append(condition)
            else:
                self._equate(*pair)

    def parts(self, qualified: Expr) -> set[int]:
        return {self.part_of[source] for source in self.scope.sources_of(qualified)}

    def _pair(self, condition: Expr) -> tuple[Member, Member] | None:
        """The two sides of an equality between two parts."""
        if not isinstance(condition, Call) or condition.function != "eq" or len(condition.args) != 2:
            return None
        a, b = condition.args
        if len(of_a := self.parts(a)) != 1 or len(of_b := self.parts(b)) != 1:
            return None
        (left,), (right,) = of_a, of_b
        ours, theirs = self.layouts[left], self.layouts[right]
        ours.typed(a), theirs.typed(b)
        keys = equal_keys(ours.placed(a), ours.node.types, theirs.placed(b), theirs.node.types, condition.place)
        return None if keys is None else ((left, keys[0]), (right, keys[1]))

    def _equate(self, left: Member, right: Member) -> None:
        touched = [members for members in self.classes if left in members or right in members]
        self.classes = [members for members in self.classes if members not in touched]
        self.classes.append(sorted({left, right, *(m for members in touched for m in members)}, key=_order))

    def join(self) -> Layout:
        clusters = [_Cluster(self._alone(i).node, {i: ""}) for i in range(len(self.layouts))]
        while len(clusters) > 1:
            linked = [[c for c in clusters if c.member(members)] for members in self.classes]
            largest = max(linked, key=len, default=[])
            if len(largest) < 2:
                raise self._unlinked(clusters)
            clusters = [c for c in clusters if c not in largest] + [self._joined(largest)]
        (whole,) = clusters
        return Layout(whole.node, self.scope, self._columns(whole.prefixes))

    def _columns(self, prefixes: Mapping[int, str]) -> dict[tuple[int, str], str]:
        """What the columns of sources are called in a join of these parts."""
        return {key: p + name for i, p in prefixes.items() for key, name in self.layouts[i].columns.items()}

    def _alone(self, part: int) -> Layout:
        """A part, in which columns are equal that are equal to the same column elsewhere."""
        equal = []
        for members in self.classes:
            own = [expr for i, expr in members if i == part]
            equal += [shared(Call("eq", (own[0], other))) for other in own[1:]]
        return self.layouts[part].filtered(equal)

    def _joined(self, clusters: list[_Cluster]) -> _Cluster:
        clusters = sorted(clusters, key=lambda c: ([scan.stream for scan in scans(c.node)], repr(c.node)))
        prefixes = {
            i: f"{at}.{prefix}" for at, cluster in enumerate(clusters) for i, prefix in cluster.prefixes.items()
        }
        columns = {f"{at}.{name}": t for at, cluster in enumerate(clusters) for name, t in cluster.node.columns}
        keys: list[tuple[Expr, ...]] = []
        residual: list[Expr] = []
        for members in self.classes:
            sides = [cluster.member(members) for cluster in clusters]
            there = [(at, side) for at, side in enumerate(sides) if side is not None]
            if len(there) == len(clusters):
                keys.append(tuple(shared(side) for _, side in there))
            else:
                over = [_prefixed(side, f"{at}.") for at, side in there]
                residual += [shared(Call("eq", (over[0], other))) for other in over[1:]]
        keys.sort(key=lambda sides: [render(side) for side in sides])
        residual += self._conditions(clusters, prefixes, columns)
        parts = tuple(cluster.node for cluster in clusters)
        return _Cluster(Join(parts, tuple(zip(*keys, strict=True)), together(residual)), prefixes)

    def _conditions(
        self, clusters: list[_Cluster], prefixes: Mapping[int, str], columns: Mapping[str, Type]
    ) -> list[Expr]:
        """The other conditions that can be asked of these parts, and of none alone."""
        layout = Layout(clusters[0].node, self.scope, self._columns(prefixes))
        conditions = []
        for condition in self.rest:
            parts = self.parts(condition)
            if parts <= set(prefixes) and not any(parts <= set(cluster.prefixes) for cluster in clusters):
                conditions.append(predicate(layout.placed(condition), columns))
        return conditions

    def _unlinked(self, clusters: list[_Cluster]) -> CheckError:
        numbers = sorted(self._first_source(cluster) for cluster in clusters)[:2]
        first, second = (self.scope.relations[number] for number in numbers)
        common = [name for name, t in second.columns if name.lower() in first.spelling and t != TIMESTAMP]
        columns = (common[0], common[0]) if common else (_a_key(first), _a_key(second))
        names = [qualifier_of(self.scope.sources[number]) or "the sub-query" for number in numbers]
        message = f"no condition joins '{names[1]}' to '{names[0]}'"
        hint = f"join them by an equality, such as WHERE {names[0]}.{columns[0]} = {names[1]}.{columns[1]}"
        return CheckError(message, self.scope.sources[numbers[1]].place, hint=hint)

    def _first_source(self, cluster: _Cluster) -> int:
        return min(source for source, part in self.part_of.items() if part in cluster.prefixes)


def _a_key(relation: Columned) -> str:
    """A column that may be joined on: not a time, if there is another."""
    others = [name for name, type_ in relation.columns if type_ != TIMESTAMP]
    return next(iter(others or relation.types), "key")


def _order(member: Member) -> tuple[int, str]:
    return member[0], render(member[1])
