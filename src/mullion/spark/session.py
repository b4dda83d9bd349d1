"""A Spark that starts silently and suits jobs of less than a second: on this machine alone, or on a named cluster."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from mullion.errors import EnvironmentProblem
from mullion.kernels.arrival import PIECE
from mullion.memory import MB, Memory, default_limit
from mullion.spark.cluster import cores_of, is_local, on_this_machine, require_master
from mullion.spark.failures import spark_failures
from mullion.spark.java import cache_dir, find_java, write_atomically
from mullion.spark.jvm import forget_dead, is_dead, loaded_context, note_start
from mullion.spark.options import IN_SESSION, check_session

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import DataFrame, SparkSession

# What answers depend on: a bad value is NULL instead of the end of the batch that it shares, instants are UTC, and
# formats of times mean what they mean now, not what they meant in old versions.
MEANING = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
}

SPEED = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # Partitions already match cores, so replanning has nothing to coalesce. Grouping a million rows on two busy cores
    # took a median of 0.37 s without it and 0.42 s with it: little, and near the noise (47 of 80 pairs were slower).
    "spark.sql.adaptive.enabled": "false",
    # Checkpoints of streams are on a local disk, where both of Spark's managers rename a file that is whole. The other
    # one starts a process for every look at a name: 26 in a batch. Twenty batches that do nothing took 3.5 s of CPU
    # with it and 1.7 s with this one.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

HERE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A job that lists the files of a batch takes longer than listing them here. A run over 40 small files took a median
    # of 1.6 s with it and 1.3 s without it on two busy cores, at best 1.3 s and 0.7 s (12 runs each).
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}
"""Nothing listens beyond this machine; executors on others could not reach the driver so."""

STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # What the driver collects is bounded by what batches and portions hold, not by a number of Spark's own.
    "spark.driver.maxResultSize": "0",
    # Nobody looks at the history of jobs, and a service runs for months.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
}

GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit started this process, and so has chosen where tasks run."""

LOGS_KEPT = 20

