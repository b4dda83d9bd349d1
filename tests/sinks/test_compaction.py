"""Files of answers become few, and nobody sees a row twice or not at all."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mullion.sinks import compaction, folder
from mullion.sinks.compaction import first_to_merge
from mullion.sinks.files import files_in
from mullion.sinks.owner import OWN
from mullion.sinks.parquet import ParquetSink
from mullion.slices.finalize import Answers
from mullion.storage.marks import Mark
from mullion.testing import COMPACTION_STEPS, STEPS, Crash, crash_at
from sinks.played import SCHEMA, expected, opened, parquet_files, play, read


@pytest.mark.slow
def test_a_hundred_batches_leave_few_files(tmp_path: Path) -> None:
    queries = [f"q{i}" for i in range(10)]
    sink = opened(tmp_path, queries, None)
    most = 0
    for batch in range(100):
        play(sink, batch, dict.fromkeys(queries, 2))
        sink.committed("s", Mark(batch))
        most = max(most, *(len(files_in(tmp_path / name)) for name in queries))
    assert most <= compaction.MANY + 10
    sink.finish(dict.fromkeys(queries, SCHEMA))
    assert (tmp_path / "q0").is_symlink()
    assert len(pd.read_parquet(tmp_path / "q0")) == 200
    for name in queries:
        assert len(files_in(tmp_path / name)) <= compaction.FEW
        assert read(tmp_path, name) == [(batch, n) for batch in range(100) for n in range(2)]
    assert parquet_files(tmp_path) == sum(len(files_in(tmp_path / name)) for name in [*queries, "_late"])


def test_rows_are_written_again_a_few_times_only() -> None:
    rnd = random.Random(1)
    for small in (0, 1000):
        sizes: list[int] = []
        written = total = 0
        for _ in range(20_000):
            sizes.append(rnd.choice([1, 10, rnd.randrange(1, 1000)]))
            total += sizes[-1]
            if len(sizes) > compaction.MANY:
                at = first_to_merge(sizes, small)
                written += sum(sizes[at:])
                sizes[at:] = [sum(sizes[at:])] if at < len(sizes) else []
        assert len(sizes) <= compaction.MANY + 1
        assert written < 16 * total


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_crashes_at_every_step(seed: int, tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that crashes again and again, each time at another step, leaves what it would have without."""
    rnd = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(folder, "exchange", lambda one, other: False)
    queries = [f"q{i}" for i in range(4)]
    numbers = [{name: rnd.randrange(4) for name in queries} for _ in range(24)]
    shards = [rnd.random() < 0.5 for _ in numbers]
    out, committed, crashes = tmp_path / "out", None, 0
    steps = [step for step in (*STEPS[2:5], *COMPACTION_STEPS) for _ in range(4)]
    rnd.shuffle(steps)
    while True:
        sink = opened(out, queries, committed)
        (out / "q0" / "mine.txt").write_text("not Mullion's")
        try:
            with crash_at(steps.pop() if steps else "never", rnd.randrange(1, 4)):
                for batch in range(0 if committed is None else committed + 1, len(numbers)):
                    play(sink, batch, numbers[batch], shards=shards[batch])
                    committed = batch
                    sink.committed("s", Mark(batch))
                sink.finish(dict.fromkeys(queries, SCHEMA))
        except Crash:
            crashes += 1
            continue
        break
    assert crashes > 10
    for name in queries:
        assert read(out, name) == expected(numbers, name)
        assert len(files_in(out / name)) <= 6
    late = [{"_late": sum(some.values()) % 3} for some in numbers]
    assert read(out, "_late") == expected(late, "_late")
    assert (out / "q0" / "mine.txt").read_text() == "not Mullion's"
    assert sorted(p.name for p in out.iterdir()) == [OWN, "_late", *queries]
    assert parquet_files(out) == sum(len(files_in(out / name)) for name in [*queries, "_late"])


