"""What a scalar function is, and the registry of all of them.

One entry says everything about one function: how its arguments are coerced, what type it gives, how it is written in
Spark SQL, and what it means on Python values (`row`) and on whole numpy arrays (`vector`). Both meanings must be
Spark's, which the differential tests check for every entry, so that it never matters where an expression is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mullion.language.query import Expr
from mullion.language.types import Type

Args = Sequence[tuple[Expr, Type]]
"""Resolved arguments with their types."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of one use of a function."""

    args: tuple[Type, ...]
    result: Type


@dataclass(frozen=True, slots=True)
class Plain:
    """A `row` or `vector` that does not look at types."""

    meaning: Callable[..., Any]

    def __call__(self, signature: Signature, *values: Any) -> Any:
        return self.meaning(*values)


VectorForm = Callable[..., Any]
"""What a strict function makes of arrays of its arguments: values, or (values, fits) where some may be NULL."""

Coerce = Callable[[Args], "Sequence[Type] | None"]
"""The types that the arguments are to be cast to, or None when the function does not take such arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A scalar function.

    - `row(signature, *values)` of a strict function never sees NULL; that of another gets None for it.
    - `vector(signature, *arrays)` of a strict function gives values, or (values, fits) where some may be NULL;
      that of another gets Vectors and gives (values, valid). Arrays of length 1 stand for constants.
    - `decimals`: whether `vector` takes decimals as well, as whole numbers; or what gives another form for a signature
      with decimals, or None for types that only `row` can compute.
    - `rewrite` replaces the call by other expressions, so that most spellings need no meaning of their own.
    - `fallible`: may give NULL for arguments that are not NULL, because a value is bad.
    - `event_only`: `row` may differ from Spark in rare cases, so Spark itself must evaluate it.
    - `kernel_only`: one value could hold Spark up for hours, so Spark must not evaluate it.
    - `in_spark`: another expression that Spark is given in place of a call, where it has one.
    """

    name: str
    least: int
    most: int | None
    coerce: Coerce
    result: Callable[[Args], Type]
    row: Callable[..., Any]
    vector: Callable[..., Any] | None = None
    aliases: tuple[str, ...] = ()
    text: str | Callable[[Sequence[str]], str] | None = None
    strict: bool = True
    strings: bool = False
    decimals: bool | Callable[[Signature], VectorForm | None] = False
    fallible: bool | Callable[[Signature], bool] = False
    event_only: bool = False
    kernel_only: bool = False
    in_spark: Callable[[tuple[Expr, ...]], Expr | None] | None = None
    rewrite: Callable[[Args], Expr | None] | None = None

    @property
    def internal(self) -> bool:
        """Made by type resolution only: a user cannot name it."""
        return "$" in self.name

    def written(self, args: Sequence[str]) -> str:
        """The call in Spark SQL."""
        if self.text is None:
            return f"{self.name}({', '.join(args)})"
        return self.text.format(*args) if isinstance(self.text, str) else self.text(args)

    def may_fail(self, signature: Signature | None) -> bool:
        if isinstance(self.fallible, bool):
            return self.fallible
        return True if signature is None else self.fallible(signature)

    def of_values(self, signature: Signature) -> Callable[..., Any]:
        """`row` for these types."""
        return self.row.meaning if isinstance(self.row, Plain) else partial(self.row, signature)

    def form(self, signature: Signature) -> VectorForm | None:
        """`vector` for these types, if it serves them."""
        kinds = {t.kind for t in (*signature.args, signature.result)}
        if self.vector is None or (not self.strings and kinds & {"string", "binary"}):
            return None
        if "decimal" not in kinds or self.decimals is True:
            return partial(self.vector, signature)
        return self.decimals(signature) if self.decimals else None

    def vectorises(self, args: Sequence[Type | None], result: Type | None) -> bool:
        """Whether there is a form for these types; None is an unknown type, taken to be a plain one."""
        known = [t for t in args if t is not None]
        if result is not None and len(known) == len(args):
            return self.form(Signature(tuple(known), result)) is not None
        kinds = {t.kind for t in known}
        return self.vector is not None and "decimal" not in kinds and (self.strings or not kinds & {"string", "binary"})


FUNCTIONS: dict[str, Function] = {}
"""Every function by its canonical name."""

NAMES: dict[str, Function] = {}
"""Every function by each of its names."""


def register(*functions: Function) -> None:
    for function in functions:
        FUNCTIONS[function.name] = function
        for name in (function.name, *function.aliases):
            assert name not in NAMES, name
            NAMES[name] = function


def gives(type_: Type) -> Callable[[Args], Type]:
    return lambda args: type_


def first_of(args: Args) -> Type:
    return args[0][1]


def unreachable(*_: Any) -> Any:
    raise AssertionError("rewritten when types are resolved")


def no_rewrite_result(args: Args) -> Type:
    raise AssertionError("rewritten when types are resolved")


def spelling(
    name: str, least: int, most: int | None, rewrite: Callable[[Args], Expr | None], aliases: tuple[str, ...] = ()
) -> Function:
    """Another way to write something: always rewritten. The rewrite gives None for arguments it does not take."""
    return Function(
        name=name,
        least=least,
        most=most,
        aliases=aliases,
        coerce=lambda args: None,
        result=no_rewrite_result,
        row=unreachable,
        rewrite=rewrite,
    )
