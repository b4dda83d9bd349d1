"""The command line as a program of its own, or within this process, and a script over a few trades for it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import CliRunner

import mullion
from mullion.surface import cli

ROOT = Path(__file__).parents[2]
NOON = 1101902400_000_000
SECOND = 1_000_000
PATIENCE = 300

STREAM = """\
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
USING parquet OPTIONS (path 'data', maxFilesPerTrigger '1') TIMESTAMP BY ts;
"""
SCRIPT = f"""{STREAM}
CREATE QUERY total AS SELECT sum(volume) AS volume, count(*) AS n FROM trades [RANGE '1 min' SLIDE '1 min'];
CREATE QUERY big AS
SELECT symbol, max(price) AS highest FROM trades [RANGE '2 min' SLIDE '1 min'] WHERE volume > 5 GROUP BY symbol;
EXPLAIN;
"""


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(mullion.__file__).parents[1])}
    command = [sys.executable, "-m", "mullion", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def ended(process: subprocess.Popen[str]) -> Ended:
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return Ended(process.returncode, stdout, stderr)


def inside(*arguments: str, stdin: str | None = None) -> Ended:
    """Within this process, for what needs no Spark."""
    result = CliRunner().invoke(cli.app, list(arguments), input=stdin, prog_name="mullion")
    return Ended(result.exit_code, result.stdout, result.stderr)


def answers(folder: Path, query: str) -> list[dict[str, object]]:
    rows = [row for file in sorted((folder / query).glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def assert_no_noise(stderr: str) -> None:
    for noise in ("Traceback", "java", "WARN", "py4j"):
        assert noise not in stderr, stderr


def wait_for(there: object, process: subprocess.Popen[str]) -> None:
    assert callable(there)
    until = time.monotonic() + PATIENCE
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
