"""The benchmark of due windows: it runs, and answers every group of every window."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import due


@pytest.mark.slow
def test_a_quick_run_tells_all(tmp_path: Path) -> None:
    out = io.StringIO()
    report = due.run(Console(file=out, width=160), json=tmp_path / "due.json", quick=True)
    found = json.loads((tmp_path / "due.json").read_text())
    assert found["benchmark"] == "due" and not found["judged"] and report.passed
    assert set(found["seconds_of_a_batch"]) == set(due.CASES)
    assert len(found["figures"]) == len(due.CASES) and "RANGE 20 s against RANGE 5 s" in out.getvalue()


def test_every_group_of_the_window_is_answered() -> None:
    size = due.Size(ranges=(3,), groups=4, events=50)
    batches = due.course(due.CASES["totals"], 3, size)
    assert batches.answers == 3 * 4 and len(batches.seconds) == 3
