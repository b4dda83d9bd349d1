"""What is told of joins and quantiles of streams that shed: right on the average, and as far off as it says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion.aggregates.weighted import WeightedPercentile
from mullion.errors import NotSupported
from mullion.expressions.vector import Vector
from mullion.kernels.thinning import Thinning, identity_hash
from mullion.language.types import DOUBLE
from mullion.runtime.overload import Overload
from mullion.slices.coded_values import coded_values
from mullion.slices.value_counts import ValueCounts
from without_spark import local_engine

Event = dict[str, Any]
STREAM = "CREATE STREAM {} (ts TIMESTAMP, k INT, x DOUBLE) USING parquet OPTIONS (path 'x') TIMESTAMP BY ts"
RANDOM = "WHEN BEHIND SHED RANDOM AT MOST 99 PERCENT"
PROBES = "WHEN BEHIND SHED PROBES"
WINDOW = "[RANGE 1000 us SLIDE 1000 us]"
TOTALS = "SELECT APPROX count(*) AS n, sum(a.x * b.x) AS t, avg(a.x + b.x) AS m"
JOIN = f"FROM a {WINDOW}, b {WINDOW} WHERE a.k = b.k"


@contextmanager
def kept_with(weights: dict[str, float]) -> Iterator[None]:
    """All batches of a stream are kept with its weight."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Overload, "_decided", lambda self, batch: Thinning(weights.get(self._stream.name, 1.0)))
        yield


def answers(
    script: Sequence[str], events: dict[str, list[Event]], weights: dict[str, float]
) -> dict[str, list[dict[str, Any]]]:
    with kept_with(weights), local_engine(";".join(script)) as engine:
        for name, own in events.items():
            engine.deliver(name, own, 0)
        for name in events:
            engine.end(name)
        return {query: engine.results(query).to_arrow().to_pylist() for query in engine.catalog.queries}


def kept(name: str, events: list[Event], weight: float) -> list[tuple[int, Event]]:
    chosen = identity_hash(0, np.arange(len(events)), name) < Thinning(weight).limit
    return [(i, event) for i, event in enumerate(events) if chosen[i] or weight == 1.0]


def variance(rows: list[tuple[dict[str, int], float]], weights: dict[str, float]) -> float:
    """By its definition: the sum over all pairs of rows of what they have to do with each other, each divided by the
    probability that both were kept."""
    total = 0.0
    for (one, x), (other, y) in itertools.product(rows, rows):
        common = math.prod(weights[s] for s in weights if one[s] == other[s])
        both = math.prod(weights[s] if one[s] == other[s] else weights[s] ** 2 for s in weights)
        total += both * (common - 1) * x * y
    return total


def check(row: dict[str, Any], rows: list[tuple[dict[str, int], Event, Event]], weights: dict[str, float]) -> None:
    """The estimates of one window."""
    weight = math.prod(weights.values())
    n, t = weight * len(rows), weight * sum(a["x"] * b["x"] for _, a, b in rows)
    assert (row["n"], row["t"]) == (round(n), pytest.approx(t))
    errors = {
        "n_error": math.sqrt(max(0.0, variance([(ids, 1.0) for ids, _, _ in rows], weights))),
        "t_error": math.sqrt(max(0.0, variance([(ids, a["x"] * b["x"]) for ids, a, b in rows], weights))),
    }
    mean = weight * sum(a["x"] + b["x"] for _, a, b in rows) / n
    around = variance([(ids, a["x"] + b["x"] - mean) for ids, a, b in rows], weights)
    errors["m_error"] = math.sqrt(max(0.0, around)) / n
    assert row["m"] == pytest.approx(mean)
    for name, error in errors.items():
        assert row[name] == pytest.approx(error, rel=1e-6, abs=1e-6)


