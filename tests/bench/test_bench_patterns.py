"""The benchmark of update patterns: the strategies agree, and its bars judge what they say."""

from __future__ import annotations

import io
from dataclasses import replace

import pyarrow as pa
import pytest
from rich.console import Console

from benchmarks import operators_patterns
from benchmarks.operators_patterns import NT, STRATEGIES, UPA, Found, Size, judge, run
from benchmarks.pattern_queries import QUERIES, Query
from mullion.errors import MullionError

TINY = Size(windows=(300, 900), batch=100, filling=300, warm=1, batches=6, fewest=5, repeat=1)


@pytest.fixture(scope="module")
def links() -> list[pa.Table]:
    return operators_patterns.generate(TINY)


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_all_strategies_have_the_same_result(query: Query, links: list[pa.Table]) -> None:
    found = {strategy: run(query, 900, strategy, links, TINY) for strategy in STRATEGIES}
    assert len({(one.results, one.checksum) for one in found.values()}) == 1
    assert found[UPA].held > 0 and found[UPA].milliseconds > 0


def test_both_plans_of_query_4_have_the_same_result(links: list[pa.Table]) -> None:
    above, below = (run(query, 900, UPA, links, TINY) for query in QUERIES[-2:])
    assert (above.results, above.checksum) == (below.results, below.checksum)
    assert above.results > 0


def test_distinct_sources_are_kept_and_not_their_windows(links: list[pa.Table]) -> None:
    query = QUERIES[2]
    assert run(query, 900, UPA, links, TINY).held < run(query, 900, NT, links, TINY).held


def test_strategies_that_differ_end_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    def differing(query: Query, window: int, strategy: str, links: object, size: Size) -> Found:
        return Found(1.0, 1.0, 7 if strategy == UPA else 8, 0)

    monkeypatch.setattr(operators_patterns, "run", differing)
    monkeypatch.setattr(operators_patterns, "QUICK", TINY)
    with pytest.raises(MullionError, match="results differ"):
        operators_patterns.measure(Console(file=io.StringIO()), quick=True)


def test_bars_take_the_worst_window_but_spare_large_ones_of_the_negation() -> None:
    size = replace(TINY, windows=(2_000, 200_000))
    even = Found(10.0, 100.0, 0, 0)
    found = {(q.name, w, s): even for q in QUERIES for w in size.windows for s in STRATEGIES}
    found["1, ftp", 200_000, UPA] = replace(even, milliseconds=20.0)
    found["3", 200_000, UPA] = replace(even, milliseconds=20.0)
    found["2, source", 200_000, UPA] = replace(even, milliseconds=1.0, held=4.0)
    bars = {bar.what: bar for bar in judge(found, size)}
    missed = [what for what, bar in bars.items() if bar.met is False]
    assert missed == ["query 1, ftp: upa against the better of nt and direct"]
    assert bars[missed[0]].measured == 0.5
    assert [bar.measured for what, bar in bars.items() if what.startswith("query 2, source, 200,000")] == [10.0, 25.0]
