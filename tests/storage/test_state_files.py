"""State on the shelf: written once, found again, and gone when nobody names it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from mullion.storage.files import CommittedFiles, label_of
from mullion.storage.state_files import StateFiles, files_of


def written(directory: Path) -> list[str | None]:
    return [label_of(path.name) for path in sorted((directory / "shelf").iterdir())]


def test_a_table_that_stays_is_written_once_and_a_file_that_nobody_names_is_removed(tmp_path: Path) -> None:
    files = CommittedFiles(tmp_path)
    state_files = StateFiles(files)
    old, new = pa.table({"x": [1, 2]}), pa.table({"x": [3]})
    first = state_files.save({"join": {"left": [old], "right": []}}, "1")
    second = state_files.save({"join": {"left": [old, new], "right": []}}, "2")
    assert first["join"]["left"][0] == second["join"]["left"][0]
    assert label_of(second["join"]["left"][1].file) == "shelf/2"
    files.sweep(files_of(second))
    assert written(tmp_path) == ["1", "2"]
    files.sweep(files_of(state_files.save({"join": {"left": [new], "right": []}}, "3")))
    assert written(tmp_path) == ["2"]


def test_a_restart_finds_the_tables_that_the_commit_names(tmp_path: Path) -> None:
    old, new = pa.table({"x": [1, 2]}), pa.table({"x": ["a", None]})
    before = StateFiles(CommittedFiles(tmp_path))
    before.save({"a": {"rows": [old]}}, "1")
    manifest = json.loads(json.dumps(before.save({"a": {"rows": [old, new]}, "b": {"more": [new]}}, "2")))
    after = StateFiles(CommittedFiles(tmp_path))
    state = after.load(manifest)
    assert [t.to_pydict() for t in state["a"]["rows"]] == [{"x": [1, 2]}, {"x": ["a", None]}]
    assert state["b"]["more"][0].to_pydict() == {"x": ["a", None]}
    again = after.save(state, "3")
    assert label_of(again["a"]["rows"][0].file) == "shelf/1"
    assert written(tmp_path) == ["1", "2"]


def test_what_a_crash_left_behind_is_swept_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    before = StateFiles(CommittedFiles(tmp_path))
    manifest = json.loads(json.dumps(before.save({"a": {"rows": [pa.table({"x": [1]})]}}, "1")))
    before.save({"a": {"rows": [pa.table({"x": [2]})]}}, "2")
    (tmp_path / "shelf" / "notes").write_text("not ours")
    (tmp_path / "shelf" / "folder").mkdir()
    after = StateFiles(CommittedFiles(tmp_path))
    assert after.load(manifest)["a"]["rows"][0]["x"].to_pylist() == [1]
    after.files.sweep(files_of(manifest))
    assert {"notes", "folder"} < {path.name for path in (tmp_path / "shelf").iterdir()}
    assert [label_of(name) for name in after.files.names("shelf")] == ["shelf/1"]
