"""Damage to a checkpoint: every kind, to every kind of file, and what a restart makes of it.

    python tests/faults/damage.py 1234        replays the trial with this seed and says what it did

A run over two streams with queries of all kinds is stopped at some batch, after a crash or not. Its checkpoint is
copied, one file of it is damaged, and the run goes on from the copy. Either its answers are those of a run that
nothing happened to, or it is refused with an error that names the file; and relations that can be
repaired go on as if nothing had happened.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mullion.errors import MullionError
from mullion.runtime.relation_shards import Sharding
from mullion.spark.repair import Repair
from mullion.storage.manifest import Manifest
from mullion.testing import Crash, crash_at
from without_spark import EngineWithoutSpark, in_turn

BATCHES = 9
COLUMNS = "ts TIMESTAMP, k STRING, x INT"
QUERIES = """
CREATE SUMMARY of_b ON b(k) WITH GRANULARITY 5 us AND COLLAPSE (2, 4) MEMORY '1 MB';
CREATE QUERY totals AS SELECT k, sum(x) AS total, count(*) AS n FROM a [RANGE '9 us' SLIDE '3 us'] GROUP BY k;
CREATE QUERY medians AS SELECT median(x) AS m, count(DISTINCT k) AS d FROM a [RANGE '8 us' SLIDE '4 us'];
CREATE QUERY rows AS SELECT max(x) AS hi, first(k) AS f FROM a [ROWS 5 SLIDE 2];
CREATE QUERY looked AS SELECT t.name AS name, sum(x) AS total FROM a [RANGE '6 us' SLIDE '6 us'], names t
  WHERE a.k = t.k GROUP BY t.name;
CREATE QUERY pairs AS SELECT a.k AS k, a.x AS x, b.x AS y FROM a [RANGE '9 us'], b [RANGE '5 us'] WHERE a.k = b.k;
CREATE QUERY alone AS SELECT k, x FROM a [RANGE '8 us' SLIDE '3 us'] s
  WHERE NOT EXISTS (SELECT 1 FROM b [RANGE '4 us'] y WHERE y.k = s.k);
CREATE QUERY keys AS SELECT DISTINCT k FROM b [RANGE '4 us'];
CREATE QUERY held MATERIALIZED AS SELECT a.k AS k, a.x AS x, b.x AS y FROM a [RANGE '30 us'], b [RANGE '20 us']
  WHERE a.k = b.k;
CREATE QUERY best AS SELECT a.k AS k, a.x AS x, b.x AS y FROM a [RANGE '12 us'], b [RANGE '7 us'] WHERE a.k = b.k
  WITH PREFERENCE DESC estimate(a.k), estimate(b.k) BUDGET 100000 ROWS;
