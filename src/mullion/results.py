"""Answers in the form that their reader likes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd


class Results:
    """The answers of one query: window_start, window_end, then its items."""

    def __init__(self, table: pa.Table, engine: Any) -> None:
        self._table, self._engine = table, engine

    def to_arrow(self) -> pa.Table:
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        frame: pd.DataFrame = self._table.to_pandas()
        return frame

    def to_spark(self) -> Any:
        """A Spark DataFrame in the engine's session."""
        return self._engine.session.createDataFrame(self._table)

    def __len__(self) -> int:
        return len(self._table)
