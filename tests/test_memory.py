"""The memory of a run: sizes, the machine's limit, and how it is divided."""

from __future__ import annotations

from pathlib import Path

import pytest

from mullion import memory
from mullion.memory import AT_ONCE, GB, MB, Memory, default_limit, machine_bytes


def test_groups_of_version_2_limit_a_process_from_the_inside_out(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("0::/user/app\n")
    limits = list(memory._cgroup_limits(own, tmp_path))
    assert limits[2:] == [tmp_path / "user/app/memory.max", tmp_path / "user/memory.max"]
    assert limits[0] == tmp_path / "memory.max"


def test_groups_of_version_1_have_a_tree_for_memory(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("9:cpu,cpuacct:/a\n4:memory:/docker/b\n1:name=systemd:/a\n")
    limits = list(memory._cgroup_limits(own, tmp_path))
    assert limits[2:] == [
        tmp_path / "memory/docker/b/memory.limit_in_bytes",
        tmp_path / "memory/docker/memory.limit_in_bytes",
    ]
    assert list(memory._cgroup_limits(tmp_path / "none", tmp_path)) == limits[:2]


def test_the_least_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"none": "max\n", "large": f"{1 << 62}\n", "least": f"{3 * GB}\n", "broken": "?"}
    for name, content in found.items():
        (tmp_path / name).write_text(content)
    paths = [tmp_path / name for name in (*found, "missing")]
    monkeypatch.setattr(memory, "_cgroup_limits", lambda own, mounted: iter(paths))
    assert machine_bytes() <= 3 * GB
    monkeypatch.setattr(memory, "machine_bytes", lambda: 16 * GB)
    assert default_limit() == 8 * GB
    monkeypatch.setattr(memory, "machine_bytes", lambda: 2 * GB)
    assert default_limit() == memory.LEAST
    monkeypatch.setattr(memory, "machine_bytes", lambda: GB)
    assert default_limit() == GB


def test_all_parts_are_of_the_limit() -> None:
    for limit in (memory.LEAST, 2 * GB, 6 * GB, 100 * GB):
        divided = Memory.divided(limit)
        assert divided.heap + memory.OVERHEAD + divided.python == limit
        assert divided.held + divided.python // 4 + divided.batch <= divided.python


def test_a_session_that_is_there_has_its_heap() -> None:
    assert Memory.divided(8 * GB, GB).python == 8 * GB - GB - memory.OVERHEAD
    assert Memory.divided(4 * GB, 16 * GB).python == GB


def test_portions_follow_the_limit_the_width_of_events_and_the_tasks() -> None:
    small, large = Memory.divided(2 * GB), Memory.divided(64 * GB)
    assert small.portion_rows(56, 2) < AT_ONCE == large.portion_rows(56, 2)
    assert small.portion_rows(56, 2) // 2 == small.portion_rows(56, 4)
    assert small.portion_rows(112, 2) == small.portion_rows(56, 4)
    assert small.portion_rows(100_000, 64) == memory.LEAST_AT_ONCE
    assert small.portion_rows(56, 2) * 56 * 2 * memory.WORKING <= small.python // 4
    assert small.batch // MB == 32
