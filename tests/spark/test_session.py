from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mullion.errors import EnvironmentProblem
from mullion.spark import session as sessions
from processes import processes_of_session, wait_until_gone

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")


def jvm_of(session: SparkSession) -> int:
    return int(session.sparkContext._gateway.proc.pid)


def test_settings_that_answers_depend_on(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    row = spark.sql("SELECT 1 / 0 AS a, CAST('x' AS INT) AS b, CAST(timestamp'1970-01-01' AS BIGINT) AS c").first()
    assert row is not None
    assert tuple(row) == (None, None, 0)


def test_spark_can_make_the_manager_of_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    jvm = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(tmp_path.as_uri())
    managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    made = managers.create(path, spark._jsparkSession.sessionState().newHadoopConf())
    assert made.getClass().getName() == sessions.SPEED["spark.sql.streaming.checkpointFileManagerClass"]


def test_workers_can_import_mullion(spark: SparkSession) -> None:
    def version(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import mullion

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"version": [mullion.__version__], "python": [sys.executable]})

    import mullion

    (row,) = spark.range(1, numPartitions=1).mapInArrow(version, "version string, python string").collect()
    assert tuple(row) == (mullion.__version__, sys.executable)


def test_a_second_call_joins_the_running_spark(spark: SparkSession) -> None:
    again = sessions.local_session(master="local[1]")
    assert again.sparkContext is spark.sparkContext


def test_ensure_keeps_a_session_that_is_right(spark: SparkSession) -> None:
    assert sessions.ensure(spark) is spark


def test_ensure_leaves_the_users_session_alone(spark: SparkSession) -> None:
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.ansi.enabled", "true")
    theirs.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    ours = sessions.ensure(theirs)
    assert ours is not theirs
    assert {key: ours.conf.get(key) for key in sessions.MEANING} == sessions.MEANING
    assert theirs.conf.get("spark.sql.ansi.enabled") == "true"
    assert theirs.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"


@linux
def test_nothing_listens_beyond_this_machine(spark: SparkSession) -> None:
    spark.range(4).mapInArrow(lambda batches: batches, "id long").count()
    sockets = set()
    for pid in [os.getpid(), *processes_of_session(jvm_of(spark))]:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            try:
                sockets.add(os.readlink(handle))
            except OSError:
                continue
    listening = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                listening.append(fields[1].partition(":")[0])
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert listening
    assert set(listening) <= loopback


def test_user_settings_come_last() -> None:
    chosen = sessions.settings(master="local[3]", memory="2g", config={"spark.sql.adaptive.enabled": "true"})
    assert chosen["spark.sql.shuffle.partitions"] == "3"
    assert chosen["spark.driver.memory"] == "2g"
    assert chosen["spark.sql.adaptive.enabled"] == "true"
    assert sessions.settings(config={"spark.sql.shuffle.partitions": "7"})["spark.sql.shuffle.partitions"] == "7"


def test_a_cluster_must_reach_the_driver() -> None:
    here = sessions.settings(master="spark://127.0.0.1:7077")
    there = sessions.settings(master="spark://host:7077", config={"spark.executor.instances": "5"})
    assert here["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in there and "spark.driver.bindAddress" not in there
    assert there["spark.sql.shuffle.partitions"] == "5"


def test_a_master_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(EnvironmentProblem, match="no Spark master listens"):
        sessions._start(sessions.settings(master="spark://127.0.0.1:9,localhost:9"))


def test_on_a_cluster_the_users_python_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    assert sessions._worker_python({"spark.master": "yarn"}) == "./environment/bin/python"
    assert sessions._worker_python({"spark.master": "yarn", "spark.pyspark.python": "python3"}) == "python3"
    assert sessions._worker_python({"spark.master": "local[2]"}) == sys.executable


def test_the_environment_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "before")
    monkeypatch.delenv("ADDED", raising=False)
    with sessions._environment({"KEPT": "during", "ADDED": "during"}):
        assert (os.environ["KEPT"], os.environ["ADDED"]) == ("during", "during")
    assert os.environ["KEPT"] == "before"
    assert "ADDED" not in os.environ


def script(folder: Path, text: str) -> subprocess.Popen[str]:
    """Run a program the way a shell does: in a process group of its own, with an empty working folder. It hears Ctrl-C,
    also where the tests themselves run in the background and do not."""
    file = folder / "script.py"
    file.write_text(text)
    work = folder / "work"
    work.mkdir()
    return subprocess.Popen(
        [sys.executable, file],
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=_hear_interrupts,
    )


def _hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


