"""Expressions to text, with parentheses only where the precedence needs them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta

from mullion.language import types
from mullion.language.dialect import (
    BINARY,
    CAST,
    COMPARISON,
    FUNCTIONS_NAMED_BY_RESERVED,
    NOT,
    OR,
    PREDICATE,
    QUOTED_WHEN_RENDERED,
    RESERVED,
    SIGN,
)
from mullion.language.literals import EPOCH, largest_unit
from mullion.language.query import AggregateCall, Call, Case, Cast, Column, Exists, Expr, Literal, Query

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SYMBOLS = {name: (symbol, level) for symbol, (name, level) in reversed(BINARY.items())}
_INTEGER_SUFFIX = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}
_ATOM = CAST + 1


def render_expression(expr: Expr, query: Callable[[Query], str]) -> str:
    """`query` renders the sub-queries."""
    return _Renderer(query).at(expr, OR)


class _Renderer:
    def __init__(self, query: Callable[[Query], str]) -> None:
        self.query = query

    def at(self, expr: Expr, level: int) -> str:
        """The text as an operand that must bind at least as tightly as `level`."""
        text, own = self.leveled(expr)
        return text if own >= level else f"({text})"

    def leveled(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case Column(name=name, table=table):
                shown = name if name == "*" else render_name(name)
                return (shown if table is None else f"{render_name(table)}.{shown}"), _ATOM
            case Literal():
                return render_literal(expr), _ATOM
            case Cast(arg=arg, type=type_):
                return f"CAST({self.at(arg, OR)} AS {str(type_).upper()})", _ATOM
            case Case():
                return self.case(expr), _ATOM
            case AggregateCall():
                return self.aggregate(expr), _ATOM
            case Exists(query=query):
                return f"EXISTS ({self.query(query)})", _ATOM
            case Call():
                return self.call(expr)

    def case(self, expr: Case) -> str:
        parts = ["CASE"]
        parts += [f"WHEN {self.at(when, OR)} THEN {self.at(then, OR)}" for when, then in expr.branches]
        if expr.otherwise is not None:
            parts.append(f"ELSE {self.at(expr.otherwise, OR)}")
        return " ".join([*parts, "END"])

    def aggregate(self, expr: AggregateCall) -> str:
        args = ", ".join(self.at(arg, OR) for arg in expr.args) or "*"
        where = f" FILTER (WHERE {self.at(expr.where, OR)})" if expr.where is not None else ""
        return f"{expr.function}({'DISTINCT ' if expr.distinct else ''}{args}){where}"

    def call(self, expr: Call) -> tuple[str, int]:
        name, args = expr.function, expr.args
        match name, args:
            case ("not", (Call(function="is_null" | "in" | "like" | "ilike" | "rlike") as inner,)):
                if predicate := self.predicate(inner, negated=True):
                    return predicate, PREDICATE
            case ("is_null" | "in" | "like" | "ilike" | "rlike", _):
                if predicate := self.predicate(expr, negated=False):
                    return predicate, PREDICATE
        match name, args:
            case ("not", (arg,)):
                return f"NOT {self.at(arg, NOT)}", NOT
            case ("negative" | "bitnot", (arg,)):
                text = self.at(arg, SIGN)
                if name == "negative" and text[0] in "-.0123456789":
                    text = f"({text})"
                return ("-" if name == "negative" else "~") + text, SIGN
            case ("positive", (arg,)) if not isinstance(arg, Literal):
                return "+" + self.at(arg, SIGN), SIGN
            case (_, (left, right)) if name in _SYMBOLS:
                symbol, level = _SYMBOLS[name]
                return f"{self.at(left, level)} {symbol.upper()} {self.at(right, level + 1)}", level
        return self.function(name, args), _ATOM

    def predicate(self, expr: Call, *, negated: bool) -> str | None:
        no = "NOT " if negated else ""
        match expr.function, expr.args:
            case ("is_null", (arg,)):
                return f"{self.at(arg, COMPARISON)} IS {no}NULL"
            case ("in", (arg, _, *_)):
                values = ", ".join(self.at(value, OR) for value in expr.args[1:])
                return f"{self.at(arg, COMPARISON)} {no}IN ({values})"
            case ("like" | "ilike" | "rlike", (arg, pattern)):
                return f"{self.at(arg, COMPARISON)} {no}{expr.function.upper()} {self.at(pattern, COMPARISON)}"
        return None

    def function(self, name: str, args: tuple[Expr, ...]) -> str:
        plain = _PLAIN.fullmatch(name) and (name not in RESERVED or name in FUNCTIONS_NAMED_BY_RESERVED)
        levels = [COMPARISON if name == "position" and not n else OR for n in range(len(args))]
        shown = ", ".join(self.at(arg, level) for arg, level in zip(args, levels, strict=True))
        return f"{name if plain else _backquoted(name)}({shown})"


def render_name(name: str) -> str:
    """A name, backquoted where it is no plain word."""
    return name if _PLAIN.fullmatch(name) and name.lower() not in QUOTED_WHEN_RENDERED else _backquoted(name)


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def render_string(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def render_timestamp(microseconds: int, keyword: str = "TIMESTAMP") -> str:
    moment = (EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=None)
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{keyword} '{moment.replace(microsecond=0).isoformat(sep=' ')}{fraction}'"


def render_literal(literal: Literal) -> str:
    """A constant, in the form that has exactly its type."""
    value, kind = literal.value, literal.type.kind
    if value is None:
        return "NULL" if literal.type == types.NULL else f"CAST(NULL AS {str(literal.type).upper()})"
    match kind:
        case "boolean":
            return "TRUE" if value else "FALSE"
        case "string":
            return render_string(value)
        case "tinyint" | "smallint" | "int":
            return f"{value}{_INTEGER_SUFFIX[kind]}"
        case "bigint":
            return f"{value}L" if -(2**31) <= value < 2**31 else str(value)
        case "decimal":
            return f"{value:.{literal.type.scale}f}" if literal.type.scale else f"{value:f}BD"
        case "float" | "double":
            return f"{value!r}{'F' if kind == 'float' else 'D'}"
        case "date":
            return f"DATE '{(date(1970, 1, 1) + timedelta(days=value)).isoformat()}'"
        case "timestamp":
            return render_timestamp(value)
        case "timestamp_ntz":
            return render_timestamp(value, "TIMESTAMP_NTZ")
        case "interval":
            amount, _, unit = largest_unit(value)
            return f"INTERVAL '{amount}' {unit}"
    raise ValueError(f"no literal has the type {literal.type}")
