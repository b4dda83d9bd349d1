"""The benchmark of isolation: it runs, and its schedulers read what they should."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import isolation
from benchmarks.isolation_lab import SCHEDULERS, Query, Window, packets, scanned, starter


@pytest.mark.slow
def test_a_quick_run_tells_all(tmp_path: Path) -> None:
    out = io.StringIO()
    report = isolation.run(Console(file=out, width=160), json=tmp_path / "isolation.json", quick=True)
    found = json.loads((tmp_path / "isolation.json").read_text())
    assert found["benchmark"] == "isolation" and not found["judged"] and report.passed
    assert len(found["figures_of_the_paper"]) == 12
    assert {"TTU aborts, all runs together"} <= {figure["what"] for figure in found["figures"]}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_schedulers_reflect(scheduler: str) -> None:
    """The window slides once, after the first read: WS and Serial do not see it, the others do."""
    dice = np.random.default_rng(1)
    window = Window(4, [packets(dice, 50) for _ in range(8)], newest=4)
    answers = []
    query = Query(4, window)
    query.finish = lambda parts: answers.append(np.sum(parts, axis=0)) or parts  # type: ignore[method-assign,func-returns-value]
    running = starter(scheduler, 4)(query)
    running.step()
    window.slide(0.0)
    while not running.step():
        pass
    newest = 5 if scheduler in ("LWS", "TTU") else 4
    wanted = np.sum([scanned(window.packets(version)) for version in range(newest - 3, newest + 1)], axis=0)
    assert running.reflects == newest and (answers[0] == wanted).all()
