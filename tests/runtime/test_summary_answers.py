"""Questions that summaries answer: bounds around the reference, whatever happens to the engine in between."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from mullion.errors import MullionError
from mullion.memory import Memory
from without_spark import EngineWithoutSpark, local_engine

Event = Mapping[str, Any]
LATENESS = 3
STREAM = f"""
CREATE STREAM s (ts TIMESTAMP, x INT, t STRING) USING parquet OPTIONS (path 'nowhere')
TIMESTAMP BY ts LATENESS '{LATENESS} us';
"""
SCRIPT = (
    STREAM
    + """
CREATE SUMMARY xs ON s(x) WITH GRANULARITY 8 us AND COLLAPSE (2, 4);
CREATE SUMMARY ts ON s(t) WITH GRANULARITY 8 us AND COLLAPSE (rate 3, depth 2) USING counts (drift 0.5, longest 3 us);
CREATE SUMMARY sketched ON s(t) WITH GRANULARITY 8 us AND COLLAPSE (2, 3) USING count_sketch (width 64, buckets 2);
"""
)


def test_the_smallest_example() -> None:
    with local_engine(STREAM + "CREATE SUMMARY xs ON s(x) WITH GRANULARITY 10 us AND COLLAPSE (2, 2)") as engine:
        engine.deliver("s", [{"ts": ts, "x": x, "t": None} for ts, x in [(1, 7), (2, 7), (4, 8), (21, 7)]], 0)
        answer = engine.ask("SELECT APPROX count(*) AS n FROM s [RANGE 30 us] WHERE x = 7")
        assert answer.to_arrow().to_pylist()[0] | {"window_start": 0, "window_end": 0} == {
            "window_start": 0,
            "window_end": 0,
            "n_low": 3,
            "n": 3,
            "n_high": 3,
        }
        assert answer.answered_from == "the summary xs (counts, zones of up to 5 us)"
        (cut,) = engine.ask("SELECT APPROX count(*) FROM s [RANGE 20 us] WHERE 7 = x").to_arrow().to_pylist()
        assert (cut["count_low"], cut["count"], cut["count_high"]) == (1, 3, 3), "the zone from 1 to 4 is cut after 1"
        (every,) = engine.ask("SELECT APPROX count(*) FROM s [RANGE 1 us]").to_arrow().to_pylist()
        assert every["count"] == 1


def test_the_worked_example_of_the_documentation() -> None:
    created = "CREATE SUMMARY xs ON s(x) WITH GRANULARITY '10 s' AND COLLAPSE (2, 2)"
    with local_engine(STREAM + created) as engine:
        at = [(1, 7), (2, 7), (4, 8), (21, 7)]
        engine.deliver("s", [{"ts": 1_000_000 * ts, "x": x, "t": None} for ts, x in at], 0)
        for length, bounds in ((30, [3, 3, 3]), (20, [1, 3, 3]), (10, [1, 1, 1])):
            answer = engine.ask(f"SELECT APPROX count(*) AS n FROM s [RANGE '{length} s'] WHERE x = 7").to_arrow()
            assert [answer[name].to_pylist()[0] for name in ("n_low", "n", "n_high")] == bounds


def test_each_value_by_hand() -> None:
    """Zones from 1 to 4 and from 21 on; a window after 1 cuts the first."""
    with local_engine(STREAM + "CREATE SUMMARY xs ON s(x) WITH GRANULARITY 10 us AND COLLAPSE (2, 2)") as engine:
        at = [(1, 7), (2, 7), (4, 8), (21, 7), (22, 9), (23, None)]
        engine.deliver("s", [{"ts": ts, "x": x, "t": None} for ts, x in at], 0)

        def rows(text: str) -> list[tuple[Any, ...]]:
            return [tuple(row.values())[2:] for row in engine.ask(text).to_arrow().to_pylist()]

        grouped = "SELECT APPROX x, count(*) AS n FROM s [RANGE {} us]{} GROUP BY x {}"
        assert rows(grouped.format(30, "", "")) == [(None, 1, 1, 1), (7, 3, 3, 3), (8, 1, 1, 1), (9, 1, 1, 1)]
        assert rows(grouped.format(22, "", "ORDER BY n DESC, x LIMIT 2")) == [(7, 1, 3, 3), (None, 1, 1, 1)]
        assert rows(grouped.format(22, "", "HAVING count(*) = 1 ORDER BY x DESC"))[0] == (9, 1, 1, 1)
        assert rows(grouped.format(5, " WHERE x IN (7, 8)", "")) == [(7, 1, 1, 1)]
        assert rows("SELECT APPROX count(*) AS n FROM s [RANGE 30 us] WHERE x > 7") == [(2, 2, 2)]
        assert rows("SELECT APPROX count(*) AS n FROM s [RANGE 30 us] WHERE x <> 7") == [(2, 2, 2)]
        assert rows("SELECT APPROX count(*) AS n FROM s [RANGE 30 us] WHERE x <> 7 OR x IS NULL") == [(3, 3, 3)]
        assert rows("SELECT APPROX count(*) AS n FROM s [RANGE 30 us]") == [(6, 6, 6)]


@pytest.mark.parametrize(("type_", "values"), [("STRING", "pear fig plum"), ("DECIMAL(5, 2)", "1.50 -2.25 0.00")])
def test_texts_and_decimals_are_known_by_name(type_: str, values: str, tmp_path: Path) -> None:
    """Also after a restart, of events that wait, and when nobody has counted the others for long."""
    of = [Decimal(value) if type_ != "STRING" else value for value in values.split()]
    script = STREAM.replace("t STRING", f"t {type_}")
    script += "CREATE SUMMARY known ON s(t) WITH GRANULARITY 10 us AND COLLAPSE (2, 2)"
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    asked = "SELECT APPROX t, count(*) AS n FROM s [RANGE {} us] GROUP BY t ORDER BY n DESC"

    def rows(engine: EngineWithoutSpark, length: int) -> list[tuple[Any, int]]:
        return [(row["t"], row["n"]) for row in engine.ask(asked.format(length)).to_arrow().to_pylist()]

    with patch("mullion.summaries.column_summary.FEWEST_VALUES", 1):
        with local_engine(script, **places) as engine:
            first = [of[0], of[1], of[1], None, of[1], None]
            engine.deliver("s", [{"ts": ts, "x": 1, "t": t} for ts, t in enumerate(first)], 0)
            assert rows(engine, 30) == [(of[1], 3), (None, 2), (of[0], 1)]
        with local_engine(script, **places) as engine:
            engine.deliver("s", [{"ts": 6, "x": 1, "t": of[2]}], 1)
            assert rows(engine, 30) == [(of[1], 3), (None, 2), *sorted([(of[0], 1), (of[2], 1)])]
            for number in range(2, 12):
                engine.deliver("s", [{"ts": 20 * number, "x": 1, "t": of[0]}], number)
            assert rows(engine, 10) == [(of[0], 1)]


def events(rng: random.Random, number: int, newest: int) -> list[Event]:
    made: list[Event] = []
    for _ in range(number):
        ts = rng.randrange(newest - LATENESS - 1, newest + 4) if rng.random() < 0.95 else newest + 25
        made.append(
            {"ts": ts, "x": rng.choice((1, 1, 2, None, ts % 100)), "t": rng.choice(("a", "b", "", None, f"at {ts}"))}
        )
        newest = max(newest, ts)
    return made


def kept(coming: list[Event], newest: int | None) -> list[Event]:
    """Those of a batch that are not late: the watermark is that of the batch before."""
    return [event for event in coming if newest is None or event["ts"] >= newest - LATENESS]


def check(engine: EngineWithoutSpark, seen: list[Event]) -> int:
    """Every answer holds the truth; how many there were."""
    newest, answered = max(event["ts"] for event in seen), 0
    for length in (1, 2, 5, 11, 20, 40, 77):
        for where, matches in CONDITIONS.items():
            text = f"SELECT APPROX count(*) AS n FROM s [RANGE {length} us]{where}"
            try:
                answer = engine.ask(text)
            except MullionError as problem:
                assert "does not hold all events" in str(problem), problem
                continue
            truth = sum(matches(event) for event in seen if event["ts"] > newest - length)
            (row,) = answer.to_arrow().to_pylist()
            assert row["n_low"] <= truth <= row["n_high"], (text, truth, row, answer.answered_from)
            assert row["n_low"] <= row["n"] <= row["n_high"]
            answered += 1
        answered += sum(check_groups(engine, seen, length, *groups) for groups in GROUPS.items())
    return answered


def check_groups(engine: EngineWithoutSpark, seen: list[Event], length: int, asked: str, of: tuple[str, Any]) -> int:
    """Each value that came has a row that holds its count; whether there was an answer."""
    column, matches = of
    text = f"SELECT APPROX {column} AS v, count(*) AS n FROM s [RANGE {length} us]{asked} GROUP BY {column}"
    try:
        rows = engine.ask(text).to_arrow().to_pylist()
    except MullionError as problem:
        assert "does not hold all events" in str(problem) or "does not know by name" in str(problem), problem
        return 0
    newest = max(event["ts"] for event in seen)
    truth = Counter(event[column] for event in seen if event["ts"] > newest - length and matches(event[column]))
    assert len({row["v"] for row in rows}) == len(rows) and set(truth) <= {row["v"] for row in rows}, (text, rows)
    for row in rows:
        assert row["n_low"] <= truth[row["v"]] <= row["n_high"] and row["n_high"], (text, row, truth)
        assert row["n_low"] <= row["n"] <= row["n_high"]
    if " ORDER BY n DESC" in asked:
        assert [row["n"] for row in rows] == sorted((row["n"] for row in rows), reverse=True)
    return 1


CONDITIONS: dict[str, Any] = {
    "": lambda event: True,
    " WHERE x = 1": lambda event: event["x"] == 1,
    " WHERE x = 99": lambda event: event["x"] == 99,
    " WHERE t = 'a'": lambda event: event["t"] == "a",
    " WHERE x = NULL": lambda event: False,
    " WHERE x IN (1, 2)": lambda event: event["x"] in (1, 2),
    " WHERE x = 1 OR 2 = x OR x = 1": lambda event: event["x"] in (1, 2),
    " WHERE x <> 1": lambda event: event["x"] not in (1, None),
    " WHERE NOT x IN (1, 2)": lambda event: event["x"] not in (1, 2, None),
    " WHERE x NOT IN (1, NULL)": lambda event: False,
    " WHERE x IS NULL OR x = 2": lambda event: event["x"] in (None, 2),
    " WHERE x IS NOT NULL": lambda event: event["x"] is not None,
    " WHERE x <=> NULL": lambda event: event["x"] is None,
    " WHERE x IN (1, 2) AND x <> 2": lambda event: event["x"] == 1,
    " WHERE x = 1 AND x = 2": lambda event: False,
    " WHERE 1 = 2": lambda event: False,
    " WHERE 2 = 2": lambda event: True,
    " WHERE x > 1": lambda event: event["x"] is not None and event["x"] > 1,
    " WHERE x % 2 = 0 OR x IS NULL": lambda event: event["x"] is None or event["x"] % 2 == 0,
    " WHERE t IN ('a', 'b')": lambda event: event["t"] in ("a", "b"),
    " WHERE t <> 'a'": lambda event: event["t"] not in ("a", None),
    " WHERE t NOT IN ('a', 'b') OR t IS NULL": lambda event: event["t"] not in ("a", "b"),
}
GROUPS: dict[str, tuple[str, Any]] = {
    "": ("x", lambda value: True),
    " WHERE x <> 1": ("x", lambda value: value not in (1, None)),
    " WHERE x IN (1, 2, 99)": ("x", lambda value: value in (1, 2, 99)),
    " WHERE x BETWEEN 2 AND 80": ("x", lambda value: value is not None and 2 <= value <= 80),
    " WHERE t IN ('a', 'b', 'none')": ("t", lambda value: value in ("a", "b")),
    " WHERE 2 = 2": ("t", lambda value: True),
    " WHERE t <> 'a'": ("t", lambda value: value not in ("a", None)),
}
"""Conditions, the column that is grouped by, and which of its values they hold for."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_truth_lies_within_the_bounds(seed: int, tmp_path: Path) -> None:
    """With late events, ties, NULLs, restarts from a checkpoint, and too little memory in every other one."""
    rng = random.Random(seed)
    memory = " MEMORY '150 B'" if seed % 2 else ""
    script = SCRIPT.replace("COLLAPSE (2, 4)", f"COLLAPSE (2, 4){memory}").replace("3 us);", f"3 us){memory};")
    seen: list[Event] = []
    newest, answered = None, 0
    engine = local_engine(script, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint")
    running = engine.__enter__()
    try:
        for batch in range(rng.randrange(4, 12)):
            coming = events(rng, rng.randrange(0, 25), 100 if newest is None else newest)
            running.deliver("s", coming, batch)
            seen += kept(coming, newest)
            newest = max((event["ts"] for event in seen), default=None)
            if seen:
                answered += check(running, seen)
                told = running.stats["summaries"]["xs"]
                assert told["memory_is_share"] == (not memory) and (not memory or told["bytes"] <= 150 + 16 * 40)
            if rng.random() < 0.3:
                engine.__exit__(None, None, None)
                engine = local_engine(script, out=tmp_path / "out", checkpoint=tmp_path / "checkpoint")
                running = engine.__enter__()
    finally:
        engine.__exit__(None, None, None)
    assert answered


def test_a_sketch_says_how_sure_it_is() -> None:
    sketched = "CREATE SUMMARY sk ON s(t) WITH GRANULARITY 8 us AND COLLAPSE (2, 3) USING count_sketch (width 64)"
    with local_engine(STREAM + sketched) as engine:
        engine.deliver("s", [{"ts": ts, "x": 1, "t": "a"} for ts in range(100)], 0)
        answer = engine.ask("SELECT APPROX count(*) AS n FROM s [RANGE 30 us] WHERE t = 'a'")
        (row,) = answer.to_arrow().to_pylist()
        assert row["n_low"] <= 30 <= row["n_high"]
        assert answer.answered_from.endswith("each bound holds with a probability of 99%)")


def test_a_summary_that_is_made_at_work_tells_of_what_comes_then(tmp_path: Path) -> None:
    """And one that is made otherwise after a restart knows nothing of before."""
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    created = "CREATE SUMMARY late ON s(x) WITH GRANULARITY 10 us AND COLLAPSE (2, 3)"
    question = "SELECT APPROX count(*) AS n FROM s [RANGE {} us] WHERE x = 1"
    query = "CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 5 us SLIDE 5 us];"
    with local_engine(STREAM + query, **places) as engine:
        engine.deliver("s", [{"ts": ts, "x": 1, "t": ""} for ts in range(10)], 0)
        engine.execute(created)
        engine.deliver("s", [{"ts": ts, "x": 1, "t": ""} for ts in (8, 9, 12, 14)], 1)
        assert engine.ask(question.format(5)).to_arrow()["n_low"].to_pylist() == [2]
        with pytest.raises(MullionError, match=r"the summary on s\(x\) does not hold all events of this window"):
            engine.ask(question.format(6))
    with local_engine(STREAM + query + created, **places) as engine:
        assert engine.ask(question.format(5)).to_arrow()["n_high"].to_pylist() == [2]
        engine.execute("DROP SUMMARY late")
        with pytest.raises(MullionError, match=r"there is no summary on s\(x\)"):
            engine.ask(question.format(5))
    with local_engine(STREAM + query + created.replace("(2, 3)", "(3, 2)"), **places) as engine:
        engine.deliver("s", [{"ts": 20, "x": 1, "t": ""}], 2)
        with pytest.raises(MullionError, match="does not hold all events"):
            engine.ask(question.format(8))
        assert engine.ask(question.format(6)).to_arrow()["n"].to_pylist() == [1]


def test_what_is_dropped() -> None:
    with local_engine(SCRIPT + "CREATE SYNOPSIS gram ON s(x) USING timegram (buckets 4, rows 5);") as engine:
        for wrong, message in (("SUMMARY gram", "unknown summary 'gram'"), ("SYNOPSIS xs", "unknown synopsis 'xs'")):
            with pytest.raises(MullionError, match=message):
                engine.execute(f"DROP {wrong}")
        engine.execute("DROP SUMMARY XS; DROP SYNOPSIS gram")
        assert [*engine.catalog.synopses] == ["ts", "sketched"]


def test_it_is_told_in_explain_and_stats() -> None:
    with local_engine(
        STREAM + "CREATE SUMMARY xs ON s(x) WITH GRANULARITY 8 us AND COLLAPSE (2, 2) MEMORY '1 MB'"
    ) as engine:
        engine.deliver("s", [{"ts": ts, "x": ts % 3, "t": ""} for ts in range(30)], 0)
        assert str(engine.explain()).splitlines()[0] == (
            "summary xs: s(x) by counts; G1 8 us (3 zones, 0 by drift), G2 16 us (2); 224 bytes of 1 MB"
        )
        told = engine.stats["summaries"]["xs"]
        assert (told["zones"], told["by_drift"], told["bytes"], told["memory"]) == ([3, 2], 0, 224, 1 << 20)


def test_a_summary_without_memory_has_a_share(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that have none divide it. It is no part of what a summary is: with another share it goes on."""
    monkeypatch.setattr(Memory, "summary_share", lambda self, number: 320 // number)
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    summary = "CREATE SUMMARY {} ON s({}) WITH GRANULARITY 4 us AND COLLAPSE (2, 9) {};"
    own = STREAM + summary.format("xs", "x", "") + summary.format("mine", "t", "MEMORY '64 B'")
    since = []
    for batch, script in enumerate((own, own + summary.format("ts", "t", ""))):
        with local_engine(script, **places) as engine:
            came = range(100 * batch, 100 * batch + 100)
            engine.deliver("s", [{"ts": ts, "x": ts, "t": str(ts)} for ts in came], batch)
            told = engine.stats["summaries"]
            assert (told["mine"]["memory"], told["mine"]["memory_is_share"]) == (64, False)
            assert (told["xs"]["memory"], told["xs"]["memory_is_share"]) == (320 // (batch + 1), True)
            assert told["xs"]["bytes"] <= 320 // (batch + 1) + 16 * 4, "but for what is newest"
            since.append(told["xs"]["since"])
            (row,) = engine.ask("SELECT APPROX count(*) AS n FROM s [RANGE 6 us] WHERE x > 0").to_arrow().to_pylist()
            assert row["n_low"] <= 6 <= row["n_high"]
            with pytest.raises(MullionError, match="does not hold all events of this window"):
                engine.ask("SELECT APPROX count(*) AS n FROM s [RANGE 90 us] WHERE x > 0")
    assert 70 < since[0] < 90 and since[1] > 180


def test_the_event_time_itself() -> None:
    created = "CREATE SUMMARY times ON s(ts) WITH GRANULARITY '1 s' AND COLLAPSE (2, 3)"
    with local_engine(STREAM + created) as engine:
        engine.deliver("s", [{"ts": ts, "x": 1, "t": ""} for ts in (5, 5, 6, 9, 20)], 0)
        question = "SELECT APPROX count(*) AS n FROM s [RANGE '1 s'] WHERE ts = TIMESTAMP '1970-01-01 00:00:00.000005'"
        assert engine.ask(question).to_arrow()["n"].to_pylist() == [2]


PREFERRED = """
CREATE STREAM a (ts TIMESTAMP, k INT) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts;
CREATE STREAM b (ts TIMESTAMP, k INT) USING parquet OPTIONS (path 'nowhere') TIMESTAMP BY ts;
CREATE SUMMARY ks ON a(k) WITH GRANULARITY 10 us AND COLLAPSE (2, 3);
CREATE QUERY pairs AS SELECT x.k AS k FROM a [RANGE 9 us] x, b [RANGE 9 us] y WHERE x.k = y.k
WITH PREFERENCE DESC estimate(x.k), estimate(y.k) BUDGET 100 ROWS;
"""


def test_a_summary_that_a_preference_needs_stays_across_a_restart(tmp_path: Path) -> None:
    places = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    for batch in range(2):
        with local_engine(PREFERRED, **places) as engine:
            engine.deliver("a", [{"ts": 10 * batch + 1, "k": 5}, {"ts": 10 * batch + 3, "k": 6}], batch)
            engine.deliver("b", [{"ts": 10 * batch + 2, "k": 5}, {"ts": 10 * batch + 4, "k": 5}], batch)
            with pytest.raises(
                MullionError, match=r"query 'pairs' prefers rows by the summary 'KS'[^;]*DROP QUERY pairs first"
            ):
                engine.execute("DROP SUMMARY KS")
            engine.execute("CREATE SUMMARY more ON b(k) WITH GRANULARITY 10 us AND COLLAPSE (2, 3)")
            engine.execute("DROP SUMMARY ks")
            if batch:
                for stream in ("a", "b"):
                    engine.end(stream)
                assert engine.results("pairs").to_arrow()["k"].to_pylist() == [5] * 5
                engine.execute("DROP QUERY pairs; DROP SUMMARY more")


def test_a_preference_without_a_summary_is_refused() -> None:
    with (
        pytest.raises(MullionError, match="no summary is on the key of the join"),
        local_engine(PREFERRED.replace("CREATE SUMMARY ks ON a(k)", "CREATE SUMMARY ks ON a(ts)")),
    ):
        pass