def some_events(dice: np.random.Generator, count: int, keys: int, windows: int = 1) -> list[Event]:
    times = np.sort(dice.integers(0, 1000 * windows, count))
    return [{"ts": int(t), "k": int(dice.integers(0, keys)), "x": float(dice.integers(1, 9))} for t in times]


@pytest.mark.slow
@pytest.mark.parametrize("weights", [{"a": 2.0, "b": 3.0}, {"a": 2.0}, {"a": 1.5, "b": 1.0}])
def test_the_error_of_a_join_of_two_streams(weights: dict[str, float]) -> None:
    dice = np.random.default_rng(3)
    events = {name: some_events(dice, 16, 2) for name in "ab"}
    script = [f"{STREAM.format(n)} {RANDOM if n in weights else ''}" for n in "ab"] + [
        f"CREATE QUERY q AS {TOTALS} {JOIN}"
    ]
    (row,) = answers(script, events, weights)["q"]
    left, right = (kept(name, events[name], weights.get(name, 1.0)) for name in "ab")
    rows = [({"a": i, "b": j}, a, b) for i, a in left for j, b in right if a["k"] == b["k"]]
    assert len(rows) > 3
    check(row, rows, weights)


@pytest.mark.parametrize("names", ["abc", "abcd"])
def test_the_error_of_many_streams(names: str) -> None:
    dice = np.random.default_rng(4)
    weights = dict.fromkeys(names, 2.0)
    events = {name: some_events(dice, 36 // len(names), 2) for name in names}
    every = ", ".join(f"{name} {WINDOW}" for name in names)
    text = f"{TOTALS} FROM {every} WHERE {' AND '.join(f'a.k = {name}.k' for name in names[1:])}"
    script = [*(f"{STREAM.format(n)} {RANDOM}" for n in names), f"CREATE QUERY q AS {text}"]
    (row,) = answers(script, events, weights)["q"]
    some = {name: kept(name, events[name], 2.0) for name in names}
    rows = [
        (dict(zip(names, (i for i, _ in found), strict=True)), found[0][1], found[1][1])
        for found in itertools.product(*some.values())
        if len({event["k"] for _, event in found}) == 1
    ]
    assert len(rows) > 3
    check(row, rows, weights)


def test_more_streams_than_errors_are_told_for_are_refused() -> None:
    names = "abcdef"
    every = ", ".join(f"{name} {WINDOW}" for name in names)
    text = f"SELECT APPROX count(*) AS n FROM {every} WHERE {' AND '.join(f'a.k = {n}.k' for n in names[1:])}"
    script = ";".join([*(f"{STREAM.format(n)} {RANDOM}" for n in names), f"CREATE QUERY q AS {text}"])
    with pytest.raises(NotSupported, match="standard error of count over a join of 6 sources"), local_engine(script):
        pass


def test_the_error_of_probes_that_were_shed() -> None:
    """What was lost with one event that did not probe was lost together."""
    dice = np.random.default_rng(5)
    events = {name: some_events(dice, 20, 2) for name in "ab"}
    script = [f"{STREAM.format('a')} {PROBES}", STREAM.format("b"), f"CREATE QUERY q AS {TOTALS} {JOIN}"]
    (row,) = answers(script, events, {"a": 2.0})["q"]
    probing = {i for i, _ in kept("a", events["a"], 2.0)}
    total, square = 0.0, 0.0
    for i, a in enumerate(events["a"]):
        before = sum(a["k"] == b["k"] and b["ts"] < a["ts"] for b in events["b"])
        after = sum(a["k"] == b["k"] and b["ts"] >= a["ts"] for b in events["b"])
        total += after + (2 * before if i in probing else 0)
        square += 2 * before**2 if i in probing else 0
    assert row["n"] == total and row["n_error"] == pytest.approx(math.sqrt(square))


OF_ITSELF = f"FROM a {WINDOW} AS p, a {WINDOW} AS q WHERE p.k = q.k"


def test_an_event_that_meets_itself_is_one_event() -> None:
    """Each of n events is kept once, not twice: pairs of an event with itself stand for w, others for w^2."""
    dice = np.random.default_rng(6)
    events = {"a": some_events(dice, 30, 3), "b": some_events(dice, 9, 3)}
    items = "SELECT APPROX count(*) AS n, sum(p.x * q.x) AS t"
    with_b = OF_ITSELF.replace(" WHERE", f", b {WINDOW} WHERE p.k = b.k AND")
    queries = {"two": f"{items} {OF_ITSELF}", "three": f"{items} {with_b}"}
    script = [f"{STREAM.format(n)} {RANDOM}" for n in "ab"]
    weights = {"a": 2.0, "b": 3.0}
    found = answers([*script, *(f"CREATE QUERY {n} AS {q}" for n, q in queries.items())], events, weights)
    left, right = (kept(name, events[name], weights[name]) for name in "ab")
    pairs = [((i, j), p, q) for (i, p), (j, q) in itertools.product(left, left) if p["k"] == q["k"]]
    rows = {
        "two": [({("a", i), ("a", j)}, p["x"] * q["x"]) for (i, j), p, q in pairs],
        "three": [
            ({("a", i), ("a", j), ("b", m)}, p["x"] * q["x"])
            for (i, j), p, q in pairs
            for m, b in right
            if b["k"] == p["k"]
        ],
    }
    for name, own in rows.items():
        weighed = [(units, math.prod(weights[stream] for stream, _ in units), x) for units, x in own]
        (row,) = found[name]
        assert row["n"] == sum(w for _, w, _ in weighed)
        assert row["t"] == pytest.approx(sum(w * x for _, w, x in weighed))
        for item, of in (("n", lambda x: 1.0), ("t", lambda x: x)):
            variance = sum(
                w * v * of(x) * of(y) * (1 - 1 / math.prod(weights[stream] for stream, _ in one & other))
                for (one, w, x), (other, v, y) in itertools.product(weighed, weighed)
            )
            assert row[f"{item}_error"] == pytest.approx(math.sqrt(max(0.0, variance)), rel=1e-6)


@pytest.mark.slow
def test_the_told_error_of_a_join_with_itself_holds_what_it_promises() -> None:
    dice, windows = np.random.default_rng(2011), 200
    events = {"a": some_events(dice, 80 * windows, 4, windows)}
    text = f"SELECT APPROX count(*) AS n {OF_ITSELF}"
    rows = answers([f"{STREAM.format('a')} {RANDOM}", f"CREATE QUERY q AS {text}"], events, {"a": 2.0})["q"]
    number = np.zeros((windows, 4))
    for event in events["a"]:
        number[event["ts"] // 1000, event["k"]] += 1
    off = np.array([row["n"] for row in rows]) - (number**2).sum(axis=1)
    told = np.array([row["n_error"] for row in rows])
    assert 0.9 <= float(np.mean(np.abs(off) <= 1.96 * told)) <= 0.99
    assert 0.8 < np.mean(told**2) / off.var() < 1.2


def exact(events: dict[str, list[Event]], windows: int) -> dict[str, np.ndarray[Any, Any]]:
    """Of each window the true count, sum and average, from the sums of x by window and key."""
    by = {name: np.zeros((2, windows, 4)) for name in events}
    for name, own in events.items():
        for event in own:
            at = event["ts"] // 1000, event["k"]
            by[name][0][at] += 1
            by[name][1][at] += event["x"]
    (n, x), (m, y) = by["a"], by["b"]
    count = (n * m).sum(axis=1)
    return {"n": count, "t": (x * y).sum(axis=1), "m": (x * m + n * y).sum(axis=1) / count}


@pytest.mark.slow
def test_the_told_error_holds_what_it_promises() -> None:
    """Of 300 windows, each a join of two samples: about 95 of 100 true counts, sums and averages lie within 1.96
    errors, and counts would not if pairs were taken to be lost one by one."""
    dice, windows = np.random.default_rng(2006), 300
    events = {name: some_events(dice, 120 * windows, 4, windows) for name in "ab"}
    script = [*(f"{STREAM.format(n)} {RANDOM}" for n in "ab"), f"CREATE QUERY q AS {TOTALS} {JOIN}"]
    rows = answers(script, events, {"a": 2.0, "b": 2.0})["q"]
    true = exact(events, windows)
    assert len(rows) == windows
    for item, right in true.items():
        off = np.array([row[item] for row in rows]) - right
        told = np.array([row[f"{item}_error"] for row in rows])
        inside = float(np.mean(np.abs(off) <= 1.96 * told))
        assert 0.92 <= inside <= 0.98, (item, inside)
        assert abs(off.mean()) < 3 * off.std() / math.sqrt(windows), item
        assert 0.85 < np.mean(told**2) / off.var() < 1.15, item
    one_by_one = np.array([math.sqrt(3 * row["n"]) for row in rows])
    assert np.mean(np.abs([row["n"] for row in rows] - true["n"]) <= 1.96 * one_by_one) < 0.8


# Quantiles


def test_a_median_goes_by_weights() -> None:
    """The first batch is kept whole, of the second one in four: a 1 counts once, a 9 four times."""
    low, high = ([{"ts": ts + i, "k": 0, "x": x} for i in range(40)] for ts, x in ((0, 1.0), (100, 9.0)))
    text = f"SELECT APPROX median(x) AS m, percentile(x, 0.25) AS q, approx_percentile(x, 0.4) AS a FROM a {WINDOW}"
    weights = iter([1.0, 4.0])
    with (
        pytest.MonkeyPatch.context() as patch,
        local_engine(f"{STREAM.format('a')} {RANDOM}; CREATE QUERY q AS {text}") as engine,
    ):
        patch.setattr(Overload, "_decided", lambda self, batch: Thinning(next(weights)))
        engine.deliver("a", low, 0)
        engine.deliver("a", [*high, *({**event, "ts": event["ts"] + 50} for event in high)], 1)
        engine.end("a")
        (row,) = engine.results("q").to_arrow().to_pylist()
        counts = engine.counts["a"]
    nines = counts.events - 40
    assert 8 < nines < 35 and 4 * nines > 40
    assert (row["m"], row["q"]) == (9.0, 1.0)
    assert row["a"] == (1.0 if 0.4 * (40 + 4 * nines) <= 40 else 9.0)


def repeated(values: list[tuple[float, int]]) -> list[float]:
    return sorted(x for x, weight in values for _ in range(weight))


@settings(max_examples=60)
@given(
    values=st.sampled_from((1, 4)).flatmap(
        lambda most: st.lists(st.tuples(st.integers(-5, 5).map(float), st.integers(1, most)), min_size=1, max_size=12)
    ),
    share=st.sampled_from((0.0, 0.1, 0.25, 0.5, 0.9, 1.0)),
)
def test_a_weighted_percentile_is_that_of_repeated_values(values: list[tuple[float, int]], share: float) -> None:
    x, w = ([float(pair[i]) for pair in values] for i in (0, 1))
    code, vectors = coded_values([(Vector.of(DOUBLE, x).to_arrow(), DOUBLE), (Vector.of(DOUBLE, w).to_arrow(), DOUBLE)])
    counted = ValueCounts(code, np.ones(len(code), np.int64), len(vectors[0])).within(
        np.array([0, 0]), np.array([len(code), 0])
    )
    whole = repeated(values)
    between = WeightedPercentile(share, True).lower_counts(DOUBLE, vectors, counted).to_list()
    among = WeightedPercentile(share, False).lower_counts(DOUBLE, vectors, counted).to_list()
    assert between == [pytest.approx(np.percentile(whole, 100 * share)), None]
    assert among == [next(v for rank, v in enumerate(whole, 1) if rank >= share * len(whole)), None]
