"""The same questions asked of DuckDB: one statement for each, over trades joined with the tables beforehand.

DuckDB comes with the `bench` extra only, so it is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from math import gcd
from pathlib import Path
from typing import Any

from mullion.benchmarks.answers import Answer, answer
from mullion.benchmarks.market import INDEXES
from mullion.benchmarks.questions import Question

Connection = Any
"""A DuckDB connection."""


def is_installed() -> bool:
    return find_spec("duckdb") is not None


def join(trades: Path, close: Path, index: Path) -> Connection:
    """The columns that predicates speak of and the product, of trades joined with both tables, in memory."""
    connection = import_module("duckdb").connect()
    quantities = "volume, price * volume AS value, abs(price - cp) / cp AS change"
    columns = f"epoch_us(ts) AS us, {quantities}, {', '.join(INDEXES)}"
    source = f"'{trades}/*.parquet' JOIN '{close}' USING (symbol) JOIN '{index}' USING (symbol)"
    connection.execute(f"CREATE TABLE joined AS SELECT {columns} FROM {source}")
    return connection


def one_by_one(connection: Connection, questions: Sequence[Question]) -> list[Answer]:
    return [_answer(connection.execute(_text(question)).fetchall()) for question in questions]


def _text(question: Question) -> str:
    """Sums of panes, as an expert writes it; each pane then goes to the few windows that hold it."""
    range_, slide = question.window
    pane = gcd(range_, slide)
    where = "" if question.predicate is None else f"WHERE {question.predicate.column_text()}"
    panes = f"SELECT us // {pane} * {pane} AS us, sum(value) AS value FROM joined {where} GROUP BY 1"
    start = f"(us // {slide} + 1 + later) * {slide} - {range_}"
    windows = f"({panes}), range({-(-range_ // slide)}) AS windows(later)"
    return f"SELECT {start} AS start, sum(value) AS total FROM {windows} WHERE us >= {start} GROUP BY 1"


def _answer(rows: Sequence[tuple[int, float]]) -> Answer:
    return answer([start for start, _ in rows], [total for _, total in rows])
