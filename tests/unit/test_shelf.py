"""State on the shelf: written once, found again, and gone when nobody names it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from mullion.operators.shelf import Shelf


def test_a_table_that_stays_is_written_once_and_a_file_that_nobody_names_is_removed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    old, new = pa.table({"x": [1, 2]}), pa.table({"x": [3]})
    first = shelf.save({"join": {"left": [old], "right": []}}, "1")
    second = shelf.save({"join": {"left": [old, new], "right": []}}, "2")
    assert first["join"]["left"][0] == second["join"]["left"][0]
    assert second["join"]["left"][1].file == "2"
    shelf.sweep()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1", "2"]
    shelf.save({"join": {"left": [new], "right": []}}, "3")
    shelf.sweep()
    assert [p.name for p in tmp_path.iterdir()] == ["2"]


def test_a_restart_finds_the_tables_that_the_commit_names(tmp_path: Path) -> None:
    old, new = pa.table({"x": [1, 2]}), pa.table({"x": ["a", None]})
    before = Shelf(tmp_path)
    before.save({"a": {"rows": [old]}}, "1")
    manifest = json.loads(json.dumps(before.save({"a": {"rows": [old, new]}, "b": {"more": [new]}}, "2")))
    after = Shelf(tmp_path)
    state = after.load(manifest)
    assert [t.to_pydict() for t in state["a"]["rows"]] == [{"x": [1, 2]}, {"x": ["a", None]}]
    assert state["b"]["more"][0].to_pydict() == {"x": ["a", None]}
    again = after.save(state, "3")
    assert again["a"]["rows"][0].file == "1"
    assert not (tmp_path / "3").exists()


def test_what_a_crash_left_behind_is_swept(tmp_path: Path) -> None:
    before = Shelf(tmp_path)
    manifest = json.loads(json.dumps(before.save({"a": {"rows": [pa.table({"x": [1]})]}}, "1")))
    before.save({"a": {"rows": [pa.table({"x": [2]})]}}, "2")
    after = Shelf(tmp_path)
    assert after.load(manifest)["a"]["rows"][0]["x"].to_pylist() == [1]
    after.sweep()
    assert [p.name for p in tmp_path.iterdir()] == ["1"]
