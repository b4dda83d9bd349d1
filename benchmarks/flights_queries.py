"""Varied standing queries over flights, seeded: the kind of set that a team has after some months.

One query is text for Mullion, for DuckDB and for Spark, and an expression for polars, all with the same answers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import gcd

MINUTE = 60_000_000
KEYS = ((), ("origin",), ("destination",), ("origin", "destination"))
VALUES = ("delay", "distance", "delay * 60", "distance - delay", "delay * delay")
HOLISTIC = ("median", "distinct")
EXPANDED_UP_TO = 4
"""In how many windows an event may be before DuckDB is better off with panes."""


@dataclass(frozen=True)
class Aggregate:
    kind: str
    """count, sum, avg, min, max, median or distinct."""
    value: str = ""

    @property
    def text(self) -> str:
        match self.kind:
            case "count":
                return "count(*)"
            case "distinct":
                return f"count(DISTINCT {self.value})"
            case _:
                return f"{self.kind}({self.value})"


@dataclass(frozen=True)
class FlightQuery:
    """Columns of the answer: window_start, window_end, the keys, a0, a1, .."""

    keys: tuple[str, ...]
    range: int
    slide: int
    where: str
    aggregates: tuple[Aggregate, ...]
    having: int | None
    """At least so many flights."""
    limit: int | None
    """The groups with the largest a0, ties by key."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.keys, *(f"a{i}" for i in range(len(self.aggregates))))

    @property
    def is_holistic(self) -> bool:
        return any(aggregate.kind in HOLISTIC for aggregate in self.aggregates)

    @property
    def _order(self) -> str:
        return ", ".join(("a0 DESC", *self.keys))

    def mullion(self) -> str:
        items = [*self.keys, *(f"{aggregate.text} AS a{i}" for i, aggregate in enumerate(self.aggregates))]
        window = f"[RANGE '{self.range // MINUTE} min' SLIDE '{self.slide // MINUTE} min']"
        text = f"SELECT {', '.join(items)} FROM flights {window}"
        text += f" WHERE {self.where}" if self.where else ""
        text += f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        text += f" HAVING count(*) >= {self.having}" if self.having is not None else ""
        return text + (f" ORDER BY {self._order} LIMIT {self.limit}" if self.limit is not None else "")

    def duckdb(self) -> str:
        """As an expert writes it: events in few windows are copied to each, otherwise panes are."""
        if self.is_holistic or self.range <= EXPANDED_UP_TO * self.slide:
            items = [f"{aggregate.text} AS a{i}" for i, aggregate in enumerate(self.aggregates)]
            return self._windows(
                f"(SELECT * FROM flights{f' WHERE {self.where}' if self.where else ''})", items, "count(*)"
            )
        pane = gcd(self.range, self.slide)
        parts, items = ["count(*) AS n"], []
        for i, aggregate in enumerate(self.aggregates):
            match aggregate.kind:
                case "count":
                    items.append(f"sum(n) AS a{i}")
                case "avg":
                    parts.append(f"sum({aggregate.value}) AS v{i}")
                    items.append(f"sum(v{i}) / sum(n) AS a{i}")
                case kind:
                    parts.append(f"{aggregate.text} AS v{i}")
                    items.append(f"{kind}(v{i}) AS a{i}")
        where = f" WHERE {self.where}" if self.where else ""
        own = ", ".join((f"us // {pane} * {pane} AS us", *self.keys, *parts))
        by = ", ".join((f"us // {pane}", *self.keys))
        return self._windows(f"(SELECT {own} FROM flights{where} GROUP BY {by})", items, "sum(n)")

    def _windows(self, source: str, items: list[str], count: str) -> str:
        end = f"(us // {self.slide} + 1 + later) * {self.slide}"
        later = f"range({-(-self.range // self.slide)}) AS windows(later)"
        select = ", ".join((f"{end} AS window_end", *self.keys, *items))
        by = ", ".join((end, *self.keys))
        text = f"SELECT {select} FROM {source}, {later} WHERE us >= {end} - {self.range} GROUP BY {by}"
        text += f" HAVING {count} >= {self.having}" if self.having is not None else ""
        if self.limit is None:
            return text
        rank = f"row_number() OVER (PARTITION BY window_end ORDER BY {self._order})"
        return f"SELECT * FROM ({text}) QUALIFY {rank} <= {self.limit}"

    def spark(self) -> str:
        """Spark's windows start where ours do when they are shifted by what the slide leaves of the range."""
        start = -self.range % self.slide // MINUTE
        window = f"window(ts, '{self.range // MINUTE} minutes', '{self.slide // MINUTE} minutes', '{start} minutes')"
        items = [*self.keys, *(f"{aggregate.text} AS a{i}" for i, aggregate in enumerate(self.aggregates))]
        text = f"SELECT window.end AS window_end, {', '.join(items)} FROM flights"
        text += f" WHERE {self.where}" if self.where else ""
        text += f" GROUP BY {', '.join((window, *self.keys))}"
        return text + (f" HAVING count(*) >= {self.having}" if self.having is not None else "")


def query_set(number: int, *, seed: int) -> list[FlightQuery]:
    """So many varied queries; a smaller set is the beginning of a larger one."""
    dice = random.Random(seed)
    return [_query(dice) for _ in range(number)]


def _query(dice: random.Random) -> FlightQuery:
    keys = dice.choice(KEYS)
    range_, slide = dice.randint(30, 3 * 1440) * MINUTE, dice.randint(20, 1440) * MINUTE
    aggregates = tuple(_aggregate(dice) for _ in range(dice.randint(1, 3)))
    conditions = [_condition(dice) for _ in range(dice.randint(0, 3))]
    where = ""
    for condition in conditions:
        text = f"NOT ({condition})" if dice.random() < 0.2 else condition
        where = text if not where else f"({where} {dice.choice(('AND', 'AND', 'OR'))} {text})"
    having = dice.randint(2, 50) if keys and dice.random() < 0.2 else None
    limit = dice.randint(1, 10) if keys and dice.random() < 0.15 else None
    return FlightQuery(keys, slide if dice.random() < 0.2 else range_, slide, where, aggregates, having, limit)


def _aggregate(dice: random.Random) -> Aggregate:
    if dice.random() < 0.05:
        return dice.choice((Aggregate("median", "delay"), Aggregate("distinct", "destination")))
    kind = dice.choice(("count", "sum", "avg", "min", "max"))
    return Aggregate(kind, "" if kind == "count" else dice.choice(VALUES))


def _condition(dice: random.Random) -> str:
    airport = dice.choice(("ATL", "ORD", "DFW", "LAX", "PHX", "SEA", "BOS", "SFO"))
    return dice.choice(
        (
            f"delay > {dice.randint(-10, 60)}",
            f"delay < {dice.randint(0, 120)}",
            f"distance BETWEEN {dice.randint(100, 500)} AND {dice.randint(600, 2500)}",
            f"distance >= {dice.randint(200, 2000)}",
            f"delay * 2 > distance - {dice.randint(0, 500)}",
            f"origin = '{airport}'",
            f"destination <> '{airport}'",
            f"origin IN ('{airport}', 'DEN', 'JFK')",
            f"destination LIKE '{airport[0]}%'",
            f"origin < '{airport}'",
        )
    )
