"""What Spark says when something fails, as sentences: what, in which file, and what to do."""

from __future__ import annotations

import re
import sys

from py4j.protocol import Py4JJavaError

from mullion import errors
from mullion.errors import MullionError, SourceError

_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[\w$]+(?:: |$)")
_CODE = re.compile(r"^\[[A-Z_.0-9]+\] ")
_QUERY = re.compile(r"^Query \[id = .*?\] terminated with exception: ")
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_FILE = re.compile(r"Encountered error while reading file (.+?)\.(?=\s| Data type|$)")
_TYPES = re.compile(r"Parquet column \[(.*?)\]\. Expected Spark type (\S+), actual Parquet type (\S+?)\.")
_IN_WORKER = "An exception was thrown from the Python worker"
_WORKERS_ERROR = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception)(?:: .*)?)$", re.MULTILINE)
_RAISED = re.compile(r"^mullion\.errors\.(\w+): (.*)$", re.MULTILINE)
_DAMAGED = (
    "Unexpected end of",
    "not a Parquet file",
    "EOFException",
    "incorrect header check",
    "Malformed ORC",
    "corrupt",
)
_PACKAGES = {"kafka": "spark-sql-kafka-0-10_2.13", "avro": "spark-avro_2.13"}


def spark_failures() -> tuple[type[Exception], ...]:
    """What Spark raises. Ask when something was raised: until pyspark is imported, none of it was."""
    if "pyspark" not in sys.modules:
        return ()
    from pyspark.errors import PySparkException

    return PySparkException, Py4JJavaError


def ended_streams() -> tuple[type[Exception], ...]:
    """What Spark raises where a streaming query has failed; ask when something was raised."""
    if "pyspark" not in sys.modules:
        return ()
    from pyspark.errors import StreamingQueryException

    return (StreamingQueryException,)


def source_error(name: str, problem: BaseException) -> SourceError:
    """What the user is told when Spark cannot read a stream or table."""
    text = str(problem)
    file, types = _FILE.search(text), _TYPES.search(text)
    cause = _cause(problem)
    if types:
        cause = f"column '{types[1]}' holds {types[3]}, and {types[2].upper()} is declared"
    where = f"{file[1].removeprefix('file://')}: " if file and file[1] not in cause else ""
    return SourceError(f"{name} cannot be read: {where}{cause}", hint=_hint(text))


def raised_in_worker(problem: BaseException) -> MullionError | None:
    """What Mullion itself raised in one of Spark's Python workers, if that is the reason."""
    raised = list(_RAISED.finditer(str(problem)))
    if not raised:
        return None
    kind = getattr(errors, raised[-1][1], MullionError)
    hint = re.match(r"\n  (\S.*)", str(problem)[raised[-1].end() :])
    error: MullionError = (kind if issubclass(kind, MullionError) else MullionError)(raised[-1][2])
    error.hint = hint[1] if hint else None
    return error


def _cause(problem: BaseException) -> str:
    """The line that tells the innermost cause, without the class of Java that it came in."""
    in_worker = str(problem).partition(_IN_WORKER)[2]
    if told := _WORKERS_ERROR.findall(in_worker):
        return f"a Python worker of Spark's failed: {told[-1]}"
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by:")]
    for line in [*reversed(causes), *lines]:
        plain = _JAVA_CLASS.sub("", line.removeprefix(": "))
        for noise in (_CODE, _QUERY, _JAVA_CLASS, _CODE, _STATE):
            plain = noise.sub("", plain)
        plain = plain.strip()
        if plain and not plain.startswith("An error occurred while calling"):
            return plain
    return causes[-1] if causes else lines[0] if lines else type(problem).__name__


def _hint(text: str) -> str | None:
    if _IN_WORKER in text and "ModuleNotFoundError" in text:
        return "Spark's Python is another one than yours: set PYSPARK_PYTHON before the session begins"
    if "TIMESTAMP(NANOS" in text:
        return "Spark has no nanoseconds: write microseconds, in pandas by to_parquet(..., coerce_timestamps='us')"
    if _TYPES.search(text):
        return "declare the column with the type that the file holds"
    if "CSV header does not conform" in text:
        return "declare exactly the columns of the header"
    for format_, package in _PACKAGES.items():
        if f"Failed to find data source: {format_}" in text or f"Failed to find the data source: {format_}" in text:
            from pyspark.version import __version__ as version

            return f"Spark needs a package for it: --conf spark.jars.packages=org.apache.spark:{package}:{version}"
    if "Failed to find data source" in text or "Failed to find the data source" in text:
        return "check the name after USING; a format that Spark does not bring needs --conf spark.jars.packages=..."
    if "No FileSystem for scheme" in text or "FileSystem not found" in text:
        return "Spark needs the file system's package: --conf spark.jars.packages=..., such as hadoop-aws for s3a"
    if "OutOfMemoryError" in text:
        return "give Spark more memory: --conf spark.driver.memory=4g, in Python Engine(config={...})"
    if _FILE.search(text) or any(sign in text for sign in _DAMAGED):
        return "the file is damaged or not whole: remove it or write it again"
    return None
