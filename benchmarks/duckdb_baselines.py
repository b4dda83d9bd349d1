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

import numpy as np
import numpy.typing as npt

from benchmarks.aggregate_questions import RowWindow
from benchmarks.answers import Answer, answer
from benchmarks.market import INDEXES
from benchmarks.questions import Question

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


def read(trades: Path) -> Connection:
    """The columns that windows over the last events need, in memory."""
    connection = import_module("duckdb").connect()
    columns = "epoch_us(ts) AS us, price, price * volume AS value"
    connection.execute(f"CREATE TABLE trades AS SELECT {columns} FROM '{trades}/*.parquet'")
    return connection


def row_windows(connection: Connection, windows: Sequence[RowWindow]) -> list[npt.NDArray[np.float64]]:
    """One statement for each window over the last events: totals in the order of time."""
    return [_totals(connection, _row_text(window)) for window in windows]


def _row_text(window: RowWindow) -> str:
    frame = f"ORDER BY us ROWS BETWEEN {window.rows - 1} PRECEDING AND CURRENT ROW"
    over = f"SELECT row_number() OVER (ORDER BY us) AS number, sum(value) OVER ({frame}) AS total FROM trades"
    return f"SELECT total FROM ({over}) WHERE number % {window.slide} = 0 ORDER BY number"


def after_events(connection: Connection, call: str, range_: int) -> npt.NDArray[np.float64]:
    """An answer after every event, over those that are younger than so many microseconds."""
    frame = f"ORDER BY us RANGE BETWEEN {range_ - 1} PRECEDING AND CURRENT ROW"
    return _totals(connection, f"SELECT {call} OVER ({frame}) AS total FROM trades ORDER BY us")


def _totals(connection: Connection, text: str) -> npt.NDArray[np.float64]:
    return np.asarray(connection.execute(text).fetchnumpy()["total"], np.float64)
