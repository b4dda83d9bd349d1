"""The same questions asked of Flink SQL, by another Python: apache-flink needs an environment of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv

from benchmarks import flink_script
from benchmarks.answers import Answer, answer
from benchmarks.market import Market
from benchmarks.questions import TUMBLING, Question
from benchmarks.report import cores
from mullion.errors import MullionError

LONGEST = 1800.0
"""Seconds until Flink is given up."""


class Found(NamedTuple):
    seconds: float
    answers: list[Answer]


def is_installed(python: Path) -> bool:
    try:
        return subprocess.run([python, "-c", "import pyflink"], capture_output=True).returncode == 0
    except OSError:
        return False


def statement_set(python: Path, folder: Path, market: Market, questions: Sequence[Question]) -> Found:
    """All questions as one statement set over CSV files, in batch mode, after warming up with a few of them."""
    if not is_installed(python):
        raise MullionError(
            f"{python} has no apache-flink", hint="pip install apache-flink in an environment of its own"
        )
    folder.mkdir(parents=True)
    trades = market.trades
    plain = trades.set_column(0, "ts", trades["ts"].cast(pa.timestamp("us")))
    tables = {"trades": plain, "close": market.close, "idx": market.index}
    for name, table in tables.items():
        options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
        pa.csv.write_csv(table, folder / f"{name}.csv", options)
    job = {
        "folder": str(folder),
        "cores": cores(),
        "columns": {name: _columns(table) for name, table in tables.items()},
        "selects": [_select(question) for question in questions],
    }
    script = Path(flink_script.__file__)
    try:
        done = subprocess.run(
            [python, script], input=json.dumps(job), capture_output=True, text=True, timeout=LONGEST, check=True
        )
    except subprocess.CalledProcessError as error:
        raise MullionError(f"Flink failed: {_reason(error.stderr)}") from None
    except subprocess.TimeoutExpired:
        raise MullionError(f"Flink took longer than {LONGEST:.0f} s") from None
    return _found(json.loads(done.stdout.splitlines()[-1]), len(questions))


_TYPES = {"string": "STRING", "double": "DOUBLE", "int32": "INT", "bool": "BOOLEAN", "timestamp[us]": "TIMESTAMP(6)"}


def _columns(table: pa.Table) -> str:
    return ", ".join(f"{field.name} {_TYPES[str(field.type)]}" for field in table.schema)


def _select(question: Question) -> str:
    """Flink's own windows slide by a divisor of their range; those that follow one another it has."""
    if question.window != TUMBLING:
        raise MullionError("Flink is asked for windows that follow one another only")
    minutes = question.window[0] // 60_000_000
    source = f"TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '{minutes}' MINUTES)) t, `close` c, idx x"
    total = "SUM(t.price * t.volume)"
    grouped = "GROUP BY t.window_start, t.window_end"
    return f"SELECT t.window_start, {total} FROM {source} WHERE {question.condition()} {grouped}"


def _found(said: dict[str, float | list[list[float]]], number: int) -> Found:
    rows: list[list[list[float]]] = [[] for _ in range(number)]
    assert isinstance(said["rows"], list) and isinstance(said["seconds"], float)
    for query, *row in said["rows"]:
        rows[int(query)].append(row)
    return Found(said["seconds"], [answer([start for start, _ in one], [total for _, total in one]) for one in rows])


def _reason(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    causes = [line for line in lines if "Caused by" in line]
    return (causes or lines or ["it said nothing"])[-1].strip()
