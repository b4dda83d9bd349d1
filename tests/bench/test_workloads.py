"""The data and queries of the benchmarks are what the paper describes, and wrong answers do not pass."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.answers import Oracle, answer, check
from benchmarks.workloads import common_step, sum_query, workload_a, workload_a_microseconds, write_trades
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.language.query import Named, Window
from mullion.surface.trades import EVENTS, HOUR, NOON, SECOND, SYMBOLS, generate_trades


@pytest.fixture(scope="module", params=[20_000, EVENTS], ids=["small", "full"])
def trades(request: pytest.FixtureRequest) -> pa.Table:
    return generate_trades(request.param)


def test_schema_and_order(trades: pa.Table) -> None:
    types = {"ts": pa.timestamp("us", "UTC"), "symbol": pa.string(), "price": pa.float64(), "volume": pa.int32()}
    assert trades.schema == pa.schema(types)
    assert all(column.null_count == 0 for column in trades.columns)
    times = trades["ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    assert times[0] >= NOON and times[-1] < NOON + HOUR


def test_volumes_repeat_as_on_the_stock_market(trades: pa.Table) -> None:
    values, numbers = np.unique(trades["volume"].to_numpy(), return_counts=True)
    shares = np.sort(numbers)[::-1] / len(trades)
    assert values[np.argmax(numbers)] == 100
    assert shares[0] == pytest.approx(0.5, abs=0.02)
    assert len(values) < 2000
    assert shares[:15].sum() > 0.9
    assert values[0] >= 10 and values[-1] <= 1_600_000


@pytest.mark.slow
def test_few_symbols_have_many_trades(trades: pa.Table) -> None:
    _, numbers = np.unique(trades["symbol"].to_numpy(zero_copy_only=False), return_counts=True)
    numbers = np.sort(numbers)[::-1]
    assert len(numbers) <= SYMBOLS
    assert numbers[0] / numbers[9] == pytest.approx(10, rel=0.25)
    assert (trades["price"].to_numpy() > 0).all()


def test_the_full_hour_has_every_symbol() -> None:
    trades = generate_trades()
    assert len(trades) == 1_138_636
    assert len(trades["symbol"].unique()) == SYMBOLS


def test_the_same_seed_gives_the_same_trades() -> None:
    assert generate_trades(5000).equals(generate_trades(5000))
    assert not generate_trades(5000).equals(generate_trades(5000, seed=8))


def test_files_follow_one_another(tmp_path: Path) -> None:
    folder = write_trades(tmp_path / "trades", files=7, events=1000)
    paths = sorted(folder.iterdir())
    assert len(paths) == 7
    changed = [path.stat().st_mtime for path in paths]
    assert all(a < b for a, b in pairwise(changed))
    assert pa.concat_tables([pq.read_table(path) for path in paths]).equals(generate_trades(1000))


def test_row_groups_are_not_too_large(tmp_path: Path) -> None:
    folder = write_trades(tmp_path, files=1, events=250_000)
    (path,) = folder.iterdir()
    assert pq.read_metadata(path).num_row_groups == 3


@pytest.mark.parametrize("n", [1, 16, 256, 1000])
@pytest.mark.parametrize("make", [workload_a, workload_a_microseconds])
def test_windows_lie_within_their_ranges(make, n: int) -> None:
    windows = make(n, seed=3)
    assert len(set(windows)) == n
    assert all(600 * SECOND <= r <= 900 * SECOND and 300 * SECOND <= s <= 600 * SECOND for r, s in windows)
    assert windows == make(n, seed=3)
    assert windows != make(n, seed=4)


def test_windows_of_seconds_share_a_grid_and_those_of_microseconds_do_not() -> None:
    assert common_step(workload_a(256, seed=1)) == SECOND
    assert common_step(workload_a_microseconds(256, seed=1)) == 1


def test_a_longer_workload_begins_with_the_shorter() -> None:
    assert workload_a(1000, seed=1)[:256] == workload_a(256, seed=1)


@pytest.mark.parametrize("window", [workload_a(1, seed=1)[0], workload_a_microseconds(1, seed=1)[0]])
def test_the_text_of_a_query_says_its_window(window: tuple[int, int]) -> None:
    parsed = parse_query(sum_query(window), name="q")
    assert isinstance(parsed.source, Named)
    assert parsed.source.window == Window(range=window[0], slide=window[1])


def test_the_oracle_answers_windows_that_hold_an_event() -> None:
    table = pa.table(
        {
            "ts": pa.array([5, 10, 25]).cast(pa.timestamp("us", "UTC")),
            "price": [1.0, 2.0, 4.0],
            "volume": pa.array([1, 1, 1], pa.int32()),
        }
    )
    found = Oracle(table).answer((10, 10))
    assert found.starts.tolist() == [0, 10, 20]
    assert found.totals.tolist() == [1.0, 2.0, 4.0]
    found = Oracle(table).answer((20, 10))
    assert found.starts.tolist() == [-10, 0, 10, 20]
    assert found.totals.tolist() == [1.0, 3.0, 6.0, 4.0]


RIGHT = answer([0, 10, 20], [1.0, 2.0, 4.0])


@pytest.mark.parametrize(
    ("got", "part"),
    [
        (answer([0, 10, 20], [1.0, 2.0, 4.00001]), False),
        (answer([0, 10], [1.0, 2.0]), False),
        (answer([0, 10, 20, 30], [1.0, 2.0, 4.0, 1.0]), False),
        (answer([1, 11, 21], [1.0, 2.0, 4.0]), False),
        (answer([0, 20], [1.0, 4.0]), True),
        (answer([10, 20], [2.0, 4.5]), True),
        (answer([], []), True),
        (answer([0, 10, 20], [1.0, float("nan"), 4.0]), False),
    ],
)
def test_wrong_answers_fail(got, part: bool) -> None:
    with pytest.raises(MullionError):
        check("test", (10, 10), got, RIGHT, part=part)


def test_right_answers_pass() -> None:
    check("test", (10, 10), answer([20, 0, 10], [4.0 * (1 + 1e-12), 1.0, 2.0]), RIGHT)
    check("test", (10, 10), answer([10, 20], [2.0, 4.0]), RIGHT, part=True)
