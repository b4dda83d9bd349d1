"""How an engine behaves around its answers: callbacks that raise, queries that leave, closing, wrong arguments."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from importlib.resources import files
from typing import Any

import pytest

import mullion
from memory_batch import as_events
from mullion.engine import Engine
from mullion.errors import ArgumentError, CheckError, MullionError, NotSupported
from mullion.options import Options
from without_spark import EngineWithoutSpark, local_engine

STREAM = """CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts"""
COUNT = "SELECT count(*) AS n FROM s [RANGE 5 us SLIDE 5 us]"
KEYS = "SELECT DISTINCT k FROM s [RANGE 5 us]"
SCRIPT = f"{STREAM}; CREATE QUERY counts AS {COUNT}; CREATE QUERY keys AS {KEYS}"


def events(*times: int) -> list[dict[str, Any]]:
    return [{"ts": time, "k": "ab"[time % 2], "x": time} for time in times]


def run(engine: EngineWithoutSpark, batches: int = 4) -> None:
    for number in range(batches):
        engine.deliver("s", events(*range(10 * number, 10 * number + 10)), number)


def raising(*_: object) -> None:
    raise ValueError("from a callback")


class TestCallbacks:
    def test_one_that_raises_ends_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        heard: list[str] = []
        with local_engine(SCRIPT, on_batch=raising) as engine, caplog.at_level(logging.WARNING, "mullion"):
            engine.on_answer(raising)
            engine.on_answer(lambda name, rows: heard.append(name))
            engine.query(COUNT, name="mine", on_answer=raising)
            run(engine)
            engine.end("s")
            assert engine.failed_callbacks["on_batch"] == 5
            assert engine.failed_callbacks["counts"] == heard.count("counts") > 0
            assert engine.failed_callbacks["keys"] == heard.count("keys") > 0
            assert engine.failed_callbacks["mine"] == 2 * heard.count("mine") > 0
            assert engine.results("counts").to_arrow()["n"].to_pylist() == [5] * 8
        assert "from a callback" in caplog.text and "a callback for keys raised (1 so far)" in caplog.text

    def test_none_has_failed(self) -> None:
        with local_engine(SCRIPT) as engine:
            engine.on_answer(lambda name, rows: None)
            run(engine)
            assert engine.failed_callbacks == {}


class TestDropping:
    @pytest.mark.parametrize("name", ["counts", "keys"])
    @pytest.mark.parametrize("in_script", [False, True])
    def test_answers_stay(self, name: str, in_script: bool) -> None:
        with local_engine(SCRIPT) as engine:
            run(engine)
            before = engine.results(name).to_arrow()
            assert len(before)
            if in_script:
                engine.execute(f"DROP QUERY {name.upper()}")
            else:
                engine.drop(name.upper())
            assert engine.results(name.upper()).to_arrow() == before
            with pytest.raises(CheckError, match="unknown query"):
                engine.explain(name)

    def test_another_query_of_the_name_has_its_own(self) -> None:
        with local_engine(SCRIPT) as engine:
            run(engine, 2)
            engine.drop("counts")
            engine.query("SELECT max(x) AS h, min(x) AS l FROM s [RANGE 10 us SLIDE 10 us]", name="counts")
            assert engine.results("counts").to_arrow().schema.names == ["window_start", "window_end", "h", "l"]
            assert len(engine.results("counts")) == 0
            engine.deliver("s", events(*range(20, 41)), 2)
            assert engine.results("counts").to_arrow()["h"].to_pylist() == [29, 39]

    def test_a_script_that_fails_drops_nothing(self) -> None:
        with local_engine(SCRIPT) as engine:
            run(engine)
            with pytest.raises(CheckError):
                engine.execute("DROP QUERY counts; DROP QUERY nobody")
            assert len(engine.results("counts")) and engine.explain("counts")


class TestMemory:
    def test_the_oldest_answers_leave(self) -> None:
        with local_engine(SCRIPT, keep_answers=6) as engine, local_engine(SCRIPT) as whole:
            run(engine, 8)
            run(whole, 8)
            for name in ("counts", "keys"):
                kept, every = engine.results(name), whole.results(name)
                assert kept.dropped > 0 and len(kept) + kept.dropped == len(every) and every.dropped == 0
                assert kept.to_arrow() == every.to_arrow().slice(kept.dropped)
                assert f"after {kept.dropped:,} older ones that left memory" in repr(kept)
            assert sum(len(engine.results(name)) for name in ("counts", "keys")) <= 6
            assert whole.options.keep_answers == Options().keep_answers

    def test_records_that_answered_nobody_leave_too(self) -> None:
        with local_engine(SCRIPT, keep_answers=6) as engine:
            for number in range(8):
                late = [number] * 3 if number else []
                engine.deliver("s", events(100 + number, *late), number)
            assert engine.counts["s"].late == 21
            assert [len(table) for table in engine.aside("late")] == [3, 3]

    def test_all_stay_where_that_is_wanted(self) -> None:
        with local_engine(SCRIPT, keep_answers=None) as engine:
            run(engine)
            assert len(engine.results("counts")) == 7


class TestClosing:
    def test_nothing_goes_on_after_it(self) -> None:
        with local_engine(SCRIPT) as engine:
            run(engine)
            counted = engine.results("counts").to_arrow()
            engine.close()
            for call in (
                lambda: engine.query(COUNT),
                lambda: engine.drop("counts"),
                lambda: engine.execute("EXPLAIN"),
                lambda: engine.start(),
                lambda: engine.run(),
                lambda: engine.ask(COUNT),
                lambda: engine.prepare(COUNT),
                lambda: engine.on_answer(raising),
                lambda: engine.table("t", []),
                lambda: engine.stream("u", None, time="ts"),  # type: ignore[arg-type]
                lambda: engine.session,
                lambda: engine.__enter__(),
            ):
                with pytest.raises(MullionError, match="the engine is closed"):
                    call()
            engine.close()
            assert engine.results("counts").to_arrow() == counted
            assert engine.counts["s"].events == 40 and "counts" in str(engine.explain())


class TestArguments:
    @pytest.mark.parametrize(
        ("call", "sentence"),
        [
            (lambda e: e.query(3), "a query is text, not the int 3"),
            (lambda e: e.query(COUNT, name=4), "the name of a query is text or None, not the int 4"),
            (lambda e: e.query(COUNT, on_answer="print"), "on_answer is a function that is called with"),
            (lambda e: e.on_answer(None), "on_answer needs a function"),
            (lambda e: e.execute(b"EXPLAIN"), "a script is text, not the bytes b'EXPLAIN'"),
            (lambda e: e.ask(None), "a question is text, not None"),
            (lambda e: e.drop(["a"]), "the name of a query is text, not the list \\['a'\\]"),
            (lambda e: e.results(1.5), "the name of a query is text, not the float 1.5"),
            (lambda e: e.run(seconds="3"), "seconds is a number or None, not the str '3'"),
            (lambda e: e.stream("t", {"ts": [1]}, time="ts"), "stream 't' is a Spark DataFrame, not a dict"),
            (lambda e: e.stream("t", None, time=5), "time is the name of a column, not the int 5"),
            (lambda e: e.stream("t", None, time="ts", lateness=5), "lateness is a duration such as '5 seconds', not"),
            (lambda e: e.stream("t", None, time="ts", keep=True), "keep is a duration such as '1 hour' or a number"),
            (lambda e: Engine(out=3), "out is a path or None, not the int 3"),
            (lambda e: Engine(config=["a"]), "config is a dictionary of Spark's settings"),
            (lambda e: Engine(spark="local"), "spark is a SparkSession, not str"),
            (lambda e: Engine(shard_above="many"), "shard_above is a number of groups, not the str 'many'"),
            (lambda e: Engine(keep_answers=True), "keep_answers is a number of rows or None, not the bool True"),
            (lambda e: Engine(sharing=None), "sharing is one of auto, on, off"),
        ],
    )
    def test_wrong_types_get_sentences(self, call: Any, sentence: str) -> None:
        with local_engine(SCRIPT) as engine, pytest.raises(MullionError, match=f"^{sentence}") as refused:
            call(engine)
        assert isinstance(refused.value, ArgumentError) == isinstance(refused.value, TypeError)


class TestShowing:
    def test_reprs(self) -> None:
        keeping = SCRIPT.replace("BY ts;", "BY ts KEEP '1 hour';")
        with local_engine(keeping) as engine:
            run(engine, 12)
            shown = repr(engine.results("counts"))
            assert shown.startswith("Results of counts: 23 rows\n") and shown.endswith("... and 3 more")
            assert "window_start" in shown and "<table" in engine.results("counts")._repr_html_()
            answer = engine.ask("SELECT count(*) AS n FROM s [ROWS 3]")
            assert repr(answer).startswith("OneAnswer: 1 row, answered up to 1970-01-01 00:00:00.000119 UTC")
            assert repr(engine.explain()) == "<Explanation of counts, keys; print it to read it>"
            assert engine.explain()._repr_html_().startswith("<pre>")
            engine.drop("counts")
            engine.drop("keys")
            assert "no standing queries" in repr(engine.explain())

    def test_the_package_says_what_it_has(self) -> None:
        assert {"Engine", "UserAggregate", "register_aggregate", "__version__"} <= set(dir(mullion))
        assert files("mullion").joinpath("py.typed").is_file()

    def test_names_are_there_without_importing_spark(self) -> None:
        code = "import mullion, sys; dir(mullion); assert 'pyspark' not in sys.modules and 'numpy' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_errors_survive_a_process(self) -> None:
        assert pickle.loads(pickle.dumps(ArgumentError("wrong"))).message == "wrong"


class TestRelationsThatEnter:
    def test_one_takes_its_past_only_where_it_can_be_read_again(self) -> None:
        late = f"CREATE QUERY late BACKFILL AS {KEYS.replace('5 us', '5 us SLIDE 5 us')}"
        with local_engine(SCRIPT) as engine:
            engine.deliver("s", events(0, 1, 2), 0)
            with pytest.raises(NotSupported, match=r"BACKFILL of query 'late' .* cannot be read twice"):
                engine.execute(late)
            engine._runs.of("s").source.forgets = False  # type: ignore[attr-defined]
            engine.deliver("s", events(3), 1)
            engine._runs.of("s").source.given[0] = as_events(engine.catalog.streams["s"], events(0, 1, 2))  # type: ignore[attr-defined]
            engine.execute(late)
            engine.deliver("s", events(6), 2)
            assert "backfill: by reading the files of s again" in str(engine.explain("late"))
            assert sorted(engine.results("late").to_arrow()["k"].to_pylist()) == ["a", "b"]

    def test_one_that_takes_the_name_of_another_sees_only_what_comes(self) -> None:
        with local_engine(SCRIPT) as engine:
            engine.deliver("s", events(0, 1, 2), 0)
            engine.drop("keys")
            engine.query("SELECT DISTINCT x FROM s [RANGE 5 us SLIDE 5 us]", name="keys")
            engine.deliver("s", events(3, 6, 12), 1)
            engine.end("s")
            assert engine.results("keys").to_arrow()["x"].to_pylist() == [6, 12]
