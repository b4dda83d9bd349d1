"""The Spark session of an engine: the user's, or one of its own that ends with it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from mullion.arguments import require
from mullion.errors import ArgumentError, MullionError
from mullion.memory import MB, Memory
from mullion.spark.cluster import ship
from mullion.spark.jvm import is_dead
from mullion.spark.session import ensure, heap_bytes, is_running, local_session


class OwnSession:
    def __init__(self, given: SparkSession | None, config: Mapping[str, str], limit: int) -> None:
        """`limit` is the memory of the whole run."""
        require("config", config, Mapping, "a dictionary of Spark's settings")
        if given is not None and not hasattr(given, "sparkContext"):
            raise ArgumentError(f"spark is a SparkSession, not {type(given).__name__}")
        self._given, self._config = given, config
        self.memory = Memory.divided(limit)
        """The limit as it is divided: a session that was there before has its heap already."""
        self._closed = False
        self._started: SparkSession | None = None
        self.current: SparkSession | None = None
        """The session in use, if one was needed so far."""

    def get(self) -> SparkSession:
        """The session with the settings that answers depend on; started when it is first needed."""
        self.check_open()
        if self.current is None:
            given = self._given
            if given is None:
                joins = is_running()
                given = local_session(memory=f"{self.memory.heap // MB}m", config=self._config)
                self._started = None if joins else given
            self.current = ensure(given)
            self.memory = Memory(self.memory.limit, heap_bytes(self.current))
            ship(self.current)
        return self.current

    def check_open(self) -> None:
        if self._closed:
            raise MullionError("the engine is closed", hint="make a new Engine; results() and counts stay readable")

    def close(self) -> None:
        """Stop the session if it was started here."""
        self._closed = True
        if self._started is not None:
            if not is_dead():
                self._started.stop()
            self._started = self.current = None
