"""The contract of approximate aggregates: right for few values of every type, however they were cut and merged."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce as fold
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.algebra import APPROXIMATE, NAN, VALUES, near, picked
from mullion.aggregates import REGISTRY, Aggregate
from mullion.aggregates.approx_distinct import HyperLogLog
from mullion.aggregates.keys import rank_of, text_of, value_of
from mullion.errors import CheckpointError
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, DATE, DOUBLE, INT, INTERVAL, NULL, STRING, TIMESTAMP, Type, counted, decimal

every_type = pytest.mark.parametrize("type_", VALUES, ids=str)
SHARES = (0, Decimal("0.1"), 0.5, 0.9, 1)


def answer(aggregate: Aggregate, type_: Type, values: Sequence[Any], cuts: Sequence[int] = ()) -> Any:
    """Gathered in runs that begin at the cuts, kept by Arrow, merged and lowered."""
    starts = np.array(sorted({0, *cuts}) if values else (), np.intp)
    states = []
    for partial in aggregate.partials(type_):
        kept = partial.gather(Vector.of(type_, values), starts)
        assert tuple(v.type for v in kept) == partial.stored
        again = tuple(Vector.from_arrow(pa.chunked_array([v.to_arrow()]), v.type) for v in kept)
        state = partial.load(again)
        parts = (picked(state, slice(i, i + 1)) for i in range(len(starts)))
        states.append(partial.finish(fold(partial.combine, parts, partial.identity(1)), again))
    lowered = aggregate.lower(type_, states)
    assert lowered.type == aggregate.result(type_)
    lowered.to_arrow()
    return lowered.to_list()[0]


def canonical(values: Sequence[Any]) -> list[Any]:
    """In ascending order, without NULLs, one zero and one NaN."""
    known = (v + 0.0 if isinstance(v, float) else v for v in values if v is not None)
    return sorted((NAN if v != v else v for v in known), key=rank_of)


def counts_of(values: Sequence[Any]) -> list[tuple[Any, int]]:
    """Most frequent first; NaN is counted by its text."""
    counts = Counter(map(repr, values))
    found = {repr(v): v for v in values}
    return sorted(((found[t], n) for t, n in counts.items()), key=lambda pair: (-pair[1], rank_of(pair[0])))


@st.composite
def runs(draw: st.DrawFn, type_: Type) -> tuple[list[Any], list[int]]:
    values = draw(st.lists(st.sampled_from((*VALUES[type_], None)), min_size=1, max_size=60))
    return values, draw(st.lists(st.integers(0, len(values) - 1), max_size=6))


@every_type
@settings(max_examples=5, deadline=None)
@given(st.data())
def test_a_few_different_values_are_counted_exactly(type_: Type, data: st.DataObject) -> None:
    values, cuts = data.draw(runs(type_))
    assert answer(APPROXIMATE["approx_count_distinct"], type_, values, cuts) == len(counts_of(canonical(values)))


@every_type
@settings(max_examples=5, deadline=None)
@given(st.data())
def test_a_percentile_of_a_few_values_is_exact(type_: Type, data: st.DataObject) -> None:
    values, cuts = data.draw(runs(type_))
    share = data.draw(st.sampled_from(SHARES))
    aggregate = REGISTRY["approx_percentile"].with_parameters((share,))
    if type_.kind in ("boolean", "string", "binary"):
        with pytest.raises(TypeError, match="needs a number"):
            aggregate.result(type_)
        return
    known = canonical(values)
    place = max(1, math.ceil(Fraction(str(share)) * len(known)))
    wanted = known[place - 1] if known else None
    got = answer(aggregate, type_, values, cuts)
    assert near(got, wanted) and repr(got) == repr(wanted), (got, wanted)


@every_type
@settings(max_examples=5, deadline=None)
@given(st.data())
def test_how_often_a_value_came_is_exact_while_they_are_few(type_: Type, data: st.DataObject) -> None:
    values, cuts = data.draw(runs(type_))
    wanted = counts_of(canonical(values))
    for value in VALUES[type_]:
        (asked,) = canonical([value])
        right = sum(count for known, count in wanted if repr(known) == repr(asked))
        aggregate = REGISTRY["approx_frequency"].with_parameters((value,))
        assert answer(aggregate, type_, values, cuts) == right


@every_type
@settings(max_examples=5, deadline=None)
@given(st.data())
def test_frequent_values_are_counted_exactly_while_they_are_few(type_: Type, data: st.DataObject) -> None:
    values, cuts = data.draw(runs(type_))
    known = canonical(values)
    wanted = [(v, n) for v, n in counts_of(known) if 5 * n >= len(known)]
    assert repr(answer(APPROXIMATE["frequent"], type_, values, cuts)) == repr(wanted)


@every_type
@settings(max_examples=5, deadline=None)
@given(st.data())
def test_lists_that_drop_nothing_are_exact(type_: Type, data: st.DataObject) -> None:
    values, cuts = data.draw(runs(type_))
    known = canonical(values)
    wanted = [(v, n) for v, n in counts_of(known) if 5 * n >= len(known)]
    aggregate = REGISTRY["frequent"].with_parameters((Decimal("0.2"), len(VALUES[type_])))
    assert repr(answer(aggregate, type_, values, cuts)) == repr(wanted)


@pytest.mark.parametrize(("name", "wanted"), list(zip(APPROXIMATE, (0, None, [], [], 0), strict=True)))
def test_of_nothing(name: str, wanted: Any) -> None:
    assert answer(APPROXIMATE[name], INT, []) == wanted
    assert answer(APPROXIMATE[name], INT, [None, None], [1]) == wanted


@pytest.mark.parametrize("aggregate", APPROXIMATE.values(), ids=APPROXIMATE)
def test_kept_and_finished_states_are_lowered_alike(aggregate: Aggregate) -> None:
    (partial,) = aggregate.partials(INT)
    events = Vector.of(INT, [5, 1, 5, None, 2, 5, 7, 7])
    state = partial.load(partial.gather(events, np.array([0, 3, 4])))
    finished = aggregate.lower(INT, [partial.finish(state, ())]).to_list()
    assert finished == aggregate.lower(INT, [partial.store(state, ())]).to_list()
    assert len(finished) == 3


@pytest.mark.parametrize("aggregate", APPROXIMATE.values(), ids=APPROXIMATE)
def test_combining_changes_neither_side(aggregate: Aggregate) -> None:
    """Trees and windows hold the same sketch many times."""
    (partial,) = aggregate.partials(INT)
    state = partial.load(partial.gather(Vector.of(INT, list(range(2000)) * 2), np.array([0, 900, 1800, 3000])))
    before = [aggregate.lower(INT, [partial.store(picked(state, [i]), ())]).to_list() for i in range(4)]
    partial.reduce(state, np.array([0]))
    partial.combine(picked(state, [0, 1]), picked(state, [2, 3]))
    assert before == [aggregate.lower(INT, [partial.store(picked(state, [i]), ())]).to_list() for i in range(4)]


@pytest.mark.parametrize("aggregate", APPROXIMATE.values(), ids=APPROXIMATE)
def test_an_argument_is_needed(aggregate: Aggregate) -> None:
    for ask in (aggregate.result, aggregate.partials):
        with pytest.raises(TypeError, match="needs an argument"):
            ask(None)


@every_type
def test_texts_are_one_for_each_value(type_: Type) -> None:
    texts = {text_of(type_)(v) for v in VALUES[type_]}
    assert len(texts) == len(counts_of(canonical(VALUES[type_])))
    again = [value_of(type_)(text_of(type_)(v)) for v in VALUES[type_]]
    assert all(map(near, again, VALUES[type_])) and list(map(type, again)) == list(map(type, VALUES[type_]))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("approx_count_distinct", (0.1, 2), "takes an argument and a relative standard error"),
        ("approx_count_distinct", (0,), "between 0 and 1"),
        ("approx_count_distinct", (None,), "between 0 and 1"),
        ("approx_count_distinct", (1e-6,), "0.00072 at best"),
        ("approx_percentile", (), "takes an argument, a share between 0 and 1"),
        ("approx_percentile", (1.5,), "share between 0 and 1"),
        ("approx_percentile", (0.5, 0), "whole number greater than zero"),
        ("approx_percentile", (0.5, 0.1), "whole number greater than zero"),
        ("approx_percentile", (0.5, 50_000), "accuracy of 20993 at most, not 50000"),
        ("approx_frequency", (), "takes an argument, a value and, if wanted, an error, not 1 argument"),
        ("approx_frequency", (5, 1), "an error between 0 and 1, not 1"),
        ("approx_frequency", (5, 0.001), "an error of 0.0086 at best, not 0.001"),
        ("frequent", (), "takes an argument, a share"),
        ("frequent", (0,), "share of 1e-05 at least"),
        ("frequent", (Decimal("0.000009"),), "share of 1e-05 at least"),
        ("frequent", (2,), "between 0 and 1"),
        ("frequent", (math.nan,), "between 0 and 1"),
        ("frequent", (math.inf,), "between 0 and 1"),
        ("frequent", ("x",), "between 0 and 1"),
        ("frequent", (True,), "between 0 and 1"),
        ("frequent", (0.1, 0), "lists of 1 to 10,000 values"),
        ("frequent", (0.1, Decimal(3)), "lists of 1 to 10,000 values"),
    ],
)
def test_wrong_constants_are_told(name: str, parameters: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        REGISTRY[name].with_parameters(parameters)


def test_types() -> None:
    percentile = APPROXIMATE["approx_percentile"]
    for type_ in (INT, BIGINT, DOUBLE, decimal(10, 2), DATE, TIMESTAMP):
        assert percentile.result(type_) == type_
    assert percentile.casts_text
    assert APPROXIMATE["frequent"].result(STRING) == counted(STRING)
    for type_ in (INTERVAL, NULL):
        with pytest.raises(TypeError, match="cannot order"):
            APPROXIMATE["frequent"].result(type_)


def test_distinct_counts_of_an_earlier_version_are_refused() -> None:
    """They were sketches of DataSketches."""
    sketch = datasketches.hll_sketch(12)
    for value in range(3):
        sketch.update(value)
    written = sketch.serialize_compact()
    with pytest.raises(CheckpointError, match="approx_count_distinct in the format of an earlier version"):
        HyperLogLog(INT).read(written)


def test_states_of_other_sizes_have_other_names() -> None:
    """Else one query would be answered from the sketch of another."""

    def labels(name: str, *parameters: tuple[Any, ...]) -> set[str]:
        return {REGISTRY[name].with_parameters(p).partials(INT)[0].label for p in parameters}

    assert labels("approx_count_distinct", (), (0.05,), (0.01,)) == {"hll12", "hll9", "hll14"}
    assert labels("approx_percentile", (0.5,), (0.9,), (0.5, 1000)) == {"kll269", "kll2863"}
    assert labels("approx_frequency", (1,), (2,), (1, 0.01)) == {"count_sketch1024", "count_sketch96101"}
    assert labels("frequent", (0.1,), (0.01,), (0.1, 5), (0.2, 5), (0.1, 6)) == {
        "frequent7",
        "frequent10",
        "top5",
        "top6",
    }


@pytest.mark.parametrize("name", ["approx_count_distinct", "approx_percentile", "frequent", "approx_frequency"])
def test_bytes_that_stand_in_many_slots_are_read_once(name: str) -> None:
    (partial,) = APPROXIMATE[name].partials(INT)
    kept = partial.gather(Vector.of(INT, [1, 2, 3, 4]), np.array([0, 2]))
    (sketches,) = partial.load([column.take(np.array([0, 1, 0, 0])) for column in kept])
    assert sketches[0] is sketches[2] is sketches[3] and sketches[0] is not sketches[1]


def test_no_module_holds_names_of_the_library() -> None:
    """Of what is still held when Python ends, the library's bindings complain on stderr, query or no query."""
    assert APPROXIMATE
    modules = [module for name, module in sys.modules.items() if name.startswith("mullion.")]
    held = [(m.__name__, name) for m in modules for name, value in vars(m).items() if "datasketches" in _home(value)]
    assert len(modules) > 20 and held == []


def _home(value: Any) -> str:
    named = getattr(value, "__module__", None)
    return f"{named or ''} {type(value).__module__} {getattr(value, '__name__', '')}"
