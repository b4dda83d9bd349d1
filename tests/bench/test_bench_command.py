"""`python -m benchmarks`: every benchmark is found by its name, and wrong names say what there is."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from benchmarks.__main__ import BENCHMARKS, app, benchmark


def inside(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_runs_with_the_same_options(name: str) -> None:
    run = benchmark(name)
    assert {"console", "json", "plot", "quick"} <= set(inspect.signature(run).parameters)


def test_an_unknown_benchmark_lists_the_known() -> None:
    result = inside("xyz")
    assert result.exit_code == 1
    assert (
        "there is windows, sharing, aggregates, lookups, statements, due, isolation, overload, sched" in result.stderr
    )


def test_flink_belongs_to_one_benchmark() -> None:
    result = inside("windows", "--flink", "python")
    assert result.exit_code == 1
    assert "the benchmark 'windows' does not measure Flink" in result.stderr


def test_a_run_writes_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import frequent

    monkeypatch.setattr(frequent, "QUICK", frequent.FrequentSize(packets=30_000, window=10_000, windows=2))
    result = inside("frequent", "--quick", "--json", str(tmp_path / "f.json"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "f.json").stat().st_size > 0
