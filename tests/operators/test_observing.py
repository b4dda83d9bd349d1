"""Rates and keys are observed, and joins are reordered by them while they run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

from mullion.algebra.nodes import Join
from mullion.language.render import render
from mullion.operators.join import JoinOperator
from mullion.operators.network import Network, StepEvents
from mullion.operators.observing import EVERY, Observing, orders_at_work
from mullion.planner.join_order import choose_order
from mullion.planner.operator_cost import CostModel
from mullion.planner.relation_stats import Stats
from relational_plans import column, join, predicate, scan, unless, where

SECOND = 1_000_000
PLAN = join(where(scan("S1"), "b >= 0"), scan("S2"), scan("S3"))


def events(rate: int, keys: int, step: int) -> StepEvents:
    """A second of a stream, `rate` events evenly over it, with keys in turn."""
    numbers = np.arange(rate) + rate * step
    times = step * SECOND + np.arange(rate) * (SECOND // rate)
    rows = pa.table({"a": (numbers % keys).astype(np.int32), "b": np.zeros(rate, np.int32), "ts": times})
    return StepEvents(rows.set_column(2, "ts", rows["ts"].cast(pa.timestamp("us", "UTC"))), times)


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
    before = operator.order
    assert before == choose_order(CostModel(observing.stats(network)).join_inputs(PLAN)).order
    assert orders_at_work(network) == {PLAN: before}
    run(network, observing, {"S1": (1, 30), "S2": (40, 3), "S3": (6, 30)}, EVERY + 1, 2 * EVERY)
    assert operator.order != before


def test_results_do_not_depend_on_orders() -> None:
    streams = {"S1": (12, 4), "S2": (3, 4), "S3": (5, 5)}
    found = []
    for order in ((), (0, 1, 2), (2, 1, 0), (1, 2, 0)):
        network = network_of(PLAN)
        operator = network.operator(PLAN)
        assert isinstance(operator, JoinOperator)
        operator.order = order
        results = 0
        for step in range(4):
            batch = {name: events(rate, keys, step) for name, (rate, keys) in streams.items()}
            results += sum(len(delta.fresh) for delta in network.advance(batch, (step + 1) * SECOND).values())
        found.append(results)
    assert found[0] > 0 and len(set(found)) == 1


def told(network: Network, batch: dict[str, StepEvents], now: int) -> Counter[tuple[object, ...]]:
    """What a step brings and ends, row by row."""
    found: Counter[tuple[object, ...]] = Counter()
    for root, delta in network.advance(batch, now).items():
        fresh = delta.fresh
        lives = zip(map(tuple, fresh.ids.tolist()), fresh.start.tolist(), fresh.end.tolist(), strict=True)
        found.update(
            (root.name, "came", *life, *row.values()) for life, row in zip(lives, fresh.rows.to_pylist(), strict=True)
        )
        ended = zip(map(tuple, delta.retracted.ids.tolist()), delta.retracted.at.tolist(), strict=True)
        found.update((root.name, "ended", *end) for end in ended)
    return found


def at_random(dice: Random, step: int) -> dict[str, StepEvents]:
    """A step of three streams whose rates, keys and values change from step to step."""
    batch = {}
    for name in ("S1", "S2", "S3"):
        count, keys = dice.choice((0, 1, 3, 9)), dice.choice((1, 2, 5))
        times = np.sort(np.array([step * SECOND + dice.randrange(SECOND) for _ in range(count)], np.int64))
        own = {"a": [dice.randrange(keys) for _ in times], "b": [dice.randrange(3) for _ in times]}
        rows = pa.table({n: pa.array(values, pa.int32()) for n, values in own.items()})
        batch[name] = StepEvents(rows.append_column("ts", pa.array(times).cast(pa.timestamp("us", "UTC"))), times)
    return batch


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_rows_and_lives_do_not_depend_on_planning_again(seed: int) -> None:
    short = [scan(name, "RANGE 3 s") for name in ("S1", "S2", "S3")]
    plans = (join(where(short[0], "b > 0"), *short[1:]), unless(join(*short), scan("S2", "ROWS 3"), on="0.a"))
    dice, once, again, observing = Random(seed), network_of(*plans), network_of(*plans), Observing()
    for step in range(3 * EVERY):
        batch = at_random(dice, step)
        observing.see(batch)
        if step % 2:
            observing.steps = 1  # Reconsider at every other step.
        observing.reorder(again)
        assert told(again, batch, (step + 1) * SECOND) == told(once, batch, (step + 1) * SECOND)
    assert observing.stats(again) == observing.stats(once)


def test_shares_of_predicates_are_seen_as_they_are() -> None:
    plan = Join((where(scan("S1"), "a < 5"), scan("S2")), ((column("a"),), (column("a"),)))
    plan = replace(plan, residual=predicate(plan, "`0.ts` < `1.ts`"))
    network, observing = network_of(plan), Observing()
    run(network, observing, {"S1": (20, 20), "S2": (20, 20)}, 0, 6)
    stats = observing.stats(network)
    assert stats.selectivities[("S1", "a < 5")] == pytest.approx(0.25)
    residual = stats.selectivity(plan, plan.residual)
    assert 0.2 < residual < 0.8 and residual == stats.selectivities[("S1 S2", render(plan.residual))]


@pytest.mark.parametrize(("keys", "overlap"), [(10, 1.0), (1000, 0.0)])
def test_how_often_streams_meet_is_seen(keys: int, overlap: float) -> None:
    """Both sides have ten keys, which are the same or different ones."""
    plan = join(scan("S1"), scan("S2"))
    network, observing = network_of(plan), Observing()
    for step in range(6):
        other = events(20, 10, step)
        moved = pa.compute.add(other.rows["a"], keys - 10).cast(pa.int32())
        batch = {"S1": events(20, 10, step), "S2": StepEvents(other.rows.set_column(0, "a", moved), other.times)}
        network.advance(batch, (step + 1) * SECOND)
        observing.see(batch)
    assert observing.stats(network).overlap[frozenset(("S1", "S2"))] == pytest.approx(overlap, abs=0.1)


def test_early_ends_and_free_rows_of_not_exists_are_seen() -> None:
    plan = unless(scan("S1", "RANGE 4 s"), scan("S2", "RANGE 1 s"))
    quiet, busy = (network_of(plan) for _ in range(2))
    seen = [Observing(), Observing()]
    run(quiet, seen[0], {"S1": (20, 10)}, 0, 6)
    run(busy, seen[1], {"S1": (20, 10), "S2": (2, 10)}, 0, 6)
    none, some = seen[0].stats(quiet), seen[1].stats(busy)
    assert none.premature["S2"] == 0 and none.overlap[frozenset(("S1", "S2"))] == pytest.approx(0)
    assert some.premature["S2"] > 0 and some.overlap[frozenset(("S1", "S2"))] > 0
    model, assumed = CostModel(some), CostModel(Stats(some.rates))
    assert model.flow(plan).life < CostModel(none).flow(plan).life
    assert model.flow(plan).premature != assumed.flow(plan).premature
    assert model.sources["early ends"] == model.sources["overlaps"] == {True}
    assert assumed.sources["early ends"] == assumed.sources["overlaps"] == {False}


def test_a_join_of_two_needs_no_order() -> None:
    two = join(scan("S1"), scan("S2"))
    network, observing = network_of(two), Observing()
    run(network, observing, {"S1": (3, 3), "S2": (3, 3)}, 0, 3)
    operator = network.operator(two)
    assert isinstance(operator, JoinOperator) and not operator.order and not orders_at_work(network)


def test_orders_are_those_of_5_3_2() -> None:
    """The streams of Table 5.5, their windows hashed."""
    plan = join(*(scan(f"S{i}", "RANGE 100 s") for i in (1, 2, 3, 4)))
    values = {"S1": 40.0, "S2": 100.0, "S3": 8.0, "S4": 5.0}
    stats = Stats({"S1": 10.0, "S2": 1.0, "S3": 1.0, "S4": 1.0}, {(name, "a"): value for name, value in values.items()})
    inputs = CostModel(stats).join_inputs(plan)
    chosen = choose_order(inputs)
    assert sorted(chosen.order) == [0, 1, 2, 3]
    assert chosen.cost <= chosen.initial_cost
