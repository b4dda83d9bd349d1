"""What a benchmark tells: bars, tables, JSON and pictures."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import plot
from benchmarks.measuring import Stopwatch, Task, Timing
from benchmarks.pane_grid import KINDS, measure
from benchmarks.report import Bar, Grid, Report


def shown(report: Report) -> str:
    out = io.StringIO()
    report.show(Console(file=out, width=120))
    return out.getvalue()


def test_a_bar_is_met_or_missed() -> None:
    assert Bar("what", 1.9, 2, "<").met
    assert Bar("what", 2.0, 2, "<").met is False
    assert Bar("what", 2.0, 2, "<=").met
    assert Bar("what", 2.0).met is None


def test_the_table_tells_verdicts_notes_and_grids() -> None:
    bars = [
        Bar("fast", 9.5, 8, ">=", note="the paper: 9.1 x"),
        Bar("memory", 5, 4, "<=", "GiB"),
        Bar("so", 1, note="it is"),
    ]
    grid = Grid(("operations", "partial"), [("B(256)", "1,138,636")])
    text = shown(Report(bars=bars, grids=[grid], left_out=["Flink"]))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "fast 9.50 x >= 8.00 x met the paper: 9.1 x" in lines
    assert "memory 5.00 GiB <= 4.00 GiB missed" in lines
    assert "so 1.00 x it is" in lines
    assert "B(256) 1,138,636" in lines
    assert "Left out: Flink" in lines
    assert not Report(bars=bars).passed
    assert Report(bars=bars, judged=False).passed


def test_json_holds_everything(tmp_path: Path) -> None:
    report = Report(
        bars=[Bar("fast", 9.5, 8, ">=")], grids=[Grid(("a",), [("1",)])], facts={"series": {"M": {"B": {1: 2.0}}}}
    )
    report.write(tmp_path / "made" / "figures.json")
    found = json.loads((tmp_path / "made" / "figures.json").read_text())
    assert found["figures"][0]["met"] is True
    assert found["tables"] == [{"header": ["a"], "rows": [["1"]]}]
    assert found["series"] == {"M": {"B": {"1": 2.0}}}


def test_times_taken_elsewhere_are_kept() -> None:
    watch = Stopwatch(Console(file=io.StringIO()), repeat=2)
    watch.add(Timing("there", [3.0]))
    (here,) = watch.measure([Task("here", lambda _: "done")])
    assert watch["there"].best == 3.0
    assert (len(here.seconds), here.result) == (2, "done")


@pytest.mark.slow
def test_a_picture_of_growth(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = {"Mullion": {1: 0.5, 16: 0.6}, "polars": {1: 0.1, 16: 1.0}}
    plot.draw_growth(tmp_path / "p.png", dict.fromkeys("ABCD", lines), "title", reference=0.4)
    assert (tmp_path / "p.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_picture_of_sets(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = {"Mullion": {1: 0.5, 24: 0.6, 96: 0.9}, "DuckDB": {1: 0.1, 24: 2.4, 96: 9.6}}
    plot.draw_sets(tmp_path / "p.png", lines, "title", measured_up_to={"DuckDB": 24})
    assert (tmp_path / "p.png").stat().st_size > 5_000


@pytest.mark.slow
def test_a_picture_of_bars(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot.draw(tmp_path / "p.png", [("Mullion, 1 query", 0.5), ("Spark", 12.0)], "title", reference=0.4)
    assert (tmp_path / "p.png").stat().st_size > 5_000


@pytest.mark.slow
def test_a_picture_of_aggregates_and_panes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    grids = [measure(k, tuples=100, repeat=1, tuples_per_pane=(1, 5), panes_per_window=(1, 4)) for k in KINDS]
    rows = [("Spark", 0.5), ("Mullion, 1 query", 0.6)]
    plot.draw_aggregates(tmp_path / "p.png", rows, grids, "title", reference=0.5)
    assert (tmp_path / "p.png").stat().st_size > 20_000
