"""The end of Spark's Java process is told as such, whatever the next call into it raises."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

from mullion.errors import CheckError, MullionError, SparkDied
from mullion.spark import jvm
from mullion.spark.jvm import death, forget_dead, needs_spark, note_start


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("_log", "_memory"):
        monkeypatch.setattr(jvm, name, getattr(jvm, name))
    path = tmp_path / "spark.log"
    path.write_text("WARN all is well\n")
    note_start(path, "2048m")
    return path


def process(monkeypatch: pytest.MonkeyPatch, command: str) -> subprocess.Popen[bytes]:
    started = subprocess.Popen(["sh", "-c", command])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=started))
    return started


@pytest.mark.parametrize(
    "raised", [Py4JNetworkError("x"), ConnectionRefusedError(111, "x"), EOFError(), TypeError("x")]
)
@pytest.mark.parametrize(
    ("command", "in_log", "said"),
    [
        ("kill -9 $$", "", ["was killed (SIGKILL)", "systems do this", "maxFilesPerTrigger"]),
        ("exit 3", "java.lang.OutOfMemoryError: Java heap space", ["ran out of memory", "it has 2048m", "memory=4g"]),
        ("exit 1", "", ["ended with code 1"]),
    ],
)
def test_a_process_that_has_ended(
    raised: Exception, command: str, in_log: str, said: list[str], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = process(monkeypatch, command)
    if not isinstance(raised, (Py4JNetworkError, ConnectionError)):
        started.wait()
    log.write_text(in_log)

    @needs_spark
    def call() -> None:
        raise raised

    with pytest.raises(SparkDied) as error:
        call()
    assert isinstance(error.value, MullionError)
    assert str(log) in str(error.value)
    for words in said:
        assert words in str(error.value)


def test_a_process_that_lives_leaves_errors_alone(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "DYING", 0.05)
    started = process(monkeypatch, "sleep 60")
    try:
        for raised in (Py4JNetworkError("x"), Py4JError("y"), ValueError("z"), CheckError("c"), MullionError("m")):

            @needs_spark
            def call(raised: Exception = raised) -> None:
                raise raised

            with pytest.raises(type(raised)) as error:
                call()
            assert error.value is raised
        forget_dead()
        assert SparkContext._gateway is not None
    finally:
        started.kill()
        started.wait()
    assert death() is not None


def test_a_mistake_in_a_text_stays_one(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(monkeypatch, "exit 1").wait()

    @needs_spark
    def call() -> None:
        raise CheckError("unknown column")

    with pytest.raises(CheckError):
        call()


def test_without_a_process_there_is_none_to_die(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    assert death(Py4JNetworkError("x")) is None
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace())
    assert death() is None
    died = death(Py4JNetworkError("x"))
    assert died is not None and "has gone away" in died.message
