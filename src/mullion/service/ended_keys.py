"""A key that somebody says is over, as values of the columns that PUNCTUATE names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.errors import MullionError
from mullion.expressions.evaluate import evaluate
from mullion.expressions.typing import resolve
from mullion.expressions.vector import Vector
from mullion.language.query import Cast, Literal
from mullion.language.types import STRING, Type
from mullion.plural import plural
from mullion.runtime.stream_run import StreamRun


def ended_key(run: StreamRun, key: Sequence[Any]) -> pa.Table:
    """The key of a stream that is read. Raises where it is none."""
    if run.closed:
        raise MullionError(f"stream '{run.stream.name}' has ended")
    table = key_of(run.stream, key)
    if run.newest is None and run.watermark is None:
        message = f"stream '{run.stream.name}' has had no event yet, so none of its keys can have ended"
        raise MullionError(message, hint="end the key after the first batch")
    return table


def key_of(stream: Stream, key: Sequence[Any]) -> pa.Table:
    if stream.punctuation is None:
        hint = "add PUNCTUATE ON columns WHEN condition to CREATE STREAM; write WHEN false if no event ends a key"
        raise MullionError(f"stream '{stream.name}' declares no keys that end", hint=hint)
    columns = stream.punctuation.columns
    check_number(stream.name, columns, key)
    values = {name: _value(name, stream.types[name], value) for name, value in zip(columns, key, strict=True)}
    return pa.table(values)


def check_number(stream: str, columns: Sequence[str], key: Sequence[Any]) -> None:
    if len(key) != len(columns):
        message = f"a key of stream '{stream}' is {plural(len(columns), 'value')}, not {len(key)}"
        raise MullionError(message, hint=f"give {', '.join(columns)}, in this order")


def _value(name: str, type_: Type, value: Any) -> pa.Array:
    """As a column of one value. Other than texts it may be given as the text of it, as SQL casts it."""
    if value is not None and not isinstance(value, bytes) and type_ != STRING:
        cast, _ = resolve(Cast(Literal(str(value), STRING), type_), {})
        vector = evaluate(cast, {}, 1)
    else:
        vector = Vector.of(type_, [value])
    if not vector.valid[0]:
        hint = "a key with a NULL never ends" if value is None else None
        raise MullionError(f"{value!r} is no value of '{name}', which is {type_}", hint=hint)
    return vector.to_arrow()