# The file rolls over because a service lives long; what the JVM itself prints lands in the same file.
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ${sys:mullion.log}
appender.file.filePattern = ${sys:mullion.log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""

_PACKAGE_ROOT = str(Path(__file__).parents[2])
_starting = threading.Lock()


def local_session(
    *,
    app_name: str = "mullion",
    master: str | None = None,
    memory: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark inside this machine, or join the one that this process already runs, whose settings then stay.

    `memory` is in Spark's notation ("2g"); `config` overrides any setting, those of spark-submit too. A `master` other
    than local makes this process the driver of a cluster. Nothing is printed, and unless there is a cluster nothing
    listens beyond 127.0.0.1. Raises EnvironmentProblem, naming the log file, when Spark cannot start.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with _starting:
        forget_dead()
        if SparkContext._active_spark_context is not None:
            return ensure(SparkSession.builder.getOrCreate())
        asked = {**_submitted(), **({"spark.master": master} if master else {}), **(config or {})}
        return _start(settings(app_name=app_name, memory=memory, config=asked))


def is_running() -> bool:
    """Whether this process has a Spark already."""
    context = loaded_context()
    return context is not None and context._active_spark_context is not None and not is_dead()


def heap_bytes(session: SparkSession) -> int:
    """How far the heap of a session's JVM may grow."""
    jvm: Any = session._jvm
    return int(jvm.java.lang.Runtime.getRuntime().maxMemory())


OF_PIECES = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
"""What decides how large the pieces of a file are that tasks read: at least the smaller of the two."""


def ensure(session: SparkSession) -> SparkSession:
    """The given session if its answers would be right, otherwise a sibling with the settings that Mullion needs.

    The user's session and its settings are never changed. A DataFrame stays with the session that made it; `adopt`
    brings one over.
    """
    if _means_the_same(session):
        return session
    sibling = session.newSession()
    for key, value in (MEANING | SPEED | dict.fromkeys(IN_SESSION, "false")).items():
        sibling.conf.set(key, value)
    if _cuts_too_finely(sibling):
        for key in OF_PIECES:
            sibling.conf.set(key, str(PIECE))
    return sibling


def adopt(session: SparkSession, frame: DataFrame) -> DataFrame:
    """The frame as one of the session's, so that it is evaluated with the session's settings and not its maker's."""
    if _means_the_same(frame.sparkSession):
        return frame
    datasets = session._jvm.org.apache.spark.sql.classic.Dataset  # type: ignore[union-attr]
    plan = frame._jdf.queryExecution().analyzed()
    from pyspark.sql import DataFrame

    return DataFrame(datasets.ofRows(session._jsparkSession, plan), session)


def _means_the_same(session: SparkSession) -> bool:
    """Whether answers in this session would be Mullion's; by Spark's own defaults no file is ignored."""
    if any(session.conf.get(key, "false") != "false" for key in IN_SESSION) or _cuts_too_finely(session):
        return False
    return all(session.conf.get(key, None) == value for key, value in MEANING.items())


def _cuts_too_finely(session: SparkSession) -> bool:
    """Whether Spark may read a file in pieces so small that the order of events cannot tell them apart."""
    settings = session._jsparkSession.sessionState().conf()
    return bool(min(settings.filesMaxPartitionBytes(), settings.filesOpenCostInBytes()) < PIECE)


def settings(
    *,
    app_name: str = "mullion",
    master: str | None = None,
    memory: str | None = None,
    config: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Every setting of a session, the user's last."""
    asked = {"spark.master": master or "local[*]", **(config or {})}
    check_session(asked)
    cluster = not is_local(asked["spark.master"])
    chosen = {
        **(HERE if on_this_machine(asked["spark.master"]) else {}),
        **STATIC,
        **SPEED,
        **MEANING,
        "spark.app.name": app_name,
        "spark.driver.memory": memory or f"{Memory.divided(default_limit()).heap // MB}m",
        **asked,
    }
    cores = cores_of(chosen) if cluster else cores_here(chosen["spark.master"])
    chosen.setdefault("spark.sql.shuffle.partitions", str(max(2, cores)))
    return chosen


def _submitted() -> dict[str, str]:
    """What spark-submit was told, where it started this process."""
    if GATEWAY not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def cores_here(master: str) -> int:
    """How many tasks a local master runs at once."""
    fixed = re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master)
    if fixed:
        return int(fixed[1])
    if master == "local":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2


def _start(chosen: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    java = find_java()
    require_master(chosen["spark.master"])
    log = _new_log()
    if SparkContext._gateway is None:
        note_start(log, chosen["spark.driver.memory"])
    conf = SparkConf().setAll(list({**chosen, "spark.driver.extraJavaOptions": _java_options(chosen, log)}.items()))
    _hush_python()
    environment = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": _worker_python(chosen),
        "PYTHONPATH": os.pathsep.join(filter(None, (_PACKAGE_ROOT, os.environ.get("PYTHONPATH")))),
    }
    if on_this_machine(chosen["spark.master"]):
        # Without a name Spark looks its own address up in DNS, which takes seconds on some machines.
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
    try:
        with _environment(environment), _interruptible():
            return SparkSession(SparkContext(conf=conf, gateway=_gateway(conf, log)))
    except (*spark_failures(), Py4JError, OSError) as error:
        raise EnvironmentProblem(f"Spark did not start: {_reason(error)}", hint=f"Spark's own log is {log}") from None


def _worker_python(chosen: Mapping[str, str]) -> str:
    """The Python of the workers: this one, or on a cluster the one that the user names, by its path over there."""
    if is_local(chosen["spark.master"]):
        return sys.executable
    return chosen.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable


def _gateway(conf: SparkConf, log: Path) -> Any:
    """The JVM that outlived an earlier context, or a new one in a process session of its own.

    Ctrl-C in the terminal thereby reaches Python only. The JVM still ends with this process, however that ends: it
    reads a pipe from us and exits at end of file.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return SparkContext._gateway
    with log.open("ab") as output:
        return launch_gateway(conf, {"stdout": output, "stderr": output, "start_new_session": True})


def _java_options(chosen: Mapping[str, str], log: Path) -> str:
    rules = cache_dir() / "log4j2.properties"
    write_atomically(rules, _LOG4J)
    # Without memory a JVM may go on for long and do nothing; its end is told.
    ours = f'"-Dlog4j2.configurationFile={rules.as_uri()}" "-Dmullion.log={log}" -XX:+ExitOnOutOfMemoryError'
    return f"{ours} {chosen.get('spark.driver.extraJavaOptions', '')}".strip()


def _new_log() -> Path:
    """A log file for this process; of the earlier ones the newest are kept."""
    folder = cache_dir("logs")
    earlier = sorted(folder.glob("spark-*.log*"), key=lambda path: path.name)
    for path in earlier[:-LOGS_KEPT]:
        path.unlink(missing_ok=True)
    return folder / f"spark-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.log"


def _hush_python() -> None:
    """Keep the Python halves of Spark from printing stack traces of what they raise, or of Ctrl-C, as well."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).disabled = True
    logging.getLogger().addFilter(_not_from_py4j)


def _not_from_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


@contextmanager
def _interruptible() -> Iterator[None]:
    """Give Ctrl-C a meaning that works: the running jobs are cancelled and KeyboardInterrupt is raised.

    PySpark installs a handler that calls the JVM over the very connection that it interrupts, which fails, prints, and
    leaves the jobs running. A handler of the user's own is left in place instead.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _cancel_jobs if before is signal.default_int_handler else before)


def _cancel_jobs(number: int, frame: FrameType | None) -> None:
    loaded = loaded_context()
    context = None if loaded is None else loaded._active_spark_context
    if context is not None and context._jsc is not None:
        # Every thread has a connection of its own to the JVM, and that of this one is busy. Jobs that are started after
        # the interrupt must not be cancelled with the others, hence the wait, which takes milliseconds.
        cancelling = threading.Thread(target=_cancel_quietly, args=(context,), daemon=True)
        cancelling.start()
        cancelling.join(timeout=2)
        _drop_connection(context)
    raise KeyboardInterrupt


def _drop_connection(context: SparkContext) -> None:
    """Close this thread's connection, whose answer nobody will read.

    Py4J would do so when it sees KeyboardInterrupt, but by asking the JVM to close everything on that port, and a
    connection that is opened just then can be closed along with the old ones. It leaves closed connections alone.
    """
    with suppress(Exception):
        connection = context._gateway._gateway_client.get_thread_connection()  # type: ignore[union-attr]
        if connection is not None:
            connection.close()


def _cancel_quietly(context: SparkContext) -> None:
    with suppress(Exception):  # the JVM may be going away at this moment, and its jobs with it
        context.cancelAllJobs()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the JVM and the context alone; the user's come back afterwards."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _reason(error: Exception) -> str:
    """The one line of a Java stack trace that says something."""
    java = getattr(error, "java_exception", None)
    return str(java.getMessage() if java is not None else error).strip().split("\n")[0]
