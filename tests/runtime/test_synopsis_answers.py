"""Questions that only synopses can answer: equal to the reference, or bounds around it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from by_slices import bind
from mullion import reference
from mullion.algebra.streams import Stream
from mullion.errors import MullionError
from mullion.language.parse import parse_query
from mullion.language.types import DOUBLE, INT, TIMESTAMP
from mullion.spark.results import OneAnswer
from runtime.test_core_differential import assert_same, rows_of
from without_spark import EngineWithoutSpark, local_engine

Event = Mapping[str, Any]
LATENESS = 3
STREAM = Stream("s", (("ts", TIMESTAMP), ("x", INT), ("v", DOUBLE)), "ts", LATENESS)
SCRIPT = f"""
CREATE STREAM s (ts TIMESTAMP, x INT, v DOUBLE) USING parquet OPTIONS (path 'nowhere')
TIMESTAMP BY ts LATENESS '{LATENESS} us';
CREATE SYNOPSIS whole ON s(x) USING ordered_sharing (rows 40);
CREATE SYNOPSIS best ON s(v) USING ordered_sharing (rows 40);
CREATE SYNOPSIS grams ON s(x) USING timegram (buckets 4, rows 40);
CREATE SYNOPSIS real ON s(v) USING timegram (buckets 8, rows 40);
"""
EXACT = (
    "SELECT max(v) - min(v) AS d, min(v) AS l FROM s {w}",
    "SELECT max(x) + 1 AS a, max(v) AS h, max(x) - min(x) AS d FROM s {w}",
    "SELECT max(v) AS h FROM s {w} HAVING max(v) > 3",
    "SELECT CASE WHEN max(x) > 1 THEN min(v) ELSE -max(v) END AS c, window_end FROM s {w}",
)
WINDOWS = ("[ROWS 1]", "[ROWS 7]", "[ROWS 40]", "[RANGE 1 us]", "[RANGE 6 us]", "[RANGE 11 us]", "[NOW]")
BOUNDS = {
    "count(v)": "n",
    "max(v) - min(v)": "max(v) - min(v)",
    "2 * avg(v) + 0.1": "2 * avg(v) + 0.1",
    "-sum(x) / +count(x)": "-sum(x) / count(x)",
    "max(x)": "max(x)",
}


def events(rng: random.Random, number: int, newest: int) -> list[Event]:
    """With ties, gaps, a trend, NULLs and NaN, and disorder within the lateness."""
    made: list[Event] = []
    low = newest - LATENESS
    for _ in range(number):
        ts = rng.randrange(low, newest + 4) if rng.random() < 0.95 else newest + 30
        v = rng.choice((0.5, None, ts / 4, -2.0, 7.25, rng.gauss(ts, 1), math.nan if rng.random() < 0.1 else 1.0))
        made.append({"ts": ts, "x": rng.choice((1, 2, -3, None, ts % 100)), "v": v})
    return made


def asked(engine: EngineWithoutSpark, text: str) -> Any:
    try:
        return engine.ask(text)
    except MullionError as problem:
        assert "keep" in str(problem).lower() or "hold" in str(problem) or "seen" in str(problem), problem
        return None


def check_exact(engine: EngineWithoutSpark, seen: list[Event], text: str) -> bool:
    answer = asked(engine, text)
    if answer is None:
        return False
    assert "ordered sharing" in answer.answered_from
    query = parse_query(text)
    bound = bind(query, {"s": STREAM})
    assert_same(bound, rows_of(bound, answer.to_arrow()), reference.ask(query, STREAM, seen).rows)
    return True


def check_bounds(engine: EngineWithoutSpark, seen: list[Event], window: str) -> bool:
    items = ", ".join(f"{expr} AS i{i}" for i, expr in enumerate(BOUNDS))
    answer = asked(engine, f"SELECT APPROX {items} FROM s {window}")
    if answer is None:
        return False
    (row,) = answer.to_arrow().to_pylist()
    (right,) = reference.ask(parse_query(f"SELECT {items} FROM s {window}"), STREAM, seen).rows
    opens, closes = (answer.to_arrow()[name].cast("int64") for name in ("window_start", "window_end"))
    assert (opens.to_pylist(), closes.to_pylist()) == ([right[0]], [right[1]])
    for i in range(len(BOUNDS)):
        low, value, high = row[f"i{i}_low"], right[2 + i], row[f"i{i}_high"]
        if value is None:
            assert low is None or not math.isfinite(high), (window, i, low, high)
        elif math.isnan(value):
            assert math.isnan(high), (window, i, low, high)
        else:
            assert low <= value and (math.isnan(high) or value <= high), (window, i, low, value, high)
    return True


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_answers_equal_the_reference(seed: int, tmp_path: Path) -> None:
    """From the first event on, before and after restarts, at the end of the input and after it went on."""
    rng = random.Random(seed)
    seen: list[Event] = []
    place: dict[str, Any] = {"checkpoint": tmp_path / "state", "out": tmp_path / "out"}
    first = rng.choice((0, -50, 10**15))
    number, served = 0, 0
    for _ in range(4):
        with local_engine(SCRIPT, **place) as engine:
            for _ in range(rng.randrange(1, 5)):
                newest = max((event["ts"] for event in seen), default=first)
                part = events(rng, rng.randrange(0, 20), newest)
                engine.deliver("s", part, number)
                number += 1
                seen += part
                for window in WINDOWS if seen else ():
                    served += check_exact(engine, seen, rng.choice(EXACT).format(w=window))
                    served += check_bounds(engine, seen, window)
    assert served > 60


def test_windows_that_are_not_held(tmp_path: Path) -> None:
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", [{"ts": t, "x": t, "v": 1.0} for t in range(60)], 0)
        assert engine.ask("SELECT max(x) AS m FROM s [RANGE 39 us]").to_arrow()["m"].to_pylist() == [59]
        with pytest.raises(MullionError, match="keeps no events"):
            engine.ask("SELECT max(x) AS m FROM s [RANGE 50 us]")
        with pytest.raises(MullionError, match="does not hold all events of this window"):
            engine.ask("SELECT APPROX max(x) AS m FROM s [RANGE 50 us]")
        with pytest.raises(MullionError, match="holds 40 rows, not 41"):
            engine.ask("SELECT APPROX max(x) AS m FROM s [ROWS 41]")
        with pytest.raises(MullionError, match="such a window"):
            engine.ask("SELECT APPROX max(x) AS m FROM s [RANGE 6 us SLIDE 3 us]")
        with pytest.raises(MullionError, match=r"this item of SELECT APPROX"):
            engine.ask("SELECT APPROX max(x) % 2 AS m FROM s [ROWS 4]")
        with pytest.raises(MullionError, match="two columns of the answer are called 'max_low'"):
            engine.ask("SELECT APPROX max(x), max(v) FROM s [ROWS 4]")


def test_a_synopsis_of_the_same_name_starts_anew(tmp_path: Path) -> None:
    """Created with other words, or dropped and created again: what the old one had seen is not told of the new one."""
    place: dict[str, Any] = {"checkpoint": tmp_path / "state", "out": tmp_path / "out"}
    stream, question = SCRIPT.partition("CREATE SYNOPSIS")[0], "SELECT APPROX max(x) AS m FROM s [ROWS {n}]"
    with local_engine(stream + "CREATE SYNOPSIS g ON s(x) USING timegram (buckets 4, rows 5);", **place) as engine:
        engine.deliver("s", [{"ts": t, "x": 100 - t, "v": 1.0} for t in range(30)], 0)
    with local_engine(stream + "CREATE SYNOPSIS g ON s(x) USING timegram (buckets 4, rows 20);", **place) as engine:
        with pytest.raises(MullionError, match="has not seen 9 rows yet"):
            engine.ask(question.format(n=9))
        engine.deliver("s", [{"ts": 40 + t, "x": t, "v": 1.0} for t in range(20)], 1)
        assert engine.ask(question.format(n=20)).to_arrow()["m_high"].to_pylist() == [19.0]
        engine.execute("DROP SYNOPSIS g")
        engine.execute("CREATE SYNOPSIS g ON s(x) USING timegram (buckets 4, rows 19)")
        engine.deliver("s", [{"ts": 70, "x": 5, "v": 1.0}], 2)
    with local_engine(stream + "CREATE SYNOPSIS g ON s(x) USING timegram (buckets 4, rows 19);", **place) as engine:
        assert engine.ask(question.format(n=1)).to_arrow()["m_high"].to_pylist() == [5.0]
        with pytest.raises(MullionError, match="has not seen 2 rows yet"):
            engine.ask(question.format(n=2))


def test_windows_of_other_lengths_are_known_too() -> None:
    """A question that differs from an earlier one in its window is answered by itself, from a synopsis or not."""
    with local_engine(SCRIPT.replace("LATENESS", "KEEP '30 us' LATENESS")) as engine:
        engine.deliver("s", [{"ts": t, "x": 50 - t, "v": float(t)} for t in range(50)], 0)
        for n in (3, 5, 40, 41, 45, 7, 1, 5):
            answer = engine.ask(f"SELECT max(x) AS m, min(v) AS l FROM s [ROWS {n}]")
            assert [answer.to_arrow()[name].to_pylist() for name in "ml"] == [[n], [50 - n]]
            assert ("ordered sharing" in answer.answered_from) == (n <= 40)
        for n in (3, 20, 29, 39, 5):
            answer = engine.ask(f"SELECT max(x) AS m FROM s [RANGE {n} us]")
            assert answer.to_arrow()["m"].to_pylist() == [n] and "ordered sharing" in answer.answered_from
        for n in (3, 4):
            answer = engine.ask(f"SELECT sum(x) AS m FROM s [RANGE {n} us]")
            assert answer.to_arrow()["m"].to_pylist() == [n * (n + 1) // 2] and "keeps" in answer.answered_from
        engine.execute("DROP SYNOPSIS whole")
        engine.deliver("s", [{"ts": 50, "x": 9, "v": 0.0}], 1)
        assert "keeps" in engine.ask("SELECT max(x) AS m FROM s [RANGE 6 us]").answered_from


def test_what_is_registered_may_change_between_questions() -> None:
    """A question that was asked before is checked again when it must be."""
    question = "SELECT APPROX max(x) AS m FROM s [ROWS 4]"
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", [{"ts": t, "x": t, "v": 1.0} for t in range(9)], 0)
        assert engine.ask(question).to_arrow()["m_high"].to_pylist() == [8.0]
        engine.deliver("s", [{"ts": 9, "x": 20, "v": 1.0}], 1)
        assert engine.ask(question).to_arrow()["m_high"].to_pylist() == [20.0]
        engine.execute("DROP SYNOPSIS grams")
        with pytest.raises(MullionError, match="there is no timegram"):
            engine.ask(question)
        engine.execute("CREATE SYNOPSIS grams ON s(x) USING timegram (buckets 4, rows 9)")
        with pytest.raises(MullionError, match="has not seen"):
            engine.ask(question)


TEXTS = (
    "SELECT max(v) AS h, 'a' AS a FROM s {w}",
    "SELECT max(v) AS h, '[ROWS 2]' AS a FROM s {w}",
    "SELECT max(v) AS h -- [ROWS 2]\nFROM s {w}",
    "SELECT max(v) AS h /* [ROWS 2] */ FROM s{w}AS t HAVING max(t.v) > 3",
    "SELECT max(v) AS h FROM s {w} HAVING max(v) > 3 -- ]",
    "SELECT max(v) AS h FROM s {w} WHERE x > 1",
    "SELECT max(v) AS h FROM s {w} GROUP BY window(ts, '2 us')",
    "SELECT max(a.v) AS h FROM s {w} a JOIN s [ROWS 3] b ON a.x = b.x",
    "SELECT max(v) AS [ROWS 2] FROM s {w}",
    "SELECT max(v) AS h FROM s {w}.5",
    "SELECT APPROX max(x) AS h, window_end FROM s {w}",
    "SELECT APPROX sum(x) AS h FROM s {w}",
    "SELECT APPROX sum(x) AS h FROM s {w} WHERE x > 1",
    "SELECT APPROX sum(x) / 2 FROM S {w} AS t",
    "SELECT APPROX sum(y) AS h FROM s {w}",
    "SELECT APPROX count(*) AS h FROM s {w}",
)
ODD_WINDOWS = (
    *WINDOWS,
    "[ROWS 0]",
    "[ROWS 08]",
    "[ROWS 1.5]",
    "[ROWS 41]",
    "[ROWS 5 SLIDE 1]",
    "[ROWS 6 SLIDE 2]",
    "[ROWS 3 -- ]\n]",
    "[ROWS 4 /* ] */]",
    "[ROWS /* three */ 3]",
    "[ROWS 3 ']']",
    "[[ROWS 3]]",
    "[RANGE '6 us']",
    "[RANGE '11 µs']",
    "[RANGE 9]",
    "[RANGE 90 us]",
    "[RANGE 6 us SLIDE 2 us]",
    "[PARTITION BY x ROWS 2]",
    "[rows\n7]",
    "[ROWS 99999999999999999999999]",
    "[]",
    "",
)


def outcome(text: str, ask: Callable[[str], OneAnswer]) -> Any:
    """The answer, or what is said instead, with the place that is shown."""
    try:
        answer = ask(text)
    except MullionError as problem:
        return str(problem)
    rows = answer.to_arrow()
    return rows.schema, repr(rows.to_pylist()), answer.answered_from, answer.answered_up_to, answer.newest


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9))])
def test_what_was_asked_before_changes_no_answer(seed: int) -> None:
    """Texts that are alike up to a window, or seem to be: as if all of each had been read for the first time, also when
    what is registered has changed meanwhile."""
    rng = random.Random(seed)
    changes = [
        "DROP SYNOPSIS grams",
        "CREATE SYNOPSIS grams ON s(x) USING timegram (buckets 2, rows 9)",
        "DROP SYNOPSIS best",
        "CREATE SYNOPSIS best ON s(v) USING ordered_sharing (rows 9)",
        "CREATE SYNOPSIS more ON s(v) USING ordered_sharing (rows 20)",
    ]
    with local_engine(SCRIPT.replace("LATENESS", "KEEP '30 us' LATENESS")) as engine:
        for number in range(6):
            engine.deliver("s", events(rng, 15, 20 * number), number)
            texts = [text.format(w=window) for text in TEXTS for window in ODD_WINDOWS]
            for text in rng.sample(texts, 120):
                wanted = outcome(text, lambda t: engine.answer(parse_query(t)))
                assert outcome(text, engine.ask) == wanted, text
            if number < len(changes):
                engine.execute(changes[number])


def test_a_mistake_is_shown_in_the_text_that_was_asked() -> None:
    with local_engine(SCRIPT) as engine:
        engine.deliver("s", [{"ts": t, "x": t, "v": 1.0} for t in range(9)], 0)
        engine.ask("SELECT APPROX max(x) AS m FROM s [ROWS 4]")
        with pytest.raises(MullionError, match=r"FROM s \[ROWS 4000\]"):
            engine.ask("SELECT APPROX max(x) AS m FROM s [ROWS 4000]")


@pytest.mark.parametrize(
    ("question", "message", "marked"),
    [
        ("SELECT APPROX max(ts) AS m FROM s [ROWS 4]", r"there is no timegram on s\(ts\)", "max(ts)"),
        ("SELECT APPROX max(zz) AS m FROM s [ROWS 4]", "unknown column 'zz' in s", "zz"),
        ("SELECT APPROX max(x + 1) AS m FROM s [ROWS 4]", "needs a column", "max(x + 1)"),
        ("SELECT APPROX max(x) AS m FROM s [ROWS 41]", "holds 40 rows, not 41", "max(x)"),
        ("SELECT APPROX max(x), median(x) FROM s [ROWS 4]", "this item of SELECT APPROX", "median(x)"),
        ("SELECT APPROX max(x) FROM s [ROWS 4 SLIDE 2]", "such a window", "[ROWS 4 SLIDE 2]"),
    ],
)
def test_a_script_with_a_question_that_no_timegram_answers_runs_nothing(
    question: str, message: str, marked: str
) -> None:
    """Before there is an event."""
    with local_engine(SCRIPT) as engine:
        script = f"CREATE QUERY q AS SELECT count(*) AS n FROM s [ROWS 4];\n{question}"
        with pytest.raises(MullionError, match=message) as told:
            engine.execute(script)
        assert told.value.place is not None and not engine.catalog.queries
        assert script[told.value.place.start : told.value.place.end] == marked
        engine.execute(script.replace(question, "SELECT APPROX max(x) AS m FROM s [ROWS 40]"))
