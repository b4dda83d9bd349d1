"""The names of types, in casts and column definitions."""

from __future__ import annotations

from mullion.errors import NotSupported, ParseError, closest
from mullion.language import types
from mullion.language.literals import MAX_PRECISION
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind
from mullion.language.types import Type

_TEXT = ("varchar", "char", "character")
_NESTED = ("array", "map", "struct", "variant", "interval")


def type_name(c: TokenReader) -> Type:
    """A type as Spark writes it; varchar(n) and char(n) are strings."""
    start, word = c.at, c.word()
    if word in _NESTED:
        raise NotSupported(f"the type {word.upper()}", c.place(start))
    if word not in types.NAMES and word not in _TEXT:
        if c.token.kind is Kind.WORD:
            raise ParseError(f"unknown type '{c.token.text}'", c.place(start), hint=closest(word, types.NAMES))
        raise c.expected("a type")
    c.step()
    if word in _TEXT:
        _parameters(c, 1)
        return types.STRING
    type_ = types.NAMES[word]
    if type_.kind != "decimal":
        return type_
    parameters = _parameters(c, 2)
    precision = parameters[0] if parameters else type_.precision
    scale = parameters[1] if len(parameters) > 1 else 0
    if not 1 <= precision <= MAX_PRECISION or scale > precision:
        message = f"decimal(precision, scale) needs 1 <= precision <= {MAX_PRECISION} and scale <= precision"
        raise ParseError(message, c.since(start))
    return types.decimal(precision, scale)


def _parameters(c: TokenReader, most: int) -> list[int]:
    parameters: list[int] = []
    if c.accept_symbol("("):
        while len(parameters) < most:
            token = c.token
            if token.kind is not Kind.NUMBER or not token.text.isdecimal() or len(token.text) > 9:
                raise c.expected("a whole number")
            parameters.append(int(c.step().text))
            if not c.accept_symbol(","):
                break
        c.expect_symbol(")")
    return parameters
