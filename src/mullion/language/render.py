"""Trees to text, the one canonical text of each: parsing it gives the tree back, so equal texts are equal trees."""

from __future__ import annotations

import re
from collections.abc import Callable

from mullion.language.literals import largest_unit
from mullion.language.punctuating import Punctuation
from mullion.language.query import (
    AggregateCall,
    Budget,
    Call,
    Case,
    Cast,
    Column,
    Derived,
    Exists,
    Expr,
    JoinClause,
    Literal,
    Named,
    OrderTerm,
    Preference,
    Query,
    Source,
    Window,
)
from mullion.language.render_expressions import (
    render_expression,
    render_literal,
    render_name,
    render_string,
    render_timestamp,
)
from mullion.language.script import (
    AHEAD_BY_DEFAULT,
    Ask,
    CreateQuery,
    CreateStream,
    CreateSummary,
    CreateSynopsis,
    CreateTable,
    Drop,
    Explain,
    Statement,
)
from mullion.language.shedding import JoinMemory, Shedding
from mullion.language.types import Type

_KEY = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


def render(node: Statement | Query | Expr) -> str:
    """The canonical text of a statement, query or expression.

    >>> from mullion.language.parse import parse_query
    >>> render(parse_query("select MEAN(p) from trades t [window 90 s slide 60 s]"))
    "SELECT avg(p) FROM trades [RANGE '90 s' SLIDE '1 min'] AS t"
    """
    match node:
        case Query():
            return _query(node)
        case CreateQuery(query=query) | Ask(query=query):
            return _query(query)
        case CreateStream():
            late = f" LATENESS {_span(node.lateness)}" if node.lateness else ""
            ahead = "" if node.ahead == AHEAD_BY_DEFAULT else f" AHEAD {_span_or_none(node.ahead)}"
            keep = "" if node.keep is None else f" KEEP {_span(node.keep)}"
            keep += "" if node.keep_rows is None else f" KEEP {node.keep_rows} ROWS"
            idle = "" if node.idle is None else f" IDLE AFTER {_span(node.idle)}"
            behind = _behind(node.shedding) + _memory(node.memory)
            behind += "" if node.punctuation is None else f" PUNCTUATE {render_punctuation(node.punctuation)}"
            created = f"CREATE STREAM {render_name(node.name)}{_relation(node.columns, node.format, node.options)}"
            time = "" if node.time is None else f"{_expr(node.time)} AS "
            return f"{created} TIMESTAMP BY {time}{render_name(node.time_column)}{late}{ahead}{keep}{idle}{behind}"
        case CreateTable():
            kind = "RETROACTIVE TABLE" if node.retroactive else "TABLE"
            return f"CREATE {kind} {render_name(node.name)}{_relation(node.columns, node.format, node.options)}"
        case CreateSynopsis():
            return _synopsis(node)
        case CreateSummary():
            return _summary(node)
        case Drop():
            return f"DROP {node.kind.upper()} {render_name(node.name)}"
        case Explain():
            return "EXPLAIN" if node.name is None else f"EXPLAIN {render_name(node.name)}"
        case Column() | Literal() | Call() | Cast() | Case() | AggregateCall() | Exists():
            return render_expression(node, _query)


def _expr(node: Expr) -> str:
    return render_expression(node, _query)


def _behind(shedding: Shedding | None) -> str:
    """WHEN BEHIND, where it is not WAIT."""
    if shedding is None:
        return ""
    at_random = "PROBES" if shedding.probes else "RANDOM"
    what = at_random if shedding.by is None else f"BY {_expr(shedding.by)}"
    most = repr(shedding.most).removesuffix(".0")
    return f" WHEN BEHIND SHED {what} AT MOST {most} PERCENT{' MARK EXACT' if shedding.marks else ''}"


def _memory(memory: JoinMemory | None) -> str:
    if memory is None:
        return ""
    first = "RAREST" if memory.rarest else "OLDEST"
    return f" MEMORY {memory.rows} ROWS SHED {first}{' MARK EXACT' if memory.marks else ''}"


