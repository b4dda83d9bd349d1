"""Resolved expressions as Spark SQL.

No text of a user reaches Spark: names are quoted, and a string that holds anything but plain characters is written as
its bytes, so neither quotes, backslashes, the session's escaping rules nor its `${...}` substitution can matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from mullion.errors import CheckError
from mullion.expressions.functions import FUNCTIONS
from mullion.expressions.functions.base import Signature
from mullion.expressions.functions.calendar import DAY
from mullion.expressions.functions.casts import cast_may_fail
from mullion.language.query import Call, Case, Cast, Column, Expr, Literal
from mullion.language.types import Type

PLAIN = re.compile(r"[A-Za-z0-9 _.,:;/+*=()<>%@#!?|~^&\[\]-]*")
SUFFIX = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}


def spark_text(expr: Expr) -> str:
    """Spark SQL with the meaning of a resolved expression."""
    match expr:
        case Column(name=name):
            return identifier(name, expr)
        case Literal(value=value, type=type_):
            return literal(value, type_)
        case Cast(arg=arg, type=type_):
            how = "CAST" if type_.kind == "string" else "try_cast"
            return f"{how}({spark_text(arg)} AS {type_name(type_)})"
        case Case(branches=branches, otherwise=otherwise):
            whens = " ".join(f"WHEN {spark_text(c)} THEN {spark_text(v)}" for c, v in branches)
            rest = "" if otherwise is None else f" ELSE {spark_text(otherwise)}"
            return f"(CASE {whens}{rest} END)"
        case Call(function=name, args=args):
            function = FUNCTIONS[name]
            other = function.in_spark(args) if function.in_spark is not None else None
            return function.written([spark_text(arg) for arg in args]) if other is None else spark_text(other)
    raise AssertionError(f"not resolved: {expr!r}")


def identifier(name: str, expr: Expr | None = None) -> str:
    if "${" in name:
        raise CheckError(f"a column cannot be named '{name}'", None if expr is None else expr.place)
    return "`" + name.replace("`", "``") + "`"


def type_name(type_: Type) -> str:
    return "INTERVAL DAY TO SECOND" if type_.kind == "interval" else str(type_).upper()


def literal(value: Any, type_: Type) -> str:
    if value is None:
        return "NULL" if type_.kind == "void" else f"CAST(NULL AS {type_name(type_)})"
    match type_.kind:
        case "boolean":
            return "TRUE" if value else "FALSE"
        case "tinyint" | "smallint" | "int" | "bigint":
            return _signed(f"{value}{SUFFIX[type_.kind]}")
        case "double":
            return _double(value)
        case "float":
            return f"CAST({_double(value)} AS FLOAT)"
        case "decimal":
            return f"CAST({format(value, 'f')}BD AS {type_name(type_)})"
        case "string":
            return string(value)
        case "binary":
            return f"X'{value.hex()}'"
        case "date":
            return f"date_from_unix_date({value})"
        case "timestamp":
            return f"timestamp_micros({value}L)"
        case "timestamp_ntz":
            return f"CAST(timestamp_micros({value}L) AS TIMESTAMP_NTZ)"
        case "interval":
            return _interval(value)
    raise AssertionError(f"no literal of type {type_}")


def string(value: str) -> str:
    if PLAIN.fullmatch(value):
        return f"'{value}'"
    return f"CAST(X'{value.encode('utf-8', 'replace').hex()}' AS STRING)"


def _signed(number: str) -> str:
    return f"({number})" if number.startswith("-") else number


def _double(value: float) -> str:
    if math.isfinite(value):
        return _signed(f"{value!r}D")
    return f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"


def _interval(micros: int) -> str:
    days, rest = divmod(abs(micros), DAY)
    sign = "-" if micros < 0 else ""
    return f"make_dt_interval({sign}{days}, 0, 0, {sign}{rest // 1_000_000}.{rest % 1_000_000:06d})"


def bad_text(expr: Expr, columns: Mapping[str, Type] | None = None) -> str | None:
    """A Spark condition, never NULL, that is true where `count_bad` is; None when nothing in it can be bad.

    With the types of the columns, steps that cannot fail for their types, such as sums of doubles, are left out.
    """
    return _bad(expr, columns or {})[0]


def _bad(expr: Expr, columns: Mapping[str, Type]) -> tuple[str | None, Type | None]:
    match expr:
        case Column(name=name):
            return None, columns.get(name)
        case Literal(type=type_):
            return None, type_
        case Cast(arg=arg, type=target):
            below, source = _bad(arg, columns)
            if source is not None and not cast_may_fail(source, target):
                return below, target
            return _or(below, _failed(expr, (arg,))), target
        case Case(branches=branches, otherwise=otherwise):
            rest = None if otherwise is None else _bad(otherwise, columns)[0]
            for condition, value in reversed(branches):
                bad = _bad(value, columns)[0]
                if bad or rest:
                    rest = f"(CASE WHEN {spark_text(condition)} THEN {bad or 'FALSE'} ELSE {rest or 'FALSE'} END)"
                rest = _or(_bad(condition, columns)[0], rest)
            return rest, _bad(branches[0][1], columns)[1]
        case Call(function="coalesce", args=args):
            rest = None
            for arg in reversed(args):
                rest = _or(_bad(arg, columns)[0], rest and f"({spark_text(arg)} IS NULL AND {rest})")
            return rest, _bad(args[0], columns)[1]
        case Call(function=("and" | "or") as name, args=args):
            return _bad_logic(name, args, columns), Type("boolean")
        case Call(function=name, args=args):
            return _bad_call(expr, FUNCTIONS[name].may_fail, columns)
    return None, None


def _bad_call(call: Call, may_fail: Any, columns: Mapping[str, Type]) -> tuple[str | None, Type | None]:
    bad: str | None = None
    types: list[Type] = []
    for arg in call.args:
        own, type_ = _bad(arg, columns)
        bad = _or(bad, own)
        if type_ is not None:
            types.append(type_)
    result: Type | None = None
    signature: Signature | None = None
    if len(types) == len(call.args):
        result = FUNCTIONS[call.function].result(list(zip(call.args, types, strict=True)))
        signature = Signature(tuple(types), result)
    if may_fail(signature):
        bad = _or(bad, _failed(call, call.args))
    return bad, result


def _bad_logic(name: str, args: tuple[Expr, ...], columns: Mapping[str, Type]) -> str | None:
    """One side does not matter where another decides."""
    bad: str | None = None
    for i, arg in enumerate(args):
        own = _bad(arg, columns)[0]
        if own is None:
            continue
        others = [spark_text(other) for j, other in enumerate(args) if j != i]
        undecided = [f"coalesce({o}, TRUE)" if name == "and" else f"NOT coalesce({o}, FALSE)" for o in others]
        bad = _or(bad, f"({' AND '.join([own, *undecided])})")
    return bad


def _failed(expr: Expr, args: tuple[Expr, ...]) -> str:
    known = [f"{spark_text(a)} IS NOT NULL" for a in args if not (isinstance(a, Literal) and a.value is not None)]
    return f"({' AND '.join([f'{spark_text(expr)} IS NULL', *known])})"


def _or(a: str | None, b: str | None) -> str | None:
    return b if a is None else a if b is None else f"({a} OR {b})"
