"""Mathematics on doubles. Where Spark gives NULL outside a function's domain (logarithms), so does this."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mullion.expressions.arrays import Array
from mullion.expressions.functions.base import Args, Function, Plain, Signature, gives, register
from mullion.expressions.functions.coercion import takes
from mullion.expressions.vector import Vector
from mullion.language.query import Call, Expr
from mullion.language.types import BOOLEAN, DOUBLE, FLOAT


def scalar(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    """One value by the array's own formula: NaN and infinities come out as numbers, never as exceptions."""

    def row(signature: Signature, *values: float) -> float:
        with np.errstate(all="ignore"):
            return float(ufunc(*(np.float64(v) for v in values)))

    return row


def of_doubles(
    name: str,
    ufunc: Callable[..., Any],
    domain: Callable[..., Any] | None = None,
    *,
    arity: int = 1,
    aliases: tuple[str, ...] = (),
) -> Function:
    """`domain` says where the function is defined; elsewhere it is NULL."""
    row_function = scalar(ufunc)
    if domain is None:
        return Function(
            name=name, aliases=aliases, least=arity, most=arity, coerce=takes(DOUBLE), result=gives(DOUBLE),
            row=row_function, vector=Plain(ufunc),
        )  # fmt: skip
    return Function(
        name=name,
        aliases=aliases,
        least=arity,
        most=arity,
        coerce=takes(DOUBLE),
        result=gives(DOUBLE),
        row=lambda s, *values: row_function(s, *values) if domain(*values) else None,
        vector=lambda s, *arrays: (ufunc(*arrays), domain(*arrays)),
        fallible=True,
    )


def constant(name: str, value: float) -> Function:
    return Function(
        name=name, least=0, most=0, coerce=lambda args: (), result=gives(DOUBLE),
        row=lambda s: value, vector=lambda s: np.full(1, value),
    )  # fmt: skip


def power(x: Any, y: Any) -> Any:
    """As Java: a base of 1 or -1 with an infinite exponent, and 1 with NaN, have no value.

    numpy takes a square root for an exponent of 0.5, which differs for the negative infinity and zero.
    """
    undefined = (np.abs(x) == 1) & ~np.isfinite(y)
    rooted = (y == 0.5) & ((x == 0) | (x == -np.inf))
    return np.where(undefined, np.nan, np.where(rooted, np.abs(x), np.power(x, y)))


def sign(x: Any) -> Any:
    return np.where(x == 0, x, np.sign(x))


def nanvl(signature: Signature, x: Vector, y: Vector) -> tuple[Array, Array]:
    isnan = x.values != x.values
    return np.where(isnan, y.values, x.values), x.valid & (~isnan | y.valid)


def nanvl_row(signature: Signature, x: Any, y: Any) -> Any:
    return None if x is None else y if x != x else x


def logarithm(args: Args) -> Expr | None:
    return Call("ln", (args[0][0],)) if len(args) == 1 else None


def log_to_base(base: Any, x: Any) -> Any:
    return np.log(x) / np.log(base)


def not_below(bound: float) -> Callable[[Any], Any]:
    """NaN is not below anything: a logarithm of NaN is NaN."""
    return lambda x: np.logical_not(x <= bound)


positive = not_below(0.0)

register(
    *(
        of_doubles(name, getattr(np, ufunc))
        for name, ufunc in {
            "sqrt": "sqrt", "cbrt": "cbrt", "exp": "exp", "expm1": "expm1", "sin": "sin", "cos": "cos", "tan": "tan",
            "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
            "degrees": "degrees", "radians": "radians", "rint": "rint",
        }.items()
    ),
    of_doubles("sign", sign, aliases=("signum",)),
    of_doubles("atan2", lambda y, x: np.arctan2(y + 0.0, x + 0.0), arity=2),
    of_doubles("hypot", np.hypot, arity=2),
    of_doubles("pow", power, arity=2, aliases=("power",)),
    of_doubles("ln", np.log, positive),
    of_doubles("log10", np.log10, positive),
    of_doubles("log2", np.log2, positive),
    of_doubles("log1p", np.log1p, not_below(-1.0)),
    Function(
        name="log", least=1, most=2, coerce=takes(DOUBLE), result=gives(DOUBLE), fallible=True, rewrite=logarithm,
        row=lambda s, b, x: scalar(log_to_base)(s, b, x) if positive(b) and positive(x) else None,
        vector=lambda s, b, x: (log_to_base(b, x), positive(b) & positive(x)),
    ),
    constant("pi", math.pi),
    constant("e", math.e),
    Function(
        name="isnan", least=1, most=1, result=gives(BOOLEAN), strict=False,
        coerce=lambda args: [FLOAT] if args[0][1] == FLOAT else takes(DOUBLE)(args),
        row=Plain(lambda x: x is not None and x != x),
        vector=lambda s, x: (x.valid & (x.values != x.values), np.ones(1, np.bool_)),
    ),
    Function(
        name="nanvl", least=2, most=2, result=lambda args: args[0][1], strict=False, row=nanvl_row, vector=nanvl,
        coerce=lambda args: [FLOAT, FLOAT] if args[0][1] == args[1][1] == FLOAT else takes(DOUBLE)(args),
    ),
)  # fmt: skip
