"""From when until when events are in a window: by hand, in steps of any size, and against the reference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mullion.algebra.nodes import Project, Scan
from mullion.instants import FOREVER
from mullion.language.query import Column, Window
from mullion.language.types import BIGINT, DOUBLE
from networks import lives_of, reference_lives, same

COLUMNS = (("ts", BIGINT), ("k", DOUBLE), ("v", BIGINT))
STRATEGIES = ("upa", "nt", "scan")
STEPS = ([100], [3, 4, 100], list(range(1, 40)))


def plan(window: Window, since: int | None = None) -> Project:
    scan = Scan("s", window, COLUMNS, window.partition_by, since)
    return Project(scan, (("v", Column("v"), BIGINT),))


def events(*times: int, keys: Any = None) -> dict[str, list[dict[str, Any]]]:
    keys = keys or [0.0] * len(times)
    return {"s": [{"ts": ts, "k": key, "v": i} for i, (ts, key) in enumerate(zip(times, keys, strict=True))]}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize(
    "window, expected",
    [
        (Window(range=5), [((0,), 1, 6), ((1,), 3, 8), ((2,), 3, 8), ((3,), 9, 14)]),
        (Window(range=5, slide=2), [((0,), 1, 6), ((1,), 3, 8), ((2,), 3, 8), ((3,), 9, 14)]),
        (Window(now=True), [((0,), 1, 2), ((1,), 3, 4), ((2,), 3, 4), ((3,), 9, 10)]),
        (Window(unbounded=True), [((0,), 1, FOREVER), ((1,), 3, FOREVER), ((2,), 3, FOREVER), ((3,), 9, FOREVER)]),
        (Window(since=3), [((1,), 3, FOREVER), ((2,), 3, FOREVER), ((3,), 9, FOREVER)]),
        (Window(rows=2, slide_rows=1), [((0,), 1, 3), ((1,), 3, 9), ((2,), 3, FOREVER), ((3,), 9, FOREVER)]),
        (Window(rows=1, slide_rows=1), [((0,), 1, 3), ((2,), 3, 9), ((3,), 9, FOREVER)]),
        (Window(rows=1, slide_rows=3), [((2,), 3, FOREVER)]),
    ],
)
def test_lives(window: Window, expected: Any, steps: list[int], strategy: str) -> None:
    found = lives_of(plan(window), events(1, 3, 3, 9), steps, strategy=strategy)
    assert found == expected


def test_each_partition_has_its_own_last_rows() -> None:
    window = Window(rows=1, slide_rows=1, partition_by=(Column("k"),))
    keys = [None, 0.0, float("nan"), -0.0, None, float("nan")]
    for steps in STEPS:
        found = lives_of(plan(window), events(1, 2, 3, 4, 5, 6, keys=keys), steps)
        assert found == [((0,), 1, 5), ((1,), 2, 4), ((2,), 3, 6), *(((i,), i + 1, FOREVER) for i in (3, 4, 5))]


WINDOWS = st.one_of(
    st.builds(Window, range=st.integers(1, 15), internal=st.booleans()),
    st.builds(Window, rows=st.integers(1, 5), slide_rows=st.integers(1, 4), internal=st.booleans()),
    st.builds(
        lambda n, internal: Window(rows=n, slide_rows=1, partition_by=(Column("k"),), internal=internal),
        st.integers(1, 3),
        st.booleans(),
    ),
    st.sampled_from([Window(unbounded=True), Window(now=True), Window(since=7)]),
)
TIMES = st.lists(st.integers(0, 30), max_size=15).map(sorted)
KEYS = st.lists(st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]), min_size=15, max_size=15)


@given(
    WINDOWS,
    TIMES,
    KEYS,
    st.sampled_from([None, 5]),
    st.sets(st.integers(1, 40)),
    st.sampled_from(STRATEGIES),
    st.booleans(),
)
def test_windows_are_what_the_reference_says(
    window: Window, times: Any, keys: Any, since: int | None, steps: set[int], strategy: str, restarts: bool
) -> None:
    arrived = events(*times, keys=keys[: len(times)])
    found = lives_of(plan(window, since), arrived, [*sorted(steps), 100], strategy=strategy, restarts=restarts)
    assert same(found) == same(reference_lives(plan(window, since), arrived))
