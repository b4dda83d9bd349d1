"""Windows over rows, events, partitions and columns keep to the limit of memory as windows over time do. Without a
JVM."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mullion.errors import MullionError
from mullion.memory import Memory
from mullion.slices import answering_room
from mullion.testing import Crash, crash_at
from without_spark import EngineWithoutSpark, local_engine

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT, at BIGINT) USING rate TIMESTAMP BY ts LATENESS '10 us'"
QUERIES = {
    "rows": "SELECT k, count(*) AS n, sum(v) AS total FROM s [ROWS 20 SLIDE 6] GROUP BY k",
    "tuples": "SELECT k, max(v) AS most FROM s [RANGE 30 us SLIDE 4 TUPLES] WHERE v > 2 GROUP BY k",
    "each": "SELECT k, count(DISTINCT v) AS n FROM s [PARTITION BY k ROWS 5 SLIDE 9] GROUP BY k",
    "ranked": "SELECT k, sum(v) AS n FROM s [PARTITION BY k ROWS 3 SLIDE 9] GROUP BY k ORDER BY n DESC, k LIMIT 2",
    "whole": "SELECT sum(v) AS total FROM s [PARTITION BY k ROWS 4 SLIDE '10 us']",
}
OVER_A_COLUMN = {"values": "SELECT k, sum(v) AS total FROM s [RANGE 40 SLIDE 10 WATTR at] GROUP BY k"}


def script(queries: Mapping[str, str]) -> str:
    return ";\n".join([STREAM, *(f"CREATE QUERY {name} AS {text}" for name, text in queries.items())])


def event(time: int, k: str | None, v: int | None) -> dict[str, Any]:
    return {"ts": time, "k": k, "v": v, "at": time}


def in_turn(first: int, last: int) -> list[dict[str, Any]]:
    return [event(time, "abc"[time % 3], time % 5 + 1) for time in range(first, last)]


def set_parts(patch: pytest.MonkeyPatch, **parts: int) -> None:
    for name, size in parts.items():
        patch.setattr(Memory, name, size)


def on_disk(engine: EngineWithoutSpark) -> list[bool]:
    return [entry.on_disk for own in engine.runs["s"].ordered.sets.values() for entry in own.tier.entries]


def test_sub_windows_go_to_disk_and_then_the_events_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with local_engine(script({"rows": "SELECT k, count(*) AS n FROM s [ROWS 9 SLIDE 6] GROUP BY k"})) as engine:
        engine.deliver("s", in_turn(0, 16), 0)
        run = engine.runs["s"]
        order = run.ordered.order
        assert on_disk(engine) == [False] and len(order) == 11 and order.size
        set_parts(monkeypatch, held=order.size + 100)
        run.state_memory.make_room()
        assert on_disk(engine) == [True] and order.size
        set_parts(monkeypatch, held=0)
        run.state_memory.make_room()
        assert not order.size
        engine.deliver("s", in_turn(40, 41), 1)
        engine.end("s")
        found = [(row["k"], row["n"]) for row in engine.results("rows").to_arrow().to_pylist()]
        assert found == [("a", 2), ("b", 2), ("c", 2), *[("a", 3), ("b", 3), ("c", 3)]]


def played(monkeypatch: pytest.MonkeyPatch, seed: int, base: Path, *, little: bool, sharing: str) -> dict[str, Any]:
    """The answers over 40 batches, one of which crashes and is played again."""
    monkeypatch.setattr(answering_room, "LEAST", 3 if little else 1_000)
    set_parts(monkeypatch, **({"held": 0, "free": 0} if little else {"held": 1 << 40, "free": 1 << 40}))
    monkeypatch.setattr(Memory, "settled_rows", lambda self, row_bytes: 5 if little else 1 << 40)
    rng = random.Random(seed)
    crash = rng.randrange(40)
    batches = [
        [
            event(batch * 8 + rng.randint(-9, 8), rng.choice([None, *"abcd"]), rng.choice([None, *range(9)]))
            for _ in range(12)
        ]
        for batch in range(40)
    ]
    place: dict[str, Any] = {"out": base / f"out{little}", "checkpoint": base / f"state{little}", "sharing": sharing}
    with local_engine(script(QUERIES), **place) as engine:
        for number in range(crash):
            engine.deliver("s", batches[number], number)
        with crash_at("before commit"), pytest.raises(Crash):
            engine.deliver("s", batches[crash], crash)
    with local_engine(script(QUERIES), **place) as engine:
        for number in range(crash, 40):
            engine.deliver("s", batches[number], number)
        assert on_disk(engine) and all(held is little for held in on_disk(engine))
        engine.end("s")
        found = {name: engine.results(name).to_arrow().to_pylist() for name in QUERIES}
        return {name: rows if name == "ranked" else sorted(map(repr, rows)) for name, rows in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "sharing"), [(0, "auto"), (1, "off")])
def test_answers_are_the_same_with_little_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, sharing: str
) -> None:
    """Also after a crash and a restart."""
    much, little = (played(monkeypatch, seed, tmp_path, little=little, sharing=sharing) for little in (False, True))
    assert little == much and all(much.values())


@pytest.mark.parametrize(
    ("name", "kept"),
    [("rows", r"7 slices x 3 groups x \d+ bytes"), ("tuples", "slices x 1 groups"), ("whole", "slices")],
)
def test_what_does_not_fit_is_told_by_name(monkeypatch: pytest.MonkeyPatch, name: str, kept: str) -> None:
    set_parts(monkeypatch, answering=600)
    with (
        local_engine(script({name: QUERIES[name]}), memory="2GB") as engine,
        pytest.raises(MullionError, match=f"^query '{name}' keeps about .*{kept}.* to be answered; Python has") as told,
    ):
        engine.deliver("s", in_turn(0, 40), 0)
    assert told.value.hint is not None and "at least --memory 2GB" in told.value.hint


def test_a_refused_run_goes_on_with_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place: dict[str, Any] = {"out": tmp_path / "out", "checkpoint": tmp_path / "state"}
    text = script({"rows": "SELECT count(*) AS n FROM s [ROWS 5 SLIDE 5]"})
    with local_engine(text, **place) as engine:
        engine.deliver("s", in_turn(0, 15), 0)
        with monkeypatch.context() as small, pytest.raises(MullionError, match="query 'rows' keeps about"):
            set_parts(small, answering=10)
            engine.deliver("s", in_turn(15, 40), 1)
    with local_engine(text, **place) as engine:
        engine.deliver("s", in_turn(15, 40), 1)
        engine.end("s")
        assert [row["n"] for row in engine.results("rows").to_arrow().to_pylist()] == [5] * 8


def test_groups_of_partitions_are_answered_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """So only what is known of their events has to fit."""
    text = "SELECT k, sum(v) AS total FROM s [PARTITION BY k ROWS 5 SLIDE 30] GROUP BY k"
    found = []
    for parts in ({}, {"free": 0, "answering": 6_000}):
        monkeypatch.setattr(answering_room, "LEAST", 7)
        set_parts(monkeypatch, **parts)
        with local_engine(script({"q": text})) as engine:
            engine.deliver("s", in_turn(0, 90), 0)
            engine.end("s")
            found.append(engine.results("q").to_arrow().to_pylist())
    assert found[0] == found[1] and len(found[0]) == 9


def test_events_that_find_their_places_at_once_are_answered_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sub-windows of rows that are no more needed are gone before others come."""
    monkeypatch.setattr(Memory, "settled_rows", lambda self, row_bytes: 10)
    with local_engine(script({"q": "SELECT k, count(*) AS n FROM s [RANGE 5 us SLIDE 5 TUPLES] GROUP BY k"})) as engine:
        engine.deliver("s", in_turn(0, 200), 0)
        set_parts(monkeypatch, answering=4_000)  # of 190 events they would be 30,000 bytes
        engine.end("s")
        assert len(engine.results("q").to_arrow()) == 3 * 40


def test_events_that_are_put_in_the_order_of_a_column_must_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    with local_engine(script(OVER_A_COLUMN), memory="2GB") as engine:
        engine.deliver("s", in_turn(0, 20), 0)
        set_parts(monkeypatch, answering=20_000)
        with pytest.raises(MullionError, match=r"^query 'values' puts 190 events in the order of at at once"):
            engine.deliver("s", in_turn(20, 210), 1)


def test_a_query_of_many_answers_is_stopped_before_all_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering_room, "LEAST", 3)
    set_parts(monkeypatch, free=0)
    text = "SELECT k, count(*) AS n FROM s [PARTITION BY k ROWS 2 SLIDE 1] GROUP BY k"
    with local_engine(script({"q": text}), most_answers=100) as engine:
        engine.deliver("s", in_turn(0, 5_000), 0)
        assert 100 < len(engine.results("q").to_arrow()) < 1_000
        assert "q" in engine.runs["s"].limits.stopped
