"""A journal gives back what was committed, whatever moment a crash chose, and never something else."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mullion.errors import CheckpointError
from mullion.storage import journal
from mullion.storage.journal import Commit, Journal
from mullion.storage.marks import Mark
from mullion.testing import Crash, crash_at


@pytest.fixture(autouse=True)
def _few_commits_between_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SNAPSHOT_EVERY", 4)


def commit(to: Journal, number: int, held: list[int]) -> list[int]:
    """A commit that stands on one file of its own, one of the commit before, and the rows of all since a snapshot."""
    to.begin(number, [{"name": f"q{number // 3}"}])
    file = to.files.write("kept", Mark(number).text, f"events of {number}".encode())
    files = [name for name in to.files.names("kept") if name >= f"kept/{Mark(number - 1).text}"]
    snapshot, held = to.wants_snapshot, [*held, number]
    tables = tuple(pa.table({"x": [n]}) for n in (held if snapshot else [number]))
    assert file in files
    to.commit(Commit(Mark(number), {"number": number}, tables, snapshot, tuple(files)))
    to.files.sweep(files)
    return held


def loaded(directory: Path) -> tuple[int | None, list[int]]:
    """The number of the newest commit, and all rows."""
    chain = Journal(directory).load()
    rows = [n for one in chain for table in one.tables for n in table["x"].to_pylist()]
    return chain[-1].state["number"] if chain else None, rows


def written(directory: Path, number: int) -> Path:
    made, held = Journal(directory), []
    for i in range(number):
        held = commit(made, i, held)
    return directory


@pytest.mark.parametrize("step", ["before commit", "before head", "after commit"])
def test_a_crash_at_any_moment_is_no_damage(step: str, tmp_path: Path) -> None:
    for number in range(10):
        chain = Journal(tmp_path).load()
        done = -1 if not chain else chain[-1].at.batch
        assert loaded(tmp_path) == (None if done < 0 else done, list(range(done + 1)))
        to = Journal(tmp_path)
        to.load()
        with crash_at(step, 1 + number % 3), pytest.raises(Crash):
            for i in range(done + 1, done + 9):
                commit(to, i, list(range(i)))


def changes(path: Path, others: list[Path], dice: random.Random) -> Iterator[tuple[str, Path]]:
    """Ways to damage a file; each leaves it damaged."""
    content = path.read_bytes()
    yield "delete", path.unlink() or path
    if content:
        path.write_bytes(content[: dice.randrange(len(content))])
        yield "cut", path
        path.write_bytes(b"")
        yield "empty", path
        flipped = bytearray(content)
        flipped[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        path.write_bytes(bytes(flipped))
        yield "flip", path
        path.write_bytes(content + b"\0")
        yield "more", path
    others = [other for other in others if other != path and other.parent == path.parent]
    like = [other for other in others if other.read_bytes() not in (b"", content)]
    if content and like:
        shutil.copy(dice.choice(like), path)
        yield "another", path
    path.write_bytes(content)


@pytest.mark.parametrize("commits", [1, 3, 5, 8, 9])
def test_no_damage_goes_unnoticed(commits: int, tmp_path: Path) -> None:
    directory = written(tmp_path / "journal", commits)
    whole = loaded(directory)
    assert whole == (commits - 1, list(range(commits)))
    files, dice = sorted(p for p in directory.rglob("*") if p.is_file()), random.Random(commits)
    chain = Journal(directory).load()
    commits = [name for mark, name in Journal(directory).commits() if mark >= chain[0].at]
    needed = {f"commits/{name}" for name in commits} | set(chain[-1].files)
    noticed = set()
    for file in files:
        for kind, path in changes(file, files, dice):
            name = str(path.relative_to(directory))
            try:
                assert loaded(directory) == whole, (kind, name)
            except CheckpointError as error:
                assert path.name in str(error)
                assert error.hint
                noticed.add(name)
            else:
                assert name not in needed, (kind, name)
    assert noticed == needed | {file.name for file in files if file.name.startswith("head")}


def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    directory = written(tmp_path, 3)
    for name in ("commits/notes.txt", "commits/a-0123456789abcdef", "queries/x", "kept/copy of something", "head-old"):
        (directory / name).write_text("not ours")
    (directory / "commits" / "folder").mkdir()
    assert loaded(directory) == (2, [0, 1, 2])
    to = Journal(directory)
    to.load()
    for i in range(3, 8):
        commit(to, i, list(range(i)))
    assert loaded(directory) == (7, list(range(8)))
    assert (directory / "kept" / "copy of something").exists()


def test_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "VERSION", 1)
    written(tmp_path, 1)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="has format 1"):
        Journal(tmp_path).load()


def test_what_a_commit_names_is_on_the_disk_before_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files go to the disk side by side, in any order; the record of the commit comes after all of them."""
    dice, synced, checked = random.Random(7), set[str](), list[int]()
    named = list[str]()
    sync, replace = os.fsync, os.replace

    def slowly(handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        time.sleep(dice.random() / 100)
        sync(handle)
        synced.add(path)

    def renamed(old: Path, new: Path) -> None:
        if new.parent.name == "commits":
            assert {str(tmp_path / name) for name in named} <= synced and str(tmp_path / "kept") in synced
            checked.append(len(named))
        replace(old, new)

    monkeypatch.setattr("os.fsync", slowly)
    monkeypatch.setattr("os.replace", renamed)
    to = Journal(tmp_path)
    for number in range(3):
        synced.discard(str(tmp_path / "kept"))
        named += [to.files.write("kept", f"{Mark(number).text}{i}", bytes([number, i])) for i in range(5)]
        to.commit(Commit(Mark(number), {}, (), snapshot=True, files=tuple(named)))
    assert checked == [5, 10, 15]


def test_without_what_it_names_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        if "/kept" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError("no space left on device")

    to = Journal(tmp_path)
    commit(to, 0, [])
    monkeypatch.setattr("os.fsync", full)
    name = to.files.write("kept", Mark(1).text, b"events")
    with pytest.raises(OSError, match="no space left"):
        to.commit(Commit(Mark(1), {}, (), snapshot=True, files=(name,)))
    assert [mark for mark, _ in Journal(tmp_path).commits()] == [Mark(0)]
