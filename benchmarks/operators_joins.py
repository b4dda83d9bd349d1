"""Orders and algorithms of a join of four windows: golab's Figures 5.2, 5.3 and 5.4.

Streams as in 5.4.1: every tick brings one tuple, of stream i as often as its rate says, with a value drawn evenly from
the first v_i. A unit of time has as many ticks as the rates add up to, so that the rates are those of Table 5.5
(lambda_1 = 10: with the printed 100 no order costs what the paper says).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from benchmarks import operators_plot
from benchmarks.all_join_orders import all_costs
from benchmarks.operators_part import Part
from benchmarks.report import Bar, Grid
from mullion.errors import MullionError
from mullion.operators.kernels.multiway import Arrivals, Joined, Reevaluation, join
from mullion.planner.join_order import JoinOrder, StreamStats, by_selectivity, choose_order

SEED = 2006
STREAMS = (StreamStats(10, 100, 40), StreamStats(1, 100, 100), StreamStats(1, 100, 8), StreamStats(1, 100, 5))
TICKS = int(sum(stream.rate for stream in STREAMS))
"""In a unit of time."""
OPTIMAL, FAST_FIRST, SELECTIVE = (1, 0, 2, 3), (0, 1, 2, 3), (1, 2, 3, 0)
DELTA = 10
"""Units of time between expirations or executions, where orders are compared."""
DELTAS = (0, 5, 10, 20, 30, 40, 50)
ORDER_BUCKETS = 10
FEW_BUCKETS = (2, 5)
LABELS = {
    Reevaluation.EAGER: "eager",
    Reevaluation.LAZY_EXPIRY: "eager, lazy exp.",
    Reevaluation.LAZY: "lazy",
    Reevaluation.RESTORE: "lazyR",
}

Series = dict[str, dict[float, float]]


@dataclass(frozen=True)
class Size:
    tuples: int = 40_000
    repeat: int = 5


FULL, QUICK = Size(), Size(tuples=4_000, repeat=1)


@dataclass(frozen=True)
class Run:
    """The best time of several, for 1,000 tuples, and what was found."""

    milliseconds: float
    found: Joined


def measure(console: Console, *, quick: bool = False) -> Part:
    size = QUICK if quick else FULL
    arrivals = generate(size.tuples)
    costs = all_costs(STREAMS)
    orders = {"optimal": OPTIMAL, "fast first": FAST_FIRST, "by selectivity": SELECTIVE, "worst": _worst(costs)}
    console.print(f"  orders of a four-way join, {size.tuples:,} tuples", highlight=False)
    by_order = measure_orders(arrivals, list(orders.values()), size)
    console.print("  algorithms by the interval of expiration or execution", highlight=False)
    nested, hashed = measure_intervals(arrivals, (1,), size), measure_intervals(arrivals, FEW_BUCKETS, size)
    predicted = {name: costs[order] / costs[OPTIMAL] for name, order in orders.items()}
    bars = _normalised(orders, predicted, by_order)
    return Part(
        bars=_judge(arrivals, costs, by_order),
        grids=[_order_grid(orders, bars), _interval_grid(nested | hashed)],
        facts={"streams": [vars(s) for s in STREAMS], "figure_5_2": bars, "figure_5_3": nested, "figure_5_4": hashed},
        pictures={
            "orders": lambda path: operators_plot.draw_groups(
                path,
                bars,
                [f"{name}: {_name(order)}" for name, order in orders.items()],
                "Join orders: time against that of the best order (golab Figure 5.2)",
                "times the best order",
            ),
            "algorithms": lambda path: operators_plot.draw_lines(
                path,
                {"nested loops (Figure 5.3)": nested, "hash tables (Figure 5.4)": hashed},
                "Join algorithms by the interval of expiration (eager) or execution (lazy)",
                across="delta, units of time",
                up="ms for 1,000 tuples",
            ),
        },
    )


def generate(tuples: int) -> Arrivals:
    random = np.random.default_rng(SEED)
    rates = np.array([stream.rate for stream in STREAMS])
    streams = random.choice(len(STREAMS), tuples, p=rates / rates.sum())
    distinct = np.array([stream.distinct for stream in STREAMS], np.int64)
    return Arrivals.of(streams, np.arange(tuples), random.integers(0, distinct[streams]))


def measure_orders(
    arrivals: Arrivals, orders: Sequence[JoinOrder], size: Size
) -> dict[tuple[JoinOrder, Reevaluation, int], Run]:
    """All orders by all eight algorithms. Every way must find the same results, but for what LAZY loses."""
    found = {
        (order, mode, buckets): _run(arrivals, order, mode, DELTA, buckets, size.repeat)
        for buckets in (1, ORDER_BUCKETS)
        for mode in Reevaluation
        for order in orders
    }
    for lossy in (True, False):
        told = {
            (run.found.results, run.found.ends)
            for (_, mode, _), run in found.items()
            if (mode is Reevaluation.LAZY) is lossy
        }
        if len(told) != 1:
            raise MullionError(f"the join algorithms differ: {sorted(told)} results and sums of their ends")
    return found


def measure_intervals(arrivals: Arrivals, buckets: Sequence[int], size: Size) -> Series:
    """Milliseconds by delta: a line for each algorithm and number of buckets. At 0 only eager joins."""
    lines: Series = {}
    for number in buckets:
        suffix = f", {number} buckets" if number > 1 else ""
        for label, mode in (
            ("eager", Reevaluation.LAZY_EXPIRY),
            ("lazy", Reevaluation.LAZY),
            ("lazyR", Reevaluation.RESTORE),
        ):
            line = lines.setdefault(label + suffix, {})
            for delta in DELTAS:
                if delta or mode is Reevaluation.LAZY_EXPIRY:
                    run = _run(arrivals, OPTIMAL, mode if delta else Reevaluation.EAGER, delta, number, size.repeat)
                    line[delta] = run.milliseconds
    return lines


def _run(arrivals: Arrivals, order: JoinOrder, mode: Reevaluation, delta: int, buckets: int, repeat: int) -> Run:
    found = _join(arrivals.first(1000), order, mode, delta, buckets)  # Compiles, the first time.
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        found = _join(arrivals, order, mode, delta, buckets)
        seconds.append(time.perf_counter() - began)
    return Run(min(seconds) * 1e6 / len(arrivals), found)


def _join(arrivals: Arrivals, order: JoinOrder, mode: Reevaluation, delta: int, buckets: int) -> Joined:
    lengths = [round(stream.length * TICKS) for stream in STREAMS]
    return join(arrivals, lengths=lengths, order=order, mode=mode, delta=delta * TICKS, buckets=buckets, keep=False)


def _judge(
    arrivals: Arrivals, costs: Mapping[JoinOrder, float], found: dict[tuple[JoinOrder, Reevaluation, int], Run]
) -> list[Bar]:
    eager = {order: run for (order, mode, buckets), run in found.items() if (mode, buckets) == (Reevaluation.EAGER, 1)}
    fastest = min(run.milliseconds for run in eager.values())
    least, chosen = min(costs.values()), choose_order(STREAMS)
    ratios = [compared_in_a_unit(arrivals, order, run) / costs[order] for order, run in eager.items()]
    return [
        Bar("four-way join: cost of the chosen order against the best of all 24", chosen.cost / least, 1.0, "<="),
        Bar("four-way join: cost of the order by selectivity alone", costs[by_selectivity(STREAMS)] / least),
        Bar(
            "four-way join: time of the best order against the fastest",
            eager[OPTIMAL].milliseconds / fastest,
            1.1,
            "<=",
        ),
        Bar("four-way join: comparisons made against predicted, the most", max(ratios), 1.1, "<="),
        Bar("four-way join: comparisons made against predicted, the fewest", min(ratios), 0.9, ">="),
    ]


def compared_in_a_unit(arrivals: Arrivals, order: JoinOrder, run: Run) -> float:
    """Comparisons in a unit of time after the windows have filled."""
    filling = round(max(stream.length for stream in STREAMS) * TICKS)
    before = _join(arrivals.first(filling), order, Reevaluation.EAGER, 0, 1)
    return (run.found.compared - before.compared) / (len(arrivals) - filling) * TICKS


def _normalised(
    orders: Mapping[str, JoinOrder], predicted: dict[str, float], found: dict[tuple[JoinOrder, Reevaluation, int], Run]
) -> dict[str, dict[str, float]]:
    """Groups of Figure 5.2: for each algorithm, each order's time over the optimal order's."""
    groups = {"predicted": predicted}
    for buckets in (1, ORDER_BUCKETS):
        for mode in Reevaluation:
            times = {name: found[order, mode, buckets].milliseconds for name, order in orders.items()}
            label = LABELS[mode] + (", hash" if buckets > 1 else "")
            groups[label] = {name: taken / times["optimal"] for name, taken in times.items()}
    return groups


def _worst(costs: Mapping[JoinOrder, float]) -> JoinOrder:
    return max(costs, key=lambda order: costs[order])


def _name(order: JoinOrder) -> str:
    return ",".join(f"S{i + 1}" for i in order)


def _order_grid(orders: Mapping[str, JoinOrder], groups: Mapping[str, Mapping[str, float]]) -> Grid:
    header = ("time of join orders, x the best", *(_name(order) for order in orders.values()))
    return Grid(header, [(label, *(f"{of[name]:.2f}" for name in orders)) for label, of in groups.items()])


def _interval_grid(lines: Series) -> Grid:
    header = ("ms for 1,000 tuples, by delta", *map(str, DELTAS))
    return Grid(
        header, [(label, *(f"{line[d]:.3f}" if d in line else "" for d in DELTAS)) for label, line in lines.items()]
    )
