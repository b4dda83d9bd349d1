"""What Mullion is measured against answers as the oracle does."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from benchmarks import duckdb_baselines, flink_baselines, polars_baselines, spark_baselines
from benchmarks.measuring import Stopwatch, Task, Timing
from benchmarks.questions import C_LOW, WORKLOADS, B, Question
from benchmarks.report import Report
from benchmarks.sharing import peak_gigabytes
from benchmarks.sharing_lab import SharingLab, SharingSize
from mullion.errors import MullionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = SharingSize(events=3000, files=2, checked=100)


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SharingLab:
    watch = Stopwatch(Console(file=io.StringIO()), repeat=1)
    return SharingLab(spark, TINY, tmp_path_factory.mktemp("lab"), watch, Report())


@pytest.fixture(scope="module")
def places(lab: SharingLab) -> tuple[Path, Path, Path]:
    return lab.files, lab.close, lab.index


def test_spark_jobs(lab: SharingLab) -> None:
    for workload in WORKLOADS:
        asked = lab.questions(workload, 4)
        lab.check_some("jobs", asked, spark_baselines.jobs(lab.session, asked))


def test_conditional_sums(lab: SharingLab) -> None:
    asked = lab.questions(B, 16)
    lab.check_some("sums", asked, spark_baselines.conditional_sums(lab.session, asked))


def test_plain_sums(lab: SharingLab) -> None:
    for ask in (spark_baselines.tumbling, spark_baselines.tumbling_by_symbol):
        lab.check_t1(Timing("T1", [], ask(lab.session)))


def test_empty_triggers(lab: SharingLab) -> None:
    stamps = spark_baselines.empty_triggers(lab.session, lab.files)
    assert len(stamps) == TINY.files
    assert stamps == sorted(stamps)


def test_polars(lab: SharingLab, places: tuple[Path, Path, Path]) -> None:
    pytest.importorskip("polars")
    frame = polars_baselines.join(*places)
    assert len(frame) == TINY.events
    for workload in WORKLOADS:
        asked = lab.questions(workload, 16)
        for way in (polars_baselines.one_by_one, polars_baselines.all_at_once):
            lab.check_some("polars", asked, polars_baselines.answers(way(frame, asked)), part=True)


def test_duckdb(lab: SharingLab, places: tuple[Path, Path, Path]) -> None:
    pytest.importorskip("duckdb")
    connection = duckdb_baselines.join(*places)
    for workload in WORKLOADS:
        asked = lab.questions(workload, 16)
        lab.check_some("DuckDB", asked, duckdb_baselines.one_by_one(connection, asked))


def test_a_python_without_flink_is_named(lab: SharingLab, tmp_path: Path) -> None:
    nowhere = tmp_path / "python"
    with pytest.raises(MullionError, match="has no apache-flink"):
        flink_baselines.statement_set(nowhere, tmp_path / "flink", lab.market, lab.questions(B, 1))


def test_wrong_answers_abort(lab: SharingLab) -> None:
    asked = lab.questions(C_LOW, 2)
    found = spark_baselines.jobs(lab.session, asked)
    with pytest.raises(MullionError):
        lab.check_some("jobs", asked, found[::-1])
    with pytest.raises(MullionError, match="1 answers to 2"):
        lab.check_some("jobs", asked, found[:1])


def test_a_sample_stands_for_all_and_is_measured_once(lab: SharingLab) -> None:
    runs: list[int] = []

    def task(name: str, asked: tuple[Question, ...]) -> Task:
        return Task(name, lambda _: runs.append(len(asked)), warm=lambda: None)

    for n in (4, 8, 16):
        lab.sample("path", B, n, 4, task, lambda *_: None)
    assert runs == [4]
    line = lab.series["path"][B.name]
    assert line[8] == 2 * line[4] and line[16] == 4 * line[4]
    assert lab.facts()["series"]["path"] == {B.name: line}
    assert lab.sampled("path", B, 16, 4).name == "path, B(4)"


def test_the_tables_are_made_by_a_script(lab: SharingLab) -> None:
    from mullion.language.parse import parse_script

    assert [statement.name for statement in parse_script(lab.tables())] == ["close", "idx"]


def test_memory_is_in_gigabytes() -> None:
    assert 0.02 < peak_gigabytes() < 64
