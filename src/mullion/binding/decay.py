"""decay(x, half_life), as what is kept of events and what is made of that at the window's end."""

from __future__ import annotations

from dataclasses import replace

from mullion.errors import CheckError, NotSupported
from mullion.language.limits import LONGEST
from mullion.language.literals import duration
from mullion.language.query import AggregateCall, Call, Cast, Column, Expr, Literal
from mullion.language.types import BIGINT, DOUBLE, INTERVAL, STRING, TIMESTAMP, Type

DECAY = "decay"
DECAYED_NOW = "decayed_now"


def decayed(node: AggregateCall, bounds: Type | None) -> Expr:
    """The sum at the newest event, brought to the window's end; or at the instants of operators, which have no columns
    for the bounds of windows."""
    if bounds not in (None, TIMESTAMP):
        hint = "it fades by the time until the window's end, which is none there"
        raise NotSupported("decay over a window of whole numbers", node.place, hint=hint)
    half_life = _half_life(node)
    if node.distinct:
        raise NotSupported("decay(DISTINCT ...)", node.place)
    kept = replace(node, args=(Cast(node.args[0], DOUBLE), Literal(half_life, BIGINT)))
    if bounds is None:
        return replace(kept, function=DECAYED_NOW)
    total, until = (replace(kept, function=f"decayed_{part}") for part in ("sum", "until"))
    age = Call("subtract", (until, Call("unix_micros", (Column("window_end"),))))
    exponent = Call("divide", (Cast(age, DOUBLE), Literal(float(half_life), DOUBLE)))
    return Call("multiply", (total, Call("pow", (Literal(2.0, DOUBLE), exponent))), place=node.place)


def _half_life(node: AggregateCall) -> int:
    """In microseconds."""
    hint = "such as decay(price, '5 min')"
    if len(node.args) != 2:
        raise CheckError("decay takes an argument and a half-life", node.place, hint=hint)
    given = node.args[1]
    span = None
    if isinstance(given, Literal) and given.type == STRING and given.value is not None:
        span = duration(given.value, given.place)
    elif isinstance(given, Literal) and given.type == INTERVAL:
        span = given.value
    if span is None or not 0 < span <= LONGEST:
        raise CheckError("the half-life of decay is a duration longer than zero", given.place or node.place, hint=hint)
    return int(span)
