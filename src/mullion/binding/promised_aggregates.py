"""Aggregates over a part of a join, written so that what is missing makes them no wrong numbers.

    SELECT APPROX count(*) AS n, max(a.x) AS high FROM a [...], b [...] WHERE a.k = b.k WITH PREFERENCE WEIGHTED ...

    n            sum(w)                                w: how many pairs a pair stands for
    high         max(a.x)
    n_error      sqrt(sum(w (w - 1)))                  its standard error
    kept_share   count(*) / sum(w)
    high_bound   '=' if all pairs are there, or '>='   which side of the value the whole join's is on
    is_complete                                        whether all pairs are there that the answer is about

| | WEIGHTED | DESC and ASC |
|---|---|---|
| count | estimated | at least |
| sum | estimated | at least, where no value is negative |
| avg | estimated | - |
| max, min | at least, at most | at least, at most |

DESC and ASC choose by value, so nothing can be estimated from what they tell; nor can it from what is found within
MEMORY, which is answered as these are. Everything else is refused: it would be a
number without a meaning. HAVING may compare a bound only on the side on which a group that passes would pass of the
whole join too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mullion.algebra.nodes import Promising
from mullion.algebra.nodes.aggregated import COMPLETE
from mullion.binding.estimates import SampledUnits, Unit
from mullion.binding.grouping import item_name
from mullion.binding.parts_of_joins import PREFERENCE
from mullion.binding.sampled_queries import kept_share, standard_errors, with_aggregates
from mullion.binding.scope import OF_THE_ROWS
from mullion.binding.signs import never_negative
from mullion.errors import CheckError, NotSupported, Place
from mullion.language.query import AggregateCall, Call, Case, Column, Expr, Item, Literal, Query, rewrite, walk
from mullion.language.types import STRING

IS_COMPLETE = "is_complete"
BOUND = "_bound"
"""What the name of a bound gets for the column that says on which side it is one."""
AT_LEAST, AT_MOST, EXACT = ">=", "<=", "="
_BOUNDS = {"count": AT_LEAST, "sum": AT_LEAST, "max": AT_LEAST, "min": AT_MOST}
_ESTIMATED = ("count", "sum", "avg")
_OTHER_SIDE = {AT_LEAST: AT_MOST, AT_MOST: AT_LEAST, EXACT: EXACT}
_COMPLETE = Column(COMPLETE, OF_THE_ROWS)


@dataclass(frozen=True)
class Part:
    """Of what a query tells a part, for errors: `beside` what, of which kind, and where that is written. `sample`: what
    its rows stand for, where they are drawn."""

    beside: str
    kind: str
    place: Place | None
    sample: SampledUnits | None = None


def over_preferred(query: Query, join: Promising) -> Query:
    """The query over what a promising join tells. Raises where that would give wrong numbers."""
    preference = query.preference
    assert preference is not None
    if query.approximate and not join.weighs:
        hint = "use WEIGHTED, a fair sample; with DESC and ASC, aggregates are bounds: leave APPROX out"
        message = f"{preference.kind.upper()} cannot be combined with SELECT APPROX"
        raise CheckError(message, preference.place, hint=hint)
    kind, sample = f"PREFERENCE {preference.kind.upper()}", _sample(join) if join.weighs else None
    return over_a_part(query, Part(PREFERENCE, kind, preference.place, sample))


def _sample(join: Promising) -> SampledUnits:
    """What its rows stand for. Where each pair is drawn by itself, each is a unit of its own."""
    units = [Unit(Column(weight, OF_THE_ROWS), Column(unit, OF_THE_ROWS)) for weight, unit in join.units]
    return SampledUnits(tuple(units), is_alone=join.draws_pairs, adds_one=not join.draws_pairs)


def over_a_part(query: Query, part: Part) -> Query:
    """The query over a part of a join. Raises where that would give wrong numbers."""
    return _Rewriting(query, part).query()


class _Rewriting:
    def __init__(self, query: Query, part: Part) -> None:
        self._query, self._part, self._sample = query, part, part.sample
        self._aliases = {item.name.lower(): item.expr for item in query.items if item.name}

    def query(self) -> Query:
        query = self._query
        for item in query.items:
            if self._has_bounds(item.expr) and not isinstance(item.expr, AggregateCall):
                hint = "select the aggregates themselves, and compute with them where you read the answers"
                place = item.place or item.expr.place or self._part.place
                raise NotSupported(f"an expression over bounds with {self._part.beside}", place, hint=hint)
        if query.having is not None:
            self._check_having(self._without_aliases(query.having), AT_LEAST)
        bounded = with_aggregates(replace(query, approximate=False), self._bound_or_estimate)
        share = list[Item]()
        if query.approximate and self._sample is not None:
            share = [*standard_errors(query, self._sample), kept_share(self._sample.weight)]
        return replace(bounded, items=(*bounded.items, *share, *self._marks(), Item(_COMPLETE, IS_COMPLETE)))

    def _bound_or_estimate(self, node: AggregateCall) -> Expr:
        """What stands for an aggregate where only a part of its rows is there."""
        if node.distinct and node.function not in ("min", "max"):
            raise self._refused(node, "which values are missing is not known")
        if self._sample is not None and node.function in _ESTIMATED:
            return self._sample.estimate(node)
        if node.function == "sum" and not never_negative(node.args[0], node.where, self._query.where):
            why = "if values may be negative, the sum of a part is no bound: add FILTER (WHERE x >= 0), or write "
            raise self._refused(node, f"{why}sum(abs(x)) or sum(greatest(x, 0))")
        if node.function not in _BOUNDS:
            takes = [*_BOUNDS, *(["avg"] if self._sample is not None else [])]
            has_choice = self._part.beside == PREFERENCE and self._sample is None and node.function in _ESTIMATED
            other = "; WEIGHTED estimates it" if has_choice else ""
            raise self._refused(node, f"a part of the rows does not determine it: use {', '.join(takes)}{other}")
        return node

    def _refused(self, node: AggregateCall, why: str) -> CheckError:
        written = f"{node.function}(DISTINCT ...)" if node.distinct else node.function
        message = f"{written} cannot be combined with {self._part.kind}"
        return CheckError(message, node.place, hint=why)

    def _marks(self) -> Iterator[Item]:
        """On which side values are bounds."""
        for item in self._query.items:
            if isinstance(item.expr, AggregateCall) and self._has_bounds(item.expr):
                side = Literal(_BOUNDS[item.expr.function], STRING)
                yield Item(Case(((_COMPLETE, Literal(EXACT, STRING)),), side), item_name(item) + BOUND)

    def _has_bounds(self, expr: Expr) -> bool:
        """Whether a part of it is not estimated."""
        return any(isinstance(node, AggregateCall) and self._side(node) != EXACT for node in walk(expr))

    def _side(self, node: AggregateCall) -> str:
        return EXACT if self._sample is not None and node.function in _ESTIMATED else _BOUNDS.get(node.function, EXACT)

    # HAVING

    def _without_aliases(self, having: Expr) -> Expr:
        def change(node: Expr) -> Expr | None:
            if isinstance(node, Column) and node.table is None:
                return self._aliases.get(node.name.lower())
            return node if isinstance(node, AggregateCall) else None

        return rewrite(having, change)

    def _check_having(self, condition: Expr, grows: str) -> None:
        """That a group which passes would do so with all pairs. `grows`: on which side the left of `>` may be."""
        if not self._has_bounds(condition):
            return
        match condition:
            case Call(function="and" | "or", args=args):
                for arg in args:
                    self._check_having(arg, grows)
            case Call(function="not", args=(arg,)):
                self._check_having(arg, _OTHER_SIDE[grows])
            case Call(function="gt" | "ge", args=(left, right)) | Call(function="lt" | "le", args=(right, left)):
                if not (self._is_on(left, grows) and self._is_on(right, _OTHER_SIDE[grows])):
                    raise self._wrong_side(condition)
            case _:
                raise self._wrong_side(condition)

    def _is_on(self, expr: Expr, side: str) -> bool:
        if not self._has_bounds(expr):
            return True
        return isinstance(expr, AggregateCall) and self._side(expr) == side

    def _wrong_side(self, condition: Expr) -> CheckError:
        message = "HAVING would pass groups that fail once all pairs are there"
        hint = "compare a count, a sum or a max by >, or a min by <, with a value that is no bound itself"
        return CheckError(message, condition.place or self._part.place, hint=hint)
