"""Sums of doubles over millions of events, and of very small ones: right in every way of adding."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_slices import bind
from mullion.aggregates import REGISTRY, Invertible, Partial, State
from mullion.aggregates.exact_sums import CoarseSum, Residue
from mullion.aggregates.sum import SumOfIntegers
from mullion.algebra.streams import Stream
from mullion.expressions.vector import Vector
from mullion.kernels.arrival import ARRIVAL
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, DOUBLE, INT, TIMESTAMP
from mullion.options import Options
from mullion.planner.plan import FRAGMENTS, ROWS
from mullion.planner.rules import make_plan
from mullion.slices.interval import Interval
from mullion.slices.kernels import rows as dense
from mullion.slices.kernels.events import TIME
from mullion.slices.kernels.partial import Input, Job, partials
from mullion.slices.kernels.rows import MOST_EVENTS, UNITS, in_units
from mullion.slices.running import Running
from mullion.spark.files import RowGroup, row_groups_of
from mullion.spark.reading import read_pieces

STREAM = Stream("s", (("ts", TIMESTAMP), ("x", DOUBLE), ("k", INT), ("n", INT)), "ts")
WINDOW = "FROM s [RANGE 60 s SLIDE 60 s]"
LANES = 24
MINUTE = 60_000_000


def exact(value: float, times: int) -> float:
    return float(Fraction(value) * times)


def sums(values: npt.NDArray[np.float64], method: str, *, grouped: bool = False, edges: int = 1) -> list[float]:
    """What the kernel makes of the events of the first minutes, for queries of LANES different predicates that all of
    them satisfy; each query is lowered by itself."""
    key, group = ("k, ", " GROUP BY k") if grouped else ("", "")
    texts = [f"SELECT {key}sum(x) AS total {WINDOW} WHERE n >= {i - LANES}{group}" for i in range(LANES)]
    queries = [bind(parse_query(text), {"s": STREAM}) for text in texts]
    plan = make_plan(STREAM, queries, Options.of(method=method))
    assert plan.methods == (method,)
    length = len(values)
    times = np.arange(length, dtype=np.int64) * (MINUTE * edges) // length
    columns = {TIME: times, "ts": pa.array(times, pa.timestamp("us", "UTC")), "x": values}
    columns |= {"k": np.zeros(length, np.int32), "n": np.zeros(length, np.int32)}
    (table,) = partials(pa.table(columns), Job(plan.groupings, plan.methods, (plan.windows,), Input(STREAM.types)))
    (grouping,) = plan.groupings
    kinds = [state.partial for state in grouping.states]
    found = []
    for slot in range(LANES) if method == ROWS else [None]:
        if slot is None:
            own = table.filter(pa.compute.is_valid(table.column("signature")))
        else:
            own = table.filter(pa.compute.equal(table.column("lane"), slot))
        states = {}
        for i, partial in enumerate(kinds):
            stored = [Vector.from_arrow(own.column(f"s{i}_{j}"), t) for j, t in enumerate(partial.stored)]
            state = partial.reduce(partial.load(stored), np.zeros(1, np.intp))
            states[type(partial)] = partial.store(state, stored)
        needed = REGISTRY["sum"].partials(DOUBLE)
        found.append(REGISTRY["sum"].lower(DOUBLE, [states[type(p)] for p in needed]).to_list()[0])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "grouped"), [(FRAGMENTS, False), (ROWS, False), (ROWS, True)], ids=["fragments", "histogram", "groups"]
)
@pytest.mark.parametrize("value", [0.1, -1e-3])
def test_one_slice_of_millions(method: str, grouped: bool, value: float) -> None:
    length = 6_000_000 if method == FRAGMENTS or not grouped else 4_500_000
    found = sums(np.full(length, value), method, grouped=grouped)
    # Groups add residues one after the other, as doubles: the worst that millions of equal values can do to them.
    assert found == pytest.approx([exact(value, length)] * len(found), rel=1e-11 if grouped else 1e-15)


def test_the_histogram_begins_anew_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """With small bounds, so that edges of windows and of portions meet in every way."""
    rng = np.random.default_rng(7)
    values = rng.uniform(-1, 1, 1000)
    whole = sums(values, ROWS, edges=7)
    for most in (1, 2, 3, 142, 143, 500, 999, 1000, 1001):
        monkeypatch.setattr(dense, "MOST_EVENTS", most)
        assert sums(values, ROWS, edges=7) == whole
    assert whole == [float(sum(map(Fraction, values.tolist())))] * LANES


@pytest.mark.slow
def test_the_bound_is_what_int64_holds() -> None:
    """The largest residues there are, in every unit; one more doubling of the bound would be too much."""
    largest = 2.0**-17
    for unit in UNITS:
        (units,) = in_units(np.array([min(largest, unit * 2.0**41)]))[-1]
        assert abs(int(units)) <= 2**41
    assert MOST_EVENTS * 2**41 < 2**63
    # Half-way between two fine units: a residue of 2^-17, the largest.
    value = 1.0 + 2.0**-17
    length = 2 * MOST_EVENTS + 5
    assert sums(np.full(length, value), ROWS) == [exact(value, length)] * LANES


@given(st.lists(st.floats(-(2.0**-17), 2.0**-17), min_size=1, max_size=20))
def test_units_are_exact_or_refused(values: list[float]) -> None:
    found = in_units(np.array(values))
    if found is None:
        assert any(Fraction(v) % Fraction(UNITS[-1]) for v in values)
        return
    for at, value in enumerate(values):
        assert sum(int(part[at]) * Fraction(unit) for part, unit in zip(found, UNITS, strict=False)) == Fraction(value)
        assert all(abs(int(part[at])) <= 2**41 for part in found)


@pytest.mark.parametrize("value", [1e-12, 3e-17, 1e-20, 1e-26, 1e-40, 5e-324, 0.007])
def test_very_small_values_are_not_lost(value: float) -> None:
    values = np.array([value, value, -value, 3 * value] * 50)
    expected = float(sum(map(Fraction, values.tolist())))
    assert sums(values, ROWS) == pytest.approx([expected] * LANES, rel=1e-13, abs=0)
    assert sums(values, FRAGMENTS)[0] == pytest.approx(expected, rel=1e-13, abs=0)


def lowered(states: list[State]) -> float:
    kept = [p.store(s, ()) for p, s in zip(PARTIALS, states, strict=True)]
    return float(REGISTRY["sum"].lower(DOUBLE, kept).to_list()[0])


PARTIALS: tuple[Partial, ...] = REGISTRY["sum"].partials(DOUBLE)


def test_windows_over_millions_of_slices() -> None:
    """Prefixes of whole numbers, trees of residues: windows at the far end are exact, and so is the longest."""
    length, value = 3_000_000, 0.1
    events = Vector(DOUBLE, np.full(length, value), np.ones(length, np.bool_))
    loaded = [p.load(p.lift(events)) for p in PARTIALS]
    for low, high in ((0, length), (1, length), (length - 10, length)):
        found: list[State] = []
        for partial, state in zip(PARTIALS, loaded, strict=True):
            synopsis = Running(partial, state) if isinstance(partial, Invertible) else Interval(partial, state)
            found.append(synopsis.between(np.array([low]), np.array([high])))
        assert lowered(found) == pytest.approx(exact(value, high - low), rel=1e-15)


def test_prefixes_may_run_over() -> None:
    """What leaves int64 in a running sum comes back in the difference."""
    partial = CoarseSum(DOUBLE)
    huge = np.full(40, 2**59)
    between = Running(partial, (huge, huge)).between(np.array([30]), np.array([33]))
    assert [int(field[0]) for field in between] == [3 * 2**59] * 2


@pytest.mark.parametrize("value", [0.1, 1e11 + 0.1, -1e-3])
def test_states_merged_over_many_batches(value: float) -> None:
    """As an unbounded window does: kept, loaded and combined again and again. Doubling stands for many batches."""
    events = Vector(DOUBLE, np.array([value]), np.ones(1, np.bool_))
    stored = [p.lift(events) for p in PARTIALS]
    doublings = 31 if abs(value) < 1e9 else 26
    for _ in range(doublings):
        for i, partial in enumerate(PARTIALS):
            state = partial.load(stored[i])
            stored[i] = partial.store(partial.combine(state, state), stored[i])
    assert REGISTRY["sum"].lower(DOUBLE, stored).to_list() == [exact(value, 2**doublings)]


def test_integers_are_carried() -> None:
    """-1 has a low half of 32 ones: 2^40 of them, kept after every step, are still exact."""
    partial = SumOfIntegers(BIGINT)
    stored = partial.lift(Vector.of(BIGINT, [-1]))
    for _ in range(40):
        state = partial.load(stored)
        stored = partial.store(partial.combine(state, state), stored)
    assert partial.total(stored)[0].tolist() == [-(2**40)]


def test_residues_are_added_in_blocks() -> None:
    rng = np.random.default_rng(3)
    values = rng.uniform(-1, 1, 50_000) * 2.0**-17
    starts = np.array([0, 1, 5000, 9096, 30_000])
    (found,) = Residue(DOUBLE).reduce((values,), starts)
    for low, high, total in zip(starts, [*starts[1:], len(values)], found, strict=True):
        assert total == pytest.approx(float(sum(map(Fraction, values[low:high].tolist()))), rel=1e-12)


def test_a_large_row_group_is_read_in_portions(tmp_path: Path) -> None:
    length = 1000
    table: dict[str, Any] = {
        "ts": pa.array(range(length), pa.timestamp("us", "UTC")),
        "x": pa.array(range(length), pa.float64()),
        "k": pa.array(["a", "b"] * (length // 2)),
    }
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table(table), path, row_group_size=length)
    stream = Stream("s", (("ts", TIMESTAMP), ("x", DOUBLE)), "ts")
    pieces = row_groups_of([path, path], stream, ["x"])
    assert pieces is not None and len(pieces) == 2
    empty = str(tmp_path / "empty.parquet")
    pq.write_table(pa.table(table).slice(0, 0), empty)
    assert [len(part) for part in read_pieces([RowGroup(empty, 0, 0)], ["x", "k"], "ts", ["k"], most=300)] == [0]
    found = list(read_pieces(pieces, ["x", "k"], "ts", ["k"], arrival=True, most=300))
    assert max(map(len, found)) < 600
    whole = pa.concat_tables(found)
    assert whole.column("x").to_pylist() == [float(i % length) for i in range(2 * length)]
    assert whole.column("k").to_pylist() == ["a", "b"] * length
    assert whole.column(ARRIVAL).to_pylist() == list(range(2 * length))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 25)), min_size=1, max_size=6), st.integers(1, 60))
def test_portions_are_about_equal_and_less_than_twice_as_large_as_they_should_be(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[int, int]], most: int
) -> None:
    folder, first = tmp_path_factory.mktemp("files"), 0
    for i, (rows, group) in enumerate(files):
        ts = pa.array(range(first, first + rows), pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": ts}), folder / f"{i}.parquet", row_group_size=group)
        first += rows
    paths = [str(folder / f"{i}.parquet") for i in range(len(files))]
    pieces = row_groups_of(paths, Stream("s", (("ts", TIMESTAMP),), "ts"), [])
    assert pieces is not None
    found = list(read_pieces(pieces, [], "ts", [], most=most))
    assert [t for part in found for t in part.column(TIME).to_pylist()] == list(range(first))
    assert all(len(part) < 2 * most for part in found), "as many as there is memory for"
    assert len(found) <= max(1, first // most), "no small rest"


@pytest.mark.parametrize("high", [-(2**63), -(2**62), -(2**30), -(2**20), -1, 0, 1, 2**20, 2**30, 2**62, 2**63 - 1])
@pytest.mark.parametrize("low", [-(2**32), 1 - 2**32, -1, 0, 2**32 - 1, 2**32])
def test_two_limbs_become_one_only_where_any_sum_of_them_has_room(high: int, low: int) -> None:
    fields = np.array([0, high, 3]), np.array([0, low, 5])
    narrowed = SumOfIntegers(BIGINT).narrowed(fields)
    if abs(low) < 2**32 and abs(high) < 2**28:
        assert [field.tolist() for field in narrowed] == [[0, (high << 32) + low, (3 << 32) + 5]]
    if abs(low) >= 2**32 or abs(high) >= 2**30:
        assert narrowed is fields