def render_punctuation(punctuation: Punctuation) -> str:
    """What follows PUNCTUATE."""
    names = ", ".join(map(render_name, punctuation.columns))
    span = "" if punctuation.span is None else f" FOR {_span(punctuation.span)}"
    return f"ON {names} WHEN {_expr(punctuation.when)}{span}"


def _relation(columns: tuple[tuple[str, Type], ...], format_: str, options: tuple[tuple[str, str], ...]) -> str:
    parts = [""]
    if columns:
        parts.append("(" + ", ".join(f"{render_name(name)} {str(type_).upper()}" for name, type_ in columns) + ")")
    dotted = format_.split(".")
    parts += ["USING", ".".join(map(render_name, dotted)) if all(dotted) else render_name(format_)]
    if options:
        shown = (f"{k if _KEY.fullmatch(k) else render_string(k)} {render_string(v)}" for k, v in options)
        parts.append(f"OPTIONS ({', '.join(shown)})")
    return " ".join(parts)


def _synopsis(node: CreateSynopsis) -> str:
    options = [] if node.buckets is None else [f"buckets {node.buckets}"]
    if node.boundaries:
        options.append(f"boundaries ({', '.join(map(render_literal, node.boundaries))})")
    options.append(f"rows {node.rows}")
    over = f"{render_name(node.stream)}({render_name(node.column)})"
    return f"CREATE SYNOPSIS {render_name(node.name)} ON {over} USING {node.kind} ({', '.join(options)})"


def _summary(node: CreateSummary) -> str:
    over = f"{render_name(node.stream)}({render_name(node.column)})"
    parts = [f"CREATE SUMMARY {render_name(node.name)} ON {over} WITH GRANULARITY {_span(node.granularity)}"]
    parts.append(f"AND COLLAPSE ({node.rate}, {node.depth})")
    if node.kind is not None:
        options = [f"{name} {value}" for name, value in node.options]
        options += [] if node.drift is None else [f"drift {node.drift!r}"]
        options += [] if node.longest is None else [f"longest {_span(node.longest)}"]
        parts.append(f"USING {render_name(node.kind)}" + (f" ({', '.join(options)})" if options else ""))
    if node.memory is not None:
        parts.append(f"MEMORY '{node.memory} B'")
    return " ".join(parts)


def _query(query: Query) -> str:
    body = _body(query)
    if query.output is not None:
        restore = " RESTORE" if query.output.restore else ""
        body = f"{query.output.kind.upper()}{restore} ({body})"
        if query.output.window is not None:
            body += f" {render_window(query.output.window)}"
    if query.name is None:
        return body
    parts = ["CREATE QUERY", render_name(query.name)]
    if query.materialized:
        parts.append("MATERIALIZED")
    if query.start_at is not None:
        parts.append(f"START AT {render_timestamp(query.start_at)}")
    if query.stop_at is not None:
        parts.append(f"STOP AT {render_timestamp(query.stop_at)}")
    if query.backfill:
        parts.append("BACKFILL")
    return " ".join([*parts, "AS", body])


def _body(query: Query) -> str:
    parts = ["SELECT"]
    if query.distinct:
        parts.append("DISTINCT")
    if query.approximate:
        parts.append("APPROX")
    items = (_expr(i.expr) + (f" AS {render_name(i.name)}" if i.name is not None else "") for i in query.items)
    parts += [", ".join(items), "FROM", _source(query.source)]
    if query.where is not None:
        parts.append(f"WHERE {_expr(query.where)}")
    if query.group_by:
        parts.append("GROUP BY " + ", ".join(map(_term, query.group_by)))
    if query.having is not None:
        parts.append(f"HAVING {_expr(query.having)}")
    parts += [f"UNION ALL {_branch(branch)}" for branch in query.union]
    parts += [f"EXCEPT ALL {_branch(branch)}" for branch in query.excepted]
    if query.order_by:
        parts.append("ORDER BY " + ", ".join(map(_order, query.order_by)))
    if query.limit is not None:
        parts.append(f"LIMIT {query.limit}")
    if query.preference is not None:
        parts.append(_preference(query.preference))
    return " ".join(parts)


