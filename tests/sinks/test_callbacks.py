"""Who is called with which answers."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from mullion.algebra.streams import Stream
from mullion.engine import Engine
from mullion.language.types import TIMESTAMP
from mullion.sinks.callback import CallbackSink
from mullion.storage.marks import Mark

COUNT = "SELECT count(*) AS n FROM trades [RANGE '10 s' SLIDE '5 s']"
ROWS = pa.table({"n": [1]})


def answered(engine: Engine, *queries: str) -> None:
    for sink in engine.sink.sinks:
        if isinstance(sink, CallbackSink):
            sink.write("trades", Mark(0), cast(Any, [[(query, ROWS) for query in queries]]))


def engine() -> Engine:
    made = Engine()
    made.catalog.add_stream(Stream("trades", (("ts", TIMESTAMP),), "ts"))
    return made


def test_each_is_called_with_its_own_answers_and_some_with_all() -> None:
    made, own, every = engine(), list[str](), list[str]()
    made.query(COUNT, name="Mine", on_answer=lambda name, _: own.append(name))
    made.query(COUNT, name="other")
    made.on_answer(lambda name, _: every.append(name))
    answered(made, "Mine", "other")
    assert (own, every) == (["Mine"], ["Mine", "other"])


def test_who_waits_for_a_dropped_query_is_not_called_for_another_of_its_name() -> None:
    made, called = engine(), list[str]()
    made.query(COUNT, name="a", on_answer=lambda name, _: called.append(name))
    made.query(COUNT, name="b", on_answer=lambda name, _: called.append(name))
    made.drop("A")
    made.execute("DROP QUERY B")
    made.query(COUNT, name="a")
    made.query(COUNT, name="b")
    answered(made, "a", "b")
    assert called == []


def test_callbacks_that_come_and_go_leave_nothing_behind() -> None:
    made = engine()
    for number in range(50):
        made.query(COUNT, name=f"q{number}", on_answer=lambda name, _: None)
        made.drop(f"q{number}")
    assert len(made.sink.sinks) == 2
    assert not made._answers.callbacks._of_query
