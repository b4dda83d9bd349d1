"""Where a run may write: paths, who holds them, whose answers they are."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from mullion import Engine
from mullion.errors import MullionError
from mullion.sinks.owner import OWN, Owner
from mullion.sinks.parquet import ParquetSink
from mullion.slices.finalize import Answers
from mullion.storage.files import write_whole
from mullion.storage.lock import InUse, Lock, take_all
from mullion.storage.marks import Mark
from mullion.storage.places import check_directory, local_path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("answers", "answers"),
        ("/a/b", "/a/b"),
        ("file:///a/b%20c", "/a/b c"),
        ("file:/a/b", "/a/b"),
        ("FILE://localhost/a", "/a"),
        ("c:d", "c:d"),
        ("./s3a://b", "s3a:/b"),
    ],
)
def test_what_is_a_path(text: str, path: str) -> None:
    assert local_path(text, "--out") == Path(path)


@pytest.mark.parametrize(
    "text", ["s3a://bucket/x", "hdfs://host:9000/x", "hdfs:/x", "gs://b", "abfss://c@h/x", "s3a:/b"]
)
def test_other_schemes_are_refused(text: str) -> None:
    with pytest.raises(MullionError, match=r"--out .* is not a local path: .* cannot be written to"):
        local_path(text, "--out")
    for option in ("out", "checkpoint"):
        with pytest.raises(MullionError, match=f"{option} .* is not a local path"):
            Engine(**{option: text})  # type: ignore[arg-type]


def test_a_file_url_of_another_machine_is_refused() -> None:
    with pytest.raises(MullionError, match="not a path of this machine"):
        local_path("file://elsewhere/a", "--out")


def test_an_engine_takes_file_urls(tmp_path: Path) -> None:
    engine = Engine(out=f"file://{tmp_path}/o", checkpoint=f"file://{tmp_path}/c")
    assert (engine.out, engine.checkpoint) == (tmp_path / "o", tmp_path / "c")


@pytest.mark.parametrize("place", ["/proc/nope", "/sys/nope", "/dev/null", "/dev/null/below"])
def test_places_that_nobody_can_write(place: str) -> None:
    with pytest.raises(MullionError):
        check_directory(Path(place), "--out")
    with pytest.raises(MullionError, match="cannot be written"):
        Lock(Path(place) / "lock", Path(place), "the directory of answers").acquire()


def test_files_have_the_rights_that_the_umask_leaves(tmp_path: Path) -> None:
    for umask in (0o022, 0o027, 0o077):
        before = os.umask(umask)
        try:
            write_whole(tmp_path / str(umask), b"x")
            write(ParquetSink(tmp_path / f"out{umask}"), "q", 0, [1])
        finally:
            os.umask(before)
        for file in (tmp_path / str(umask), *(tmp_path / f"out{umask}" / "q").iterdir()):
            assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask


# Locks

HOLDER = """
import sys, time
from pathlib import Path
from mullion.storage.lock import Lock
Lock(Path(sys.argv[1]) / "lock", Path(sys.argv[1]), "the checkpoint").acquire()
child = __import__("subprocess").Popen(["sleep", "60"])
print(child.pid, flush=True)
time.sleep(60)
"""


def lock(directory: Path) -> Lock:
    return Lock(directory / "lock", directory, "the checkpoint")


def test_a_lock_is_of_one_and_says_of_whom(tmp_path: Path) -> None:
    first, second = lock(tmp_path / "st"), lock(tmp_path / "st")
    first.acquire()
    first.acquire()
    with pytest.raises(InUse, match=rf"the checkpoint {tmp_path}/st is in use by process {os.getpid()} on .* since 20"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_all_or_none(tmp_path: Path) -> None:
    held = lock(tmp_path / "b")
    held.acquire()
    with pytest.raises(InUse):
        take_all([lock(tmp_path / "a"), lock(tmp_path / "b")])
    free = lock(tmp_path / "a")
    free.acquire()
    free.release()
    held.release()


def test_a_lock_ends_with_its_process_though_a_child_lives_on(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(InUse, match=f"process {holder.pid} on"):
                lock(tmp_path).acquire()
            holder.kill()
            holder.wait()
            os.kill(child, 0)
            mine = lock(tmp_path)
            mine.acquire()
            mine.release()
        finally:
            os.kill(child, 9)


# Whose answers

SCHEMA = pa.schema([("n", pa.int64())])


def write(sink: ParquetSink, query: str, batch: int, values: list[int], schema: pa.Schema = SCHEMA) -> None:
    table = pa.table([values], schema=schema)
    sink.write("s", Mark(batch), [Answers((query,), [0, len(table)], table)])


def read(out: Path, query: str) -> list[int]:
    return [n for table in ParquetSink(out).tables(query) for n in table.column("n").to_pylist()]


def test_answers_have_an_owner(tmp_path: Path) -> None:
    out, mine, theirs = tmp_path / "out", Owner("a", str(tmp_path)), Owner("b", "/gone/st")
    sink = ParquetSink(out)
    sink.claim(mine)
    write(sink, "q", 0, [1])
    ParquetSink(out).claim(mine)
    for other in (theirs, Owner()):
        with pytest.raises(MullionError, match=f"holds answers of the checkpoint {tmp_path}, begun 20") as refused:
            ParquetSink(out).claim(other)
        assert "--overwrite (Engine: overwrite=True)" in str(refused.value)
        assert f"--checkpoint {tmp_path}" in str(refused.value)
    assert read(out, "q") == [1]


def test_an_earlier_checkpoint_in_the_same_place(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out")
    sink.claim(Owner("a", "st"))
    write(sink, "q", 0, [1])
    with pytest.raises(MullionError, match="holds answers of an earlier checkpoint in st"):
        sink.claim(Owner("b", "st"))


def test_overwriting_removes_answers_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = ParquetSink(out)
    sink.claim(Owner())
    write(sink, "q", 0, [1])
    write(sink, "r", 0, [1])
    sink.aside("late", "s", Mark(0), pa.table({"x": [1]}))
    (out / "notes.txt").write_text("mine")
    (out / "q" / "mine.parquet").write_text("mine")
    (out / "other").mkdir()
    (out / "other" / "x.parquet").write_text("mine")
    later = Owner()
    sink = ParquetSink(out)
    sink.claim(later, overwrite=True)
    assert {p.name for p in out.iterdir()} == {OWN, "notes.txt", "q", "other"}
    assert (out / "q" / "mine.parquet").read_text() == (out / "other" / "x.parquet").read_text() == "mine"
    write(sink, "q", 0, [2])
    assert read(out, "q") == [2]
    sink.claim(later, overwrite=True)
    assert read(out, "q") == [2], "what is mine is not overwritten"


def test_a_directory_without_answers_is_free(tmp_path: Path) -> None:
    ParquetSink(tmp_path).claim(Owner("a", "/gone"))
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "data.parquet").write_text("not ours")
    ParquetSink(tmp_path).claim(Owner("b"))
    assert json.loads((tmp_path / OWN / "owner.json").read_text())["id"] == "b"


def test_answers_that_nobody_signed_are_left_alone(tmp_path: Path) -> None:
    write(ParquetSink(tmp_path), "q", 0, [1])
    with pytest.raises(MullionError, match="do not say which run wrote them"):
        ParquetSink(tmp_path).claim(Owner("b"))
