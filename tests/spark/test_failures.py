"""What a user is told of failures of Spark's. Without a JVM."""

from __future__ import annotations

from mullion.spark.failures import source_error


def test_what_failed_in_a_python_worker_is_told() -> None:
    said = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "partial.py", line 24, in <module>
    import pyarrow as pa
ModuleNotFoundError: No module named 'pyarrow'
"""
    told = source_error("stream 's'", RuntimeError(said))
    assert told.message == (
        "stream 's' cannot be read: a Python worker of Spark's failed: ModuleNotFoundError: No module named 'pyarrow'"
    )
    assert told.hint is not None and "PYSPARK_PYTHON" in told.hint


def test_a_format_that_spark_does_not_know_is_told_with_what_to_do() -> None:
    said = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: {}. Make sure the provider name is correct."
    for format_, part in (("parkay", "the name after USING"), ("kafka", "spark-sql-kafka")):
        told = source_error("s", RuntimeError(said.format(format_)))
        assert told.hint is not None and part in told.hint
