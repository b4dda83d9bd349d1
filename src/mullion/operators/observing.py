"""What a network at work shows of its streams: rates, and how many different keys windows hold; and the orders of its
joins, chosen anew from that between steps (golab 5.3).

    step --> see(events) --> reorder(network) --> step

Results do not depend on the order in which a join probes its inputs, so it may change at any step, and need not survive
a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mullion.algebra.nodes import Join
from mullion.language.render import render
from mullion.operators.join import JoinOperator
from mullion.operators.network import Events, Network
from mullion.operators.row_store import RowStore
from mullion.planner.probing_orders import probing_orders
from mullion.planner.relation_stats import Stats

REMEMBERED = 0.8
"""How much of the rate so far counts a step later."""
EVERY = 8
"""Orders are reconsidered at every so many steps."""
SECOND = 1_000_000


@dataclass
class Observing:
    """Statistics that follow the streams."""

    rates: dict[str, float] = field(default_factory=dict)
    """Events a second."""
    steps: int = 0
    _last: dict[str, int] = field(default_factory=dict)

    def see(self, events: Mapping[str, Events]) -> None:
        """The events of a step: how many came since the last event of the step before."""
        self.steps += 1
        for stream, seen in events.items():
            if len(seen.times):
                self._see(stream, int(seen.times[0]), int(seen.times[-1]), len(seen.times))

    def _see(self, stream: str, first: int, last: int, count: int) -> None:
        span = last - self._last.get(stream, first)
        self._last[stream] = last
        if span > 0:
            rate = count * SECOND / span
            known = self.rates.get(stream, rate)
            self.rates[stream] = REMEMBERED * known + (1 - REMEMBERED) * rate

    def stats(self, network: Network) -> Stats:
        """Rates, and the different keys in the windows of joins that stand on streams."""
        distinct: dict[tuple[str, str], float] = {}
        for node, working in network.working.items():
            if isinstance(node, Join) and isinstance(working.operator, JoinOperator):
                for part, keys, store in zip(node.parts, node.keys, working.operator.stores, strict=True):
                    found = part.traced(keys[0]) if len(keys) == 1 else None
                    if found is not None and store.held:
                        name = found[0].stream, render(found[1])
                        distinct[name] = max(distinct.get(name, 0.0), different(store))
        return Stats(dict(self.rates), distinct)

    def reorder(self, network: Network) -> None:
        """Let every join of more than two inputs probe them in the order that now seems best."""
        joins = [
            (node, working.operator)
            for node, working in network.working.items()
            if isinstance(node, Join) and len(node.parts) > 2
        ]
        if not joins or (self.steps - 1) % EVERY:
            return
        stats = self.stats(network)
        for node, operator in joins:
            assert isinstance(operator, JoinOperator)
            operator.orders = dict(probing_orders(node, stats))


def different(store: RowStore) -> float:
    """Different keys of a store, judged by its largest sub-window, whose keys are in order."""
    codes = max((window.keys.codes for window in store.windows), key=len)
    share = store.held / len(codes)
    found = 1 + int(np.count_nonzero(codes[1:] != codes[:-1]))
    return found * share if found == len(codes) else float(found)


__all__ = ["Observing", "different"]
