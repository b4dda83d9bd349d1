"""What stands below the aggregates of a query and what above them.

SELECT k, sum(x) / count(*) AS mean FROM ... GROUP BY k        above: #k0, #a0 / #a1
                                                               below: keys (k), aggregates (sum(x), count(*))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from mullion.aggregates import DISTINCT, INTERNAL, REGISTRY, Aggregate
from mullion.algebra.bound_aggregate import WINDOW_COLUMNS, BoundAggregate, column_types
from mullion.binding.decay import DECAY, decayed
from mullion.binding.scope import OF_THE_ROWS, check_means_window
from mullion.errors import CheckError, NotSupported, closest
from mullion.expressions.evaluate import evaluate
from mullion.expressions.functions import NAMES
from mullion.expressions.functions.sparks import unknown_function
from mullion.expressions.shared import shared
from mullion.expressions.typing import resolve, resolve_predicate
from mullion.language.dialect import AGGREGATES
from mullion.language.query import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Expr,
    Item,
    Literal,
    Query,
    rewrite,
    walk,
)
from mullion.language.render import render
from mullion.language.types import DOUBLE, INT, TIMESTAMP, Type


class Names(Protocol):
    """Which columns there are below the aggregates."""

    def plain(self, expr: Expr) -> Expr:
        """The expression over those columns, without qualifiers."""

    def has(self, name: str) -> bool: ...

    def column_names(self) -> list[str]: ...


class GroupBinder:
    """The keys and aggregates of a query, found as its expressions are taken apart.

    `types` are the columns below, `what` says whose they are, and `bounds` is the type of window_start and window_end:
    None where they are not known yet when the expression is evaluated.
    """

    def __init__(
        self, query: Query, names: Names, types: Mapping[str, Type], what: str, bounds: Type | None = TIMESTAMP
    ) -> None:
        self.names, self.event_types, self.what, self.bounds = names, types, what, bounds
        self.aliases = {item.name.lower(): item.expr for item in query.items if item.name}
        self.keys: list[Expr] = []
        self.key_types: list[Type] = []
        self.raw_keys: dict[Expr, int] = {}
        self._aggregates: dict[BoundAggregate, int] = {}
        self.types = column_types((), (), bounds)
        """The columns above, as far as keys and aggregates have been found."""

    @property
    def aggregates(self) -> list[BoundAggregate]:
        return list(self._aggregates)

    def add_key(self, key: Expr) -> None:
        if isinstance(key, Column) and key.table is None and not self.names.has(key.name):
            key = self.aliases.get(key.name.lower(), key)
        no_aggregate(key, "GROUP BY")
        raw = self.names.plain(key)
        if raw not in self.raw_keys:
            resolved, type_ = resolve(raw, self.event_types)
            self.types[f"#k{len(self.keys)}"] = type_
            self.raw_keys[raw] = len(self.keys)
            self.keys.append(resolved)
            self.key_types.append(type_)

    def with_aliases(self, expr: Expr) -> Expr:
        """HAVING and ORDER BY see the answer's columns before the stream's."""

        def change(node: Expr) -> Expr | None:
            if isinstance(node, AggregateCall):
                return node
            if isinstance(node, Column) and node.table is None:
                return self.aliases.get(node.name.lower())
            return None

        return rewrite(expr, change)

    def above(self, expr: Expr) -> Expr:
        """The expression with keys and aggregates replaced by the columns that will hold them."""

        def change(node: Expr) -> Expr | None:
            if not isinstance(node, Literal) and not isinstance(node, AggregateCall):
                at = self.raw_keys.get(self.names.plain(node)) if self.raw_keys else None
                if at is not None:
                    return Column(f"#k{at}", place=node.place)
            if isinstance(node, AggregateCall) and node.function == DECAY:
                return self.above(decayed(node, self.bounds))
            if isinstance(node, AggregateCall):
                return Column(f"#a{self._aggregate(node)}", place=node.place)
            if isinstance(node, Exists):
                raise NotSupported("EXISTS", node.place)
            if isinstance(node, Call):
                known_functions(node)
                if (function := NAMES.get(node.function)) is not None and function.event_only:
                    raise NotSupported(f"{node.function} over aggregates", node.place)
            if isinstance(node, Column) and node.table == OF_THE_ROWS and node.name in self.types:
                return Column(node.name, place=node.place)
            if isinstance(node, Column):
                if node.table is None and node.name.lower() in WINDOW_COLUMNS and self.bounds is not None:
                    check_means_window(node, self.names.has)
                    return replace(node, name=node.name.lower())
                self._unknown(node)
            return None

        return rewrite(expr, change)

    def _unknown(self, column: Column) -> None:
        plain = self.names.plain(column)
        assert isinstance(plain, Column)
        if plain.name not in self.event_types:
            known = [*self.names.column_names(), *WINDOW_COLUMNS]
            hint = closest(column.name, known)
            raise CheckError(f"unknown column '{column.name}' in {self.what}", column.place, hint=hint)
        written = render(column)
        hint = f"add {written} to GROUP BY, or use an aggregate of it, such as max({written})"
        raise CheckError(f"column '{column.name}' is neither grouped nor aggregated", column.place, hint=hint)

    def _aggregate(self, node: AggregateCall) -> int:
        bound = self._bound(node)
        at = self._aggregates.setdefault(bound, len(self._aggregates))
        self.types[f"#a{at}"] = bound.result
        return at

    def _bound(self, node: AggregateCall) -> BoundAggregate:
        for arg in (*node.args, *([node.where] if node.where is not None else [])):
            no_aggregate(arg, f"{node.function}()")
        aggregate, args = self._chosen(node)
        if aggregate.from_values:
            return self._over_values(node, aggregate, args)
        argument: Expr | None = args[0] if args else None
        if len(args) > 1:
            argument = Case(tuple((Call("is_null", (a,)), Literal(None, INT)) for a in args), Literal(1, INT))
        if isinstance(argument, Literal) and argument.value is not None and node.function == "count":
            argument = None
        where = self._filter(node)
        if where is not None and not aggregate.keeps_nulls:
            argument = Case(((where, Literal(1, INT) if argument is None else argument),), place=node.place)
            where = None
        resolved, type_ = self._argument(aggregate, argument)
        present = None if where is None else shared(resolve_predicate(where, self.event_types))
        result = self._result(node, aggregate, type_)
        return BoundAggregate(node.function, resolved, type_, result, aggregate, where=present)

    def _chosen(self, node: AggregateCall) -> tuple[Aggregate, list[Expr]]:
        """The aggregate with its constants, and the arguments before them."""
        aggregate = REGISTRY.get(node.function) or INTERNAL.get(node.function)
        if aggregate is None:
            raise NotSupported(f"the aggregate {node.function}", node.place)
        args = [self.names.plain(a) for a in node.args]
        if node.distinct and node.function not in ("min", "max"):
            if node.function not in DISTINCT:
                hint = f"{', '.join(DISTINCT)}, min and max take it"
                raise NotSupported(f"{node.function}(DISTINCT ...)", node.place, hint=hint)
            aggregate = DISTINCT[node.function]
        if node.function == "count":
            return aggregate, args
        try:
            if aggregate.asks_for_value and len(args) > 1:
                args[1] = self._as_value(node, args[0], args[1])
            number = aggregate.columns
            return aggregate.with_parameters(tuple(self._constant(node, a) for a in args[number:])), args[:number]
        except TypeError as wrong:
            raise CheckError(f"{node.function} {wrong}", node.place) from None

    def _constant(self, node: AggregateCall, expr: Expr) -> Any:
        if any(isinstance(n, Column) for n in walk(expr)):
            message = f"{node.function} takes one argument; what comes after it must be constant"
            raise CheckError(message, expr.place or node.place)
        return evaluate(resolve(expr, {})[0], {}, 1).to_list()[0]

    def _as_value(self, node: AggregateCall, argument: Expr, constant: Expr) -> Expr:
        """The constant as a value of the argument's type, with which it can be compared."""
        self._constant(node, constant)
        type_ = resolve(argument, self.event_types)[1]
        value = Cast(constant, type_)
        try:
            resolve(Call("eq", (argument, constant)), self.event_types)
            is_one = self._constant(node, Call("eq", (constant, value)))
        except CheckError:
            is_one = False
        if not is_one:
            hint = f"write a constant of the type {type_}"
            message = f"{node.function} is asked for {render(constant)}, which no {type_} equals"
            raise CheckError(message, constant.place or node.place, hint=hint)
        return value

    def _over_values(self, node: AggregateCall, aggregate: Aggregate, args: list[Expr]) -> BoundAggregate:
        where = self._filter(node)
        if where is not None:
            args = [Case(((where, args[0]),), place=node.place), *args[1:]]
        values = []
        for arg in args:
            resolved, type_ = self._argument(aggregate, arg)
            assert resolved is not None and type_ is not None
            values.append((resolved, type_))
        result = self._result(node, aggregate, values[0][1])
        return BoundAggregate(
            node.function, *values[0], result, aggregate, distinct=node.distinct, values=tuple(values)
        )

    def _filter(self, node: AggregateCall) -> Expr | None:
        if node.where is None:
            return None
        where = self.names.plain(node.where)
        resolve_predicate(where, self.event_types)
        return where

    def _argument(self, aggregate: Aggregate, argument: Expr | None) -> tuple[Expr | None, Type | None]:
        if argument is None:
            return None, None
        resolved, type_ = resolve(argument, self.event_types)
        if type_.kind == "string" and aggregate.casts_text:
            resolved, type_ = Cast(resolved, DOUBLE), DOUBLE
        return shared(resolved), type_

    @staticmethod
    def _result(node: AggregateCall, aggregate: Aggregate, type_: Type | None) -> Type:
        try:
            return aggregate.result(type_)
        except TypeError as wrong:
            raise CheckError(f"{node.function} {wrong}", node.place) from None


def known_functions(*expressions: Expr) -> None:
    """A misspelt aggregate looks like a scalar function: say so before complaining of what is in it."""
    for node in (node for expr in expressions for node in walk(expr)):
        if isinstance(node, Call) and node.function not in NAMES:
            raise unknown_function(node.function, node.place, [*NAMES, *AGGREGATES])


def no_aggregate(expr: Expr, where: str) -> None:
    for node in walk(expr):
        if isinstance(node, AggregateCall):
            raise CheckError(f"an aggregate is not allowed in {where}", node.place)


def item_name(item: Item) -> str:
    """What a column of the answer is called: as written, or the text of the expression."""
    if item.name is not None:
        return item.name
    return item.expr.name if isinstance(item.expr, Column) else render(item.expr)
