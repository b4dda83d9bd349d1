"""Random runs that share a checkpoint, played and compared with one run over everything.

After every run, questions are asked once: of the events that a stream keeps, of synopses, of what queries hold.

    trial = draw(trials())
    play(trial, tmp_path)        # raises where the answers of all its runs are not those of one run over everything

Streams: trades, with windows of every kind over it, and a, b and c, with joins, DISTINCT, NOT EXISTS and so on.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import any_relation
from mullion.engine import Engine
from mullion.expressions.vector import Vector
from mullion.service.steering import EPOCH
from mullion.storage.manifest import stream_folder
from mullion.storage.requests import request_advance, request_punctuation
from mullion.testing import Crash, crash_at
from seam_oracle import Oracle
from seam_trials import KEYS, STREAMS, SYNOPSES, OneRun, Trial
from without_spark import engine_without_spark, write_events

YEAR_9999 = 253_370_764_800
"""In seconds: no event is ahead of it."""


def script(trial: Trial, base: Path, run: int) -> str:
    made = []
    for name, stream in STREAMS.items():
        columns = ", ".join(f"{column} {type_}" for column, type_ in stream.columns)
        options = f"path '{base / name}', maxFilesPerTrigger '{trial.at_a_time}'"
        keep = trial.asking.keep if name == "trades" else ""
        made.append(
            f"CREATE STREAM {name} ({columns}) USING parquet OPTIONS ({options}) "
            f"TIMESTAMP BY ts LATENESS '{trial.lateness[name]} us'{keep}"
            f"{f' PUNCTUATE {trial.endings[name].clause}' if name in trial.endings else ''}"
            f"{f' MEMORY {trial.limits[name]}' if name in trial.limits else ''}"
            f"{' IDLE AFTER 1 ms' if trial.idle else ''}"
        )
    columns = ", ".join(f"{column} {type_}" for column, type_ in any_relation.NAMED.columns)
    made.append(f"CREATE TABLE named ({columns}) USING parquet OPTIONS (path '{base / 'named.parquet'}')")
    watched = any_relation.STREAMS if trial.watched else ()
    made += [f"CREATE QUERY of_{name} AS SELECT count(*) AS n FROM {name} [RANGE 5 us SLIDE 5 us]" for name in watched]
    if trial.memory is not None:
        made += [f"CREATE {KEYS.format(name, trial.memory)}" for name in any_relation.STREAMS]
    made += [text for name, text in trial.texts.items() if trial.joining.get(name, 0) <= run]
    made += [f"CREATE {SYNOPSES[name]}" for name, since in trial.asking.synopses.items() if since <= run]
    return ";\n".join(made)


def play(trial: Trial, base: Path) -> None:
    """All runs one after the other, the last of them closed, and then what they have answered."""
    table = {c: Vector.of(t, [row[c] for row in trial.table]).to_arrow() for c, t in any_relation.NAMED.columns}
    pq.write_table(pa.table(table), base / "named.parquet")
    oracle, written = Oracle.of(trial), dict.fromkeys(STREAMS, 0)
    for number, run in enumerate(trial.runs):
        close = number == len(trial.runs) - 1
        oracle.begins(number)
        for name, new in run.files.items():
            for file in trial.files[name][written[name] : written[name] + new]:
                write_events(base / name, written[name], STREAMS[name], file)
                written[name] += 1
        asked = oracle.asks(number)
        for name in asked:
            oracle.reads(name, written[name])
        over = {name: key for name, key in run.over.items() if name in asked and oracle.ends(name, key, run.beats)}
        beats = {name: time for name, time in run.beats.items() if name in asked and oracle.beat(name, time)}
        if asked:
            _run(trial, base, number, replace(run, beats=beats, over=over), oracle, close=close)
    with _engine(trial, base) as engine:
        engine.execute(script(trial, base, len(trial.runs)))
        for name in trial.texts:
            oracle.check(name, engine.results(name).to_arrow())


def _engine(trial: Trial, base: Path) -> Any:
    return engine_without_spark(
        out=base / "out",
        checkpoint=base / "checkpoint",
        clock=lambda: YEAR_9999,
        sharing=trial.sharing,
        expiry=trial.expiry,
        shard_above=0 if trial.sharded else 200_000,
    )


def _run(trial: Trial, base: Path, number: int, run: OneRun, oracle: Oracle, *, close: bool) -> None:
    said = run.said and not close
    for name, time in {} if said else run.beats.items():
        request_advance(base / "checkpoint" / stream_folder(name), time)
    for name, key in {} if said else run.over.items():
        request_punctuation(base / "checkpoint" / stream_folder(name), list(map(str, key)))
    for crash in ([crash_at(*run.kill)] if run.kill else []) + [nullcontext()]:
        with _engine(trial, base) as engine:
            engine.execute(script(trial, base, number))
            try:
                with crash:
                    engine.run(close=close)
                    for name, key in run.over.items() if said else ():
                        engine.punctuate(name, key)
                    for name, time in run.beats.items() if said else ():
                        _advance(engine, name, time)
            except Crash:
                continue
            if "trades" in oracle.asks(number):
                oracle.asks_once(engine, number)
        return


def _advance(engine: Engine, stream: str, time: int) -> None:
    """Unless a run that was killed has."""
    watermark = engine.runs[stream].watermark
    if watermark is None or watermark < time:
        engine.advance(stream, EPOCH + timedelta(microseconds=time))
