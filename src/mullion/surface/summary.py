"""What is said, and written, of a run at its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from mullion import __version__
from mullion.plural import plural
from mullion.surface.interrupts import how_to_go_on
from mullion.surface.progress import Position

if TYPE_CHECKING:
    from rich.console import Console

    from mullion.engine import Engine
    from mullion.surface.batch_log import BatchLog


def summarize(console: Console, lines: BatchLog | None, engine: Engine, seconds: float, out: Path) -> None:
    """How many queries, events and answers there were, and where the answers are."""
    from mullion.spark.jvm import log_file

    now, spark_log = Position.of(engine), log_file()
    number = len(engine.catalog.queries)
    events = now.events - sum(counts.events for counts in engine.at_start.counts.values())
    answers = now.answers - engine.at_start.answers
    read, answered = plural(events, "event"), plural(answers, "answer")
    summary = f"{plural(number, 'query', 'queries')}, {read}, {answered} in {seconds:.1f} s"
    places = f"the answers are in {out / '<query>' / '*.parquet'}"
    if lines is None:
        console.print(summary, markup=False)
        console.print(places, markup=False)
        return
    facts = {"queries": number, "events": events, "answers": answers, "seconds": round(seconds, 3), "out": str(out)}
    logged = "" if spark_log is None else f"; Spark's log is {spark_log}"
    lines.end(f"{summary}; {places}{logged}", **facts, spark_log=None if spark_log is None else str(spark_log))


def how_it_stopped(engine: Engine, out: Path, checkpoint: Path | None) -> str:
    """After which batches a run was stopped, and how to continue it."""
    done = {name: run.committed.batch + 1 for name, run in engine.runs.items() if run.committed is not None}
    if not done:
        after = "before the first batch"
    elif len(done) == 1:
        after = f"after batch {next(iter(done.values()))}"
    else:
        after = "after " + ", ".join(f"batch {number} of {name}" for name, number in done.items())
    return f"stopped {after}; {how_to_go_on(out, checkpoint)}"


def write_stats(file: Path, engine: Engine, seconds: float) -> None:
    """Counts, memory and the plan as JSON."""
    facts = {"mullion": __version__, "seconds": round(seconds, 3), **engine.stats}
    file.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
