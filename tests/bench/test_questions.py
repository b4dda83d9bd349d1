"""The market and the query sets are what the paper describes, and the oracle counts what a predicate selects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.answers import Oracle, group_keys
from benchmarks.market import INDEXES, Market, generate_market, write_table
from benchmarks.questions import (
    C_LOW,
    C_REGULAR,
    TUMBLING,
    WORKLOADS,
    A,
    B,
    Predicate,
    Question,
    predicates,
    signature_cardinality,
)
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.surface.trades import SYMBOLS, generate_trades


@pytest.fixture(scope="module")
def market() -> Market:
    return generate_market(100_000)


class TestMarket:
    def test_only_prices_differ_from_the_plain_trades(self, market: Market) -> None:
        plain = generate_trades(100_000)
        assert market.trades.schema == plain.schema
        assert market.trades.drop(["price"]).equals(plain.drop(["price"]))

    def test_prices_stay_near_their_closing_prices(self, market: Market) -> None:
        change = market.columns["change"]
        assert 0.005 < np.median(change) < 0.03
        assert np.quantile(change, 0.99) < 0.15
        assert (market.trades["price"].to_numpy() > 0).all()

    def test_every_symbol_has_one_row_in_both_tables(self, market: Market) -> None:
        for table in (market.close, market.index):
            assert len(table) == SYMBOLS == len(table["symbol"].unique())
        names = market.close["symbol"].take(pa.array(market.codes))
        assert names.to_pylist() == market.trades["symbol"].to_pylist()

    def test_the_small_and_the_large_make_the_whole_index(self, market: Market) -> None:
        whole, small, large = (market.index[name].to_numpy() for name in INDEXES)
        assert not (small & large).any()
        assert ((small | large) == whole).all()
        assert 0 < large.sum() < small.sum() < whole.sum() < SYMBOLS

    def test_the_same_seed_gives_the_same_market(self, market: Market) -> None:
        again = generate_market(100_000)
        assert (again.trades, again.close, again.index) == (market.trades, market.close, market.index)
        assert generate_market(1000, seed=8).close != market.close

    def test_a_table_becomes_a_file(self, market: Market, tmp_path: Path) -> None:
        assert pq.read_table(write_table(tmp_path / "close.parquet", market.close)).equals(market.close)


class TestPredicates:
    def test_no_constant_occurs_twice(self, market: Market) -> None:
        found = predicates(1024, market)
        assert len({(p.quantity, p.constant) for p in found}) == 1024

    def test_all_kinds_occur(self, market: Market) -> None:
        found = predicates(256, market)
        kinds = {(p.index, p.member, p.quantity, p.sense) for p in found}
        assert len(kinds) == 3 * 2 * 3 * 2

    def test_a_longer_set_begins_with_the_shorter(self, market: Market) -> None:
        assert predicates(64, market)[:16] == predicates(16, market)

    def test_three_of_ten_queries_count_an_event(self, market: Market) -> None:
        assert signature_cardinality(B.make(256, market), market) / 256 == pytest.approx(0.3, abs=0.03)

    def test_the_share_of_trades_varies(self, market: Market) -> None:
        shares = [p.holds(market.columns).mean() for p in predicates(256, market)]
        assert min(shares) < 0.1 and max(shares) > 0.6

    @pytest.mark.parametrize(
        ("predicate", "text", "columns"),
        [
            (
                Predicate("r3000", True, "change", ">", 0.0125),
                "x.r3000 AND abs(t.price - c.cp) / c.cp > 0.012500",
                "r3000 AND change > 0.012500",
            ),
            (
                Predicate("r1000", False, "value", "<", 2500.5),
                "NOT x.r1000 AND t.price * t.volume < 2500.50",
                "NOT r1000 AND value < 2500.50",
            ),
        ],
    )
    def test_texts(self, predicate: Predicate, text: str, columns: str) -> None:
        assert predicate.text() == text
        assert predicate.column_text() == columns

    def test_a_constant_says_what_is_compared(self, market: Market) -> None:
        for predicate in predicates(100, market):
            assert float(predicate.text().split()[-1]) == predicate.constant


class TestWorkloads:
    @pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
    @pytest.mark.parametrize("n", [1, 16, 64])
    def test_all_questions_differ_and_can_be_parsed(self, market: Market, workload, n: int) -> None:
        found = workload.make(n, market)
        assert len(set(found)) == n
        for question in found:
            parse_query(question.text(), name="q")
            parse_query(question.text("symbol"), name="q")

    def test_windows_and_predicates(self, market: Market) -> None:
        def different(workload) -> tuple[int, int]:
            found = workload.make(64, market)
            return len({q.window for q in found}), len({q.predicate for q in found})

        assert different(A) == (64, 1)
        assert different(B) == (1, 64)
        assert different(C_REGULAR) == (8, 8)
        assert different(C_LOW) == (64, 64)
        assert {q.window for q in B.make(4, market)} == {TUMBLING}

    def test_a_regular_workload_is_a_square(self, market: Market) -> None:
        with pytest.raises(MullionError, match="square"):
            C_REGULAR.make(32, market)

    def test_the_text_follows_the_template(self) -> None:
        question = Question(TUMBLING, Predicate("r2000", True, "volume", ">", 300.0))
        assert question.text() == (
            "SELECT sum(t.price * t.volume) AS total FROM trades [RANGE '600 s' SLIDE '600 s'] t, close c, idx x "
            "WHERE t.symbol = c.symbol AND t.symbol = x.symbol AND x.r2000 AND t.volume > 300"
        )


TRADES = pa.table(
    {
        "ts": pa.array([5, 10, 12, 25]).cast(pa.timestamp("us", "UTC")),
        "price": [1.0, 2.0, 4.0, 8.0],
        "volume": pa.array([1, 1, 1, 1], pa.int32()),
    }
)


class TestOracle:
    def test_windows_without_a_selected_event_are_not_answered(self) -> None:
        found = Oracle(TRADES).answer((10, 10), np.array([True, False, False, True]))
        assert found.starts.tolist() == [0, 20]
        assert found.totals.tolist() == [1.0, 8.0]

    def test_nothing_selected(self) -> None:
        assert not len(Oracle(TRADES).answer((10, 10), np.zeros(4, bool)).starts)

    def test_groups(self) -> None:
        codes = np.array([7, 3, 7, 3])
        found = Oracle(TRADES).by_group((20, 20), codes)
        assert found.starts.tolist() == group_keys([0, 0, 20], [3, 7, 3]).tolist()
        assert found.totals.tolist() == [2.0, 5.0, 8.0]
        found = Oracle(TRADES).by_group((20, 20), codes, np.array([True, False, True, False]))
        assert found.starts.tolist() == [7]
        assert found.totals.tolist() == [5.0]
