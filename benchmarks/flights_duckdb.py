"""The queries over flights asked of DuckDB, in a process of its own.

In the same process each would pay for the other: while DuckDB works it gives back to the system what lies free in the
process (malloc_trim), and who used it pays for every page again. Both take their time alone here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.flights_queries import FlightQuery
from benchmarks.measuring import TimedElsewhere
from mullion.errors import MullionError

THREADS = 2


class DuckDB:
    """The flights as a table: the files themselves, or read before."""

    def __init__(self, folder: Path, *, in_memory: bool = False) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="mullion-duckdb-", ignore_cleanup_errors=True)
        command = [sys.executable, "-m", __name__, str(folder), "TABLE" if in_memory else "VIEW", self._scratch.name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._asked = 0

    def __enter__(self) -> DuckDB:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._scratch.cleanup()

    def one_by_one(self, queries: Sequence[FlightQuery]) -> TimedElsewhere:
        """The answers of each query, and the seconds that DuckDB took for all."""
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None and told is not None
        self._asked += 1
        print(json.dumps([self._asked, [query.duckdb() for query in queries]]), file=asked, flush=True)
        line = told.readline()
        if not line:
            raise MullionError("DuckDB's process has ended; it has told why")
        paths = [Path(self._scratch.name) / f"{self._asked}-{i}" for i in range(len(queries))]
        return TimedElsewhere(float(line), [pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in paths])


def serve(folder: str, made: str, scratch: str) -> None:
    """Answer sets of queries, given as JSON on the standard input, into files; and tell the seconds of each set."""
    connection: Any = import_module("duckdb").connect(config={"threads": THREADS})
    columns = "epoch_us(ts) AS us, delay, distance, origin, destination"
    connection.execute(f"CREATE {made} flights AS SELECT {columns} FROM '{folder}/*.parquet'")
    for line in sys.stdin:
        number, texts = json.loads(line)
        began = time.perf_counter()
        tables = [connection.sql(text).to_arrow_table() for text in texts]
        seconds = time.perf_counter() - began
        for i, table in enumerate(tables):
            with (
                pa.OSFile(str(Path(scratch) / f"{number}-{i}"), "wb") as file,
                pa.ipc.new_file(file, table.schema) as out,
            ):
                out.write_table(table)
        print(seconds, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