READERS: dict[str, Callable[[str], list[int]]] = {
    "pyarrow": lambda folder: (
        ds.dataset(os.path.realpath(folder), format="parquet").to_table().column("batch").to_pylist()
    ),
    "duckdb": lambda folder: [
        n for (n,) in duckdb.connect().execute(f"SELECT batch FROM read_parquet('{folder}/*.parquet')").fetchall()
    ],
}

# What readers say when the files that they were about to read were removed. The last is DuckDB's, of a folder that was
# emptied between its being opened and being listed.
GONE = ("No such file", "does not exist", "No files found that match the pattern")


@pytest.mark.slow
def test_readers_beside_a_run_see_every_row_once(tmp_path: Path, eager: None) -> None:
    """Each read is what some batch had left: all rows up to it, none twice. A reader may be told that files are gone,
    and reads again. One that looks at the names that it has listed, and leaves out those that are gone, must resolve
    the link first."""
    sink = opened(tmp_path, ["q"], None)
    play(sink, 0, {"q": 2})
    going, reads, wrong = threading.Event(), dict.fromkeys(READERS, 0), []
    going.set()

    def look(name: str) -> None:
        while going.is_set():
            try:
                found = sorted(READERS[name](str(tmp_path / "q")))
            except (OSError, pa.ArrowException, duckdb.Error) as problem:
                if not any(text in str(problem) for text in GONE):
                    wrong.append(problem)
                continue
            except Exception as problem:
                wrong.append(problem)
                continue
            if found != sorted([n for n in range(len(found) // 2) for _ in range(2)]):
                wrong.append(found)
            reads[name] += 1

    threads = [threading.Thread(target=look, args=(name,)) for name in READERS]
    for thread in threads:
        thread.start()
    batch = 0
    while batch < 60 or (min(reads.values()) < 20 and batch < 600):
        batch += 1
        play(sink, batch, {"q": 2})
        sink.settle("s")
        sink.committed("s", Mark(batch))
        assert len(ParquetSink(tmp_path).tables("q")) <= 8
    going.clear()
    for thread in threads:
        thread.join()
    assert not wrong
    assert min(reads.values()) >= 10


def test_a_reader_that_resolves_the_link_first_is_not_disturbed(tmp_path: Path, eager: None) -> None:
    sink = opened(tmp_path, ["q"], None)
    for batch in range(3):
        play(sink, batch, {"q": 1})
        sink.committed("s", Mark(batch))
    resolved = (tmp_path / "q").resolve()
    names = [path.name for path in resolved.glob("*.parquet")]
    before = read(tmp_path, "q")
    for batch in (3, 4):
        play(sink, batch, {"q": 1})
        sink.committed("s", Mark(batch))
    assert (tmp_path / "q").resolve() != resolved
    assert sorted(batch for name in names for batch in pq.read_table(resolved / name).column("batch").to_pylist()) == [
        batch for batch, _ in before
    ]


@pytest.mark.parametrize(("small", "large", "left"), [(0, 6, 6), (4, 6, 10), (5, 0, 1), (5, 6, 7)])
def test_the_end_of_a_run_merges_small_files_only(
    small: int, large: int, left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large ones stay as they are, however many: merging them takes as long as writing them did."""
    monkeypatch.setattr(compaction, "SMALL", 10_000)
    sink = opened(tmp_path, ["q"], None)
    rnd = random.Random(1)
    rows = [2**k * 4_000 for k in range(large, 0, -1)] + [1] * small
    for batch, number in enumerate(rows):
        noise = [rnd.getrandbits(62) for _ in range(number)]
        sink.write("s", Mark(batch), [Answers(("q",), [0, number], pa.table({"batch": [batch] * number, "n": noise}))])
        sink.committed("s", Mark(batch))
    sink.finish({"q": SCHEMA})
    assert len(files_in(tmp_path / "q")) == left
    assert [len(table) for table in sink.tables("q")][:large] == rows[:large]
    assert sum(map(len, sink.tables("q"))) == sum(rows)
