"""DataFrames of the caller's as streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mullion.algebra.streams import Stream
from mullion.arguments import require
from mullion.errors import ArgumentError
from mullion.language.parse import (
    parse_duration,
    parse_event_time,
    parse_join_memory,
    parse_punctuation,
    parse_when_behind,
)
from mullion.spark.types import columns_from_spark

if TYPE_CHECKING:
    from mullion.spark.types import DataFrame


class StreamClauses(NamedTuple):
    """What `Engine.stream` is told of a stream: the clauses of CREATE STREAM as texts."""

    time: str
    lateness: str = "0 s"
    ahead: str | None = "1 day"
    keep: str | int | None = None
    idle: str | None = None
    when_behind: str = "WAIT"
    punctuate: str | None = None
    memory: str | None = None

    def check(self, name: str) -> None:
        """Refuse what is not of the type that it has to be."""
        require("when_behind", self.when_behind, str, "text such as 'SHED RANDOM AT MOST 50 PERCENT'")
        require("punctuate", self.punctuate, str, "text such as \"ON order_id WHEN status = 'closed'\"", none=True)
        require("memory", self.memory, str, "text such as '100000 ROWS SHED OLDEST'", none=True)
        require("the name of a stream", name, str, "text")
        require("time", self.time, str, "the name of a column")
        require("lateness", self.lateness, str, "a duration such as '5 seconds'")
        require("ahead", self.ahead, str, "a duration such as '1 day'", none=True)
        require("keep", self.keep, (str, int), "a duration such as '1 hour' or a number of events", none=True)
        require("idle", self.idle, str, "a duration such as '10 s'", none=True)


def stream_of_frame(name: str, dataframe: DataFrame, said: StreamClauses) -> Stream:
    """The stream that a DataFrame is, as it was said to be."""
    said.check(name)
    if not hasattr(dataframe, "isStreaming"):
        hint = "read it with Spark, such as spark.readStream, or name its files with CREATE STREAM"
        raise ArgumentError(f"stream '{name}' is a Spark DataFrame, not a {type(dataframe).__name__}", hint=hint)
    columns = columns_from_spark(dataframe.schema)
    is_column = said.time.lower() in (column.lower() for column, _ in columns)
    time_column, time = (said.time, None) if is_column else parse_event_time(said.time)
    return Stream(
        name,
        columns,
        time_column,
        parse_duration(said.lateness),
        keep=parse_duration(said.keep) if isinstance(said.keep, str) else None,
        keep_rows=said.keep if isinstance(said.keep, int) else None,
        ahead=None if said.ahead is None else parse_duration(said.ahead),
        time=time,
        idle=None if said.idle is None else parse_duration(said.idle),
        shedding=parse_when_behind(said.when_behind),
        punctuation=None if said.punctuate is None else parse_punctuation(said.punctuate),
        memory=None if said.memory is None else parse_join_memory(said.memory),
    )
