"""Rates and keys are observed, and joins are reordered by them while they run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mullion.operators.join import JoinOperator
from mullion.operators.network import Events, Network
from mullion.operators.observing import EVERY, Observing
from mullion.planner.probing_orders import global_order, probing_orders
from mullion.planner.relation_stats import Stats
from relational_plans import join, scan, where

SECOND = 1_000_000
PLAN = join(where(scan("S1"), "b >= 0"), scan("S2"), scan("S3"))


def events(rate: int, keys: int, step: int) -> Events:
    """A second of a stream, `rate` events evenly over it, with keys in turn."""
    numbers = np.arange(rate) + rate * step
    times = step * SECOND + np.arange(rate) * (SECOND // rate)
    rows = pa.table({"a": (numbers % keys).astype(np.int32), "b": np.zeros(rate, np.int32), "ts": times})
    return Events(rows.set_column(2, "ts", rows["ts"].cast(pa.timestamp("us", "UTC"))), times)


def run(network: Network, observing: Observing, streams: dict[str, tuple[int, int]], first: int, steps: int) -> int:
    """Steps of a second each; how many results there were."""
    results = 0
    for step in range(first, first + steps):
        batch = {name: events(rate, keys, step) for name, (rate, keys) in streams.items()}
        deltas = network.advance(batch, (step + 1) * SECOND)
        results += sum(len(delta.fresh) for delta in deltas.values())
        observing.see(batch)
        observing.reorder(network)
    return results


def network_of(*roots: object) -> Network:
    network = Network()
    network.set_roots(roots)  # type: ignore[arg-type]
    return network


def test_rates_and_keys_are_seen_as_they_are() -> None:
    network, observing = network_of(PLAN), Observing()
    run(network, observing, {"S1": (40, 20), "S2": (5, 5), "S3": (2, 2)}, 0, 5)
    stats = observing.stats(network)
    assert 38 < stats.rates["S1"] < 42 and 4.5 < stats.rates["S2"] < 6.5
    assert stats.distinct == {("S1", "a"): 20, ("S2", "a"): 5, ("S3", "a"): 2}


def test_joins_follow_streams_that_change() -> None:
    network, observing = network_of(PLAN), Observing()
    operator = network.operator(PLAN)
    assert isinstance(operator, JoinOperator)
    run(network, observing, {"S1": (30, 30), "S2": (2, 30), "S3": (2, 30)}, 0, EVERY + 1)
    before = dict(operator.orders)
    assert before == probing_orders(PLAN, observing.stats(network))
    run(network, observing, {"S1": (1, 30), "S2": (40, 3), "S3": (2, 30)}, EVERY + 1, 2 * EVERY)
    assert operator.orders != before


def test_results_do_not_depend_on_orders() -> None:
    streams = {"S1": (12, 4), "S2": (3, 4), "S3": (5, 5)}
    found = []
    for orders in ({}, {0: (1, 2), 1: (0, 2), 2: (0, 1)}, {0: (2, 1), 1: (2, 0), 2: (1, 0)}):
        network = network_of(PLAN)
        operator = network.operator(PLAN)
        assert isinstance(operator, JoinOperator)
        operator.orders = dict(orders)
        results = 0
        for step in range(4):
            batch = {name: events(rate, keys, step) for name, (rate, keys) in streams.items()}
            results += sum(len(delta.fresh) for delta in network.advance(batch, (step + 1) * SECOND).values())
        found.append(results)
    assert found[0] > 0 and len(set(found)) == 1


def test_a_join_of_two_needs_no_order() -> None:
    two = join(scan("S1"), scan("S2"))
    network, observing = network_of(two), Observing()
    run(network, observing, {"S1": (3, 3), "S2": (3, 3)}, 0, 3)
    operator = network.operator(two)
    assert isinstance(operator, JoinOperator) and not operator.orders


def test_orders_are_those_of_5_3_2() -> None:
    """The streams of Table 5.5, their windows hashed."""
    plan = join(*(scan(f"S{i}", "RANGE 100 s") for i in (1, 2, 3, 4)))
    values = {"S1": 40.0, "S2": 100.0, "S3": 8.0, "S4": 5.0}
    stats = Stats({"S1": 10.0, "S2": 1.0, "S3": 1.0, "S4": 1.0}, {(name, "a"): value for name, value in values.items()})
    chosen = global_order(plan, stats)
    assert probing_orders(plan, stats)[chosen.order[0]] == chosen.order[1:]
    assert all(sorted((i, *others)) == [0, 1, 2, 3] for i, others in probing_orders(plan, stats).items())
    assert chosen.cost <= chosen.initial_cost
