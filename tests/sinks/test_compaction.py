"""Files of answers become few, and nobody sees a row twice or not at all."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mullion.errors import CheckpointError
from mullion.sinks import compaction, files, folder
from mullion.sinks.compaction import first_to_merge
from mullion.sinks.files import AnswerFile, files_in
from mullion.sinks.owner import OWN, Owner
from mullion.sinks.parquet import ParquetSink
from mullion.slices.finalize import Answers
from mullion.storage.marks import Mark
from mullion.testing import COMPACTION_STEPS, STEPS, Crash, crash_at

SCHEMA = pa.schema([("batch", pa.int64()), ("n", pa.int64())])
MINE = Owner("mine", "/the/checkpoint")


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are merged as soon as there are three."""
    monkeypatch.setattr(compaction, "MANY", 2)
    monkeypatch.setattr(compaction, "FEW", 1)


def rows_of(batch: int, number: int) -> pa.Table:
    return pa.table({"batch": [batch] * number, "n": list(range(number))}, schema=SCHEMA)


def opened(out: Path, queries: list[str], committed: int | None) -> ParquetSink:
    sink = ParquetSink(out)
    sink.claim(MINE)
    sink.set_queries("s", {name: f"text of {name}" for name in queries})
    sink.resume("s", queries, None if committed is None else Mark(committed))
    return sink


def play(sink: ParquetSink, batch: int, numbers: dict[str, int], *, shards: bool = False) -> None:
    """What a batch writes: some queries by shards, the others by the driver, perhaps in parts, and late records."""
    late = sum(numbers.values()) % 3
    if late:
        sink.aside("late", "s", Mark(batch), rows_of(batch, late))
    write = sink.shard_writer()
    answers, more = [], []
    for name, number in numbers.items():
        table = rows_of(batch, number)
        if shards and number > 1:
            write(Mark(batch), 0, name, table.slice(0, 1))
            write(Mark(batch), 1, name, table.slice(1))
        elif number > 2:
            answers.append(Answers((name,), [0, 2], table.slice(0, 2)))
            more.append(Answers((name,), [0, number - 2], table.slice(2)))
        else:
            answers.append(Answers((name,), [0, number], table))
    sink.write("s", Mark(batch), answers)
    if more:
        sink.write("s", Mark(batch), more, 1)


def read(out: Path, name: str) -> list[tuple[int, int]]:
    """As any reader would."""
    found = [pq.read_table(path, partitioning=None) for path in sorted((out / name).glob("*.parquet"))]
    return [tuple(row.values()) for table in found for row in table.to_pylist()]


def parquet_files(out: Path) -> int:
    return sum(1 for _ in out.rglob("*.parquet"))


def expected(numbers: list[dict[str, int]], name: str) -> list[tuple[int, int]]:
    return [(batch, n) for batch, some in enumerate(numbers) for n in range(some.get(name, 0))]


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


