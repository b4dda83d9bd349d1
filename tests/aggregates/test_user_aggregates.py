"""Aggregates that users write: from the class to the answers of queries, and what is refused."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mullion
from by_slices import bind
from contracts.algebra import VALUES
from mullion import UserAggregate, register_aggregate
from mullion.aggregates import REGISTRY
from mullion.aggregates.user import InvertibleUserPartial, UserDefined, UserPartial, partial_of
from mullion.algebra.streams import Stream
from mullion.errors import AggregateError, CheckError, MullionError
from mullion.expressions.vector import Vector
from mullion.language.dialect import AGGREGATES
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal
from mullion.slices.interval import Interval
from mullion.slices.running import Running
from runtime.test_core_differential import Manner, Run

Fields = tuple[Any, ...]


class GeometricMean(UserAggregate):
    name = "geometric_mean"
    fields: ClassVar = {"logarithms": "double", "n": "bigint"}
    returns = "double"
    identity = (0.0, 0)

    def lift(self, values: Any) -> Fields:
        return np.log(values), np.ones(len(values), np.int64)

    def combine(self, a: Fields, b: Fields) -> Fields:
        return a[0] + b[0], a[1] + b[1]

    def lower(self, *fields: Any) -> Any:
        return np.exp(fields[0] / fields[1])


class SelfWeightedMean(UserAggregate):
    """Each value counts by its own size; the answer over no values is lowered as well."""

    name = "self_weighted_mean"
    fields: ClassVar = {"weighted": "double", "weights": "double", "any": "boolean"}
    returns = "double"
    identity = (0.0, 0.0, False)
    empty_is_null = False

    def lift(self, values: Any) -> Fields:
        values = values.astype(np.float64)
        return values * np.abs(values), np.abs(values), np.ones(len(values), np.bool_)

    def combine(self, a: Fields, b: Fields) -> Fields:
        return a[0] + b[0], a[1] + b[1], a[2] | b[2]

    def lower(self, *fields: Any) -> Any:
        return np.where(fields[2], fields[0] / fields[1], -1.0)


class Parity(UserAggregate):
    """Exclusive or of whole parts: its own inverse."""

    name = "parity"
    fields: ClassVar = {"bits": "bigint"}
    returns = "bigint"
    identity = (0,)

    def lift(self, values: Any) -> Fields:
        return (np.floor(values).astype(np.int64),)

    def combine(self, a: Fields, b: Fields) -> Fields:
        return (a[0] ^ b[0],)

    def lower(self, *fields: Any) -> Any:
        return fields[0]

    def invert(self, a: Fields, b: Fields) -> Fields:
        return (a[0] ^ b[0],)


GOOD: tuple[type[UserAggregate], ...] = (GeometricMean, SelfWeightedMean, Parity)


KINDS: dict[Type, Callable[[int], Any]] = {
    INT: int,
    BIGINT: lambda n: n << 40,
    DOUBLE: lambda n: n / 3,
    decimal(10, 2): lambda n: Decimal(n).scaleb(-1).quantize(Decimal("0.01")),
}


def slowly(maker: type[UserAggregate], values: list[Any]) -> Any:
    if maker is GeometricMean:
        return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None
    if maker is SelfWeightedMean:
        return sum(v * abs(v) for v in values) / sum(map(abs, values)) if values else -1.0
    bits = 0
    for value in values:
        bits ^= math.floor(value)
    return bits if values else None


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    aggregates, names = dict(REGISTRY), dict(AGGREGATES)
    yield
    for registry, before in ((REGISTRY, aggregates), (AGGREGATES, names)):
        for name in registry.keys() - before.keys():
            del registry[name]  # type: ignore[attr-defined]


@pytest.mark.parametrize("maker", GOOD)
@pytest.mark.parametrize("type_", KINDS, ids=str)
@given(st.data())
def test_states_are_lifted_reduced_and_lowered(maker: type[UserAggregate], type_: Type, data: st.DataObject) -> None:
    aggregate = UserDefined(maker)
    numbers = st.integers(1, 50).map(KINDS[type_])
    values = data.draw(st.lists(st.none() | numbers, max_size=20))
    cuts = data.draw(st.sets(st.integers(0, len(values)), max_size=4))
    starts = sorted({0, *cuts} - {len(values)}) if values else []
    states = []
    for partial in aggregate.partials(type_):
        stored = partial.gather(Vector.of(type_, values), np.array(starts, np.intp))
        again = tuple(Vector.from_arrow(v.to_arrow(), v.type) for v in stored)
        states.append(partial.store(partial.load(again), again))
    found = aggregate.lower(type_, states)
    assert found.type == aggregate.result(type_)
    runs = [values[a:b] for a, b in pairwise([*starts, len(values)])] if starts else []
    wanted = [slowly(maker, [float(v) for v in run if v is not None]) for run in runs]
    assert found.to_list() == pytest.approx(wanted)


@given(st.lists(st.integers(-(2**62), 2**62), max_size=30), st.data())
def test_an_inverse_makes_windows_of_prefixes(values: list[int], data: st.DataObject) -> None:
    partial = partial_of(Parity, BIGINT)
    assert isinstance(partial, InvertibleUserPartial)
    state = (np.array(values, np.int64),)
    ranges = data.draw(st.lists(st.tuples(*[st.integers(0, len(values))] * 2), max_size=8))
    low, high = np.array(ranges, np.intp).reshape(-1, 2).T
    wanted = [slowly(Parity, values[a:b]) or 0 for a, b in ranges]
    assert Running(partial, state).between(low, high)[0].tolist() == wanted
    assert Interval(partial, state).between(low, high)[0].tolist() == wanted


def test_without_an_inverse_there_are_no_prefixes() -> None:
    partial = partial_of(GeometricMean, DOUBLE)
    with pytest.raises(TypeError, match="user_geometric_mean has none"):
        Running(partial, partial.identity(1))


def test_they_are_values_that_travel() -> None:
    """Equal by class and argument, hashable, and the same after pickling; Spark never computes them itself."""
    for maker in GOOD:
        aggregate = UserDefined(maker)
        assert pickle.loads(pickle.dumps(aggregate)) == aggregate == UserDefined(maker)
        assert pickle.loads(pickle.dumps(aggregate)).name == maker.name
        partial = aggregate.partials(INT)[0]
        assert isinstance(partial, UserPartial) and not partial.in_spark
        back = pickle.loads(pickle.dumps(partial))
        assert (back, back.kind) == (partial, f"user_{maker.name}")
        assert hash(back) == hash(partial)
        assert partial != aggregate.partials(DOUBLE)[0]
    assert len({UserDefined(maker) for maker in GOOD}) == len(GOOD)


STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", DOUBLE)), "ts")


@pytest.mark.parametrize("maker", GOOD)
@pytest.mark.parametrize("batches", [1, 3])
def test_a_query_calls_it_by_name(maker: type[UserAggregate], batches: int) -> None:
    register_aggregate(maker)
    text = f"SELECT k, {maker.name.upper()}(x) AS a, count(*) AS n FROM s [RANGE 4 us SLIDE 2 us] GROUP BY k"
    query = bind(parse_query(text), {"s": STREAM}, {})
    events = [{"ts": i, "k": "ab"[i % 2], "x": None if i % 5 == 0 else float(i)} for i in range(20)]
    rows = Run(STREAM, [query], Manner(batches=batches)).over(events)[query.name]
    assert len(rows) == 22
    for start, end, key, found, n in rows:
        held = [e for e in events if start <= e["ts"] < end and e["k"] == key]  # type: ignore[operator]
        known = [e["x"] for e in held if e["x"] is not None]
        assert (n, found) == (len(held), pytest.approx(slowly(maker, known)))


def test_only_numbers_are_taken() -> None:
    register_aggregate(Parity)
    for type_ in VALUES:
        if not type_.is_numeric:
            with pytest.raises(TypeError, match=f"needs a number, not {type_}"):
                REGISTRY["parity"].partials(type_)
    with pytest.raises(CheckError, match="parity needs a number, not timestamp"):
        bind(parse_query("SELECT parity(ts) FROM s [RANGE 4 us SLIDE 2 us]"), {"s": STREAM}, {})


def test_the_same_class_may_come_again_and_no_other() -> None:
    register_aggregate(Parity)
    register_aggregate(Parity)
    other = type("Other", (Parity,), {})
    with pytest.raises(AggregateError, match="there is an aggregate parity already"):
        register_aggregate(other)
    assert REGISTRY["parity"] == UserDefined(Parity)


def changed(**attributes: Any) -> type[UserAggregate]:
    return type("Changed", (GeometricMean,), attributes)


def _double_sum(self: Any, a: Fields, b: Fields) -> Fields:
    return a[0] - b[0], a[1] - b[1]


def _raises(self: Any, *arguments: Any) -> Any:
    raise KeyError("oops")


class Unfinished(UserAggregate):
    name = "unfinished"

    def lift(self, values: Any) -> Fields:
        return (values,)


@pytest.mark.parametrize(
    ("maker", "message"),
    [
        (int, "no complete subclass"),
        (Unfinished, "it lacks combine, lower"),
        (changed(name="sum"), "there is an aggregate sum already"),
        (changed(name="mean"), "there is an aggregate mean already"),
        (changed(name="abs"), "abs has a meaning in SQL already"),
        (changed(name="select"), "select has a meaning in SQL already"),
        (changed(name="geo mean"), "must be a lower-case word"),
        (changed(name="GeoMean"), "must be a lower-case word"),
        (changed(name="größe"), "must be a lower-case word"),
        (changed(name=None), "must be a lower-case word"),
        (changed(fields={}), "fields must name"),
        (changed(fields={"a": "double", "b": "text"}), "field b must be a number of fixed size.*not 'text'"),
        (changed(fields={"a": "double", "b": "string"}), "field b must be a number of fixed size.*not 'string'"),
        (changed(fields={"a": "double", "b": np.int64}), "field b must be a number"),
        (changed(returns="decimal"), "returns must be a number of fixed size.*not 'decimal'"),
        (changed(identity=(0.0,)), "identity must be a tuple of 2"),
        (changed(identity=(0.0, 0.5)), "0.5 in identity is no bigint for field n"),
        (changed(identity=(0.0, math.nan)), "nan in identity is no bigint for field n"),
        (changed(identity=(0.0, None)), "None in identity is no bigint for field n"),
        (changed(identity=(0.0, 1)), "identity must be neutral.*gives n = 2, not 1"),
        (changed(lift=lambda self, v: v), "lift must give a tuple of 2 arrays"),
        (
            changed(lift=lambda self, v: (v, np.ones(min(1, len(v)), np.int64))),
            "field n of lift must be 6 numbers in a row, not of shape",
        ),
        (changed(lift=lambda self, v: (v, 1)), "field n of lift must be 0 numbers in a row"),
        (changed(lift=lambda self, v: (v, v * 0.5)), "field n of lift is float64, which does not fit bigint"),
        (changed(lift=_raises), "lift failed: KeyError: 'oops'"),
        (changed(__init__=lambda self, x: None), "making one without arguments failed: TypeError"),
        (changed(combine=lambda self, a, b: (a[0] + b[0],)), "combine must give a tuple of 2 arrays"),
        (changed(combine=lambda self, a, b: a), "identity must be neutral: combined with a state it gives"),
        (
            changed(combine=lambda self, a, b: (np.where(a[1] * b[1] == 0, a[0] + b[0], a[0]), a[1] + b[1])),
            "combine must be commutative",
        ),
        (
            changed(combine=lambda self, a, b: ((a[0] + b[0]) / np.where(a[1] * b[1] == 0, 1, 2), a[1] + b[1])),
            "combine must be associative",
        ),
        (changed(invert=_double_sum), "invert must take back exactly"),
        (changed(lower=lambda self, a, b: a[:1]), "the answer of lower must be 6 numbers in a row"),
        (changed(lower=lambda self, a, b: a.astype("U")), "the answer of lower is <U32, which does not fit double"),
        (changed(lower=_raises), "lower failed: KeyError"),
    ],
)
def test_what_is_not_as_it_should_be_is_refused(maker: Any, message: str) -> None:
    before = dict(REGISTRY), dict(AGGREGATES)
    with pytest.raises(AggregateError, match=f"(?s){message}"):
        register_aggregate(maker)
    assert (dict(REGISTRY), dict(AGGREGATES)) == before


def test_what_fails_later_says_whose_it_is() -> None:
    """A method that only fails on some values."""

    def lift(self: Any, values: Any) -> Fields:
        if (values < 0).any():
            raise ValueError("no negative numbers, please")
        return GeometricMean.lift(self, values)

    maker = changed(name="picky", lift=lift)
    register_aggregate(maker)
    with pytest.raises(MullionError, match="picky: lift failed: ValueError: no negative numbers, please"):
        partial_of(maker, INT).lift(Vector.of(INT, [1, -1]))


def test_the_front_door_has_both() -> None:
    assert {"UserAggregate", "register_aggregate"} <= set(mullion.__all__)
    assert UserDefined(SelfWeightedMean).partials(INT)[0].stored == (DOUBLE, DOUBLE, BOOLEAN)
