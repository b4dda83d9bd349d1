"""In which order a join of many windows probes them (golab 5.3).

All streams follow one global order: a new event of S_i goes through the windows of all the others in that order, as
nested loops.

    global order S2, S1, S3:    an event of S2 probes S1, then S3
                                an event of S1 probes S2, then S3
                                an event of S3 probes S2, then S1

What an order costs is the number of tuples that are looked at in a unit of time. Putting windows into the state and
taking them out costs the same in every order, and is left out. As usual, values are taken to be evenly spread, and the
stream with fewer values to have none that the others have not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

JoinOrder = tuple[int, ...]
"""Numbers of inputs, the first to be probed first."""

MOST_TRIED = 4096
"""Orders that the heuristic compares at most: with more fast streams, only the fastest of them are moved."""


@dataclass(frozen=True)
class StreamStats:
    """What is known of one input of a join: events a unit of time, the window's length in that unit, and the different
    values of the join's key in the window. `buckets` of the hash table that holds the window; 1 without one.

    >>> StreamStats(10, 100, 500).size
    1000
    """

    rate: float
    length: float
    distinct: float
    buckets: float = 1

    @property
    def size(self) -> float:
        """Tuples in the window: lambda T."""
        return self.rate * self.length

    @property
    def scanned(self) -> float:
        """Tuples that a probe looks at: those of one bucket."""
        return self.size / self.buckets


def result_size(streams: Iterable[StreamStats]) -> float:
    """phi, how many results the join of these windows has (5.3.1).

    >>> result_size([StreamStats(10, 100, 500), StreamStats(1, 100, 50), StreamStats(1, 200, 40)])
    800.0
    """
    size, distinct = 1.0, None
    for stream in streams:
        size *= stream.size
        if distinct is None:
            distinct = stream.distinct
            continue
        size /= max(distinct, stream.distinct)
        distinct = min(distinct, stream.distinct)
    return size


def probing_order(order: JoinOrder, arriving: int) -> JoinOrder:
    """The windows that an event of input `arriving` goes through.

    >>> probing_order((2, 1, 3), 3)
    (2, 1)
    """
    return tuple(i for i in order if i != arriving)


def arrival_cost(streams: Sequence[StreamStats], order: JoinOrder, arriving: int) -> float:
    """X_i, what events of one input cost in a unit of time.

    Each event looks at one bucket of the first window, and for each result so far at one of the next.
    """
    own = streams[arriving]
    results, distinct, cost = 1.0, own.distinct, 0.0
    for i in probing_order(order, arriving):
        probed = streams[i]
        cost += results * probed.scanned
        results *= probed.size / max(distinct, probed.distinct)
        distinct = min(distinct, probed.distinct)
    return own.rate * cost


def order_cost(streams: Sequence[StreamStats], order: JoinOrder) -> float:
    """The sum of all X_i."""
    return sum(arrival_cost(streams, order, arriving) for arriving in order)


def by_selectivity(streams: Sequence[StreamStats]) -> JoinOrder:
    """The initial order of 5.3.2: pairs by the size of their join, smallest first; each brings the streams that are not
    there yet. Of the first pair, the one with more different values goes first, since it lets fewer results through."""
    pairs = sorted(combinations(range(len(streams)), 2), key=lambda p: result_size(streams[i] for i in p))
    order: list[int] = []
    for pair in pairs:
        new = [i for i in pair if i not in order]
        order += sorted(new, key=lambda i: (-streams[i].distinct, streams[i].size, i))
    return tuple(order) if pairs else tuple(range(len(streams)))


def fast_streams(streams: Sequence[StreamStats]) -> list[int]:
    """Those above the mean rate, the fastest first."""
    mean = sum(s.rate for s in streams) / len(streams)
    return sorted((i for i, s in enumerate(streams) if s.rate > mean), key=lambda i: (-streams[i].rate, i))


def orders_tried(streams: Sequence[StreamStats]) -> Iterator[JoinOrder]:
    """The initial order, and every order in which fast streams are moved up from it: about n^f."""
    tried = {by_selectivity(streams)}
    yield from tried
    for fast in fast_streams(streams):
        untried = {moved for order in sorted(tried) for moved in _moved_up(order, fast)} - tried
        if len(tried) + len(untried) > MOST_TRIED:
            return
        yield from sorted(untried)
        tried |= untried


def _moved_up(order: JoinOrder, stream: int) -> Iterator[JoinOrder]:
    without = tuple(i for i in order if i != stream)
    for place in range(order.index(stream)):
        yield (*without[:place], stream, *without[place:])


@dataclass(frozen=True)
class ChosenOrder:
    """The order that costs least of those that were tried."""

    order: JoinOrder
    cost: float
    initial: JoinOrder
    initial_cost: float
    tried: int


def choose_order(streams: Sequence[StreamStats]) -> ChosenOrder:
    """The heuristic of 5.3.2: order by selectivity, then try the orders with fast streams further up, and take the
    cheapest.

    Requires: rates and different values of every input, as observed or assumed.
    Time: O(n^(f + 2)) for n inputs of which f are fast, f limited so that at most 4,096 orders are tried; all orders
    would be n!.
    Guarantee: never dearer than the order by selectivity alone.

    >>> slow = [StreamStats(1, 100, 100), StreamStats(1, 100, 8), StreamStats(1, 100, 5)]
    >>> choose_order([StreamStats(10, 100, 40), *slow]).order
    (1, 0, 2, 3)
    """
    costs = {order: order_cost(streams, order) for order in orders_tried(streams)}
    initial = next(iter(costs))
    best = min(costs, key=lambda order: costs[order])
    return ChosenOrder(best, costs[best], initial, costs[initial], len(costs))
