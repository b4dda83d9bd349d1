"""Counters keep their promise however they are put together, and a window finds what one set of counters would."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.aggregates import counters
from mullion.aggregates.counters import CountersOf, NumberCounters, TextCounters, runs_of_counters
from mullion.aggregates.frequent import FrequentItems
from mullion.expressions.vector import Vector
from mullion.language.types import BIGINT, BOOLEAN, DOUBLE, STRING

KINDS: tuple[Any, ...] = (NumberCounters, TextCounters)


def counted(kind: Any, values: list[int], most: int) -> CountersOf:
    true = sorted(Counter(values).items())
    if kind is TextCounters:
        return CountersOf((TextCounters.of({str(v): n for v, n in true}, len(values), 0, most),))
    keys, counts = np.array(true, np.int64).reshape(-1, 2).T.copy()
    return CountersOf((NumberCounters.of(keys, counts, len(values), 0, most),))


def joined(sketches: list[CountersOf]) -> CountersOf:
    return CountersOf(tuple(part for sketch in sketches for part in sketch.parts))


def test_the_counters_of_the_drawing() -> None:
    first, second = [1] * 5 + [2] * 3 + [3] * 3, [1] * 4 + [4] * 2
    for kind in KINDS:
        one = joined([counted(kind, values, 9) for values in (first, second)]).together(2)
        (part,) = one.parts
        assert (part.total, part.lost, part.largest) == (17, 3, 6)
        assert [(int(key), count) for key, count in one.at_least(4)] == [(1, 9)]


values = st.lists(st.integers(-4, 30).map(lambda v: abs(v) if v < 0 else v % 12), max_size=40)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(
    few=st.sampled_from((0, 20, counters.FEW)),
    slices=st.lists(values, min_size=1, max_size=7),
    most=st.integers(1, 9),
    data=st.data(),
)
def test_counts_are_within_the_error_whatever_was_merged_first(
    kind: Any, few: int, slices: list[list[int]], most: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counters, "FEW", few)
        check(kind, slices, most, data)


def check(kind: Any, slices: list[list[int]], most: int, data: st.DataObject) -> None:
    true = Counter(value for own in slices for value in own)
    total = sum(true.values())
    sketches = [counted(kind, own, most) for own in slices]
    while len(sketches) > 1 and data.draw(st.booleans()):
        a, b = sketches.pop(), sketches.pop()
        both = joined([a, b])
        sketches.insert(0, both.together(most) if data.draw(st.booleans()) else both)
    whole = joined(sketches)
    if data.draw(st.booleans()):
        written = whole.together(most).parts[0].written()
        whole = CountersOf((kind.read(written),))
    assert whole.total == total
    lost = sum(part.lost for part in whole.parts)
    assert lost * (most + 1) <= total, "each lowering takes from more counters than are kept"
    for least in range(lost + 1, total + 2):
        found = {int(key): count for key, count in whole.at_least(least)}
        assert all(true[v] <= n <= true[v] + lost and n >= least for v, n in found.items())
        assert {v for v, n in true.items() if n >= least} <= set(found)
        everything = {int(key): count for key, count in whole.at_least(lost + 1)}
        assert found == {v: n for v, n in everything.items() if n >= least}, "no value is passed over"


def test_empty_runs_have_no_counters() -> None:
    made = runs_of_counters(np.array([3, 5]), np.array([2, 1]), np.array([0, 2, 2]), 9)
    assert made[0] is None and made[2] is None and made[1] is not None
    assert made[1].at_least(1) == [(3, 2), (5, 1)]


@pytest.mark.parametrize(
    ("type_", "events", "wanted"),
    [
        (DOUBLE, [0.0, -0.0, float("nan"), None, float("nan"), -1.5], "[(-1.5, 1), (0.0, 2), (nan, 2)]"),
        (BIGINT, [2**62, -(2**62), 2**62, None], f"[({-(2**62)}, 1), ({2**62}, 2)]"),
        (BOOLEAN, [True, False, True], "[(False, 1), (True, 2)]"),
        (STRING, ["ä", "", "b\0", "ä", None], "[('', 1), ('b\\x00', 1), ('ä', 2)]"),
    ],
)
def test_values_come_back_as_they_were(type_: Any, events: list[Any], wanted: str) -> None:
    partial = FrequentItems(type_, 5)
    kept = partial.gather(Vector.of(type_, events), np.array([0]))
    (sketch,) = partial.opened(kept[0])
    assert repr(sorted(partial.values(sketch.at_least(1)), key=lambda pair: (pair[0] != pair[0], pair[0]))) == wanted
