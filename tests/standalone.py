"""A Spark cluster of one machine: a master and workers, each a process of its own, on the loopback address alone."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pyspark

from mullion.spark.java import find_java
from processes import command_of, die_with_parent, kill_session, processes_of_session, wait_for

SPARK = Path(pyspark.__file__).parent


class Cluster:
    """Use as a context: at its end, and at the end of this process, nothing of it is left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        try:
            log = self._start("master", "org.apache.spark.deploy.master.Master")
            self.url = _found(log, r"Starting Spark master at (spark://\S+)")
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            kill_session(process.pid)
            process.wait()

    def add_worker(self) -> int:
        """Start a worker of one core; returns its process once the master knows it."""
        name = f"worker{len(self._processes)}"
        work = str(self.folder / name)
        options = ["--cores", "1", "--memory", "600m", "--work-dir", work, self.url]
        log = self._start(name, "org.apache.spark.deploy.worker.Worker", *options)
        _found(log, "(Successfully registered with master)")
        return self._processes[-1].pid

    def _start(self, name: str, main: str, *options: str) -> Path:
        log = self.folder / f"{name}.log"
        with log.open("wb") as file:
            command = [SPARK / "bin" / "spark-class", main, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            self._processes.append(
                subprocess.Popen(
                    [*command, *options],
                    env=_bare_environment(),
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            )
        return log


def runs_python(worker: int) -> bool:
    """Whether an executor of the worker runs tasks in Python."""
    return any("pyspark.daemon" in command_of(pid) for pid in processes_of_session(worker))


def _bare_environment() -> dict[str, str]:
    """The workers know nothing of Mullion, and listen on the loopback address alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    ours = {"JAVA_HOME": str(find_java().home), "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**kept, **ours, "SPARK_DAEMON_MEMORY": "256m"}


def _found(log: Path, pattern: str) -> str:
    wait_for(lambda: re.search(pattern, log.read_text()), seconds=60, what=f"'{pattern}' in {log}")
    match = re.search(pattern, log.read_text())
    assert match is not None
    return match[1]
