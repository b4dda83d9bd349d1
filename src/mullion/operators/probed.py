"""GROUP BY over a join, answered from a synopsis that it shares with others (see `join_synopsis`).

What it gives is what `aggregated` would give over the results of its own windows. It holds none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mullion.algebra.nodes import Aggregated
from mullion.errors import CheckpointError
from mullion.expressions.arrays import Index, Times
from mullion.instants import THE_END
from mullion.language.render import duration_text
from mullion.operators.aggregated import AggregatedOperator
from mullion.operators.base import Operator, Parts
from mullion.operators.construction import DEFAULT, Construction
from mullion.operators.join_synopsis import StepAnswers
from mullion.operators.ranked_instants import Periodic
from mullion.operators.registry import implements
from mullion.operators.timed_rows import Delta, Retractions


class ProbedOperator(AggregatedOperator):
    picks_columns = True

    def __init__(self, node: Aggregated, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> None:
        super().__init__(node, inputs, construction)
        assert node.slide is not None and node.synopsis is not None
        self._synopsis, self._window = node.synopsis, node.probe
        self._periodic = Periodic(node.slide, node.offset)

    def structures(self) -> dict[str, str]:
        own, number = self._synopsis, len(self._synopsis.probes)
        cells = f"join synopsis of {duration_text(own.grid.step)} by expiry, at most {own.cells} cells for a group"
        shared = f", the same for {number} different windows (SS3), in one walk (CS5) or by intervals of cells"
        return {"input": cells + (shared if number > 1 else "")}

    def restore(self, parts: Parts) -> None:
        if any(parts.get("rows", ())):
            hint = "finish it with the version of Mullion that made it, or start with a new checkpoint directory"
            message = "the checkpoint has aggregates over joins that keep rows of their own, as an earlier version did"
            raise CheckpointError(message, hint=hint)
        super().restore(parts)

    def advance(self, inputs: Sequence[Delta], now: int) -> Delta:
        answers, clock = inputs[0].probed, self._periodic.every(self.stretch)
        assert answers is not None
        low = clock.due(self._known_until) + 1
        ended, self._known_until = now >= THE_END, now
        rank, group = answers.groups(self._window)
        arrays: list[pa.ChunkedArray] = []
        if self.node.keys:
            at: Index = np.arange(len(rank))
            arrays = [column.take(pa.array(group)) for column in answers.keys.columns]
        else:
            high = self._last_instant(clock) if ended else clock.due(now)
            first = -(-self._occupancy.first // self.stretch)
            rank, at = _with_empty(rank, np.arange(max(low, first), high + 1))
        table = pa.table([*arrays, *self._lowered(answers, at)], schema=self.schema)
        start = clock.time(rank) - 1
        return Delta(self._numbered(table, start, start + self._periodic.slide), Retractions.none(1), now)

    def _lowered(self, answers: StepAnswers, at: Index) -> list[pa.Array]:
        """The aggregates, at the instants of which the states are there or are those of nothing."""
        lowered = []
        for bound in self.node.aggregates:
            states = answers.states(self._window, bound, or_nothing=not self.node.keys)
            if not self.node.keys:
                states = [tuple(vector.take(at) for vector in state) for state in states]
            lowered.append(bound.aggregate.lower(bound.argument_type, states).to_arrow())
        return lowered


def _with_empty(found: Times, wanted: Times) -> tuple[Times, Index]:
    """All wanted instants, and the place of each among those that were found, or behind them.

    >>> [own.tolist() for own in _with_empty(np.array([4, 6]), np.array([4, 5, 6]))]
    [[4, 5, 6], [0, 2, 1]]
    """
    at = np.searchsorted(found, wanted)
    is_found = np.append(found, THE_END)[at] == wanted
    return wanted, np.where(is_found, at, len(found))


@implements(Aggregated)
def aggregated_operator(node: Aggregated, inputs: Sequence[Operator], construction: Construction = DEFAULT) -> Operator:
    """Aggregates that stand on a synopsis ask it, others keep the rows of their input."""
    return (AggregatedOperator if node.synopsis is None else ProbedOperator)(node, inputs, construction)
