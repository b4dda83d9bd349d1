"""LIKE, ILIKE and RLIKE. Patterns are constants, so that a bad one is refused when it is written and not while running.

A regular expression must be of the part that Java and Python agree on; it is translated so that both mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mullion.errors import CheckError
from mullion.language.functions.base import Args, Function, Signature, gives, register
from mullion.language.functions.coercion import takes
from mullion.language.query import Cast, Expr, Literal
from mullion.language.types import BOOLEAN, STRING, Type

Array = npt.NDArray[Any]
NOT_NEWLINE = r"[^\n\r\u0085\u2028\u2029]"
END = r"(?=(?:\r\n|[\n\r\u0085\u2028\u2029])?\Z)(?!(?<=\r)\n)"
CLASSES = "dDwWsSbB"
ESCAPED = ".\\+*?[](){}|^$-/tnrf"
GROUPS = ("(?:", "(?=", "(?!", "(?<=", "(?<!")
QUANTIFIER = re.compile(r"\{\d{1,4}(?:,\d{0,4})?\}")
JAVA_SPACE = r" \t\n\x0b\f\r"


@lru_cache(maxsize=1024)
def like_matcher(pattern: str, ignore_case: bool) -> re.Pattern[str] | str:
    """The matcher, or what is wrong with the pattern."""
    out = []
    chars = iter(pattern)
    for char in chars:
        if char == "\\":
            escaped = next(chars, None)
            if escaped is None or escaped not in "_%\\":
                return "a backslash in a LIKE pattern must stand before %, _ or another backslash"
            out.append(re.escape(escaped))
        else:
            out.append(".*" if char == "%" else "." if char == "_" else re.escape(char))
    return re.compile("".join(out), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


@lru_cache(maxsize=1024)
def regex_matcher(pattern: str, ignore_case: bool = False) -> re.Pattern[str] | str:
    """The pattern for Python, or why it is not of the common part of Java's and Python's syntax."""
    out: list[str] = []
    flags = 0
    if pattern.startswith("(?i)"):
        flags, pattern = re.IGNORECASE, pattern[4:]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            following = pattern[at + 1 : at + 2]
            if following in ("s", "S"):
                out.append(f"[{'^' if following == 'S' else ''}{JAVA_SPACE}]")
            elif following and following in CLASSES + ESCAPED:
                out.append("\\" + following)
            else:
                return f"\\{following} is not supported in a regular expression"
            at += 2
        elif char == "[":
            end = class_end(pattern, at)
            if end is None:
                return "a character class that is not closed, nested or of && is not supported"
            out.append(pattern[at:end].replace(r"\s", JAVA_SPACE))
            at = end
        elif char == "(" and pattern[at + 1 : at + 2] == "?":
            group = next((g for g in GROUPS if pattern.startswith(g, at)), None)
            if group is None:
                return "only (?:, (?=, (?!, (?<= and (?<! groups are supported in a regular expression"
            out.append(group)
            at += len(group)
        elif char == "{":
            found = QUANTIFIER.match(pattern, at)
            if found is None:
                return "a { that is no repetition must be written \\{"
            out.append(found[0])
            at = found.end()
        elif char == "}":
            return "a } that ends no repetition must be written \\}"
        else:
            out.append(NOT_NEWLINE if char == "." else END if char == "$" else char)
            at += 1
    try:
        return re.compile("".join(out), flags | re.ASCII)
    except re.error as error:
        return f"bad regular expression: {error}"


def class_end(pattern: str, start: int) -> int | None:
    at = start + 2 if pattern.startswith("[^", start) else start + 1
    first = at
    while at < len(pattern):
        if pattern[at] == "]" and at > first:
            return at + 1
        if pattern[at] in "[]" or pattern.startswith("&&", at):
            return None
        if pattern[at] == "\\" and (at + 1 >= len(pattern) or pattern[at + 1] not in "dws" + ESCAPED):
            return None
        at += 2 if pattern[at] == "\\" else 1
    return None


def constant_pattern(args: Args) -> str | None:
    expr: Expr = args[1][0]
    while isinstance(expr, Cast):
        expr = expr.arg
    if not isinstance(expr, Literal):
        raise CheckError("a pattern must be a constant", args[1][0].place)
    return None if expr.value is None else str(expr.value)


Matcher = Callable[[str], "re.Pattern[str] | str"]


def pattern_test(name: str, symbol: str, compile_: Matcher, how: str, **other: Any) -> Function:
    def coerce(args: Args) -> list[Type] | None:
        pattern = constant_pattern(args)
        if pattern is not None:
            found = compile_(pattern)
            if isinstance(found, str):
                raise CheckError(found, args[1][0].place)
        return [STRING, STRING] if takes(STRING)(args) else None

    def test(pattern: str) -> Callable[[str], Any]:
        found = compile_(pattern)
        assert not isinstance(found, str)
        return getattr(found, how)  # type: ignore[no-any-return]

    def vector(signature: Signature, values: Array, pattern: Array) -> Array:
        if not len(pattern):
            return np.zeros(0, np.bool_)
        matches = test(pattern[0])
        return np.fromiter((matches(v) is not None for v in values), np.bool_, len(values))

    return Function(
        name=name,
        least=2,
        most=2,
        coerce=coerce,
        result=gives(BOOLEAN),
        text=f"({{0}} {symbol} {{1}})",
        row=lambda s, value, pattern: test(pattern)(value) is not None,
        vector=vector,
        strings=True,
        **other,
    )


register(
    pattern_test("like", "LIKE", lambda p: like_matcher(p, False), "fullmatch"),
    pattern_test("ilike", "ILIKE", lambda p: like_matcher(p, True), "fullmatch", event_only=True),
    pattern_test("rlike", "RLIKE", regex_matcher, "search", aliases=("regexp", "regexp_like"), event_only=True),
)