EVERYTHING = """
from pathlib import Path
from mullion.spark.session import local_session
spark = local_session()
assert spark.range(10).count() == 10
assert spark.range(10).mapInArrow(lambda batches: batches, "id long").count() == 10
for wrong in ("SELECT nothing FROM range(3)", "SELECT raise_error('x')", "SELEC"):
    try:
        spark.sql(wrong).collect()
        raise SystemExit("it should have failed")
    except Exception:
        pass
spark.range(5).write.parquet(str(Path(__file__).parent / "data"))
sizes = []
query = (
    spark.readStream.schema("id long").parquet(str(Path(__file__).parent / "data"))
    .writeStream.foreachBatch(lambda frame, batch: sizes.append(frame.count()))
    .option("checkpointLocation", str(Path(__file__).parent / "checkpoint"))
    .trigger(availableNow=True).start()
)
query.awaitTermination()
assert sizes == [5]
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("ending", ["", "spark.stop()"])
def test_a_script_prints_nothing_and_leaves_nothing(tmp_path: Path, ending: str) -> None:
    out, err = (process := script(tmp_path, EVERYTHING + ending)).communicate(timeout=300)
    assert (out, err, process.returncode) == ("", "", 0)
    assert list((tmp_path / "work").iterdir()) == []


BUSY = """
import time
from pathlib import Path
from mullion.spark.session import local_session
spark = local_session()
def slow(batches):
    Path("running").touch()
    time.sleep(600)
    yield from batches
def work():
    print(spark.sparkContext._gateway.proc.pid, flush=True)
    spark.range(4).mapInArrow(slow, "id long").count()
"""


def start_busy(folder: Path, text: str) -> tuple[subprocess.Popen[str], int]:
    """A program in the middle of a job that runs in Python workers, and its JVM."""
    marker = folder / "work" / "running"
    process = script(folder, BUSY.replace('"running"', repr(str(marker))) + text)
    assert process.stdout is not None
    jvm = int(process.stdout.readline())
    deadline = time.monotonic() + 120
    while not marker.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return process, jvm


@pytest.mark.spark
@pytest.mark.slow
@linux
def test_ctrl_c_cancels_the_job_and_spark_lives_on(tmp_path: Path) -> None:
    process, jvm = start_busy(
        tmp_path,
        """
try:
    work()
except KeyboardInterrupt:
    print("interrupted", spark.range(7).count(), flush=True)
""",
    )
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (out, err, process.returncode) == ("interrupted 7\n", "", 0)
    assert wait_until_gone(jvm, seconds=60) == []


@pytest.mark.spark
@pytest.mark.slow
@linux
def test_a_killed_process_leaves_no_jvm(tmp_path: Path) -> None:
    process, jvm = start_busy(tmp_path, "work()")
    assert len(processes_of_session(jvm)) > 1
    process.kill()
    process.communicate(timeout=30)
    assert wait_until_gone(jvm, seconds=60) == []


@pytest.mark.spark
@pytest.mark.slow
@linux
def test_a_jvm_that_is_killed_is_told_and_another_can_be_started(tmp_path: Path) -> None:
    """In a run that follows its source: the engine says it, lets go, and the next one starts a Spark of its own."""
    process = script(
        tmp_path,
        """
import json, os, signal
from pathlib import Path
from mullion import Engine
from mullion.errors import SparkDied
from pyspark import SparkContext
events = Path(__file__).parent / "events"
events.mkdir()
(events / "a.json").write_text(json.dumps({"ts": "2024-01-01 00:00:01", "x": 1}))
text = f"CREATE STREAM s (ts TIMESTAMP, x INT) USING json OPTIONS (path '{events}') TIMESTAMP BY ts;"
text += "CREATE QUERY n AS SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]"
try:
    with Engine(checkpoint=events.parent / "checkpoint") as engine:
        engine.execute(text)
        engine.start(follow=True)
        while not engine.counts["s"].batches:
            engine.wait(0.1)
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
        engine.wait(60)
        raise SystemExit("it should have failed")
except SparkDied as error:
    print(error)
with Engine(checkpoint=events.parent / "checkpoint") as engine:
    engine.execute(text)
    engine.run(close=True)
    print(engine.results("n").to_arrow()["n"].to_pylist())
""",
    )
    out, err = process.communicate(timeout=300)
    assert (err, process.returncode) == ("", 0)
    assert out.startswith("the Java process of Spark was killed (SIGKILL)\n")
    assert "its log is" in out and out.endswith("[1]\n")


@pytest.mark.spark
@pytest.mark.slow
def test_a_failed_start_is_one_sentence_and_names_the_log(tmp_path: Path) -> None:
    process = script(
        tmp_path,
        """
from mullion.errors import EnvironmentProblem
from mullion.spark.session import local_session
try:
    local_session(memory="1m")
except EnvironmentProblem as problem:
    print(problem.message)
    print(problem.hint)
""",
    )
    out, err = process.communicate(timeout=120)
    message, hint = out.splitlines()
    assert message.startswith("Spark did not start: ")
    assert err == ""
    assert Path(hint.removeprefix("Spark's own log is ")).is_file()


def test_without_java_there_is_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise EnvironmentProblem("no Java")

    monkeypatch.setattr(sessions, "find_java", none)
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", None)
    with pytest.raises(EnvironmentProblem, match="no Java"):
        sessions._start(sessions.settings())
