"""`python -m benchmarks aggregates`: baselines answer as the oracle does, and a quick run goes through."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from rich.console import Console

from benchmarks import aggregate_questions, aggregates, duckdb_baselines, mullion_runs, spark_baselines
from benchmarks.aggregate_questions import RowWindow
from benchmarks.aggregates import RECENTS, WIDES, by_intervals
from benchmarks.aggregates_lab import QUICK, AggregatesLab, rows_by_start
from benchmarks.measuring import Stopwatch
from benchmarks.report import Report
from mullion.errors import MullionError
from mullion.slices.running import Running
from mullion.slices.sequence import SYNOPSES
from mullion.surface.trades import SECOND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = replace(QUICK, events=3000, files=2, queries=4)
ROWS = [RowWindow(rows=500, slide=70), RowWindow(rows=64, slide=64)]
MINUTE = 60 * SECOND


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> AggregatesLab:
    watch = Stopwatch(Console(file=io.StringIO()), repeat=1)
    return AggregatesLab(spark, TINY, tmp_path_factory.mktemp("lab"), watch, Report())


def test_spark_answers_exact_and_approximate_questions(lab: AggregatesLab) -> None:
    asked = [*aggregate_questions.exact(4), *aggregate_questions.approximate(3)]
    for question, got in zip(asked, spark_baselines.value_jobs(lab.session, asked), strict=True):
        lab.check_question("jobs", question, got)


def test_row_windows_elsewhere(lab: AggregatesLab) -> None:
    lab.check_rows("Spark", ROWS, spark_baselines.row_jobs(lab.session, ROWS))
    pytest.importorskip("duckdb")
    lab.check_rows("DuckDB", ROWS, duckdb_baselines.row_windows(duckdb_baselines.read(lab.files), ROWS))


def test_answers_after_every_event_elsewhere(lab: AggregatesLab) -> None:
    pytest.importorskip("duckdb")
    connection = duckdb_baselines.read(lab.files)
    values = {"max(price)": lab.columns["price"], "sum(price * volume)": lab.oracle.values}
    for call, reduce in RECENTS.items():
        in_spark = np.array(spark_baselines.after_events(lab.session, call, MINUTE, TINY.events))
        lab.check_after_events("Spark", in_spark, MINUTE, reduce, values[call])
        in_duckdb = duckdb_baselines.after_events(connection, call.replace("price * volume", "value"), MINUTE)
        lab.check_after_events("DuckDB", in_duckdb, MINUTE, reduce, values[call])


def test_count_by_intervals_is_the_count(lab: AggregatesLab) -> None:
    window = (600 * SECOND, 60 * SECOND)
    text = "SELECT count(*) AS total FROM trades [RANGE '600 s' SLIDE '60 s']"
    engine = mullion_runs.over_frame(lab.session, lab.frame, [text])
    with by_intervals():
        assert "running" in SYNOPSES and Running not in SYNOPSES.values()
        mullion_runs.run(engine)
    assert SYNOPSES["running"] is Running
    lab.check_wide("count", window, rows_by_start(engine, 0), WIDES[1].reduce, lab.columns["price"])


def test_wrong_answers_abort(lab: AggregatesLab) -> None:
    (question,) = aggregate_questions.exact(1)
    (found,) = spark_baselines.value_jobs(lab.session, [question])
    with pytest.raises(MullionError, match="is wrong"):
        lab.check_question("jobs", question, [(start, total + 1) for start, total in found])
    with pytest.raises(MullionError, match="are right"):
        lab.check_question("jobs", question, found[1:])
    totals = spark_baselines.row_jobs(lab.session, ROWS[:1])
    with pytest.raises(MullionError, match="is wrong"):
        lab.check_rows("rows", ROWS[:1], [totals[0][::-1]])
    with pytest.raises(MullionError, match="answers after"):
        lab.check_after_events("after", totals[0], MINUTE, np.max, lab.columns["price"])


@pytest.mark.slow
def test_a_quick_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "QUICK", TINY)
    out = io.StringIO()
    made = aggregates.run(Console(file=out, width=160), json=tmp_path / "a.json", quick=True)
    found = json.loads((tmp_path / "a.json").read_text())
    assert made.passed and not found["judged"]
    assert {"max", "count"} == set(found["panes"])
    assert len(found["panes"]["max"]["cells"]) == len(TINY.tuples_per_pane) * len(TINY.panes_per_window)
    assert "against as many Spark jobs" in out.getvalue()