CREATE SYNOPSIS grams ON a(x) USING timegram (buckets 4, rows 20);
CREATE SUMMARY often ON a(x) WITH GRANULARITY 5 us AND COLLAPSE (2, 4);
CREATE SUMMARY short ON b(x) WITH GRANULARITY 4 us AND COLLAPSE (2, 4) MEMORY '150 B';
CREATE SUMMARY keys ON a(k) WITH GRANULARITY 5 us AND COLLAPSE (2, 2) USING count_sketch (width 16, buckets 2);
"""
QUESTIONS = (
    "SELECT count(*) AS n, sum(x) AS total FROM a [RANGE '20 us']",
    "SELECT APPROX sum(x) AS total, count(x) AS n FROM a [ROWS 9]",
    "SELECT k, x, y FROM held",
    "SELECT APPROX count(*) AS n FROM a [RANGE '40 us'] WHERE x = 3",
    "SELECT APPROX count(*) AS n FROM a [RANGE '9 us'] WHERE k = 'x'",
    "SELECT APPROX x, count(*) AS n FROM b [RANGE '6 us'] WHERE x <> 3 GROUP BY x",
)


def script(base: Path) -> str:
    source = f"({COLUMNS}) USING json OPTIONS (path '{base}') TIMESTAMP BY ts LATENESS '3 us'"
    table = f"CREATE TABLE names (k STRING, name STRING) USING parquet OPTIONS (path '{base / 'names.parquet'}')"
    return f"CREATE STREAM a {source} KEEP '30 us';\nCREATE STREAM b {source};\n{table};\n{QUERIES}"


def events() -> list[tuple[str, int, list[dict[str, Any]]]]:
    """Batches of both streams in turn: stream, number, events."""
    dice, now, found = random.Random(7), {"a": 0, "b": 2}, []
    for number in range(BATCHES):
        for stream in now:
            rows = []
            for _ in range(8):
                now[stream] += dice.choice([0, 1, 2])
                ts = now[stream] - dice.choice([0, 0, 2])
                rows.append({"ts": ts, "k": dice.choice("xyz"), "x": dice.randrange(9)})
            found.append((stream, number, rows))
    return found


def go_on(base: Path, *, delivered: int, until: int = 2 * BATCHES) -> dict[str, Any]:
    """Deliver the batches from one on, the first of them perhaps again; at the end of the input, what was answered."""
    options = {"checkpoint": base / "checkpoint", "out": base / "out"}
    with EngineWithoutSpark(**options) as engine:
        engine.execute(script(base.parent))
        engine.relations._sharding = Sharding(in_turn, lambda: -1, count=2)
        engine.start()
        for stream, number, rows in events()[delivered:until]:
            engine.deliver(stream, rows, number)
        return answered(engine, base / "out") if until == 2 * BATCHES else {}


def answered(engine: EngineWithoutSpark, out: Path) -> dict[str, Any]:
    for stream in ("a", "b"):
        engine.end(stream)
    found: dict[str, Any] = {text: _rows(engine.ask(text).to_arrow()) for text in QUESTIONS}
    for name in engine.catalog.queries:
        found[name] = _rows(engine.results(name).to_arrow())
    return found


def _rows(table: pa.Table) -> list[Any]:
    return sorted(table.to_pylist(), key=repr)


# Checkpoints to damage


@dataclass(frozen=True)
class Made:
    """A checkpoint that was left, and how many batches its source takes for done."""

    base: Path
    delivered: int
    whole: dict[str, Any]


STOPS = (
    (7, None),
    (12, None),
    (11, "before commit"),
    (13, "before head"),
    (10, "after answers"),
    (14, "after commit"),
)
"""After how many batches a run is stopped, and at which step of the next one it crashes."""


def _memory() -> str | None:
    """A directory in memory, if there is one: nobody cuts the power here, so nobody need wait for a disk."""
    memory = Path("/dev/shm")
    return str(memory) if os.access(memory, os.W_OK) else None


@cache
def made() -> list[Made]:
    """Checkpoints of runs that were stopped at different moments, and the answers of one that was not."""
    base = Path(tempfile.mkdtemp(prefix="mullion-damage-", dir=_memory()))
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    pq.write_table(pa.table({"k": ["x", "y"], "name": ["ex", "why"]}), base / "names.parquet")
    whole = go_on(base / "whole", delivered=0)
    assert all(whole.values()), "a question or query has no answer"
    found = []
    for i, (delivered, step) in enumerate(STOPS):
        go_on(base / str(i), delivered=0, until=delivered)
        if step is not None:
            try:
                with crash_at(step):
                    go_on(base / str(i), delivered=delivered, until=delivered + 1)
            except Crash:
                pass
        found.append(Made(base / str(i), delivered, whole))
    return found


# Damage


def cut(path: Path, dice: random.Random, others: list[Path]) -> None:
    path.write_bytes(path.read_bytes()[: dice.randrange(path.stat().st_size)])


def cut_at_a_part(path: Path, dice: random.Random, others: list[Path]) -> None:
    """Where a part of a commit ends; other files lose their last bytes."""
    content, at, ends = path.read_bytes(), 0, [0]
    while at + 8 <= len(content) and "commits" in path.parts:
        at += 8 + struct.unpack_from("<Q", content, at)[0]
        ends.append(at)
    ends = [end for end in ends if end < len(content)]
    path.write_bytes(content[: dice.choice(ends)] if len(ends) > 1 else content[:-8])


def flip_a_bit(path: Path, dice: random.Random, others: list[Path]) -> None:
    content = bytearray(path.read_bytes())
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(bytes(content))


def empty(path: Path, dice: random.Random, others: list[Path]) -> None:
    path.write_bytes(b"")


def delete(path: Path, dice: random.Random, others: list[Path]) -> None:
    path.unlink()


def add_a_stray(path: Path, dice: random.Random, others: list[Path]) -> None:
    """A copy beside the file under another name, or a folder."""
    beside = path.with_name(dice.choice([f"{path.name}~", f"copy of {path.name}", "notes.txt", ".DS_Store"]))
    if dice.random() < 0.3:
        beside.mkdir(exist_ok=True)
    else:
        shutil.copy(path, beside)


def swap(path: Path, dice: random.Random, others: list[Path]) -> None:
    """Two files of the same folder change their contents."""
    if others:
        other = dice.choice(others)
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)


KINDS: tuple[Callable[[Path, random.Random, list[Path]], None], ...] = (
    cut,
    cut_at_a_part,
    flip_a_bit,
    empty,
    delete,
    add_a_stray,
    swap,
)


def files(checkpoint: Path) -> dict[str, list[Path]]:
    """The files of a checkpoint by what they are: their place in it, without names and numbers."""
    found: dict[str, list[Path]] = {}
    for path in sorted(p for p in checkpoint.rglob("*") if p.is_file()):
        parts = path.relative_to(checkpoint).parts
        kind = "/".join(part for part in (parts[0], *parts[2:-1]) if not part.isdigit())
        kind = "head" if path.name.startswith("head-") else kind
        found.setdefault(kind, []).append(path)
    return found


def trial(seed: int) -> str:
    """Damage one file and go on; returns what happened. Raises when answers are wrong or an error is not ours."""
    dice = random.Random(seed)
    given = dice.choice(made())
    with tempfile.TemporaryDirectory(prefix=f"{seed}-", dir=given.base.parent) as directory:
        base = Path(directory)
        shutil.copytree(given.base, base, dirs_exist_ok=True)
        _rehome(base)
        by_kind = files(base / "checkpoint")
        path = dice.choice(by_kind[dice.choice(sorted(by_kind))])
        kinds = KINDS if path.stat().st_size else (delete, add_a_stray)
        damage = dice.choice(kinds)
        others = [p for p in path.parent.iterdir() if p.is_file() and p != path and p.stat().st_size]
        damage(path, dice, others)
        did = f"{damage.__name__} {path.relative_to(base)}"
        try:
            found = go_on(base, delivered=given.delivered)
        except MullionError as error:
            names = [p.name for p in (path, *(others if damage is swap else ()))]
            names += ["head-"] if path.name.startswith("head-") else []
            assert any(name in str(error) for name in names), (did, str(error))
            repair = Repair(base / "checkpoint")
            findings = repair.findings()
            assert findings, (did, str(error))
            if all(found.part.startswith("relations/") and found.cannot is None for found in findings):
                repair.mend()
                assert go_on(base, delivered=given.delivered) == given.whole, (did, "repaired")
                return f"{did}: repaired"
            return f"{did}: {error.message}"
        assert found == given.whole, did
        return f"{did}: harmless"


def _rehome(base: Path) -> None:
    """Let the answers of a copy belong to its checkpoint."""
    manifest = Manifest.read(base / "checkpoint")
    assert manifest is not None
    replace(manifest, out=str((base / "out").resolve())).write(base / "checkpoint")


if __name__ == "__main__":
    for text in sys.argv[1:]:
        print(text, trial(int(text)))
