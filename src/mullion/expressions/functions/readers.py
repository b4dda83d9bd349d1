"""Strings read as integers. With ANSI off Spark drops the digits after the point, which TRY_CAST would refuse."""

from __future__ import annotations

from typing import Any

from mullion.expressions.functions.base import Function, Signature, gives, register
from mullion.expressions.functions.coercion import takes
from mullion.expressions.functions.parsing import parse_integer
from mullion.language.types import BIGINT, INT, SMALLINT, STRING, TINYINT, Type


def reader(type_: Type) -> Function:
    def row(signature: Signature, text: str) -> Any:
        return parse_integer(text, type_)

    return Function(
        name=f"{type_.kind}$", least=1, most=1, coerce=takes(STRING), result=gives(type_), row=row, fallible=True,
        text=f"CAST({{0}} AS {type_.kind.upper()})",
    )  # fmt: skip


register(*(reader(t) for t in (TINYINT, SMALLINT, INT, BIGINT)))
