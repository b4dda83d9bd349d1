"""A shard that goes through its groups in parts answers as one that takes them all at once."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mullion.errors import MullionError
from mullion.memory import GB, Memory, TaskMemory
from mullion.runtime import shard_parts, sharding, sharding_choice
from mullion.runtime.shard_parts import GroupParts, ShardFile
from mullion.sinks.files import files_in
from mullion.slices import finalize
from without_spark import local_engine

SCRIPT = (
    "CREATE STREAM s (ts TIMESTAMP, k STRING, j INT, x INT, d DOUBLE) USING parquet OPTIONS (path 'x') TIMESTAMP BY ts;"
)
QUERIES = {
    "sums": "SELECT k, count(*) AS n, sum(x) AS s, max(d) AS m FROM s [RANGE 40 us SLIDE 20 us] GROUP BY k",
    "two": "SELECT k, j, avg(d) AS a, min(x) AS m FROM s [RANGE 20 us SLIDE 20 us] WHERE x > 2 GROUP BY k, j",
    "values": "SELECT k, median(x) AS m, count(DISTINCT j) AS n FROM s [RANGE 40 us SLIDE 20 us] GROUP BY k",
    "few": "SELECT k, approx_count_distinct(x) AS a FROM s [RANGE 20 us SLIDE 20 us] GROUP BY k",
    "top": "SELECT j, sum(x) AS s FROM s [RANGE 40 us SLIDE 40 us] GROUP BY j ORDER BY s DESC, j LIMIT 3",
    "always": "SELECT j, count(*) AS n FROM s [RANGE UNBOUNDED SLIDE 40 us] GROUP BY j",
    "some": "SELECT d, count(*) AS n FROM s [RANGE 20 us SLIDE 20 us] GROUP BY d HAVING count(*) > 1",
}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharding_choice, "SHARDS", 2)


def batches(seed: int) -> list[list[dict[str, Any]]]:
    chosen = random.Random(seed)

    def event(time: int) -> dict[str, Any]:
        key = chosen.choice([None, *(f"key {i}" for i in range(25))])
        number = chosen.choice([None, *range(8)])
        real = chosen.choice([None, 0.0, -0.0, float("nan"), 1.5, 2.5])
        return {"ts": time, "k": key, "j": number, "x": chosen.randrange(10), "d": real}

    return [[event(50 * batch + chosen.randrange(50)) for _ in range(60)] for batch in range(3)]


def rooms(patch: pytest.MonkeyPatch, usual: int, most: int = GB) -> None:
    patch.setattr(Memory, "task", lambda self, tasks: TaskMemory(usual, most, self.limit, tasks))


def answers(queries: Sequence[str], events: Sequence[Sequence[dict[str, Any]]], **options: Any) -> dict[str, Any]:
    text = SCRIPT + "".join(f"CREATE QUERY {name} AS {QUERIES[name]};" for name in queries)
    with local_engine(text, shard_above=0, **options) as engine:
        for number, batch in enumerate(events):
            engine.deliver("s", batch, number)
        engine.end("s")
        assert any(own.shards for own in engine.runs["s"].sets.values())
        return {name: sorted(map(repr, engine.results(name).to_arrow().to_pylist())) for name in queries}


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_answers_in_parts_are_those_at_once(seed: int, written: bool) -> None:
    found = []
    parts: set[int] = set()
    for room in (GB, 4_000, 700):
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
            rooms(patch, room)
            patch.setattr(GroupParts, "of", staticmethod(noting(GroupParts.of, parts)))
            options = {"out": Path(place) / "out"} if written else {}
            found.append(answers(list(QUERIES), batches(seed), **options))
    assert found[0] == found[1] == found[2]
    assert all(found[0].values()) and 1 in parts and max(parts) > 5


def noting(of: Callable[..., GroupParts], parts: set[int]) -> Callable[..., GroupParts]:
    """The same, which notes in how many parts a shard is cut."""

    def noted(files: Sequence[ShardFile], room: int | None) -> GroupParts:
        made = of(files, room)
        parts.add(made.count)
        return made

    return noted


def test_answers_of_a_query_that_come_in_turns_are_all_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    events = batches(1)
    expected = answers(["sums", "values"], events)
    monkeypatch.setattr(finalize, "MOST_SWEPT", 5)
    monkeypatch.setattr(finalize, "MOST_RANGES", 5)
    monkeypatch.setattr(sharding, "WAITING", GB)
    assert answers(["sums", "values"], events, out=tmp_path) == expected
    assert any(file.shard is not None and file.part for file in files_in(tmp_path / "sums"))


def test_files_of_earlier_versions_are_in_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers(list(QUERIES), batches(2))
    monkeypatch.setattr(sharding, "by_group", lambda table, grouping: table)
    rooms(monkeypatch, 2_000)
    assert answers(list(QUERIES), batches(2)) == expected


def test_a_group_that_cannot_be_cut_is_refused_by_the_name_of_its_query(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms(monkeypatch, 1_000, most=50)
    with pytest.raises(MullionError, match=r"^query 'sums': some groups that cannot be split further need ") as told:
        answers(["sums"], batches(3))
    assert told.value.hint is not None and told.value.hint.startswith("at least --memory 2GB")


def tables() -> Iterator[pa.Table]:
    plain = pa.array(["a", None, "b", "a", "ccc"])
    yield pa.table({"key0": plain})
    yield pa.table({"key0": plain.dictionary_encode()})
    yield pa.table({"key0": pa.chunked_array([plain[:2].dictionary_encode(), plain[2:].dictionary_encode()])})


def test_a_group_has_one_hash_however_its_key_is_kept() -> None:
    hashes = [shard_parts._hashes(table, 1).tolist() for table in tables()]
    assert hashes[0] == hashes[1] == hashes[2] and hashes[0][0] == hashes[0][3]
    assert len(set(hashes[0])) == 4 and max(hashes[0]) < 1 << 32
    zeros = pa.table({"key0": pa.array([0.0, -0.0, float("nan"), -np.float64("nan")])})
    assert len(set(shard_parts._hashes(zeros, 1).tolist())) == 2
