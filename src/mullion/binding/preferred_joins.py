"""WITH PREFERENCE over a join: a promising join, or a stack of them for more than two streams (ali 3, 5.1).

    FROM a, b, c WHERE a.k = b.k AND b.k = c.k WITH PREFERENCE DESC estimate(a.k), estimate(b.k), estimate(c.k)
    BUDGET 900 ROWS

    Promising(Join(Promising(Join(a, b), 450 rows), c), 900 rows)     what the lower one leaves is for the upper one

Each stream has an expression, for its new rows; estimate(x) is how many rows of the other input have the key x. Where
streams are joined by several keys, an expression counts for the join whose key it is about. What a lower join found
promises as much as the most promising of its rows; where none of their expressions is about the key of the join above,
as many rows as it meets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mullion.algebra.column_names import conjuncts, names_in, outside
from mullion.algebra.nodes import Join, Node, Promising, Scan, nodes
from mullion.algebra.nodes.promising import ESTIMATE
from mullion.binding.layouts import Layout, together, typed
from mullion.binding.promises import SummaryOn, ages_of, create_hint, promised
from mullion.errors import CheckError, NotSupported, Place
from mullion.expressions.shared import shared
from mullion.language.query import Budget, Call, Column, Expr, Preference, rewrite, walk
from mullion.language.types import BIGINT


@dataclass(frozen=True)
class _Side:
    """An input of a join, or what is joined so far."""

    node: Node
    names: Mapping[str, str]
    """What the columns of the query's join are called here."""
    keys: tuple[Expr, ...] = ()
    equal: frozenset[str] = frozenset()
    """The columns that are equal to keys, or are keys."""

    @property
    def is_joined(self) -> bool:
        return isinstance(self.node, Promising)

    @property
    def origins(self) -> list[tuple[str, str]]:
        """The streams and their columns that the keys come from."""
        traced = [self.node.traced(Column(name)) for name in sorted(self.equal)]
        return [(scan.stream, own.name) for scan, own in filter(None, traced) if isinstance(own, Column)]

    def is_about(self, estimate: Call) -> bool:
        """Whether an estimate over the columns of the query's join is about the key."""
        (own,) = estimate.args
        return isinstance(own, Column) and self.names.get(own.name) in self.equal

    @property
    def stream(self) -> str:
        return f"'{self.origins[0][0]}'" if self.origins else "the sub-query"

    @property
    def key(self) -> str:
        """The first key as a user may write it."""
        names = sorted(names_in(self.keys[0]))
        streams = [node.stream for node in nodes(self.node) if isinstance(node, Scan)]
        return f"{streams[0]}.{names[0].rpartition('.')[2]}" if names else "key"

    @property
    def hint(self) -> str:
        return create_hint(*next(iter(self.origins), ("stream", "column")))


