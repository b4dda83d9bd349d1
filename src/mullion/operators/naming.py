"""A relation's text and name: the same for equal relations, in every process, and different for different ones."""

from __future__ import annotations

import hashlib
import re

from mullion.algebra.bound_aggregate import BoundAggregate
from mullion.algebra.nodes import (
    Aggregated,
    AntiJoin,
    Difference,
    Distinct,
    Filter,
    Join,
    JoinView,
    Node,
    Project,
    ResultWindow,
    Scan,
    TableLookup,
    Union,
)
from mullion.language.query import Expr
from mullion.language.render import render, render_window

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Where a user's function lies in memory is no part of a name."""


def describe(node: Node) -> str:
    """The relation in one line, with everything that tells it from others.

    >>> from mullion.language.query import Window
    >>> from mullion.language.types import INT
    >>> describe(Distinct(Scan("s", Window(range=60_000_000), (("a", INT),))))
    'distinct(scan(s(a int) [RANGE 1 min]))'
    """
    match node:
        case Scan(stream=stream, window=window, stream_columns=columns, partition=partition, since=since):
            typed = ", ".join(f"{name} {type_}" for name, type_ in columns)
            keys = f" by {_all(partition)}" if partition else ""
            return f"scan({stream}({typed}) {render_window(window, quoted=False)}{keys}{_since(since)})"
        case TableLookup(input=below, lookup=lookup, retroactive=retroactive):
            return f"{'retroactive ' if retroactive else ''}looked up({describe(below)}, {lookup.name})"
        case Filter(input=below, predicate=predicate):
            return f"filter({describe(below)}, {render(predicate)})"
        case Project(input=below, items=items):
            return f"project({describe(below)}, {', '.join(f'{name} = {render(expr)}' for name, expr, _ in items)})"
        case Join(parts=parts, keys=keys, residual=residual):
            more = "" if residual is None else f", where {render(residual)}"
            return f"join({', '.join(map(describe, parts))}, on {' = '.join(f'({_all(key)})' for key in keys)}{more})"
        case JoinView(input=below, ranges=ranges):
            return f"restricted({describe(below)}, {', '.join(map(str, ranges))})"
        case Distinct(input=below):
            return f"distinct({describe(below)})"
        case AntiJoin(left=left, right=right, left_keys=left_keys, right_keys=right_keys):
            return f"negation({describe(left)}, {describe(right)}, on ({_all(left_keys)}) = ({_all(right_keys)}))"
        case Difference(left=left, right=right):
            return f"difference({describe(left)}, {describe(right)})"
        case Union(parts=parts):
            return f"union({', '.join(map(describe, parts))})"
        case Aggregated(input=below, keys=keys, aggregates=aggregates, slide=slide, offset=offset):
            bound = ", ".join(map(_aggregate, aggregates))
            return f"aggregated({describe(below)}, by ({_all(tuple(e for e, _ in keys))}), {bound}, {slide}, {offset})"
        case ResultWindow(input=below, window=window):
            return f"rewindowed({describe(below)} {render_window(window, quoted=False)})"
        case _:
            raise AssertionError(node.kind_name())


def name_of(node: Node) -> str:
    """A short name: the kind and a hash of the text."""
    text = describe(node)
    return f"{node.kind_name().lower()}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


def _all(expressions: tuple[Expr, ...]) -> str:
    return ", ".join(map(render, expressions))


def _since(since: int | None) -> str:
    return "" if since is None else f" since {since}"


def _aggregate(bound: BoundAggregate) -> str:
    parts = [bound.function, "distinct" if bound.distinct else "", str(bound.result)]
    parts += [render(expr) for expr in bound.expressions()]
    parts.append(_ADDRESS.sub("", repr(bound.aggregate)))
    return " ".join(parts)


__all__ = ["describe", "name_of"]
