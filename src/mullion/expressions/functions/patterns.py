"""LIKE, ILIKE and RLIKE. Patterns are constants, so that a bad one is refused when it is written and not while running.

All are matched in time linear in the text, here and in Spark; see `regex` for RLIKE.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.errors import CheckError
from mullion.expressions.arrays import Array
from mullion.expressions.functions.base import Args, Function, Signature, gives, register, spelling
from mullion.expressions.functions.coercion import takes
from mullion.expressions.functions.regex import matches, regex
from mullion.language.query import Call, Cast, Expr, Literal
from mullion.language.types import BOOLEAN, STRING, Type

LONGEST = 10_000
"""Characters of a LIKE pattern."""


@lru_cache(maxsize=1024)
def like_regex(pattern: str) -> str | None:
    """A LIKE pattern as a regular expression that both Python and Java match in linear time; None when it is none.

    Between two % the leftmost place is as good as any other: what follows has the most room after it. An atomic group
    takes that place and never tries another.

        a%b_%c   ->   a (?>.*?b.) .*c       one search after the other; a.*b..*c would try n places for each of n

    >>> like_regex("a%b_%c")
    'a(?>.*?b.).*c'
    """
    segments: list[list[str]] = [[]]
    chars = iter(pattern)
    for char in chars:
        if char == "\\":
            escaped = next(chars, None)
            if escaped is None or escaped not in "_%\\":
                return None
            segments[-1].append(_literal(escaped))
        elif char == "%":
            segments.append([])
        else:
            segments[-1].append("." if char == "_" else _literal(char))
    first, *rest = ("".join(segment) for segment in segments)
    if not rest:
        return first
    *inner, last = rest
    return first + "".join(f"(?>.*?{segment})" for segment in inner if segment) + ".*" + last


def _literal(char: str) -> str:
    """A character that means itself in Python and in Java."""
    return char if char.isalnum() or ord(char) > 127 else f"\\x{ord(char):02x}"


def like_problem(pattern: str) -> str | None:
    if len(pattern) > LONGEST:
        return f"a LIKE pattern may have {LONGEST:,} characters, and this has {len(pattern):,}"
    if like_regex(pattern) is None:
        return "a backslash in a LIKE pattern must stand before %, _ or another backslash"
    return None


@lru_cache(maxsize=1024)
def like_matcher(pattern: str) -> Callable[[str], Any]:
    translated = like_regex(pattern)
    assert translated is not None
    return re.compile(translated, re.DOTALL).fullmatch


def like(pattern: str, values: Array) -> npt.NDArray[np.bool_]:
    matched = like_matcher(pattern)
    return np.fromiter((matched(v) is not None for v in values), np.bool_, len(values))


def like_in_spark(args: tuple[Expr, ...]) -> Expr | None:
    """Spark's LIKE goes back and tries again wherever a % stands. Patterns that it does not do so for, with one % or
    with one at either end, are left to it, since it knows better ways for many of them."""
    pattern = args[1].value if isinstance(args[1], Literal) else None
    if pattern is None or "%" not in pattern[1:-1] or pattern.count("%") == 1:
        return None
    return Call("rlike", (args[0], Literal(f"(?s)\\A{like_regex(pattern)}\\z", STRING)))


def constant_pattern(args: Args) -> str | None:
    expr: Expr = args[1][0]
    while isinstance(expr, Cast):
        expr = expr.arg
    if not isinstance(expr, Literal):
        raise CheckError("a pattern must be a constant", args[1][0].place)
    return None if expr.value is None else str(expr.value)


def ilike(args: Args) -> Expr | None:
    """As Spark defines it: both sides in lower case."""
    pattern = constant_pattern(args)
    if pattern is not None and (problem := like_problem(pattern)) is not None:
        raise CheckError(problem, args[1][0].place)
    lowered = Literal(None if pattern is None else pattern.lower(), STRING, place=args[1][0].place)
    value = args[0][0]
    return Call("like", (Call("lower", (value,), place=value.place), lowered), place=value.place)


def pattern_test(
    name: str,
    symbol: str,
    problem: Callable[[str], str | None],
    matched: Callable[[str, Any], npt.NDArray[np.bool_]],
    **other: Any,
) -> Function:
    def coerce(args: Args) -> list[Type] | None:
        pattern = constant_pattern(args)
        if pattern is not None and (why_not := problem(pattern)) is not None:
            raise CheckError(why_not, args[1][0].place)
        return [STRING, STRING] if takes(STRING)(args) else None

    def vector(signature: Signature, values: Array, pattern: Array) -> Array:
        return matched(pattern[0], values) if len(pattern) else np.zeros(0, np.bool_)

    return Function(
        name=name,
        least=2,
        most=2,
        coerce=coerce,
        result=gives(BOOLEAN),
        text=f"({{0}} {symbol} {{1}})",
        row=lambda s, value, pattern: bool(matched(pattern, [value])[0]),
        vector=vector,
        strings=True,
        **other,
    )


def regex_problem(pattern: str) -> str | None:
    checked = regex(pattern)
    return checked if isinstance(checked, str) else None


register(
    pattern_test("like", "LIKE", like_problem, like, in_spark=like_in_spark),
    spelling("ilike", 2, 2, ilike),
    pattern_test("rlike", "RLIKE", regex_problem, matches, aliases=("regexp", "regexp_like"), kernel_only=True),
)
