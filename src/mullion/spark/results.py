"""Answers as Arrow, pandas or Spark, and as text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING

import pyarrow as pa

from mullion.language.limits import moment

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


SHOWN = 20
"""Rows that are shown of answers."""


def in_words(time: datetime) -> str:
    """A time with its zone, as people write it."""
    return f"{time.replace(tzinfo=None).isoformat(sep=' ')} {time.tzname()}"


class Results:
    """The answers of one query: window_start, window_end, then its items."""

    def __init__(
        self, table: pa.Table, session: Callable[[], SparkSession] | None, name: str = "", dropped: int = 0
    ) -> None:
        self._table, self._session, self.name = table, session, name
        self.dropped = dropped
        """How many older rows have left memory: see `keep_answers`."""

    def to_arrow(self) -> pa.Table:
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        frame: pd.DataFrame = self._table.to_pandas()
        return frame

    def to_spark(self) -> DataFrame:
        """A Spark DataFrame in the engine's session."""
        from pyspark.sql import SparkSession

        session = SparkSession.active() if self._session is None else self._session()
        return session.createDataFrame(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        """What it is, and its first rows."""
        if not len(self):
            return self._headline()
        shown = self._table.slice(0, SHOWN).to_pandas().to_string(index=False)
        more = f"\n... and {len(self) - SHOWN:,} more" if len(self) > SHOWN else ""
        return f"{self._headline()}\n{shown}{more}"

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        shown: str = self._table.slice(0, SHOWN).to_pandas().to_html(index=False)
        return f"<p>{escape(self._headline())}</p>{shown}"

    def _headline(self) -> str:
        rows = f"{len(self):,} row{'' if len(self) == 1 else 's'}"
        gone = f", after {self.dropped:,} older ones that left memory" if self.dropped else ""
        return f"Results of {self.name or 'a query'}: {rows}{gone}"


class OneAnswer(Results):
    """The answer of a question asked once."""

    def __init__(
        self,
        table: pa.Table,
        session: Callable[[], SparkSession] | None,
        answered_from: str,
        up_to: int | None,
        newest: int | None,
    ) -> None:
        super().__init__(table, session)
        self.answered_from = answered_from
        """The source of the answer: a synopsis, sub-windows or kept events."""
        self.answered_up_to = None if up_to is None else moment(up_to)
        """The event time up to which it holds: no later event is in it. None while there was no event."""
        self.newest = None if newest is None else moment(newest)
        """The time of the newest event that had been read."""

    def _headline(self) -> str:
        rows = f"{len(self):,} row{'' if len(self) == 1 else 's'}"
        return f"OneAnswer: {rows}, {self.stated}"

    @property
    def stated(self) -> str:
        """Up to when it holds and what it was made from, in a sentence.

        >>> OneAnswer(pa.table({}), None, "kept events", 4_000_000, 5_000_000).stated
        'answered up to 1970-01-01 00:00:04 UTC, before the newest event at 1970-01-01 00:00:05 UTC, from kept events'
        """
        if self.answered_up_to is None or self.newest is None:
            return "answered before the first event"
        answered = f"answered up to {in_words(self.answered_up_to)}"
        if self.answered_up_to < self.newest:
            return f"{answered}, before the newest event at {in_words(self.newest)}, from {self.answered_from}"
        return f"{answered}, the newest event, from {self.answered_from}"
