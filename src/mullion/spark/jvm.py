"""The Java process that Spark runs in: whether it lives and, when it does not, why and what to do.

Its end shows as whatever the next call into it happens to raise: a refused connection, an empty answer, a package that
is not callable. So every failure is first held against the process itself.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from py4j.protocol import Py4JNetworkError

from mullion.errors import SparkDied, TextError

if TYPE_CHECKING:
    from pyspark import SparkContext

P = ParamSpec("P")
R = TypeVar("R")

TAIL = 65536
"""Bytes at the end of the log that are searched for the reason."""
DYING = 10.0
"""Seconds that a process is given to end after it has closed its connections."""

_log: Path | None = None
_memory = ""


def note_start(log: Path, memory: str) -> None:
    """Remember where the process that is about to start writes its log, and how much memory it has."""
    global _log, _memory
    _log, _memory = log, memory


def log_file() -> Path | None:
    """Where the Spark that this process started writes its log; None when it has started none."""
    return _log


def loaded_context() -> type[SparkContext] | None:
    """What pyspark knows of its process; None where it was not even imported, which takes a tenth of a second."""
    return getattr(sys.modules.get("pyspark"), "SparkContext", None)


def needs_spark(call: Callable[P, R]) -> Callable[P, R]:
    """A call that says so when Spark's process has ended, in place of what it would raise."""

    @wraps(call)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with raising_if_dead():
            return call(*args, **kwargs)

    return wrapped


@contextmanager
def raising_if_dead() -> Iterator[None]:
    try:
        yield
    except (SparkDied, TextError):
        raise
    except Exception as problem:
        died = death(problem)
        if died is None:
            raise
        raise died from problem


def death(problem: BaseException | None = None) -> SparkDied | None:
    """Why Spark's process has ended; None while it lives, or when there was none."""
    context = loaded_context()
    gateway = None if context is None else context._gateway
    if gateway is None:
        return None
    lost = isinstance(problem, (Py4JNetworkError, ConnectionError))
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return _died("has gone away") if lost else None
    try:
        code = process.wait(DYING) if lost else process.poll()
    except subprocess.TimeoutExpired:
        return None
    return None if code is None else _died(_how(code))


def is_dead() -> bool:
    return death() is not None


def forget_dead() -> None:
    """Let a new process be started where one has ended; Spark would take it to live for ever."""
    if is_dead():
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None


def _how(code: int) -> str:
    if _ran_out_of_memory():
        return "ran out of memory"
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"was killed ({names.get(-code, f'signal {-code}')})"
    return f"ended with code {code}"


def _ran_out_of_memory() -> bool:
    if _log is None:
        return False
    try:
        with _log.open("rb") as file:
            file.seek(max(0, _log.stat().st_size - TAIL))
            return b"java.lang.OutOfMemoryError" in file.read()
    except OSError:
        return False


def _died(how: str) -> SparkDied:
    now = f" (it has {_memory})" if _memory else ""
    if "memory" in how:
        in_python = "Engine(config={'spark.driver.memory': '4g'})"
        advice = f"give it more{now}: --conf spark.driver.memory=4g, in Python {in_python}"
    elif "SIGKILL" in how:
        advice = (
            "systems do this to the largest process when memory is short: free some, give Spark less by "
            f"--conf spark.driver.memory=1g{now}, or read less at once by OPTIONS (maxFilesPerTrigger '10')"
        )
    else:
        advice = "the end of the log tells more"
    where = "" if _log is None else f"\n  its log is {_log}"
    again = "\n  with a checkpoint, the same run goes on where it was"
    return SparkDied(f"the Java process of Spark {how}", hint=f"{advice}{where}{again}")
