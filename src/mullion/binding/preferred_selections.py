"""WITH PREFERENCE over the rows of a selection: those that promise most are told first (ali 5.2).

    SELECT ts, item FROM s [RANGE '1 min'] WHERE price > 3 WITH PREFERENCE DESC estimate(s.item) BUDGET 100 ROWS

    Promising(Filter(Scan(s)), desc, (#estimate,), 100 rows, counted by item)

estimate(x) is how many rows of the selection have the value x in its window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mullion.algebra.nodes import Node, Promising, scans
from mullion.binding.layouts import Layout
from mullion.binding.promises import SummaryOn, ages_of, create_hint, promised
from mullion.errors import CheckError, NotSupported
from mullion.expressions.shared import shared
from mullion.language.query import Budget, Call, Column, Expr, Preference


def preferred_rows(layout: Layout, preference: Preference, summaries: Sequence[SummaryOn]) -> Promising:
    """The rows of a selection, the most promising first where there is no time for all."""
    counting = _Counting(layout.node, summaries)
    exprs = dict.fromkeys(layout.plain(expr) for expr in preference.exprs)
    if len(exprs) > 1:
        hint = "write one, such as estimate(s.x) * s.price"
        raise CheckError("WITH PREFERENCE has several expressions for one row", preference.exprs[1].place, hint=hint)
    (placed,) = exprs
    promise = promised(placed, layout.node.types, counting.see, preference.exprs[0].place)
    fade = 1.0 if preference.fade is None else preference.fade
    summary = counting.summary()
    memory = None if summary is None else summary.memory
    if fade != 1 and summary is None:
        stream = scans(layout.node)[0]
        hint = create_hint(stream.stream, stream.columns[-1][0])
        message = "FADE needs the granularities of a summary, and no summary is on a column of the selection"
        raise CheckError(message, preference.place, hint=hint)
    ages = () if summary is None or (fade == 1 and memory is None) else ages_of(summary)
    budget = replace(preference.budget or Budget(), place=None)
    return Promising(layout.node, preference.kind, (promise,), budget, fade, (ages,), memory, counting.column)


class _Counting:
    """Which column of the rows is counted, and the summaries on their streams."""

    def __init__(self, node: Node, summaries: Sequence[SummaryOn]) -> None:
        self.node, self.summaries = node, summaries
        self.column: Expr | None = None

    def see(self, call: Call) -> None:
        """Check what an estimate is about: a column of a stream that a summary counts, and always the same."""
        (own,) = call.args
        origin = self.node.traced(own) if isinstance(own, Column) else None
        if origin is None or not isinstance(origin[1], Column):
            hint = "use a column that has a summary"
            raise CheckError("estimate takes a column of a stream", call.place, hint=hint)
        stream, column = origin[0].stream, origin[1].name
        if not any((summary.stream, summary.column) == (stream, column) for summary in self.summaries):
            raise CheckError(f"no summary counts '{column}' of {stream}", call.place, hint=create_hint(stream, column))
        plain = shared(Column(own.name)) if isinstance(own, Column) else own
        if self.column not in (None, plain):
            hint = "use estimates of one column"
            raise NotSupported("estimates of several columns in one PREFERENCE", call.place, hint=hint)
        self.column = plain

    def summary(self) -> SummaryOn | None:
        """The one that counts what is asked for; where nothing is, the first on a stream of the selection."""
        if self.column is not None:
            origin = self.node.traced(self.column)
            assert origin is not None and isinstance(origin[1], Column)
            wanted = {(origin[0].stream, origin[1].name)}
            found = [summary for summary in self.summaries if (summary.stream, summary.column) in wanted]
        else:
            streams = {scan.stream for scan in scans(self.node)}
            found = [summary for summary in self.summaries if summary.stream in streams]
        return found[0] if found else None