@pytest.mark.slow
def test_readers_beside_a_run_see_every_row_once(tmp_path: Path, eager: None) -> None:
    """Each read is what some batch had left: all rows up to it, none twice. A reader may be told that a file is gone,
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
                if "No such file" not in str(problem) and "does not exist" not in str(problem):
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


# Going back, other readers' habits, other files


def test_a_checkpoint_may_go_back_behind_a_merge(tmp_path: Path, eager: None) -> None:
    sink = opened(tmp_path, ["q"], None)
    for batch in range(9):
        play(sink, batch, {"q": batch % 3}, shards=True)
        sink.committed("s", Mark(batch))
    sink.finish({"q": SCHEMA})
    for committed in (7, 5, 2):
        opened(tmp_path, ["q"], committed)
        assert read(tmp_path, "q") == [(b, n) for b in range(committed + 1) for n in range(b % 3)]
    sink = opened(tmp_path, ["q"], 2)
    play(sink, 3, {"q": 5})
    assert read(tmp_path, "q")[-5:] == [(3, n) for n in range(5)]


def test_but_not_further_than_a_merge_tells_apart(tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "NOTED", 2)
    sink = opened(tmp_path, ["q"], None)
    for batch in range(9):
        play(sink, batch, {"q": 1})
        sink.committed("s", Mark(batch))
    sink.finish({"q": SCHEMA})
    with pytest.raises(CheckpointError, match="holds answers of batch 2 and of later ones"):
        opened(tmp_path, ["q"], 2)
    assert len(read(tmp_path, "q")) == 9


def test_streams_that_put_records_aside_do_not_disturb_each_other(tmp_path: Path, eager: None) -> None:
    sink = opened(tmp_path, [], None)
    for batch in range(6):
        for stream in ("a", "b.c"):
            sink.aside("ahead", stream, Mark(batch), rows_of(batch, 1))
        sink.committed("a", Mark(batch))
    sink = opened(tmp_path, [], None)
    sink.resume("b.c", [], Mark(3))
    found = dict.fromkeys(("a", "b.c"), 0)
    for file in files_in(tmp_path / "_ahead"):
        assert file.stream is not None
        found[file.stream] += file.rows()
    assert found == {"a": 6, "b.c": 4}
    assert sum(map(len, sink.aside_tables("ahead"))) == 10


def test_a_late_shard_does_not_double_what_was_merged(tmp_path: Path, eager: None) -> None:
    sink = opened(tmp_path, ["q"], None)
    write = sink.shard_writer()
    for batch in range(4):
        play(sink, batch, {"q": 2}, shards=True)
        sink.committed("s", Mark(batch))
    write(Mark(0), 0, "q", rows_of(0, 1))
    play(sink, 4, {"q": 2})
    sink.committed("s", Mark(4))
    sink.finish({"q": SCHEMA})
    assert read(tmp_path, "q") == [(batch, n) for batch in range(5) for n in range(2)]


def test_a_plain_copy_and_a_lost_link(tmp_path: Path, eager: None) -> None:
    """Answers that somebody has copied back, or whose link is gone, are found again."""
    sink = opened(tmp_path, ["q"], None)
    for batch in range(5):
        play(sink, batch, {"q": 1})
        sink.committed("s", Mark(batch))
    assert (tmp_path / "q").is_symlink()
    (tmp_path / "q").unlink()
    assert len(opened(tmp_path, ["q"], 4).tables("q")) >= 1
    assert read(tmp_path, "q") == [(batch, 0) for batch in range(5)]
    shutil.copytree(tmp_path / "q", tmp_path / "copy")
    (tmp_path / "q").unlink()
    (tmp_path / "copy").rename(tmp_path / "q")
    sink = opened(tmp_path, ["q"], 4)
    for batch in range(5, 9):
        play(sink, batch, {"q": 1})
        sink.committed("s", Mark(batch))
    assert read(tmp_path, "q") == [(batch, 0) for batch in range(9)]


def test_files_that_cannot_be_merged_are_left(tmp_path: Path, eager: None) -> None:
    sink = opened(tmp_path, ["q"], None)
    for batch in range(5):
        play(sink, batch, {"q": 1})
        if batch == 2:
            next(iter(files_in(tmp_path / "q"))).path.write_text("damaged")
        sink.committed("s", Mark(batch))
    assert [file.last.batch for file in files_in(tmp_path / "q")] == [0, 1, 2, 3, 4]


def test_removed_files_are_counted(tmp_path: Path, eager: None) -> None:
    sink = opened(tmp_path, ["q", "r"], None)
    for batch in range(6):
        play(sink, batch, {"q": 2, "r": 1}, shards=True)
        if batch < 5:
            sink.committed("s", Mark(batch))
    assert sink.missing({"q": 10, "r": 5}, Mark(4)) == {}
    assert sink.missing({"q": 12, "r": 6}, Mark(5)) == {}
    gone = files_in(tmp_path / "q")[0]
    lost = gone.rows()
    gone.path.unlink()
    assert opened(tmp_path, ["q", "r"], 4).missing({"q": 10, "r": 5}, Mark(4)) == {"q": lost}


# A name that is given to another query


def test_another_query_of_the_same_name_begins_anew(tmp_path: Path, eager: None) -> None:
    sink = opened(tmp_path, ["q", "r"], None)
    for batch in range(4):
        play(sink, batch, {"q": 1, "r": 1})
        sink.committed("s", Mark(batch))
    sink.set_queries("s", {"r": "text of r"})
    sink.set_queries("s", {"r": "text of r", "q": "another"})
    other = pa.table({"total": [1.5]})
    sink.write("s", Mark(4), [Answers(("q",), [0, 1], other)])
    sink.committed("s", Mark(4))
    assert [table.to_pylist() for table in sink.tables("q")] == [[{"total": 1.5}]]
    assert read(tmp_path / "_earlier" / "q", "000000") == [(batch, 0) for batch in range(4)]
    assert len(read(tmp_path, "r")) == 4
    again = ParquetSink(tmp_path)
    again.claim(MINE)
    again.set_queries("s", {"r": "text of r", "q": "another"})
    again.resume("s", ["r", "q"], Mark(4))
    assert [table.to_pylist() for table in again.tables("q")] == [[{"total": 1.5}]]
    ParquetSink(tmp_path).claim(Owner("other"), overwrite=True)
    assert parquet_files(tmp_path) == 0
    assert [p.name for p in tmp_path.iterdir()] == [OWN]


def test_nothing_is_put_away_where_there_were_no_answers(tmp_path: Path) -> None:
    sink = opened(tmp_path, ["q"], None)
    sink.finish({"q": SCHEMA})
    sink.set_queries("s", {"q": "another"})
    assert not (tmp_path / "_earlier").exists()
    assert sink.tables("q") == []


def test_the_same_query_goes_on(tmp_path: Path) -> None:
    sink = opened(tmp_path, ["q"], None)
    play(sink, 0, {"q": 1})
    sink.set_queries("s", {})
    sink.set_queries("s", {"q": "text of q"})
    play(sink, 5, {"q": 1})
    assert read(tmp_path, "q") == [(0, 0), (5, 0)]


def test_marks_of_relations_are_not_those_of_streams(tmp_path: Path) -> None:
    sink = opened(tmp_path, ["q"], None)
    play(sink, 0, {"q": 1})
    sink.set_queries("s", {})
    sink.set_queries("relations/s", {"q": "text of q"})
    sink.write("relations/s", Mark(0), [Answers(("q",), [0, 1], rows_of(7, 1))])
    assert read(tmp_path, "q") == [(7, 0)]
    assert read(tmp_path / "_earlier" / "q", "000000") == [(0, 0)]


def names() -> Iterator[tuple[str, tuple[str | None, int, int, int]]]:
    yield "000000000007.0.parquet", (None, 7, 7, 0)
    yield "000000000007.1-shard-3.parquet", (None, 7, 7, 3)
    yield "000000000007.0.part-000012.parquet", (None, 7, 7, 12)
    yield "a.b-c.000000000007.0.part-000002.parquet", ("a.b-c", 7, 7, 2)
    yield "000000000000.0-000000000063.0.parquet", (None, 0, 63, 0)
    yield "a.b-c.000000000007.0.parquet", ("a.b-c", 7, 7, 0)


@pytest.mark.parametrize(("name", "told"), list(names()))
def test_names_tell_what_is_in_a_file(name: str, told: tuple[str | None, int, int, int]) -> None:
    file = AnswerFile.of(Path("x") / name)
    assert file is not None
    assert (file.stream, file.first.batch, file.last.batch, file.part) == told


@pytest.mark.parametrize("name", ["a.parquet", "000000000007.parquet", "000000000007.0.csv", ".000000000007.0.tmp"])
def test_names_of_others(name: str) -> None:
    assert AnswerFile.of(Path(name)) is None
