"""Which part of an answer comes first where there is no time for all of it (ali 3).

    WITH PREFERENCE DESC estimate(s1.item), estimate(s2.item) FADE FACTOR 0.8 BUDGET '200 ms'

The paper's spelling is read, too: SUMMARY.Estimate.Count(x) is estimate(x), and WINDOW '1 min' at the end is the window
of all streams that have none.
"""

from __future__ import annotations

from mullion.errors import ParseError
from mullion.language.durations import time_span
from mullion.language.expressions import expression_list
from mullion.language.limits import MOST_ROWS
from mullion.language.literals import number
from mullion.language.query import Budget, Preference
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind

KINDS = ("asc", "desc", "weighted")
_CLAUSES = ("fade", "budget", "window")


def preference(c: TokenReader) -> Preference | None:
    """From WITH on; None where there is none."""
    start = c.at
    if not c.accept("with"):
        return None
    c.expect("preference")
    kind = c.word()
    if kind not in KINDS:
        raise c.expected("ASC, DESC or WEIGHTED", *KINDS)
    c.step()
    exprs = expression_list(c)
    fade, budget, window = None, None, None
    while (clause := c.word()) in _CLAUSES:
        at = c.at
        c.step()
        known: object = {"fade": fade, "budget": budget, "window": window}[clause]
        if known is not None:
            raise ParseError(f"{clause.upper()} is written twice", c.place(at))
        if clause == "fade":
            fade = _factor(c)
        elif clause == "budget":
            budget = _budget(c)
        else:
            window = time_span(c)
    return Preference(kind=kind, exprs=exprs, fade=fade, budget=budget, window=window, place=c.since(start))


def _factor(c: TokenReader) -> float:
    c.expect("factor")
    if c.token.kind is not Kind.NUMBER:
        raise c.expected("a number")
    start = c.at
    factor = float(number(c.step().text, c.place(c.at - 1)).value)
    if not 0 < factor <= 1:
        hint = "1 does not fade; 0.8 takes a fifth off for each older granularity"
        raise ParseError("FADE FACTOR is more than 0 and at most 1", c.since(start), hint=hint)
    return factor


def _budget(c: TokenReader) -> Budget:
    start = c.at
    if c.accept("auto"):
        return Budget(place=c.since(start))
    counts = c.token.kind is Kind.NUMBER and c.word(1) in ("rows", "events")
    if counts:
        amount = c.integer("a number of ROWS or EVENTS greater than zero", MOST_ROWS)
        unit = c.step().text.lower()
        return Budget(**{unit: amount}, place=c.since(start))
    if c.token.kind not in (Kind.STRING, Kind.NUMBER) and c.word() != "interval" and not c.word()[:1].isdigit():
        raise c.expected("a time a step such as '200 ms', a number of ROWS or EVENTS, or AUTO", "auto")
    return Budget(time=time_span(c), place=c.since(start))
