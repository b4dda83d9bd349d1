"""The memory of processes, and how commands end."""

from __future__ import annotations

import os
import sys

import pytest

from benchmarks.process_memory import descendants, memory_of_tree, run_watched

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="there is no /proc")
MEBIBYTE = 1 << 20
HOLDS = "import time; held = bytearray(b'x') * ({} << 20); time.sleep(0.6)"


@pytest.mark.slow
def test_a_process_that_holds_more_has_a_higher_peak() -> None:
    little, much = (run_watched([sys.executable, "-c", HOLDS.format(mebibytes)]) for mebibytes in (1, 80))
    assert little.code == much.code == 0
    assert 60 * MEBIBYTE < much.peak - little.peak < 100 * MEBIBYTE


@pytest.mark.slow
def test_what_a_child_holds_counts() -> None:
    held = HOLDS.format(80).replace("'", '"')
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '''{held}'''])"
    assert run_watched([sys.executable, "-c", outer]).peak > 80 * MEBIBYTE


def test_how_it_ended_is_told() -> None:
    ended = run_watched([sys.executable, "-c", "print('gone wrong'); raise SystemExit(3)"])
    assert (ended.code, ended.output) == (3, "gone wrong\n")


def test_this_process_has_memory_and_one_that_is_gone_has_none() -> None:
    assert memory_of_tree(os.getpid()) > MEBIBYTE
    assert memory_of_tree(2**22 + 1) == 0
    assert os.getpid() in descendants(os.getppid())
