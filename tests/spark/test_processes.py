"""The memory of processes, as /proc tells it. Without a JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mullion.spark import processes
from mullion.spark.processes import Peaks, peak_of
from without_spark import local_engine

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
MB = 1 << 20


def test_the_peak_of_a_process_stays_when_it_lets_memory_go() -> None:
    text = "x = bytearray(200 << 20); del x; print('ready', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", text], stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        assert 200 * MB < peak_of(child.pid) < 400 * MB
        assert child.pid in processes._below(os.getpid(), processes._parents())
        child.communicate("\n")
    assert peak_of(child.pid) == 0


def test_kinds_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A java (and its launcher) below this process, a daemon and two workers below it, and strangers."""
    own = os.getpid()
    tree = {
        own: (1, "python"),
        10: (own, "bash"),
        11: (10, "java"),
        12: (11, "python3"),
        13: (12, "a) b"),
        14: (12, "x"),
    }
    for pid, (parent, name) in {**tree, 99: (1, "java")}.items():
        place = tmp_path / str(pid)
        place.mkdir()
        (place / "stat").write_text(f"{pid} ({name}) S {parent} 0 0")
        (place / "comm").write_text(f"{name}\n")
        (place / "status").write_text(f"Name:\t{name}\nVmHWM:\t {pid if pid < 99 else 5} kB\n")
    (tmp_path / "meminfo").write_text("")
    monkeypatch.setattr(processes, "PROC", tmp_path)
    peaks = Peaks()
    peaks.look()
    workers = (12 + 13 + 14) * 1024
    assert peaks.by_kind() == {
        "python": peaks.python, "java": 11 * 1024, "workers": workers, "all": peaks.python + 11 * 1024 + workers,
    }  # fmt: skip
    (tmp_path / "13" / "status").unlink()
    peaks.look(now=True)
    assert peaks.by_kind()["workers"] == workers, "a worker that has ended stays counted"


def test_an_engine_tells_it() -> None:
    script = (
        "CREATE STREAM s (ts TIMESTAMP, x BIGINT) USING rate TIMESTAMP BY ts; CREATE QUERY q AS SELECT count(*) AS n "
    )
    with local_engine(f"{script} FROM s [RANGE 10 us SLIDE 10 us]", memory="2GB") as engine:
        engine.deliver("s", [{"ts": 1, "x": 2}], 0)
        memory = engine.stats["memory"]
        assert memory["limit"] == 2 << 30
        assert memory["peak"]["python"] > 50 * MB
        assert engine.stats["streams"]["s"]["events"] == 1
