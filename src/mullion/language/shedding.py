"""What a stream may leave out: `WHEN BEHIND SHED RANDOM AT MOST 50 PERCENT MARK EXACT`, `MEMORY 1000 ROWS SHED OLDEST`.

| clause | short is | what is lost |
|---|---|---|
| WHEN BEHIND SHED RANDOM, BY x | time | events, before any query sees them |
| WHEN BEHIND SHED PROBES | time | pairs of joins: events are kept, but joins do not look for the partners of some |
| MEMORY n ROWS SHED OLDEST, RAREST | memory | pairs of joins: rows leave the windows of joins before their time |

The last two are golab 2.4.3's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mullion.errors import ParseError, Place
from mullion.language.expressions import expression
from mullion.language.limits import MOST_ROWS
from mullion.language.query import Expr
from mullion.language.token_reader import TokenReader
from mullion.language.tokens import Kind

MOST = 99.0
"""Percent of a batch that are shed at most, where a stream does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shedding:
    """Events are left out at random, or those with the least value of an expression first."""

    by: Expr | None = None
    """What an event matters, in numbers; None where chance decides."""
    probes: bool = False
    """Whether all events are kept, and joins do not probe with some of them."""
    most: float = MOST
    """Percent of a batch that may be left out."""
    marks: bool = False
    """Exact queries are answered of the events that were kept, and marked; otherwise they are refused."""
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def drops_events(self) -> bool:
        """Whether events are lost for every query, and not only pairs of joins."""
        return not self.probes

    @property
    def heaviest(self) -> float:
        """How many events that came one that is kept may stand for."""
        return 100 / (100 - self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinMemory:
    """How many rows of a stream each window of a join keeps, and which go first where there are more."""

    rows: int
    rarest: bool = False
    """Whether those with the fewest expected partners go first; otherwise those that leave soonest."""
    marks: bool = False
    """Exact queries are answered of the rows that were kept, and marked; otherwise they are refused."""
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)


def join_memory(c: TokenReader) -> JoinMemory:
    """From what follows MEMORY on."""
    start = c.at
    rows = c.integer("a number of ROWS greater than zero", MOST_ROWS)
    if not c.accept("row"):
        c.expect("rows")
    rarest = False
    if c.accept("shed"):
        rarest = bool(c.accept("rarest"))
        if not rarest and not c.accept("oldest"):
            raise c.expected("OLDEST or RAREST", "oldest", "rarest")
    return JoinMemory(rows=rows, rarest=rarest, marks=_marks(c), place=c.since(start))


def when_behind(c: TokenReader) -> Shedding | None:
    """From BEHIND on."""
    c.expect("behind")
    return shed_or_wait(c)


def shed_or_wait(c: TokenReader) -> Shedding | None:
    """From what follows BEHIND on. None for WAIT: nothing is ever lost."""
    start = c.at
    if c.accept("wait"):
        return None
    if not c.accept("shed"):
        raise c.expected("WAIT or SHED", "wait", "shed")
    by, probes = None, bool(c.accept("probes"))
    if not probes and c.accept("by"):
        by = expression(c)
    elif not probes and not c.accept("random"):
        raise c.expected("RANDOM, BY and what events matter, or PROBES", "random", "by", "probes")
    most = MOST
    if c.accept("at"):
        c.expect("most")
        most = _percent(c)
    return Shedding(by=by, probes=probes, most=most, marks=_marks(c), place=c.since(start))


def _marks(c: TokenReader) -> bool:
    """MARK EXACT or, as without either, REFUSE EXACT."""
    marks = c.word() == "mark"
    if marks or c.word() == "refuse":
        c.step()
        c.expect("exact")
    return marks


def _percent(c: TokenReader) -> float:
    at = c.at
    if c.token.kind is not Kind.NUMBER:
        raise c.expected("a number of PERCENT")
    try:
        percent = float(c.token.text)
    except ValueError:
        raise c.expected("a number of PERCENT") from None
    c.step()
    c.expect("percent")
    if not 0 < percent < 100:
        hint = "a share of the events must stay: write AT MOST 90 PERCENT"
        raise ParseError("AT MOST is more than 0 and less than 100 PERCENT", c.since(at), hint=hint)
    return percent
