"""Sub-windows beyond their part of memory go to disk, and what cannot be answered is told. Without a JVM."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mullion.errors import MullionError
from mullion.memory import Memory
from mullion.runtime.state_memory import (
    families,
    needs_of,
    sets_at_once,
    too_large,
)
from mullion.slices import answering_room
from mullion.slices.answering_room import held_by_grouping, of_groupings
from mullion.storage.scratch import Scratch
from mullion.testing import Crash, crash_at
from without_spark import EngineWithoutSpark, local_engine

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT) USING rate TIMESTAMP BY ts LATENESS '10 us'"
QUERIES = {
    "sums": "SELECT k, count(*) AS n, sum(v) AS total FROM s [RANGE 30 us SLIDE 5 us] WHERE v > 2 GROUP BY k",
    "means": "SELECT avg(v) AS mean, min(k) AS least FROM s [RANGE 40 us SLIDE 7 us]",
    "ever": "SELECT k, max(v) AS most FROM s [RANGE UNBOUNDED SLIDE 10 us] GROUP BY k",
    "many": "SELECT count(DISTINCT v) AS n FROM s [RANGE 20 us SLIDE 10 us]",
}


def script(queries: dict[str, str] = QUERIES) -> str:
    return ";\n".join([STREAM, *(f"CREATE QUERY {name} AS {text}" for name, text in queries.items())])


def events(rng: random.Random, batch: int) -> list[dict[str, Any]]:
    times = [batch * 8 + rng.randint(-9, 8) for _ in range(12)]
    return [{"ts": time, "k": rng.choice([None, "a", "b", "c"]), "v": rng.choice([None, *range(9)])} for time in times]


def answers(engine: EngineWithoutSpark) -> dict[str, list[str]]:
    return {name: sorted(map(repr, engine.results(name).to_arrow().to_pylist())) for name in QUERIES}


def on_disk(engine: EngineWithoutSpark) -> list[bool]:
    sets = engine.runs["s"].sets.values()
    return [entry.on_disk for sharing_set in sets for entry in sharing_set.tier.entries]


def hold(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(Memory, "held", property(lambda self: size))


def played(monkeypatch: pytest.MonkeyPatch, seed: int, size: int, base: Path, **options: Any) -> dict[str, list[str]]:
    """The answers over 60 batches, one of which crashes and is played again."""
    hold(monkeypatch, size)
    rng = random.Random(seed)
    batches = [events(rng, number) for number in range(60)]
    crash = rng.randrange(60)
    place = {"out": base / f"out{size}", "checkpoint": base / f"state{size}"}
    with local_engine(script(), **place, **options) as engine:
        for number in range(crash):
            engine.deliver("s", batches[number], number)
        with crash_at("before commit"), pytest.raises(Crash):
            engine.deliver("s", batches[crash], crash)
    with local_engine(script(), **place, **options) as engine:
        for number in range(crash, 60):
            engine.deliver("s", batches[number], number)
        some = on_disk(engine)
        assert any(some) == (size < 1 << 30)
        assert all(some) == (size == 0)
        engine.end("s")
        return answers(engine)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "sharing"), [(0, "auto"), (1, "off")])
def test_answers_are_the_same_from_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, sharing: str
) -> None:
    """Also after merging, a crash and a restart."""
    found = [played(monkeypatch, seed, size, tmp_path, sharing=sharing) for size in (1 << 40, 3_000, 0)]
    assert found[0] == found[1] == found[2]
    assert all(found[0].values())


def test_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with local_engine(script({"means": QUERIES["means"]})) as engine:
        for number in range(4):
            engine.deliver("s", [{"ts": number * 10 + i, "k": "a", "v": i} for i in range(3)], number)
        (sharing_set,) = engine.runs["s"].sets.values()
        before = sharing_set.tier.entries
        sizes = [entry.size for entry in before]
        assert not any(on_disk(engine)) and len(sizes) == 4
        hold(monkeypatch, sizes[2] + sizes[3])
        engine.runs["s"].state_memory.make_room()
        assert on_disk(engine) == [True, True, False, False]
        after = sharing_set.tier.entries
        assert all(here.table.equals(there.table) for here, there in zip(before, after, strict=True))


def test_a_file_without_a_name_holds_the_rows() -> None:
    scratch = Scratch()
    table = pa.table({"a": pa.array(["x", "y", "x"]).dictionary_encode(), "b": [1.5, None, 2.5]})
    found = scratch.mapped(table.replace_schema_metadata({"of": "rows"}))
    assert list(scratch.path.iterdir()) == []
    assert found.equals(table) and found.schema.metadata == {b"of": b"rows"}
    scratch.discard()
    assert found.to_pydict() == table.to_pydict()


def test_what_cannot_be_answered_names_the_query_and_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "long": "SELECT count(*) AS n FROM s [RANGE 40 us SLIDE 10 us]",
        "short": "SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]",
    }
    rows = [{"ts": time, "k": "abcde"[time % 5], "v": 1} for time in range(40)]
    with local_engine(script(texts), sharing="on", memory="2GB") as engine:
        engine.deliver("s", rows, 0)
        (sharing_set,) = engine.runs["s"].sets.values()
        assert sharing_set.plan is not None
        (grouping,) = sharing_set.plan.groupings
        needs = {need.query: need for need in needs_of(sharing_set, [grouping])}
        assert (needs["long"].slices, needs["long"].partials, needs["short"].slices) == (4, 1, 1)
        assert needs["long"].size > needs["short"].size
        monkeypatch.setattr(Memory, "python", property(lambda self: 1_000))
        with pytest.raises(
            MullionError, match=r"^query 'long' keeps about .* \(4 slices x 1 groups x \d+ bytes\)"
        ) as told:
            engine.deliver("s", [{"ts": 45, "k": "a", "v": 1}], 1)
        assert "beside 1 others" in told.value.message and "Python has 1000 bytes of 2.0 GB" in told.value.message
        assert told.value.hint is not None and "at least --memory 2GB" in told.value.hint


def test_a_run_that_was_refused_goes_on_with_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:
        place: dict[str, Any] = {"out": Path(name) / "out", "checkpoint": Path(name) / "state"}
        counts = {"counts": "SELECT count(*) AS n FROM s [RANGE 10 us SLIDE 10 us]"}
        batches = [[{"ts": 10 * i + j, "k": "a", "v": j} for j in range(5)] for i in range(4)]
        with local_engine(script(counts), **place) as engine:
            engine.deliver("s", batches[0], 0)
            with monkeypatch.context() as small, pytest.raises(MullionError, match="query 'counts' keeps about"):
                small.setattr(Memory, "python", property(lambda self: 10))
                engine.deliver("s", batches[1], 1)
        with local_engine(script(counts), **place) as engine:
            for number in (1, 2, 3):
                engine.deliver("s", batches[number], number)
            engine.end("s")
            assert [row["n"] for row in engine.results("counts").to_arrow().to_pylist()] == [5] * 4


def test_value_counts_are_answered_together_with_the_grouping_that_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"m": "SELECT median(v) AS m, count(DISTINCT k) AS d FROM s [RANGE 40 us SLIDE 10 us]"}
    rows = [{"ts": time, "k": "abcde"[time % 5], "v": time} for time in range(40)]
    with local_engine(script(texts), memory="2GB") as engine:
        engine.deliver("s", rows, 0)
        (sharing_set,) = engine.runs["s"].sets.values()
        assert sharing_set.plan is not None
        (together,) = families(sharing_set.plan)
        held = held_by_grouping(sharing_set.tier.entries)
        alone = [of_groupings(held, [grouping])[1] for grouping in together]
        assert len(alone) == 3 and of_groupings(held, together)[1] == sum(alone)
        monkeypatch.setattr(Memory, "answering", property(lambda self: max(alone) + 1))
        memory = engine.runs["s"].memory()
        assert too_large(sharing_set, memory) == [together]
        with pytest.raises(MullionError, match=r"^query 'm' keeps about .* to be answered; Python has"):
            engine.runs["s"].state_memory.make_room()
        monkeypatch.setattr(Memory, "answering", property(lambda self: sum(alone)))
        assert not too_large(sharing_set, memory)
        assert [sets_at_once([sharing_set] * number, memory, 4) for number in (0, 1, 2)] == [1, 1, 1]
        monkeypatch.setattr(Memory, "answering", property(lambda self: 3 * sum(alone)))
        assert [sets_at_once([sharing_set] * number, memory, 4) for number in (2, 3, 5)] == [2, 3, 3]
        assert sets_at_once([sharing_set] * 5, memory, 2) == 2


@pytest.mark.parametrize("sharing", ["on", "off"])
def test_answers_do_not_depend_on_the_room_that_there_is(monkeypatch: pytest.MonkeyPatch, sharing: str) -> None:
    texts = {
        "sums": "SELECT k, sum(v) AS s, max(v) AS m FROM s [RANGE 40 us SLIDE 10 us] GROUP BY k",
        "fourth": "SELECT k, min(v) AS m FROM s [RANGE 20 us SLIDE 10 us] WHERE v < 7 GROUP BY k",
        "values": "SELECT k, median(v) AS m, count(DISTINCT v) AS d FROM s [RANGE 40 us SLIDE 20 us] GROUP BY k",
        "modes": "SELECT mode(v) AS m, approx_percentile(v, 0.5) AS p FROM s [RANGE 30 us SLIDE 10 us]",
    }
    chosen = random.Random(7)
    batches = [
        [{"ts": 50 * b + i, "k": chosen.choice("abcdefgh"), "v": chosen.randrange(12)} for i in range(50)]
        for b in range(3)
    ]
    found = []
    for room in (1 << 30, 0):
        monkeypatch.setattr(answering_room, "LEAST", 3)
        monkeypatch.setattr(Memory, "free", property(lambda self, room=room: room))
        monkeypatch.setattr("mullion.runtime.answers.sets_at_once", lambda *asked, room=room: 2 if room else 1)
        with local_engine(script(texts), sharing=sharing) as engine:
            for number, batch in enumerate(batches):
                engine.deliver("s", batch, number)
            engine.end("s")
            found.append({name: sorted(map(repr, engine.results(name).to_arrow().to_pylist())) for name in texts})
    assert found[0] == found[1] and all(found[0].values())
