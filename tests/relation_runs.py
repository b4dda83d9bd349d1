"""Relations over two streams that deliver in batches, and what the reference says of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from by_operators import bind_relation
from mullion import reference
from mullion.algebra.streams import Stream
from mullion.binding.entering import entering_at
from mullion.language.parse import parse_query
from mullion.language.types import BIGINT, STRING, TIMESTAMP
from mullion.options import DEFAULTS, Options
from mullion.runtime.intake import new_intake
from mullion.runtime.relation_run import RelationRun
from mullion.slices.finalize import Answers
from mullion.slices.kernels.events import TIME
from mullion.storage.files import CommittedFiles
from mullion.storage.journal import Journal
from mullion.storage.marks import Mark
from mullion.testing import Crash, crash_at

COLUMNS = (("ts", TIMESTAMP), ("k", STRING), ("v", BIGINT))
ARROW = {"ts": pa.timestamp("us", "UTC"), "k": pa.string(), "v": pa.int64()}
STREAMS = {name: Stream(name, COLUMNS, "ts") for name in ("a", "b")}
TEXTS = {
    "pairs": "SELECT a.k AS k, a.v AS x, b.v AS y FROM a [RANGE 9 us], b [RANGE 5 us] WHERE a.k = b.k AND a.v <= b.v",
    "alone": "SELECT k, v FROM a [RANGE 8 us SLIDE 3 us] x "
    "WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 4 us] y WHERE y.k = x.k)",
    "leaving": "SELECT k, v FROM a [RANGE 8 us] x WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 4 us] y WHERE y.k = x.k)",
    "keys": "SELECT DISTINCT a.k AS k FROM a [RANGE 6 us], b [ROWS 4] WHERE a.v = b.v",
    "counts": "SELECT a.k AS k, count(*) AS n, sum(b.v) AS total FROM a [RANGE 9 us SLIDE 2 us], b [RANGE 5 us] "
    "WHERE a.k = b.k GROUP BY a.k HAVING count(*) > 1",
    "new": "ISTREAM(SELECT a.k AS k FROM a [RANGE 9 us SLIDE 4 us] UNION ALL SELECT b.k AS k FROM b [RANGE 3 us])",
}
RELATIONS = {name: bind_relation(parse_query(text, name=name), STREAMS, {}) for name, text in TEXTS.items()}
Batches = Sequence[tuple[str, list[dict[str, Any]]]]


@dataclass
class Store:
    """A sink that keeps what was written under each mark, across runs."""

    written: dict[Mark, list[Answers]] = field(default_factory=dict)

    def write(self, stream: str, mark: Mark, answers: Sequence[Answers], part: int = 0) -> None:
        self.written[mark] = [*(self.written.get(mark, []) if part else []), *answers]

    def settle(self, stream: str) -> None:
        """Nothing is to be done then."""

    def committed(self, stream: str, mark: Mark) -> None:
        """Nor then."""

    def resume(self, committed: Mark | None) -> None:
        for mark in [m for m in self.written if committed is None or m > committed]:
            del self.written[mark]

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for mark in sorted(self.written):
            for answers in self.written[mark]:
                for query, table in answers:
                    if query == name:
                        columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
                        found += zip(*(c.to_pylist() for c in columns), strict=True)
        return sorted(found, key=repr)


def batches(seed: int, number: int = 14) -> Batches:
    """Batches of either stream in turn by chance, each stream in the order of time."""
    rnd = random.Random(seed)
    now = {"a": -5, "b": -7}
    found = []
    for _ in range(number):
        stream = rnd.choice("ab")
        events = []
        for _ in range(rnd.randrange(5)):
            now[stream] += rnd.choice([0, 0, 1, 1, 2, 5])
            events.append({"ts": now[stream], "k": rnd.choice(["x", "y", None]), "v": rnd.randrange(4)})
        found.append((stream, events))
    return found


def some_crashes(seed: int, number: int = 6) -> Iterator[tuple[str, int]]:
    rnd = random.Random(seed)
    for _ in range(number):
        yield rnd.choice(["before operators", "before commit", "after commit"]), rnd.randrange(1, 4)


class Source:
    """Streams with their intakes; what a stream has committed is there after a crash."""

    def __init__(self, base: Path, given: Batches) -> None:
        self.given = given
        self.intakes = {name: new_intake(CommittedFiles(base / name)) for name in STREAMS}
        self.newest: dict[str, int | None] = dict.fromkeys(STREAMS)
        self.done = 0

    def run(self, relations: RelationRun) -> None:
        """What a run before this one left, all batches that are not done, and the end."""
        for name in STREAMS:
            relations.receive(name, self.intakes[name].batches, self.newest[name])
        while self.done < len(self.given):
            self.deliver(relations)
        for name in STREAMS:
            relations.receive(name, self.intakes[name].batches, self.newest[name], ended=True)

    def run_through(self, crashes: Iterable[tuple[str, int]], started: Callable[[], RelationRun]) -> RelationRun:
        """As `run`, with runs that are killed at these steps when they come so often, each followed by another."""
        for step, occurrence in crashes:
            with crash_at(step, occurrence):
                try:
                    self.run(started())
                except Crash:
                    continue
            break
        relations = started()
        self.run(relations)
        return relations

    def deliver(self, relations: RelationRun) -> None:
        """The next batch: the stream commits it, then relations take it."""
        name, events = self.given[self.done]
        columns = {column: [event[column] for event in events] for column, _ in COLUMNS}
        table = pa.table({c: pa.array(values, ARROW[c]) for c, values in columns.items()})
        self.intakes[name].add(Mark(self.done), table.append_column(TIME, pa.array(columns["ts"], pa.int64())))
        times = [self.newest[name], *columns["ts"]]
        self.newest[name] = max([t for t in times if t is not None], default=None)
        self.done += 1
        relations.receive(name, self.intakes[name].batches, self.newest[name])
        self.intakes[name].forget_before(relations.now)


def expected(given: Batches) -> dict[str, list[tuple[Any, ...]]]:
    events = {name: [event for of, some in given if of == name for event in some] for name in STREAMS}
    return {n: sorted(reference.answer(r, STREAMS, events).rows, key=repr) for n, r in RELATIONS.items()}


def started(store: Store, journal: Path | None, options: Options = DEFAULTS, **more: Any) -> RelationRun:
    run = RelationRun(("a", "b"), store, options, journal=None if journal is None else Journal(journal), **more)
    run.restore()
    store.resume(run.committed)
    run.set_relations(list(RELATIONS.values()))
    return run


def check_one_that_enters_late(run: RelationRun, store: Store, source: Source) -> None:
    """A query that comes while another runs answers as if it had been alone from then on."""
    early = RELATIONS["counts"]
    run.set_relations([early])
    while source.done < 15:
        source.deliver(run)
    start = max(newest for newest in source.newest.values() if newest is not None) + 1
    late = entering_at(bind_relation(parse_query(TEXTS["counts"], name="late"), STREAMS, {}), start)
    run.set_relations([early, late])
    source.run(run)
    assert store.rows("counts") == expected(source.given)["counts"]
    assert store.rows("late") == [row for row in store.rows("counts") if row[0] >= start] != []
