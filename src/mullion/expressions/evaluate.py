"""The value of a resolved expression over columns.

Whole arrays at a time where every function on the way has an array form, one row at a time otherwise, with the same
result. A bad value is NULL; nothing here raises or warns because of what the data holds. `count_bad` tells NULLs that
come from bad values from those that come from NULLs.

Inside, an array of length 1 stands for a constant, and numpy stretches it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

import mullion.expressions.functions  # noqa: F401  (fills the registry)
from mullion.expressions.arrays import Mask
from mullion.expressions.functions.base import FUNCTIONS, Function, Signature, VectorForm
from mullion.expressions.functions.casts import cast_may_fail, cast_row, cast_vector
from mullion.expressions.functions.numbers import BOUNDS
from mullion.expressions.vector import Vector, constant, dtype_of
from mullion.language.query import Call, Case, Cast, Column, Expr, Literal, children, walk
from mullion.language.types import NULL, Type


def evaluate(expr: Expr, columns: Mapping[str, Vector], length: int) -> Vector:
    """The values of a resolved expression, `length` of them."""
    return Evaluation(columns, length).full(expr)


def count_bad(expr: Expr, columns: Mapping[str, Vector], length: int) -> Mask:
    """Where a bad value was met: a step that can fail gave NULL although its arguments were not NULL.

    What is not needed is not bad: a CASE branch not taken, an argument of COALESCE after the first that is known, one
    side of AND where the other is false and of OR where the other is true, whichever is written first.
    """
    return Evaluation(columns, length).full_bad(expr)


def is_fallible(expr: Expr, columns: Mapping[str, Type]) -> bool:
    """Whether `count_bad` could ever find anything."""
    return _is_fallible(expr, tuple((node.name, columns[node.name]) for node in walk(expr) if isinstance(node, Column)))


@lru_cache(maxsize=1 << 14)
def _is_fallible(expr: Expr, columns: tuple[tuple[str, Type], ...]) -> bool:
    if not any(_ever_fails(node) for node in walk(expr)):
        return False
    nothing = {name: Vector.of(type_, []) for name, type_ in columns}
    with np.errstate(all="ignore"):
        return Evaluation(nothing, 0).bad(expr) is not None


def _ever_fails(node: Expr) -> bool:
    """Whether the node itself fails for some types; most fail for none, so that types need not be found."""
    return isinstance(node, Cast) or (isinstance(node, Call) and FUNCTIONS[node.function].fallible is not False)


def is_event_only(expr: Expr) -> bool:
    """Whether Spark itself must evaluate the expression, because a function in it may differ here in rare cases."""
    return any(isinstance(node, Call) and FUNCTIONS[node.function].event_only for node in walk(expr))


@lru_cache(maxsize=1 << 14)
def is_kernel_only(expr: Expr) -> bool:
    """Whether Spark must not evaluate the expression, because a function in it could hold it up."""
    return any(isinstance(node, Call) and FUNCTIONS[node.function].kernel_only for node in walk(expr))


def is_vectorised(expr: Expr, columns: Mapping[str, Type] | None = None) -> bool:
    """Whether every step works on whole arrays. Columns of unknown type are taken to be neither string nor decimal."""
    return _vectorised(expr, columns or {})[0]


def _vectorised(expr: Expr, columns: Mapping[str, Type]) -> tuple[bool, Type | None]:
    match expr:
        case Column(name=name):
            return True, columns.get(name)
        case Literal(type=type_):
            return True, type_
        case Cast(arg=arg, type=target):
            ok, source = _vectorised(arg, columns)
            if source is None:
                return ok and target.kind not in ("string", "decimal", "binary", "timestamp"), target
            probe = np.zeros(0, dtype_of(source))
            return ok and cast_vector(probe, source, target, dtype_of(target)) is not None, target
        case Case():
            parts = [_vectorised(part, columns) for part in children(expr)]
            return all(ok for ok, _ in parts), parts[1][1]
        case Call(function=name, args=args):
            function = FUNCTIONS[name]
            parts = [_vectorised(arg, columns) for arg in args]
            types = [type_ for _, type_ in parts]
            result: Type | None = None
            if None not in types:
                result = function.result([(a, t) for a, t in zip(args, types, strict=True) if t is not None])
            return all(ok for ok, _ in parts) and function.vectorises(types, result), result
    return False, None


class Evaluation:
    """Expressions over the same columns. Values are kept: what several expressions have in common is computed once,
    and `bad` asks for the values of the nodes that it passes."""

    def __init__(self, columns: Mapping[str, Vector], length: int) -> None:
        self.columns = columns
        self.length = length
        self.values: dict[Expr, Vector] = {}

    def full(self, expr: Expr) -> Vector:
        with np.errstate(all="ignore"):
            return _full(self.value(expr), self.length)

    def some_bad(self, expr: Expr) -> Mask | None:
        """Where it is bad; None where it is nowhere."""
        with np.errstate(all="ignore"):
            bad = self.bad(expr)
        return None if bad is None or not bad.any() else np.broadcast_to(bad, (self.length,)).copy()

    def full_bad(self, expr: Expr) -> Mask:
        bad = self.some_bad(expr)
        return np.zeros(self.length, np.bool_) if bad is None else bad

    def value(self, expr: Expr) -> Vector:
        value = self.values.get(expr)
        if value is None:
            value = self.values[expr] = self.compute(expr)
        return value

    def compute(self, expr: Expr) -> Vector:
        match expr:
            case Column(name=name):
                return self.columns[name]
            case Literal(value=value, type=type_):
                return constant(type_, value, 1)
            case Cast(arg=arg, type=target):
                return _cast(self.value(arg), target)
            case Case():
                return self.case(expr)
            case Call(function=name, args=args):
                vectors = [self.value(arg) for arg in args]
                function = FUNCTIONS[name]
                typed = [(arg, v.type) for arg, v in zip(args, vectors, strict=True)]
                signature = Signature(tuple(v.type for v in vectors), function.result(typed))
                return _apply(function, signature, vectors)
        raise AssertionError(f"not resolved: {expr!r}")

    def case(self, case: Case) -> Vector:
        branches = [(self.value(condition), self.value(value)) for condition, value in case.branches]
        type_ = branches[0][1].type
        rest = constant(type_, None, 1) if case.otherwise is None else self.value(case.otherwise)
        values, valid = rest.values, rest.valid
        for condition, value in reversed(branches):
            take = condition.values & condition.valid
            values, valid = np.where(take, value.values, values), np.where(take, value.valid, valid)
        return Vector(type_, values, valid)

    def bad(self, expr: Expr) -> Mask | None:
        """Where it is bad; None when it cannot be."""
        match expr:
            case Cast(arg=arg, type=target):
                below = self.bad(arg)
                if not cast_may_fail(self.value(arg).type, target):
                    return below
                return _either(below, self.value(arg).valid & ~self.value(expr).valid)
            case Case(branches=branches, otherwise=otherwise):
                bad = None if otherwise is None else self.bad(otherwise)
                for condition, value in reversed(branches):
                    taken = self.value(condition).values & self.value(condition).valid
                    bad = _either(_only(bad, ~taken), _only(self.bad(value), taken))
                    bad = _either(bad, self.bad(condition))
                return bad
            case Call(function="coalesce", args=args):
                bad = None
                for arg in reversed(args):
                    bad = _either(self.bad(arg), _only(bad, ~self.value(arg).valid))
                return bad
            case Call(function=("and" | "or") as name, args=args):
                return self.bad_logic(args, deciding=name == "or")
            case Call(function=name, args=args):
                bad = None
                for arg in args:
                    bad = _either(bad, self.bad(arg))
                signature = Signature(tuple(self.value(a).type for a in args), self.value(expr).type)
                if FUNCTIONS[name].may_fail(signature):
                    bad = _either(bad, self._failed(expr, args))
                return bad
        return None

    def _failed(self, expr: Expr, args: tuple[Expr, ...]) -> Mask:
        """Where it is NULL and its arguments are not."""
        valid = self.value(expr).valid
        if valid.all():
            return np.zeros(1, np.bool_)
        failed: Mask = ~valid
        for arg in args:
            failed = failed & self.value(arg).valid
        return failed

    def bad_logic(self, args: tuple[Expr, ...], *, deciding: bool) -> Mask | None:
        bad: Mask | None = None
        for i, arg in enumerate(args):
            own = self.bad(arg)
            for j, other in enumerate(args):
                if j != i and own is not None:
                    side = self.value(other)
                    own = own & ~(side.valid & (side.values == deciding))
            bad = _either(bad, own)
        return bad


def _either(a: Mask | None, b: Mask | None) -> Mask | None:
    return b if a is None else a if b is None else a | b


def _only(bad: Mask | None, where: Mask) -> Mask | None:
    return None if bad is None else bad & where


def _full(vector: Vector, length: int) -> Vector:
    """Constants stretched to the wanted length."""
    values, valid = vector.values, vector.valid
    if len(values) != length:
        values = np.broadcast_to(values, (length,)).copy()
    if len(valid) != length:
        valid = np.broadcast_to(valid, (length,)).copy()
    return Vector(vector.type, values, valid)


def _sized(vectors: list[Vector]) -> int:
    """The common length of vectors of which some are constants; no rows at all is a length too."""
    lengths = {len(v) for v in vectors} | {len(v.valid) for v in vectors}
    return 1 if not lengths or lengths == {1} else next(n for n in lengths if n != 1)


def _apply(function: Function, signature: Signature, vectors: list[Vector]) -> Vector:
    form = None if NULL in signature.args else function.form(signature)
    if form is None:
        return _by_row(function.of_values(signature), signature.result, vectors, function.strict)
    if not function.strict:
        values, valid = form(*vectors)
        return _vector(signature.result, values, valid)
    valid = _all_known(vectors)
    arrays = [v.values for v in vectors]
    if any(a.dtype == np.object_ for a in arrays) and not valid.all():
        return _where_known(form, signature.result, vectors, valid)
    result = form(*arrays)
    if isinstance(result, tuple):
        result, fits = result
        valid = valid if np.shape(fits) == (1,) and fits[0] else valid & fits
    return _vector(signature.result, result, valid)


def _all_known(vectors: list[Vector]) -> Mask:
    """Where no vector is NULL. Constants that are not NULL, and columns that were met before, change nothing."""
    masks = {id(v.valid): v.valid for v in vectors if len(v.valid) != 1 or not v.valid[0]}
    valid: Mask = np.ones(1, np.bool_)
    for i, mask in enumerate(masks.values()):
        valid = valid & mask if i else mask
    return valid


def _where_known(form: VectorForm, type_: Type, vectors: list[Vector], valid: Mask) -> Vector:
    """Objects cannot be computed with where they are None: only the known rows are handed on."""
    size = _sized(vectors)
    valid = np.broadcast_to(valid, (size,))
    values: npt.NDArray[Any] = constant(type_, None, size).values
    if valid.any():
        known = [v.values if len(v) == 1 else v.values[valid] for v in vectors]
        result = form(*known)
        results, fits = result if isinstance(result, tuple) else (result, True)
        values[valid] = results
        valid = valid.copy()
        valid[valid] = fits
    return Vector(type_, values, valid)


def _vector(type_: Type, values: Any, valid: Any) -> Vector:
    dtype = dtype_of(type_)
    values, valid = np.asarray(values), np.asarray(valid, np.bool_)
    if values.dtype != dtype:
        values = values.astype(dtype)
    if len(values) != len(valid):
        shape = np.broadcast_shapes(values.shape, valid.shape)
        values, valid = np.broadcast_to(values, shape), np.broadcast_to(valid, shape)
    return Vector(type_, values, valid)


def _by_row(row: Callable[..., Any], type_: Type, vectors: list[Vector], strict: bool) -> Vector:
    if not vectors:
        return _collect(type_, [row()])
    size = _sized(vectors)
    known = _all_known(vectors) if strict else np.ones(1, np.bool_)
    lists = [repeat(v.to_list()[0], size) if len(v) == 1 else v.to_list() for v in vectors]
    if known.all():
        return _collect(type_, list(map(row, *lists)))
    are_known = np.broadcast_to(known, (size,)).tolist()
    rows = zip(are_known, zip(*lists, strict=False), strict=True)
    return _collect(type_, [row(*values) if is_known else None for is_known, values in rows])


def _collect(type_: Type, items: list[Any]) -> Vector:
    """As Vector.of, but what is out of the type's range is NULL."""
    if type_.kind in BOUNDS:
        low, high = BOUNDS[type_.kind]
        items = [v if v is not None and low <= v <= high else None for v in items]
    return Vector.of(type_, items)


def _cast(vector: Vector, target: Type) -> Vector:
    if vector.type == NULL:
        return Vector(target, constant(target, None, len(vector)).values, np.zeros(len(vector), np.bool_))
    cast = cast_vector(vector.values, vector.type, target, dtype_of(target))
    if cast is None:
        return _by_row(cast_row(vector.type, target), target, [vector], True)
    values, fits = cast
    return Vector(target, values, vector.valid if fits is None else vector.valid & fits)
