"""The Spark session of an engine: the user's, or one of its own that ends with it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from mullion.arguments import require
from mullion.errors import ArgumentError, MullionError
from mullion.memory import MB, Memory
from mullion.spark.cluster import is_local, ship
from mullion.spark.jvm import is_dead
from mullion.spark.session import GATEWAY, cores_here, ensure, heap_bytes, is_running, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Executors(NamedTuple):
    """Where tasks run."""

    cores: int
    are_here: bool
    """They are threads of a JVM of this process, so that the driver has the machine to itself."""

    @staticmethod
    def of(session: SparkSession) -> Executors:
        context = session.sparkContext
        return Executors(context.defaultParallelism, is_local(context.master or ""))


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
        self._starting = threading.Lock()
        """Streams may need the session at the same time, each in its own thread."""
        self._started: SparkSession | None = None
        self.current: SparkSession | None = None
        """The session in use, if one was needed so far."""
        self._executors: Executors | None = None
        """Where its tasks run: every batch asks, and asking the JVM takes a millisecond."""

    def get(self) -> SparkSession:
        """The session with the settings that answers depend on; started when it is first needed."""
        self.check_open()
        with self._starting:
            if self.current is None:
                given = self._given
                if given is None:
                    joins = is_running()
                    given = local_session(memory=f"{self.memory.heap // MB}m", config=self._config)
                    self._started = None if joins else given
                session = ensure(given)
                self.memory = Memory(self.memory.limit, heap_bytes(session))
                ship(session)
                self.current = session
            return self.current

    @property
    def executors(self) -> Executors:
        """Where tasks run, or would run: no session is started to know it where nothing but this machine is meant."""
        master = str(self._config.get("spark.master", "local[*]"))
        if self.is_ours and is_local(master) and "spark.default.parallelism" not in self._config:
            return Executors(cores_here(master), are_here=True)
        session = self.get()
        if self._executors is None:
            self._executors = Executors.of(session)
        return self._executors

    @property
    def is_ours(self) -> bool:
        """Whether there is no session yet, and it is for this engine to start one."""
        return self.current is None and self._given is None and not is_running() and GATEWAY not in os.environ

    def has_settings(self, prefix: str) -> bool:
        """Whether the user has chosen a setting of this kind."""
        return any(key.startswith(prefix) for key in self._config)

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
