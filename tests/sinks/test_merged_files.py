"""Merged files of answers, and what others do with them: going back, copies, removed files, shards that come late."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mullion.errors import CheckpointError
from mullion.sinks import files
from mullion.sinks.files import files_in
from mullion.storage.marks import Mark
from sinks.played import SCHEMA, opened, play, read, rows_of


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
