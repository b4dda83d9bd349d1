"""A JVM that outlives the drivers that use it, so that a driver can be killed and replaced without starting Java."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from processes import kill_session, wait_for

CLOSE_WAIT = "08"
"""In /proc/net/tcp: the other side has closed the connection, this one has not."""


class WarmJava:
    """Use as a context. It ends with this process, however that ends: it reads a pipe from us."""

    def __enter__(self) -> WarmJava:
        # launch_gateway asks the environment where Java is; the test has set it.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        settings = {"spark.master": "local[1]", "spark.ui.enabled": "false"}
        self._gateway = launch_gateway(SparkConf(loadDefaults=False).setAll(list(settings.items())), quiet)
        self.pid = int(self._gateway.proc.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self._gateway.close()
        kill_session(self.pid)
        self._gateway.proc.stdin.close()
        self._gateway.proc.wait()

    @property
    def environment(self) -> dict[str, str]:
        """With this a driver uses the JVM, as one does that spark-submit has started."""
        parameters = self._gateway.gateway_parameters
        handed = {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
        return {**os.environ, **handed}

    def take_over(self) -> None:
        """End what a killed driver has left: first the calls that it was making, which may still start something, then
        its streaming queries, which may still write, then its context."""
        wait_for(lambda: not self._unfinished_calls(), seconds=60, what="the end of the killed driver's calls")
        session = self._gateway.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession()
        if session.isDefined():
            for query in session.get().streams().active():
                query.stop()
            session.get().stop()

    def _unfinished_calls(self) -> list[str]:
        """Connections of a process that is gone; the JVM closes each when the call on it returns."""
        port = f"{self._gateway.gateway_parameters.port:04X}"
        lines = [line.split() for t in ("tcp", "tcp6") for line in Path("/proc/net", t).read_text().splitlines()]
        return [line[1] for line in lines if line[1].endswith(f":{port}") and line[3] == CLOSE_WAIT]
