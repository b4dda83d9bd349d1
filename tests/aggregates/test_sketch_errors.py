"""How far approximate aggregates err, over many random streams: what their cards state."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.aggregates import REGISTRY, Aggregate
from mullion.aggregates.approx_distinct import HyperLogLog
from mullion.aggregates.count_sketch import CountSketches
from mullion.aggregates.frequent import Frequent, FrequentItems
from mullion.aggregates.top_lists import TopLists
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, DOUBLE, INT, STRING, Type, decimal
from mullion.slices.folded import Folded


def vector(type_: Type, values: Any) -> Vector:
    return Vector(type_, np.asarray(values), np.ones(len(values), np.bool_))


def answers(aggregate: Aggregate, events: Vector, starts: Sequence[int], low: Any, high: Any) -> list[Any]:
    """The windows low..high of runs of events, by the synopsis that the planner takes."""
    (partial,) = aggregate.partials(events.type)
    kept = partial.gather(events, np.asarray(starts, np.intp))
    found = Folded(partial, partial.load(kept)).between(np.asarray(low), np.asarray(high))
    return aggregate.lower(events.type, [partial.finish(found, kept)]).to_list()


@pytest.mark.slow
@pytest.mark.parametrize(("error", "size"), [(None, 12), (0.05, 9), (Decimal("0.1"), 7)])
@pytest.mark.parametrize("number", [2_000, 20_000])
def test_distinct_counts_err_as_stated(error: Any, size: int, number: int) -> None:
    """200 random sets, each merged from slices that overlap: the errors' mean square is that of the card."""
    random = np.random.default_rng(number)
    aggregate = REGISTRY["approx_count_distinct"].with_parameters(() if error is None else (error,))
    assert aggregate.partials(BIGINT) == (HyperLogLog(BIGINT, size),)
    stated = 1.04 / math.sqrt(2**size)
    errors = []
    for _ in range(200 if number < 10_000 else 60):
        values = random.integers(-(2**63), 2**63 - 1, number)
        repeated = np.concatenate([values, values[: number // 2]])
        starts = range(0, len(repeated), 700)
        (found,) = answers(aggregate, vector(BIGINT, repeated), starts, [0], [len(starts)])
        errors.append(found / len(np.unique(values)) - 1)
    assert abs(np.mean(errors)) < stated / 2
    assert math.sqrt(np.mean(np.square(errors))) < 1.2 * stated
    assert np.abs(errors).max() < 4.5 * stated


@pytest.mark.parametrize("number", [1, 50, 384, 385, 3_000, 60_000])
def test_the_number_of_merges_does_not_change_a_distinct_count(number: int) -> None:
    random = np.random.default_rng(number)
    values = vector(DOUBLE, random.normal(size=number))
    aggregate = REGISTRY["approx_count_distinct"]
    found = set()
    for parts in (1, 2, 7, 50):
        starts = np.unique(np.linspace(0, number, parts, endpoint=False).astype(np.intp))
        found |= set(answers(aggregate, values, starts, [0], [len(starts)]))
        shuffled = values.take(random.permutation(number))
        found |= set(answers(aggregate, shuffled, starts, [0], [len(starts)]))
    assert len(found) == 1


@pytest.mark.parametrize("type_", [INT, DOUBLE, STRING], ids=str)
def test_up_to_384_values_the_number_is_right(type_: Type) -> None:
    """Whatever the values are, NULLs not counted, and however they were cut and repeated."""
    random = np.random.default_rng(12)
    for _ in range(100):
        number = int(random.integers(1, 385))
        whole = random.choice(10_000, number, replace=False) - 5_000
        items: list[Any] = whole.tolist()
        if type_ == DOUBLE:
            items = [item / 7 for item in items]
        elif type_ == STRING:
            items = [f"text {item}" for item in items]
        twice = random.permutation(2 * number) % number
        events = Vector.of(type_, [items[i] for i in twice] + [None] * 3)
        starts = np.unique(np.concatenate([[0], random.integers(0, len(events), 5)]))
        assert answers(REGISTRY["approx_count_distinct"], events, starts, [0], [len(starts)]) == [number]


def test_coded_values_are_the_same_values() -> None:
    """A column that came as codes and one that did not may meet in one window."""
    random = np.random.default_rng(13)
    texts, codes = Vector.of(STRING, [f"t{i}" for i in range(600)]), random.integers(0, 600, 3000)
    valid = random.random(3000) < 0.9
    plain = Vector(STRING, np.where(valid, texts.values[codes], None), valid)
    coded = Vector(STRING, plain.values, valid, (np.where(valid, codes, -1), texts))
    partial = HyperLogLog(STRING, 12)
    for starts in (np.array([0]), np.array([0, 50, 900])):
        kept = [partial.gather(events, starts)[0].to_list() for events in (plain, coded)]
        assert kept[0] == kept[1]


@pytest.mark.slow
def test_percentiles_err_as_stated() -> None:
    """120 streams of several distributions: an answer's rank is within 1 % of what was asked in 99 of 100 cases."""
    random = np.random.default_rng(5)
    shares = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]
    beyond, worst, asked = 0, 0.0, 0
    for trial in range(120):
        number = int(random.integers(5_000, 60_000))
        draw = (random.normal, random.exponential, random.lognormal)[trial % 3]
        values = np.sort(draw(size=number)) if trial % 2 else draw(size=number)
        starts = np.unique(np.concatenate([[0], random.integers(1, number, 150)]))
        ordered = np.sort(values)
        (partial,) = REGISTRY["approx_percentile"].partials(DOUBLE)
        state = partial.reduce(partial.load(partial.gather(vector(DOUBLE, values), starts)), np.array([0]))
        for share in shares:
            aggregate = REGISTRY["approx_percentile"].with_parameters((share,))
            (found,) = aggregate.lower(DOUBLE, [partial.store(state, ())]).to_list()
            place = int(np.searchsorted(ordered, found))
            assert ordered[place] == found
            off = max(0.0, place / number - share, share - (place + 1) / number)
            asked, beyond, worst = asked + 1, beyond + (off > 0.01), max(worst, off)
    assert beyond <= 0.01 * asked + 5
    assert worst < 0.02


def test_more_accuracy_errs_less() -> None:
    random = np.random.default_rng(6)
    values = vector(DOUBLE, random.normal(size=100_000))
    ordered = np.sort(values.values)
    starts = np.arange(0, 100_000, 1000)

    def off(accuracy: int) -> float:
        errors = []
        for share in np.linspace(0.05, 0.95, 19).round(2).tolist():
            aggregate = REGISTRY["approx_percentile"].with_parameters((share, accuracy))
            (found,) = answers(aggregate, values, starts, [0], [len(starts)])
            errors.append(abs(np.searchsorted(ordered, found) / 100_000 - share))
        return max(errors)

    assert off(2000) < 1 / 1000 < off(20)


@pytest.mark.parametrize("type_", [INT, BIGINT, DOUBLE, decimal(15, 3), decimal(18, 0), decimal(38, 4)], ids=str)
def test_ends_are_exact_and_answers_are_values(type_: Type) -> None:
    """Also of numbers that no double holds, through many merges."""
    random = np.random.default_rng(7)
    whole = random.integers(-(2**31), 2**31 - 1, 4000)
    if type_ in (BIGINT, decimal(18, 0)):
        whole = random.integers(-(2**62) // 8, 2**62 // 8, 4000) * (15 if type_ == BIGINT else 1)
        whole[:3] = (whole[3] + 1, whole[3] - 1, whole[3] + 2)
    if type_ == BIGINT:
        whole[:4] = (-(2**63), 2**63 - 1, -(2**63) + 1, 2**63 - 2)
    if type_.kind == "decimal":
        lifted = 10**25 if type_.precision == 38 else 1
        items = [Decimal(int(v) * lifted + 1).scaleb(-type_.scale) for v in whole]
        values = Vector.of(type_, items)
    else:
        values = vector(
            type_, whole.astype(np.float64) / 3 if type_ == DOUBLE else whole.astype(f"i{4 + 4 * (type_ == BIGINT)}")
        )
    known = sorted(values.to_list())
    for share in (0, 0.25, 0.5, 0.75, 1):
        aggregate = REGISTRY["approx_percentile"].with_parameters((share,))
        (found,) = answers(aggregate, values, range(0, 4000, 130), [0], [31])
        assert found in known and type(found) is type(known[0])
        assert abs(known.index(found) / 4000 - share) < 0.025
        if share in (0, 1):
            assert found == known[-share]


def test_bits_of_doubles_keep_the_order_of_whole_numbers() -> None:
    """Neighbours stay apart around zero, at 2^53 and at both ends of BIGINT."""
    near = [0, 2**52, 2**53, 2**62, 9_214_364_837_600_034_815, 2**63 - 1]
    values = sorted({sign * n + d for n in near for sign in (1, -1) for d in (-2, -1, 0, 1, 2)})
    values = [v for v in values if -(2**63) <= v < 2**63]
    for i, value in enumerate(values):
        aggregate = REGISTRY["approx_percentile"].with_parameters(((i + 0.5) / len(values),))
        assert answers(aggregate, vector(BIGINT, np.array(values[::-1])), [0, 9], [0], [2]) == [value]


def test_nan_is_the_largest_number() -> None:
    values = vector(DOUBLE, [math.nan] * 400 + [math.inf] * 100 + [1.0] * 500)
    found = [
        answers(REGISTRY["approx_percentile"].with_parameters((p,)), values, range(0, 1000, 50), [0], [20])[0]
        for p in (0, 0.4, 0.55, 0.7, 1)
    ]
    assert repr(found) == "[1.0, 1.0, inf, nan, nan]"


def heavy_stream(random: np.random.Generator, number: int) -> Any:
    """A few frequent values among very many that occur once, in bursts."""
    values = random.integers(1000, 10**9, number)
    for value in range(12):
        mine = random.random(number) < random.uniform(0.002, 0.03)
        values[mine] = value
    return values if random.random() < 0.5 else np.sort(values)


@pytest.mark.slow
@pytest.mark.parametrize("share", [Decimal("0.01"), 0.02, Decimal("0.005")])
def test_no_frequent_value_is_missed_and_counts_are_within_the_error(share: Any) -> None:
    random = np.random.default_rng(8)
    aggregate = REGISTRY["frequent"].with_parameters((share,))
    assert isinstance(aggregate, Frequent)
    (partial,) = aggregate.partials(BIGINT)
    assert isinstance(partial, FrequentItems)
    purged = 0
    for _ in range(15):
        values = heavy_stream(random, 20_000)
        starts = np.unique(np.concatenate([[0], random.integers(1, 20_000, 40)]))
        (found,) = answers(aggregate, vector(BIGINT, values), starts, [0], [len(starts)])
        true = Counter(values.tolist())
        least, error = aggregate.share * len(values), aggregate.share / 10 * len(values)
        assert {v for v, n in true.items() if n >= least} <= {v for v, _ in found}
        assert all(0 <= n - true[v] <= error for v, n in found)
        assert all(true[v] >= least - error for v, _ in found)
        assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))
        purged += any(n != true[v] for v, n in found)
    assert purged, "the streams have too few different values to test the error"


lists = st.lists(st.integers(0, 9), max_size=14)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(lists, min_size=1, max_size=8), st.integers(1, 6), st.fractions(0, 1), st.randoms())
def test_lists_never_give_a_value_that_is_not_frequent(
    windows: list[list[int]], most: int, share: Fraction, random: Any
) -> None:
    """golab Algorithm 6, for any sub-windows merged in any order."""
    aggregate = Frequent(share=share, most=most)
    (partial,) = aggregate.partials(INT)
    assert isinstance(partial, TopLists)
    kept = [
        partial.load(partial.gather(vector(INT, np.array(w, np.int32)), np.arange(int(len(w) > 0)))) for w in windows
    ]
    kept = [state for state in kept if len(state[0])]
    random.shuffle(kept)
    whole = partial.identity(1)
    while kept:
        other = kept.pop()
        whole = partial.combine(whole, other) if random.random() < 0.5 else partial.combine(other, whole)
    true = Counter(v for w in windows for v in w)
    number = sum(true.values())
    counted, (delta,), (total,) = whole
    assert total == number
    listed = counted[0] or {}
    assert all(listed[text] <= true[int(text)] for text in listed)
    assert all(n <= delta for v, n in true.items() if str(v) not in listed), "delta bounds what is on no list"
    (found,) = aggregate.lower(INT, [partial.store(whole, ())]).to_list()
    for value, count in found:
        assert true[value] >= count > delta
        assert count >= share * number
    if all(len(set(w)) <= most for w in windows):
        wanted = [(v, n) for v, n in true.items() if n >= share * number]
        assert found == sorted(wanted, key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.slow
@pytest.mark.parametrize(("error", "skew"), [(0.1, 1.1), (0.3, 1.1), (0.3, 3.0)])
def test_frequencies_err_as_stated(error: float, skew: float) -> None:
    """In 99 of 100 cases by no more than the error times the root of the squared counts of the others."""
    random = np.random.default_rng(7)
    values = (random.pareto(skew, 30_000) * 5).astype(np.int64)
    starts = range(0, len(values), 900)
    true = Counter(values.tolist())
    squares = sum(count**2 for count in true.values())
    asked, off = [*range(150), *random.choice(values, 100).tolist(), *range(10**9, 10**9 + 50)], 0
    for value in asked:
        aggregate = REGISTRY["approx_frequency"].with_parameters((value, error))
        (found,) = answers(aggregate, vector(BIGINT, values), starts, [0], [len(starts)])
        off += abs(found - true[value]) > error * math.sqrt(squares - true[value] ** 2)
    assert off <= 0.01 * len(asked)


@given(
    st.lists(st.lists(st.integers(0, 40), max_size=60), min_size=1, max_size=8),
    st.sampled_from((0.9, 0.5, 0.1)),
    st.randoms(use_true_random=False),
)
def test_a_frequency_depends_on_the_values_alone(parts: list[list[int]], error: float, dice: Any) -> None:
    """Not on the cuts, nor on what was added and taken out again, with few values and many."""
    aggregate = REGISTRY["approx_frequency"].with_parameters((7, error))
    (partial,) = aggregate.partials(INT)
    assert isinstance(partial, CountSketches)

    def made(values: list[int]) -> Any:
        events = vector(INT, np.array(values, np.int32))
        return partial.load(partial.gather(events, np.arange(1))) if values else partial.identity(1)

    states = [made(part) for part in parts]
    dice.shuffle(states)
    whole = partial.reduce(tuple(np.concatenate(field) for field in zip(*states, strict=True)), np.array([0]))
    assert whole[0].tolist() == made([value for part in parts for value in part])[0].tolist()
    for at, part in enumerate(parts):
        whole = partial.invert(whole, made(part))
        left = made([value for other in parts[at + 1 :] for value in other])
        assert whole[0].tolist() == left[0].tolist()
        lowered = [aggregate.lower(INT, [partial.store(state, ())]).to_list() for state in (whole, left)]
        assert lowered[0] == lowered[1]
        read = partial.load(partial.store(whole, ()))
        assert read[0].tolist() == whole[0].tolist()


def test_the_lists_of_the_card() -> None:
    words = ["aaaaabbbcccd", "aaaaccccbb", "dddddda"]
    events = Vector.of(STRING, list("".join(words)))
    for share, wanted in ((0, [("a", 10)]), (Decimal("0.4"), [])):
        aggregate = REGISTRY["frequent"].with_parameters((share, 2))
        assert answers(aggregate, events, [0, 12, 22], [0], [3]) == [wanted]
    (partial,) = aggregate.partials(STRING)
    kept = partial.gather(events, np.array([0, 12, 22]))
    assert kept[1].to_list() == [3, 4, 0]
    assert [sorted(found.items()) for found in partial.load(kept)[0]] == [
        [("a", 5), ("b", 3)],
        [("a", 4), ("c", 4)],
        [("a", 1), ("d", 6)],
    ]
