"""The order of a join of many windows: golab 5.3 with its own numbers."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.all_join_orders import all_costs
from mullion.planner.join_order import (
    StreamStats,
    arrival_cost,
    by_selectivity,
    choose_order,
    fast_streams,
    order_cost,
    orders_tried,
    probing_order,
    result_size,
)

ONE_FAST = [StreamStats(10, 100, 500), StreamStats(1, 100, 50), StreamStats(1, 200, 40), StreamStats(3, 100, 5)]
"""Table 5.3."""
FAST_LAST = [StreamStats(10, 100, 40), StreamStats(1, 100, 100), StreamStats(1, 100, 8), StreamStats(1, 100, 5)]
"""Table 5.5, whose costs follow with a rate of 10, not the 100 that is printed."""
TWO_FAST = [StreamStats(11, 100, 200), StreamStats(10, 100, 100), StreamStats(1, 100, 65), StreamStats(1, 100, 20)]
"""Table 5.6."""


def sizes(streams: list[StreamStats], *which: str) -> list[float]:
    return [result_size(streams[int(i) - 1] for i in name) for name in which]


def cost(streams: list[StreamStats], order: str) -> float:
    """Of an order as the paper writes it: S2, S1, S3, S4 is 2134."""
    return order_cost(streams, tuple(int(i) - 1 for i in order))


def test_intermediate_results_have_the_sizes_of_table_5_4() -> None:
    found = sizes(ONE_FAST, "12", "13", "14", "23", "24", "34", "123", "124")
    assert found == [200, 400, 600, 400, 600, 1500, 800, 1200]


def exhaustive(streams: list[StreamStats]) -> tuple[tuple[int, ...], float]:
    """The best of all orders."""
    return min(all_costs(streams).items(), key=lambda item: item[1])


def test_each_stream_costs_what_5_3_2_works_out() -> None:
    assert [arrival_cost(ONE_FAST, (0, 1, 2, 3), i) for i in range(4)] == [3800, 3800, 2400, 6000]


def test_table_5_3_is_ordered_for_16000() -> None:
    chosen = choose_order(ONE_FAST)
    assert (chosen.order, chosen.cost) == ((0, 1, 2, 3), 16000)
    assert 85_000 < max(all_costs(ONE_FAST).values()) < 90_000


def test_table_5_5_moves_the_fast_stream_up_but_not_to_the_top() -> None:
    chosen = choose_order(FAST_LAST)
    assert (chosen.initial, chosen.initial_cost) == ((1, 2, 3, 0), 42600)
    assert (chosen.order, chosen.cost) == ((1, 0, 2, 3), 16200)
    assert (chosen.order, chosen.cost) == exhaustive(FAST_LAST)
    assert cost(FAST_LAST, "1234") == 21000
    assert 135_000 < max(all_costs(FAST_LAST).values()) < 136_000


def test_table_5_5_as_printed_is_a_slip() -> None:
    printed = [StreamStats(100, 100, 40), *FAST_LAST[1:]]
    assert cost(printed, "2134") != 16200


def test_table_5_6_has_two_fast_streams() -> None:
    assert [round(cost(TWO_FAST, o)) for o in ("3412", "3142", "3124", "1234", "2134")] == [
        49542,
        47977,
        51954,
        68200,
        79000,
    ]
    costs = all_costs(TWO_FAST)
    assert int(sum(costs.values()) / len(costs) + 0.5) == 63362
    chosen = choose_order(TWO_FAST)
    assert fast_streams(TWO_FAST) == [0, 1]
    assert (chosen.initial, chosen.order) == ((2, 3, 0, 1), (2, 0, 3, 1))
    assert (chosen.order, chosen.cost) == exhaustive(TWO_FAST)
    assert chosen.tried < len(costs)


def test_buckets_divide_what_a_probe_looks_at_and_not_what_it_finds() -> None:
    hashed = [StreamStats(s.rate, s.length, s.distinct, buckets=10) for s in ONE_FAST]
    assert result_size(hashed) == result_size(ONE_FAST)
    for order in ((0, 1, 2, 3), (3, 1, 0, 2)):
        assert order_cost(hashed, order) == pytest.approx(order_cost(ONE_FAST, order) / 10)


def test_windows_alike_in_values_are_ordered_by_their_sizes() -> None:
    streams = [StreamStats(rate, 100, 50) for rate in (4, 1, 3, 2)]
    assert set(by_selectivity(streams)[:2]) == {1, 3} and by_selectivity(streams)[2:] == (2, 0)


def test_an_event_does_not_probe_its_own_window() -> None:
    assert probing_order((2, 0, 1), 0) == (2, 1)


def test_one_and_two_inputs_have_an_order() -> None:
    assert choose_order(ONE_FAST[:1]).order == (0,) and choose_order(ONE_FAST[:1]).cost == 0
    both = choose_order(ONE_FAST[:2])
    assert both.cost == 10 * 100 + 1 * 1000


def test_many_fast_streams_are_not_all_moved() -> None:
    streams = [StreamStats(10 + i, 100, 50 + i) for i in range(9)] + [StreamStats(1, 10, 5) for _ in range(9)]
    assert 18 < len(list(orders_tried(streams))) <= 4096


rates = st.sampled_from([0.5, 1.0, 2.0, 10.0, 25.0])
stats = st.builds(StreamStats, rates, st.sampled_from([10.0, 100.0]), st.sampled_from([2.0, 20.0, 300.0]))


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.lists(stats, min_size=2, max_size=5))
def test_the_heuristic_never_loses_to_its_first_order_and_never_beats_the_best(streams: list[StreamStats]) -> None:
    chosen = choose_order(streams)
    assert sorted(chosen.order) == list(range(len(streams)))
    assert exhaustive(streams)[1] <= chosen.cost <= chosen.initial_cost
    tried = list(orders_tried(streams))
    assert len(tried) == len(set(tried)) == chosen.tried


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.lists(stats, min_size=2, max_size=5))
def test_costs_count_tuples_as_nested_loops_do(streams: list[StreamStats]) -> None:
    """Over expected numbers: rate times the sum of (results so far times the window)."""
    order = tuple(range(len(streams)))
    for arriving, stream in enumerate(streams):
        total = 0.0
        others = [streams[i] for i in probing_order(order, arriving)]
        for loops, inner in enumerate(others):
            total += result_size([stream, *others[:loops]]) / stream.length * inner.size
        assert arrival_cost(streams, order, arriving) == pytest.approx(total)


def test_pairs_decide_the_initial_order() -> None:
    order = by_selectivity(TWO_FAST)
    smallest = min(combinations(range(4), 2), key=lambda p: result_size(TWO_FAST[i] for i in p))
    assert set(order[:2]) == set(smallest)