def _preference(preference: Preference) -> str:
    parts = [f"WITH PREFERENCE {preference.kind.upper()}", ", ".join(map(_expr, preference.exprs))]
    if preference.fade is not None:
        parts.append(f"FADE FACTOR {preference.fade!r}")
    if preference.budget is not None:
        parts.append(f"BUDGET {budget_text(preference.budget, _span)}")
    if preference.window is not None:
        parts.append(f"WINDOW {_span(preference.window)}")
    return " ".join(parts)


def budget_text(budget: Budget, span: Callable[[int], str] | None = None) -> str:
    """A budget as it is written; times as people read them unless `span` says how."""
    if budget.rows is not None:
        return f"{budget.rows} ROWS"
    if budget.events is not None:
        return f"{budget.events} EVENTS"
    return "AUTO" if budget.time is None else (span or duration_text)(budget.time)


def _branch(query: Query) -> str:
    """A part of a union or difference."""
    combined = query.union or query.excepted or query.order_by or query.limit is not None
    text = _query(query)
    return f"({text})" if combined or query.output or query.preference else text


def _term(expr: Expr) -> str:
    """A bare number would be an item's ordinal."""
    text = _expr(expr)
    return f"({text})" if text.isdecimal() else text


def _order(order: OrderTerm) -> str:
    text = _term(order.expr) + (" DESC" if order.descending else "")
    if order.nulls_first == order.descending:
        text += " NULLS FIRST" if order.nulls_first else " NULLS LAST"
    return text


def _source(source: Source) -> str:
    if isinstance(source, JoinClause):
        right = _source(source.right)
        if isinstance(source.right, JoinClause):
            right = f"({right})"
        kind = "" if source.kind == "inner" else f"{source.kind.upper()} "
        on = f" ON {_expr(source.on)}" if source.on is not None else ""
        if source.using:
            on = f" USING ({', '.join(render_name(column.name) for column in source.using)})"
        return f"{_source(source.left)} {kind}JOIN {right}{on}"
    text = render_name(source.name) if isinstance(source, Named) else f"({_query(source.query)})"
    assert isinstance(source, Named | Derived)
    if source.window is not None:
        text += f" {render_window(source.window)}"
    return text + (f" AS {render_name(source.alias)}" if source.alias is not None else "")


def _span_or_none(microseconds: int | None) -> str:
    return "UNBOUNDED" if microseconds is None else _span(microseconds)


def _span(microseconds: int) -> str:
    return f"'{duration_text(microseconds)}'"


def duration_text(microseconds: int) -> str:
    """A duration in its largest unit."""
    amount, unit, _ = largest_unit(microseconds)
    return f"{amount} {unit}"


def render_window(window: Window, *, quoted: bool = True) -> str:
    """The window in its brackets; durations are read back with quotes and without."""
    parts: list[str] = []
    span = str if window.unitless else _span if quoted else duration_text
    if window.partition_by:
        parts.append("PARTITION BY " + ", ".join(map(_expr, window.partition_by)))
    if window.rows is not None:
        parts.append(f"ROWS {window.rows}")
    elif window.now:
        parts.append("NOW")
    elif window.since is not None:
        parts.append(f"FROM {window.since if window.unitless else render_timestamp(window.since)}")
    else:
        parts.append("RANGE UNBOUNDED" if window.range is None else f"RANGE {span(window.range)}")
    if window.slide is not None:
        parts.append(f"SLIDE {'AT MOST ' if window.at_most else ''}{span(window.slide)}")
    elif window.slide_rows is not None and not (window.rows is not None and window.slide_rows == 1):
        unit = "" if window.rows is not None else " TUPLE" if window.slide_rows == 1 else " TUPLES"
        parts.append(f"SLIDE {window.slide_rows}{unit}")
    if window.offset:
        parts.append(f"OFFSET {span(window.offset)}")
    if window.attribute is not None:
        parts.append(f"WATTR {render_name(window.attribute)}")
    if window.internal:
        parts.append("INTERNAL")
    return f"[{' '.join(parts)}]"
