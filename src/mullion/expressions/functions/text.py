"""Functions on strings. Characters are Unicode code points, as in Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mullion.expressions.arrays import Array
from mullion.expressions.functions.base import Args, Function, Plain, Signature, gives, register, spelling
from mullion.expressions.functions.coercion import takes
from mullion.language.query import Call, Expr
from mullion.language.types import BIGINT, BOOLEAN, INT, STRING, Type

LONGEST = 1_000_000
"""Longer strings are not made: one query must not take the memory of all."""


def made_of(name: str, meaning: Callable[..., Any], *wanted: Type, **other: Any) -> Function:
    return Function(
        name=name,
        least=other.pop("least", len(wanted)),
        most=len(wanted),
        coerce=takes(*wanted),
        result=gives(other.pop("result", STRING)),
        row=Plain(meaning),
        **other,
    )


def test_of(name: str, meaning: Callable[[str, str], bool]) -> Function:
    def vector(signature: Signature, x: Array, y: Array) -> Array:
        if len(y) == 1:
            word = y[0]
            return np.fromiter((meaning(v, word) for v in x), np.bool_, len(x))
        pairs = zip(np.broadcast_to(x, y.shape), y, strict=True)
        return np.fromiter((meaning(v, w) for v, w in pairs), np.bool_, len(y))

    return made_of(name, meaning, STRING, STRING, result=BOOLEAN, vector=vector, strings=True)


def substring(text: str, position: int, length: int = (1 << 31) - 1) -> str:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = start + length
    return text[max(start, 0) : end] if end > max(start, 0) else ""


def padded(text: str, length: int, pad: str, *, left: bool) -> str | None:
    if length > LONGEST:
        return None
    if length <= len(text):
        return text[: max(length, 0)]
    fill = (pad * ((length - len(text)) // len(pad) + 1))[: length - len(text)] if pad else ""
    return fill + text if left else text + fill


def padding(name: str, *, left: bool) -> Function:
    def written(args: Sequence[str]) -> str:
        pad = args[2] if len(args) > 2 else "' '"
        return f"{name}({args[0]}, {limited(args[1])}, {pad})"

    def meaning(text: str, length: int, pad: str = " ") -> str | None:
        return padded(text, length, pad, left=left)

    return made_of(name, meaning, STRING, INT, STRING, least=2, text=written, fallible=True)


def limited(number: str) -> str:
    return f"nullif(least({number}, {LONGEST + 1}), {LONGEST + 1})"


def locate(word: Any, text: Any, start: Any = 1) -> int | None:
    """A start that is NULL finds nothing, rather than NULL, in Spark."""
    if start is None:
        return 0
    if word is None or text is None:
        return None
    if start < 1:
        return 0
    return 1 if not word else text.find(word, start - 1) + 1


def split_part(text: str, delimiter: str, index: int) -> str | None:
    if index == 0:
        return None
    parts = text.split(delimiter) if delimiter else [text]
    at = index - 1 if index > 0 else len(parts) + index
    return parts[at] if 0 <= at < len(parts) else ""


def translate(text: str, source: str, target: str) -> str:
    table: dict[int, str | None] = {}
    for i, char in enumerate(source):
        table.setdefault(ord(char), target[i] if i < len(target) else None)
    return text.translate(table)


def initcap(text: str) -> str:
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


def character(code: int) -> str:
    return "" if code < 0 else chr(code & 0xFF)


def joined(signature: Signature, separator: Any, *parts: Any) -> Any:
    return None if separator is None else separator.join(p for p in parts if p is not None)


def concatenate(signature: Signature, x: Array, *others: Array) -> Array:
    for other in others:
        x = x + other
    return x


def trimming(name: str, side: str, strip: Callable[[str, str], str]) -> Function:
    """With two arguments, the characters to remove come first."""

    def written(args: Sequence[str]) -> str:
        return f"{name}({args[0]})" if len(args) == 1 else f"trim({side} {args[0]} FROM {args[1]})"

    def meaning(first: str, second: str | None = None) -> str:
        if second is None:
            return strip(first, " ")
        return strip(second, first) if first else second

    return made_of(name, meaning, STRING, STRING, least=1, text=written)


def turned(name: str) -> Callable[[Args], Expr]:
    """The same arguments the other way round."""
    return lambda args: Call(name, (args[1][0], args[0][0], *(a for a, _ in args[2:])))


def last_chars(text: str, count: int) -> str:
    return text[-count:] if count > 0 else ""


register(
    made_of("lower", str.lower, STRING, aliases=("lcase",)),
    made_of("upper", str.upper, STRING, aliases=("ucase",)),
    made_of("text$", str, STRING, text="make_valid_utf8({0})"),
    made_of(
        "length", len, STRING, result=INT, aliases=("len", "char_length", "character_length"), strings=True,
        vector=lambda s, x: np.fromiter(map(len, x), np.int32, len(x)),
    ),
    trimming("trim", "BOTH", str.strip),
    trimming("ltrim", "LEADING", str.lstrip),
    trimming("rtrim", "TRAILING", str.rstrip),
    made_of("btrim", lambda x, chars=" ": x.strip(chars) if chars else x, STRING, STRING, least=1),
    made_of("substring", substring, STRING, INT, INT, least=2, aliases=("substr",)),
    made_of("left", lambda x, n: x[: max(n, 0)], STRING, INT),
    made_of("right", last_chars, STRING, INT),
    Function(
        name="concat", least=1, most=None, coerce=takes(STRING), result=gives(STRING), row=Plain(lambda *v: "".join(v)),
        vector=concatenate, strings=True,
    ),
    Function(
        name="concat_ws", least=1, most=None, coerce=takes(STRING), result=gives(STRING), row=joined, strict=False,
    ),
    made_of("replace", lambda x, a, b="": x.replace(a, b) if a else x, STRING, STRING, STRING, least=2),
    test_of("contains", lambda x, y: y in x),
    test_of("startswith", lambda x, y: x.startswith(y)),
    test_of("endswith", lambda x, y: x.endswith(y)),
    made_of("locate", locate, STRING, STRING, INT, least=2, result=INT, strict=False),
    spelling("position", 2, 3, lambda args: Call("locate", tuple(a for a, _ in args))),
    spelling("instr", 2, 2, turned("locate")),
    padding("lpad", left=True),
    padding("rpad", left=False),
    made_of("reverse", lambda x: x[::-1], STRING),
    made_of(
        "repeat", lambda x, n: None if n > LONGEST else x * max(n, 0), STRING, INT, fallible=True,
        text=lambda args: f"repeat({args[0]}, {limited(args[1])})",
    ),
    made_of("initcap", initcap, STRING, event_only=True),
    made_of("split_part", split_part, STRING, STRING, INT, fallible=True, text="split_part({0}, {1}, nullif({2}, 0))"),
    made_of("ascii", lambda x: ord(x[0]) if x else 0, STRING, result=INT),
    Function(
        name="chr", aliases=("char",), least=1, most=1, coerce=takes(BIGINT), result=gives(STRING),
        row=Plain(character),
    ),
    made_of("translate", translate, STRING, STRING, STRING),
)  # fmt: skip
