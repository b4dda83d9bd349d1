"""Run by a Python that has apache-flink, and may have nothing else: reads a job from standard input, prints JSON.

The job names a folder with CSV files, the columns of each, and SELECTs that give a window's start and a total.
"""

import csv
import json
import sys
import time
from calendar import timegm
from pathlib import Path
from typing import Any

WARM = 4
"""Statements of the set that warms up."""


def main() -> None:
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    job = json.load(sys.stdin)
    config = Configuration()
    config.set_string("parallelism.default", str(job["cores"]))
    config.set_string("taskmanager.memory.network.min", "512m")
    config.set_string("taskmanager.memory.network.max", "512m")
    settings = EnvironmentSettings.new_instance().in_batch_mode().with_configuration(config).build()
    env = TableEnvironment.create(settings)
    folder = Path(job["folder"])
    for name, columns in job["columns"].items():
        env.execute_sql(f"CREATE TABLE `{name}` ({columns}) WITH ({options(folder / f'{name}.csv')})")
    selects = job["selects"]
    execute(env, selects[:WARM], "warm", folder)
    began = time.perf_counter()
    execute(env, selects, "answers", folder)
    print(json.dumps({"seconds": time.perf_counter() - began, "rows": rows(folder / "answers")}))


def options(path: Path) -> str:
    return f"'connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv'"


def execute(env: Any, selects: list[str], name: str, folder: Path) -> None:
    env.execute_sql(
        f"CREATE TABLE {name} (query INT, began TIMESTAMP(3), total DOUBLE) WITH ({options(folder / name)})"
    )
    statements = env.create_statement_set()
    for i, select in enumerate(selects):
        statements.add_insert_sql(f"INSERT INTO {name} SELECT {i}, {select.removeprefix('SELECT ')}")
    statements.execute().wait()


def rows(folder: Path) -> list[list[float]]:
    """Query, start in microseconds and total of every answer."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith((".", "_")):
            with path.open(newline="") as file:
                for query, start, total in csv.reader(file):
                    seconds = timegm(time.strptime(start[:19], "%Y-%m-%d %H:%M:%S"))
                    found.append([int(query), seconds * 1_000_000, float(total)])
    return found


if __name__ == "__main__":
    main()
