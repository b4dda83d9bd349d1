"""Windows that hop: events between them are not kept, and nobody is answered from what lacks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from by_slices import bind
from moving_clusters import moving_clusters
from mullion import reference
from mullion.algebra.streams import Stream
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.language.types import INT, STRING, TIMESTAMP
from mullion.options import Way
from mullion.planner.sliced import SlicedAggregation
from mullion.runtime import sharding_choice
from mullion.runtime.stream_run import StreamRun
from mullion.slices import tier as tiers
from mullion.storage.journal import Journal
from mullion.testing import Crash, crash_at
from runtime.test_core_differential import Manner, Rows, Run, assert_same, cut, disorder, rows_of
from strategies import Draw, Event

STREAM = Stream("s", (("ts", TIMESTAMP), ("k", STRING), ("x", INT)), "ts")
HOPPING = ("RANGE 3 us SLIDE 7 us", "RANGE 2 us SLIDE 5 us", "RANGE 3 us SLIDE 7 us OFFSET 2 us",
           "RANGE 1 us SLIDE 4 us", "RANGE 2 us SLIDE 7 us OFFSET -1 us",
           "RANGE 3 us SLIDE 14 us", "RANGE 40 us SLIDE 50 us")  # fmt: skip
OTHERS = ("RANGE 7 us SLIDE 7 us", "RANGE 10 us SLIDE 5 us")
ITEMS = ("count(*) AS n, sum(x) AS t", "max(x) AS m, count(x) AS n", "count(DISTINCT x) AS d", "last(x) AS l",
         "sum(x + 2147483600) AS o")  # fmt: skip
WHERE = ("", "", " WHERE x > 0", " WHERE x > 0", " WHERE x > 100", " WHERE k = 'a' AND x < 2")


class Course(Run):
    """A run in which queries enter and leave, and questions are asked."""

    def __init__(self, manner: Manner, lateness: int) -> None:
        super().__init__(STREAM, [], manner, lateness=lateness)
        self.source.forgets = not manner.sized

    def begin(self) -> None:
        journal = Journal(self._place.path) if self.manner.restart else None
        options = replace(self.manner.options, way=Way.KERNEL)
        self.run = StreamRun(self.stream, self.sink, options, self.source, journal=journal)
        self.run.bounded = True
        self.run.restore()

    def enters(self, text: str) -> SlicedAggregation:
        query = bind(parse_query(text), {"s": STREAM})
        entrance, _ = self.run.admission.enter(query)
        entered = replace(query, **entrance._asdict())
        self.sink.forget(query.name)
        self.ask([*self.queries, entered])
        return entered

    def dies(self, batch: Sequence[Event], point: str) -> None:
        """Take a batch and die at some point of it; go on from the last commit, with the batch unless that has it."""
        number = 0 if self.run.committed is None else self.run.committed.batch + 1
        with crash_at(point), pytest.raises(Crash):
            self.take(batch)
        self.run.close()
        self.begin()
        if self.run.committed is None or self.run.committed.batch < number:
            self.sink.answers = {at: held for at, held in self.sink.answers.items() if at[0].batch < number}
            self.take(batch)


@st.composite
def texts(draw: Draw[Any], name: str = "", *, windows: Sequence[str] = (*HOPPING, *OTHERS)) -> str:
    keys = draw(st.sampled_from(("k", "k", "")))
    items = ", ".join([*([keys] if keys else []), draw(st.sampled_from(ITEMS))])
    text = f"SELECT {items} FROM s [{draw(st.sampled_from(windows))}]{draw(st.sampled_from(WHERE))}"
    text += f" GROUP BY {keys}" if keys else ""
    past = draw(st.sampled_from(("", " BACKFILL"))) if name else ""
    return f"CREATE QUERY {name}{past} AS {text}" if name else text


events_of = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(0, 60),
            "k": st.sampled_from(["a", "b", None]),
            "x": st.sampled_from([None, -1, 1, 2, 3, 2**31 - 1]),
        }
    ),
    min_size=4,
    max_size=40,
)
manners = st.builds(
    Manner,
    shared=st.sampled_from((True, True, False)),
    batches=st.sampled_from((3, 6)),
    partitions=st.sampled_from((1, 2)),
    most_entries=st.sampled_from((48, 0, 3)),
    restart=st.booleans(),
    method=st.sampled_from(("auto", "fragments", "rows")),
    sized=st.booleans(),
    moving=st.sampled_from((None, None, 1, 2)),
    shard_above=st.sampled_from((200_000, 200_000, 1, 2)),
)


def wanted_of(query: SlicedAggregation, events: Sequence[Event]) -> Rows:
    """What the query answers as it entered. Without GROUP BY it begins with the first window that holds an event."""
    asked = replace(parse_query(query.text), start_at=query.start, backfill=False)
    rows = reference.answer(asked, STREAM, events).rows
    if query.after is None:
        return rows
    rows = [row for row in rows if row[1] > query.after]
    held = (i for i, row in enumerate(rows) if any(row[0] <= event["ts"] < row[1] for event in events))
    return rows[next(held, len(rows)) :]


def check_question(run: StreamRun, text: str, events: Sequence[Event]) -> None:
    """A question that sub-windows answer is answered right, for the time that it states."""
    if run.view is None:
        return
    query = parse_query(text)
    bound = bind(query, {"s": STREAM})
    evaluate: Any = None
    table: Any = None
    try:
        rows, _, up_to = run.view.ask(bound, evaluate, table)
    except MullionError:
        return
    known = events
    if bound.frame.slide is None:
        known = [event for event in events if event["ts"] <= up_to]
    wanted = reference.ask(query, STREAM, [*known]).rows
    if bound.frame.slide is not None or max((event["ts"] for event in known), default=None) == up_to:
        assert_same(bound, rows_of(bound, rows), wanted)


@pytest.mark.slow
@settings(max_examples=150)
@given(events=events_of, manner=manners, data=st.data())
def test_whoever_comes_and_goes(events: list[Event], manner: Manner, data: st.DataObject) -> None:
    """Queries enter, some under the name of one that has left; batches die before their commit; clusters move."""
    in_order = data.draw(st.booleans())
    batches = list(cut(sorted(events, key=lambda e: e["ts"]) if in_order else events, manner.batches))
    course = Course(manner, disorder(batches, STREAM))
    left: list[tuple[SlicedAggregation, Rows]] = []
    seen: list[Event] = []
    with pytest.MonkeyPatch.context() as patch, moving_clusters(manner.moving or 0):
        patch.setattr(tiers, "MOST_ENTRIES", manner.most_entries)
        patch.setattr(tiers, "MOST_OF_A_GROUPING", 0)
        patch.setattr(sharding_choice, "SHARDS", 2)
        for number in range(len(batches) + 1):
            if number and data.draw(st.booleans()) and course.queries:
                left.append((course.queries[0], course.answers(course.queries[0])))
                course.ask(course.queries[1:])
            for i in range(data.draw(st.integers(1 if not number else 0, 2))):
                free = {query.name for query, _ in left} - {query.name for query in course.queries}
                course.enters(data.draw(texts(data.draw(st.sampled_from([f"q{number}_{i}", *sorted(free)])))))
            if number == len(batches):
                break
            batch = batches[number]
            if manner.restart and data.draw(st.booleans()):
                course.dies(batch, data.draw(st.sampled_from(("before partials", "before commit", "after commit"))))
            else:
                course.take(batch)
            seen += batch
            check_question(course.run, data.draw(texts(windows=(*HOPPING, *OTHERS, "RANGE 3 us", "RANGE 2 us"))), seen)
            if manner.restart and data.draw(st.booleans()):
                course.run.close()
                course.begin()
        course.end()
        course.run.close()
    for query in course.queries:
        assert_same(query, course.answers(query), wanted_of(query, events))
    for query, found in left:
        last = max((row[1] for row in found), default=-1)
        assert_same(query, found, [row for row in wanted_of(query, events) if row[1] <= last])
