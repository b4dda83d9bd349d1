"""Files as Spark opens them: wherever they lie, unpacked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def opened(session: SparkSession, uri: str) -> Any:
    """An InputStream of Java over a file's content; whoever opens it closes it."""
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(uri))
    streams = jvm.org.apache.spark.sql.execution.datasources.CodecStreams
    return streams.createInputStream(session._jsc.hadoopConfiguration(), path)


def head(session: SparkSession, uri: str, size: int) -> bytes:
    """The first bytes of a file's content."""
    stream = opened(session, uri)
    try:
        return bytes(stream.readNBytes(size))
    finally:
        stream.close()
