"""Answers in the form that their reader likes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    import pandas as pd


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Results:
    """The answers of one query: window_start, window_end, then its items."""

    def __init__(self, table: pa.Table, session: SparkSession | None) -> None:
        self._table, self._session = table, session

    def to_arrow(self) -> pa.Table:
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        frame: pd.DataFrame = self._table.to_pandas()
        return frame

    def to_spark(self) -> DataFrame:
        """A Spark DataFrame in the engine's session."""
        session = self._session or SparkSession.active()
        return session.createDataFrame(self._table)

    def __len__(self) -> int:
        return len(self._table)


class OneAnswer(Results):
    """The answer of a question asked once."""

    def __init__(self, table: pa.Table, session: SparkSession | None, answered_from: str, up_to: int | None) -> None:
        super().__init__(table, session)
        self.answered_from = answered_from
        """What it was answered from: a synopsis, sub-windows or kept events."""
        self.answered_up_to = None if up_to is None else EPOCH + timedelta(microseconds=up_to)
        """The event time up to which it holds: no later event is in it."""
