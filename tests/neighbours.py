"""Random trials of one sentence: what a query answers does not depend on who comes and goes beside it.

    alone    q ------------------------------>        the same answers
    among    q -------------------------------->
             p ------x      o--------x    o--->       x leaves, o enters; the engine may be restarted too

Neighbours are mostly variations of the query, with windows of other lengths and other conditions: these share state.
No reference is needed, so that anything may be asked.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import any_relation
from any_relation import KEYS, ORIGINS, STREAMS, VALUE, VALUES
from mullion.errors import NotSupported
from without_spark import EngineWithoutSpark

Batch = Mapping[str, list[dict[str, Any]]]
"""Events by stream."""


BACKFILL = " BACKFILL"
LIVES = "inserted_at", "expires_at"


class Change(NamedTuple):
    """A query that enters, or one that leaves."""

    name: str
    enters: bool


@dataclass(frozen=True)
class Course:
    """What comes, and before which batch queries come and go and the engine is stopped and started again. When it is
    `down`, they come and go before it is started."""

    batches: Sequence[Batch]
    changes: Mapping[int, Sequence[Change]] = field(default_factory=dict)
    restarts: frozenset[int] = frozenset()
    down: frozenset[int] = frozenset()


# What is asked


def aggregate(dice: Random) -> str:
    """Over one stream."""
    stream = dice.choice("abc")
    value = VALUE[stream]
    functions = "count(*)", "sum({})", "max({})", "avg({})", "median({})", "count(DISTINCT {})", "first({})"
    conditions = "", " WHERE {} > 0.5", " WHERE k = 1", " WHERE k = 1 OR {} < 1.0"
    windows = (
        f"[RANGE {dice.randint(1, 14)} us SLIDE {dice.randint(1, 9)} us]",
        f"[ROWS {dice.randint(1, 5)} SLIDE {dice.randint(1, 4)}]",
        f"[RANGE {dice.randint(1, 14)} us]",
    )
    key, group = dice.choice((("", ""), ("k, ", " GROUP BY k")))
    selected, condition = (dice.choice(texts).format(value) for texts in (functions, conditions))
    return f"SELECT {key}{selected} AS n FROM {stream} {dice.choice(windows)}{condition}{group}"


def aggregate_of_join(dice: Random) -> str:
    first, second = dice.sample("abc", 2)
    slide = dice.choice(("", *(f" SLIDE {slide} us" for slide in (2, 3, 5))))
    windows = [f"[RANGE {dice.randint(1, 14)} us{slide}]" for _ in range(2)]
    selected = dice.choice(("count(*) AS n", f"sum(y.{VALUE[second]}) AS n, max(x.{VALUE[first]}) AS m"))
    condition = dice.choice(("", f" AND x.{VALUE[first]} > 0.5"))
    return (
        f"SELECT x.k AS k, {selected} FROM {first} {windows[0]} x, {second} {windows[1]} y "
        f"WHERE x.k = y.k{condition} GROUP BY x.k"
    )


def query(dice: Random) -> str:
    kind = dice.random()
    if kind < 0.25:
        return aggregate(dice)
    if kind < 0.5:
        text = aggregate_of_join(dice)
    else:
        internals = dice.random() < 0.3
        text = any_relation.relation(dice, dice.choice((0, 1, 1, 2)), lives=False, tables=False, internals=internals)
    return any_relation.scheduled(text) if dice.random() < 0.3 else text


def varied(dice: Random, text: str) -> str:
    """The same over windows of other lengths, and perhaps with another condition."""
    text = re.sub(r"RANGE \d+ us", lambda m: f"RANGE {dice.randint(1, 15)} us" if dice.random() < 0.6 else m[0], text)
    if dice.random() < 0.3:
        text = re.sub(r"\bx\.\w+ > 0\.5", "x.ts IS NOT NULL", text)
    text = re.sub(r"> 0.5", dice.choice(("> 0.0", "> 0.5", "> 0.9")), text)
    return re.sub(r"\[ROWS \d+", lambda m: f"[ROWS {dice.randint(1, 5)}" if dice.random() < 0.3 else m[0], text)


# What comes, and who


def batches(dice: Random) -> list[Batch]:
    made, time = [], dice.choice(ORIGINS)
    for _ in range(dice.randint(3, 8)):
        batch: dict[str, list[dict[str, Any]]] = {name: [] for name in STREAMS}
        for _ in range(dice.randint(0, 6)):
            time += dice.choice((0, 1, 1, 2, 3, 9))
            stream = dice.choice("aabbc")
            batch[stream].append({"ts": time, "k": dice.choice(KEYS), VALUE[stream]: dice.choice(VALUES)})
        made.append(batch)
    return made


def changes(dice: Random, number: int) -> dict[int, list[Change]]:
    """q0 stays, q1 may leave, the others come and go."""
    there, made = {"q1"}, {}
    for batch in range(1, number):
        made[batch] = [Change(name, name not in there) for name in ("q2", "q3", "q4") if dice.random() < 0.3]
        made[batch] += [Change("q1", enters=False)] if "q1" in there and dice.random() < 0.1 else []
        there ^= {change.name for change in made[batch]}
    return made


# How it is played


def script() -> str:
    return "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, k INT, {VALUE[name]} DOUBLE) "
        f"USING parquet OPTIONS (path '/nowhere/{name}') TIMESTAMP BY ts KEEP '1 h';"
        for name in STREAMS
    )


def start(queries: Mapping[str, str], folder: Path | None) -> EngineWithoutSpark:
    kept = {} if folder is None else {"checkpoint": folder / "checkpoint", "out": folder / "out"}
    engine = EngineWithoutSpark(**kept)
    engine.execute(script() + "".join(queries.values()))
    engine.start()
    return engine


def answers(queries: Mapping[str, str], first: set[str], course: Course, folder: Path | None) -> dict[str, list[str]]:
    """What those that stay to the end have answered. When rows came and go is left out for those that enter: it may
    depend on events before, which only neighbours have seen."""
    there = {name: text for name, text in queries.items() if name in first}
    engine = start(there, folder)
    try:
        for number, batch in enumerate(course.batches):
            changes = course.changes.get(number, ())
            after = there.keys() ^ {change.name for change in changes}
            if number in course.restarts:
                engine.close()
                there = {name: queries[name] for name in after} if number in course.down else there
                engine = start(there, folder)
            for change in changes if number not in course.down else ():
                engine.execute(queries[change.name] if change.enters else f"DROP QUERY {change.name};")
            there = {name: queries[name] for name in after}
            for stream, events in batch.items():
                engine.deliver(stream, events, number)
        for stream in STREAMS:
            engine.end(stream)
        tables = {name: engine.results(name).to_arrow() for name in there}
        for name in tables.keys() - first:
            lives = [column for column in LIVES if column in tables[name].column_names]
            tables[name] = tables[name].drop_columns(lives)
        return {name: sorted(map(repr, table.to_pylist())) for name, table in tables.items()}
    finally:
        engine.close()


def trial(seed: int) -> None:
    """One that stays, and those that entered once, answer the same alone and among others."""
    dice = Random(seed)
    given, family = batches(dice), query(dice)
    texts = [varied(dice, family) if dice.random() < 0.7 else query(dice) for _ in range(5)]
    queries = {
        f"q{i}": f"CREATE QUERY q{i}{dice.choice(('', '', BACKFILL))} AS {text};" for i, text in enumerate(texts)
    }
    course = Course(given, changes(dice, len(given)))
    if dice.random() < 0.4:
        restarts = frozenset(number for number in range(1, len(given)) if dice.random() < 0.3)
        down = frozenset(number for number in restarts if dice.random() < 0.5)
        course = Course(given, course.changes, restarts, down)
    try:
        with tempfile.TemporaryDirectory() as folder:
            among = answers(queries, {"q0", "q1"}, course, Path(folder) if course.restarts else None)
    except NotSupported as refusal:
        assert "BACKFILL of query 'q" in str(refusal), refusal
        return
    told = {name: (queries[name], course) for name in queries}
    assert among["q0"] == answers(queries, {"q0"}, Course(given), None)["q0"], told["q0"]
    for name in among.keys() - {"q0", "q1"}:
        entered = [number for number, made in course.changes.items() if Change(name, True) in made]
        if len(entered) == 1:
            alone = Course(given, {entered[0]: [Change(name, enters=True)]})
            assert among[name] == answers(queries, set(), alone, None)[name], told[name]