class Stack:
    """The promising joins of a query, from its join."""

    def __init__(self, layout: Layout, preference: Preference, summaries: list[SummaryOn], *, aggregated: bool) -> None:
        assert isinstance(layout.node, Join)
        self.join, self.preference, self.summaries, self.aggregated = layout.node, preference, summaries, aggregated
        self.budget = replace(preference.budget or Budget(), place=None)
        self.fade = 1.0 if preference.fade is None else preference.fade
        self.joins = list(_joins(self.join, ""))
        self.inputs = [side for join in self.joins for side in join]
        self.size = sum(not isinstance(side.node, Join) for side in self.inputs) - 1
        self.known = list(dict.fromkeys(filter(None, map(self._summary, self.inputs))))
        """The summaries on keys."""
        self.written = [self._checked(layout.plain(expr)) for expr in preference.exprs]

    def promising_join(self) -> tuple[Promising, Mapping[str, str]]:
        """The upmost of the joins, and what the columns of the query's join are called in it."""
        whole = self._side(self.join, "")
        assert isinstance(whole.node, Promising)
        return whole.node, whole.names

    def _checked(self, written: Expr) -> Expr:
        """An expression over the columns of the query's join: of one stream, with estimates about keys."""
        names = names_in(written)
        own = [side for side in self.inputs if not isinstance(side.node, Join) and names & side.names.keys()]
        if len(own) > 1:
            hint = "write one expression for each stream, over its own columns"
            raise NotSupported("a PREFERENCE over the columns of several streams", written.place, hint=hint)
        for call in _estimates(written):
            about = [(side, join) for join in self.joins for side in join if side.is_about(call)]
            if not about:
                key = (own or self.inputs)[0].key
                hint = f"use the column that joins the streams: estimate({key})"
                raise CheckError("estimate takes a key of the join", call.place, hint=hint)
            if not any(map(self._summary, (side for _, join in about for side in join))):
                raise CheckError("no summary is on the key of the join", call.place, hint=about[0][0].hint)
        return written

    # The joins

    def _side(self, node: Node, prefix: str) -> _Side:
        """An input of the query's join, or all of it, as promising joins of two."""
        if not isinstance(node, Join):
            return _Side(node, {f"{prefix}{name}": name for name in node.types})
        sides = []
        for i, (part, keys) in enumerate(zip(node.parts, node.keys, strict=True)):
            side = self._side(part, f"{prefix}{i}.")
            own = tuple(shared(_renamed(key, side.names, f"{prefix}{i}.")) for key in keys)
            sides.append(replace(side, keys=own, equal=_names(own)))
        conditions = [] if node.residual is None else list(conjuncts(node.residual))
        joined = sides[0]
        for side in sides[1:]:
            both = joined, side
            names = {old: f"{i}.{name}" for i, part in enumerate(both) for old, name in part.names.items()}
            asked = [c for c in conditions if all(f"{prefix}{name}" in names for name in names_in(c))]
            conditions = [c for c in conditions if c not in asked]
            residual = together(shared(_renamed(condition, names, prefix)) for condition in asked)
            join = Join((joined.node, side.node), (joined.keys, side.keys), residual)
            equal = frozenset(f"{i}.{name}" for i, part in enumerate(both) for name in part.equal)
            keys = tuple(shared(outside(key, 0)) for key in joined.keys)
            joined = _Side(self._promising(join, both), names, keys, equal)
        return joined

    def _promising(self, join: Join, sides: tuple[_Side, _Side]) -> Promising:
        first, second = sides
        promises = self._promise(first), self._promise(second)
        joins = 1 + sum(side.node.joins for side in sides if isinstance(side.node, Promising))
        sizes = [summary.memory for summary in self.known if summary.memory is not None]
        memory = sum(sizes) // self.size if sizes else None
        has_ages = self.fade != 1 or memory is not None
        ages = (self._ages(first, second), self._ages(second, first)) if has_ages else ((), ())
        order, budget = self.preference.kind, _part_of(self.budget, joins, self.size)
        return Promising(join, order, promises, budget, self.fade, ages, memory, aggregated=self.aggregated)

    # What rows promise

    def _promise(self, side: _Side) -> Expr:
        """The expression for new rows of an input, over its own columns and the estimate."""
        own = [written for written in self.written if names_in(written) <= side.names.keys()]
        types, promises = side.node.types, dict[Expr, Place | None]()
        for written in own:
            if all(map(side.is_about, _estimates(written))):
                expr = _renamed(written, side.names)
                promises[promised(expr, types, lambda call: None, written.place)] = written.place
        if not promises and (own or side.is_joined):
            return promised(Call("estimate", side.keys[:1]), types, lambda call: None, None)
        if len(promises) > 1 and side.is_joined:
            best = "least" if self.preference.kind == "asc" else "greatest"
            return shared(typed(Call(best, tuple(promises)), {**types, ESTIMATE: BIGINT})[0])
        if len(promises) != 1:
            message = f"WITH PREFERENCE has {len(promises)} expressions for the new rows of {side.stream}"
            hint = f"write one for each stream, such as estimate({side.key})"
            raise CheckError(message, next(iter(promises.values()), self.preference.place), hint=hint)
        return next(iter(promises))

    # Summaries

    def _summary(self, side: _Side) -> SummaryOn | None:
        return next((summary for summary in self.summaries if (summary.stream, summary.column) in side.origins), None)

    def _ages(self, side: _Side, other: _Side) -> tuple[int, ...]:
        """The ages at which rows of an input pass into an older granularity, by its summary or that of another."""
        summary = self._summary(side) or self._summary(other) or next(iter(self.known), None)
        if summary is None:
            message = "FADE needs the granularities of a summary, and no summary is on the key of the join"
            raise CheckError(message, self.preference.place, hint=side.hint)
        return ages_of(summary)


def _joins(join: Join, prefix: str) -> Iterator[list[_Side]]:
    """The inputs of a join, with their keys, and those of joins below it."""
    inputs = list(zip(join.parts, join.keys, strict=True))
    yield [
        _Side(part, {f"{prefix}{i}.{name}": name for name in part.types}, keys, _names(keys))
        for i, (part, keys) in enumerate(inputs)
    ]
    for i, (part, _) in enumerate(inputs):
        if isinstance(part, Join):
            yield from _joins(part, f"{prefix}{i}.")


def _estimates(expr: Expr) -> list[Call]:
    calls = [part for part in walk(expr) if isinstance(part, Call) and part.function == "estimate"]
    return [call for call in calls if len(call.args) == 1]


def _names(keys: Sequence[Expr]) -> frozenset[str]:
    return frozenset(names_in(*keys))


def _renamed(expr: Expr, names: Mapping[str, str], prefix: str = "") -> Expr:
    def change(node: Expr) -> Expr | None:
        return Column(names[f"{prefix}{node.name}"], place=node.place) if isinstance(node, Column) else None

    return rewrite(expr, change)


def _part_of(budget: Budget, joins: int, of: int) -> Budget:
    """What some joins have of the budget of all."""
    if joins == of:
        return budget
    parts = {name: getattr(budget, name) for name in ("rows", "events", "time")}
    return replace(budget, **{name: max(1, n * joins // of) for name, n in parts.items() if n is not None})
