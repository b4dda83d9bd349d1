"""A run that a test kills. Arguments: script, out, checkpoint, whether to close, and, to crash by itself, a step, an
occurrence and the processes to kill before itself."""

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mullion.engine import Engine
from mullion.spark.session import local_session
from mullion.testing import crash_at, kill_this_process

QUESTIONS = (
    "SELECT count(*) AS n, median(price) AS m, last(symbol) AS l FROM trades [RANGE '50 s']",
    "SELECT max(price) AS hi FROM trades [ROWS 9]",
    "SELECT APPROX sum(price) AS total, count(price) AS n FROM trades [ROWS 20]",
    "SELECT APPROX count(*) AS n FROM trades [RANGE '60 s'] WHERE symbol = 'a'",
    "SELECT APPROX count(*) AS n FROM trades [RANGE '5 s'] WHERE volume = 7",
    "SELECT APPROX count(*) AS n FROM trades [RANGE '9 s'] WHERE volume NOT IN (7, 8)",
    "SELECT APPROX count(*) AS n FROM trades [RANGE '3 s'] WHERE price > 50",
    "SELECT APPROX symbol, count(*) AS n FROM trades [RANGE '60 s'] WHERE symbol IN ('a', 'b') GROUP BY symbol",
    "SELECT approx_frequency(symbol, 'b') AS n FROM trades [RANGE '50 s']",
)
"""Answered from kept events, from synopses and from summaries."""


def write_questions(engine: Engine, out: Path) -> None:
    """What questions say at the end of a run, beside its answers."""
    (out / "questions").mkdir(exist_ok=True)
    for i, text in enumerate(QUESTIONS):
        pq.write_table(engine.ask(text).to_arrow(), out / "questions" / f"{i}.parquet")


def name_calls_of_this_process(session: Any) -> None:
    """Java outlives the drivers that are killed here. When it collects what it knows of the functions of a dead one, it
    tells the next one to forget them, by numbers that count from 0 in each process."""
    session.sparkContext._gateway.gateway_property.pool.next_id = os.getpid() << 20


def main(
    script: str, out: str, checkpoint: str, close: str, step: str = "", occurrence: str = "1", *others: str
) -> None:
    def kill() -> None:
        for other in others:
            os.kill(int(other), signal.SIGKILL)
        kill_this_process()

    session = local_session(master="local[1]", config={"spark.sql.shuffle.partitions": "1"})
    name_calls_of_this_process(session)
    with Engine(session, out=out, checkpoint=checkpoint) as engine:
        with open(script) as file:
            engine.execute(file.read())
        print("running", flush=True)
        with crash_at(step, int(occurrence), kill) if step else nullcontext():
            engine.run(close=close == "close")
        write_questions(engine, Path(out))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
