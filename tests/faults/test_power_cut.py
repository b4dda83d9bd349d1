"""A power cut: what Mullion commits is on the disk, what Spark notes may not be. Nothing is lost or taken twice."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from faults.damage import KINDS, files
from mullion.engine import Engine
from mullion.errors import CheckpointError
from mullion.spark.repair import Repair
from mullion.storage.manifest import Manifest
from mullion.testing import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CAMPAIGN = int(os.environ.get("MULLION_CAMPAIGN") or 0)
SHARDED: dict[str, Any] = {"shard_above": 1} if CAMPAIGN else {}
"""Groups are few here, and yet in shards when there is time for it."""
BEFORE, ALL = 4, 6
"""Batches before the power cut, and all of them."""


def script(events: Path) -> str:
    source = f"(ts TIMESTAMP, x INT) USING json OPTIONS (path '{events}', maxFilesPerTrigger '1') TIMESTAMP BY ts"
    total = "CREATE QUERY total AS SELECT sum(x) AS total, count(*) AS n FROM s [RANGE '4 s' SLIDE '2 s']"
    groups = "CREATE QUERY groups AS SELECT x % 3 AS k, sum(x) AS total FROM s [RANGE '4 s' SLIDE '2 s'] GROUP BY x % 3"
    seen = "CREATE QUERY seen AS SELECT DISTINCT x % 4 AS k FROM s [RANGE '5 s' SLIDE '2 s']"
    return f"CREATE STREAM s {source};\n{total};\n{groups};\n{seen};"


def add(events: Path, number: int) -> None:
    batches = Replay(events)
    for i in range(len(list(events.glob("*.json"))), number):
        batches.add([{"ts": f"2024-01-01 00:00:{3 * i + j:02d}", "x": 1 + 10 * i + j} for j in range(3)])


def rows(engine: Engine) -> list[dict[str, Any]]:
    found = [row for name in ("total", "groups", "seen") for row in engine.results(name).to_arrow().to_pylist()]
    return sorted(found, key=repr)


@pytest.fixture(scope="module")
def left(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has read some batches and was stopped."""
    base = tmp_path_factory.mktemp("cut")
    add(base / "events", BEFORE)
    with Engine(spark, out=base / "out", checkpoint=base / "checkpoint", **SHARDED) as engine:
        engine.execute(script(base / "events"))
        engine.start(follow=True)
        while "s" not in engine.counts or engine.counts["s"].batches < BEFORE:
            assert not engine.failed
            time.sleep(0.05)
        engine.stop()
    return base


@pytest.fixture(scope="module")
def uncut(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    add(events := tmp_path_factory.mktemp("uncut"), ALL)
    with Engine(spark, **SHARDED) as engine:
        engine.execute(script(events))
        engine.run()
        return rows(engine)


def copy(left: Path, base: Path) -> dict[str, Any]:
    """The stopped run once more. The events stay where they are."""
    for folder in ("checkpoint", "out"):
        shutil.copytree(left / folder, base / folder)
    manifest = Manifest.read(base / "checkpoint")
    assert manifest is not None
    replace(manifest, out=str((base / "out").resolve())).write(base / "checkpoint")
    return {"out": base / "out", "checkpoint": base / "checkpoint", **SHARDED}


def newest(spark_notes: Path, number: int) -> list[Path]:
    """Spark's newest notes, of each kind so many, with their checksums."""
    found = []
    for folder in ("offsets", "commits", "sources/0"):
        names = sorted(int(p.name) for p in (spark_notes / folder).iterdir() if p.name.isdigit())
        for name in names[-number:]:
            found += [spark_notes / folder / str(name), spark_notes / folder / f".{name}.crc"]
    return found


def lose(notes: Path) -> None:
    for path in newest(notes, 1):
        path.unlink()


def lose_content(notes: Path) -> None:
    for path in newest(notes, 2):
        path.write_bytes(b"")


@pytest.mark.parametrize("cut", [lose, lose_content, shutil.rmtree])
def test_notes_of_spark_that_are_lost_are_put_right(
    cut: Callable[[Path], None], spark: SparkSession, left: Path, uncut: list[dict[str, Any]], tmp_path: Path
) -> None:
    """With other files in the source by then: batches that Spark would plan anew would not be those of the commits."""
    options = copy(left, tmp_path)
    cut(tmp_path / "checkpoint" / "streams" / "s" / "spark")
    add(left / "events", ALL)
    with Engine(spark, **options) as engine:
        engine.execute(script(left / "events"))
        engine.run(close=True)
        assert engine.counts["s"].events == 3 * ALL
        assert rows(engine) == uncut


def test_a_first_batch_that_spark_had_only_begun_to_note(spark: SparkSession, tmp_path: Path) -> None:
    """Spark does not start a first batch beside what it left when it was killed while it wrote its first note."""
    add(events := tmp_path / "events", 2)
    options: dict[str, Any] = {"out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    with Engine(spark, **options) as engine:
        engine.execute(script(events))
        engine.run()
    notes = tmp_path / "checkpoint" / "streams" / "s"
    for path in notes.rglob("*"):
        if path.is_file() and path.name not in ("metadata", ".metadata.crc"):
            path.unlink()
    for name in (".0.0b5a.tmp", "..0.0b5a.tmp.crc"):
        (notes / "spark" / "offsets" / name).write_bytes(b"v1")
    shutil.rmtree(tmp_path / "out")
    with Engine(spark, **options) as engine:
        engine.execute(script(events))
        engine.run(close=True)
        assert engine.counts["s"].events == 6


TRIALS = max(4, CAMPAIGN // 50)


@pytest.mark.parametrize("seed", range(TRIALS))
def test_damage_to_notes_of_spark_and_to_shards(
    seed: int, spark: SparkSession, left: Path, uncut: list[dict[str, Any]], tmp_path: Path
) -> None:
    """As tests/faults/damage.py, for what only Spark writes."""
    dice, options = random.Random(seed), copy(left, tmp_path)
    add(left / "events", ALL)
    by_kind = files(tmp_path / "checkpoint")
    mine = [kind for kind in sorted(by_kind) if "/spark" in kind or "/shards" in kind]
    assert len(mine) >= 4
    path = dice.choice(by_kind[mine[seed % len(mine)]])
    damage = dice.choice(KINDS)
    others = [p for p in path.parent.iterdir() if p.is_file() and p != path and p.stat().st_size]
    damage(path, dice, others)
    with Engine(spark, **options) as engine:
        engine.execute(script(left / "events"))
        try:
            engine.run(close=True)
        except CheckpointError as error:
            assert any(p.name in str(error) for p in (path, path.parent, *others))
        else:
            assert rows(engine) == uncut


def flip_the_newest(stream: Path) -> None:
    path = max((stream / "commits").iterdir())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(bytes(content))


def empty_all(stream: Path) -> None:
    for path in (stream / "commits").iterdir():
        path.write_bytes(b"")


def lose_the_newest(stream: Path) -> None:
    """As if the disk had not kept what it said that it had: the newest commit and all that tells of it are gone."""
    *_, before, newest = sorted((stream / "commits").iterdir())
    newest.unlink()
    (head,) = stream.glob("head-*")
    head.rename(stream / f"head-{before.name}")
    done = stream / "spark" / "commits"
    shutil.copy(done / "0", done / str(BEFORE - 1))


@pytest.mark.parametrize(
    ("damage", "named", "back_to"),
    [
        (flip_the_newest, "commits/", BEFORE - 2),
        (lose_the_newest, "Spark has done", BEFORE - 2),
        (empty_all, "/", None),
    ],
)
def test_repair_goes_back_and_the_next_run_reads_again(
    damage: Callable[[Path], None],
    named: str,
    back_to: int | None,
    spark: SparkSession,
    left: Path,
    uncut: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    options = copy(left, tmp_path)
    damage(tmp_path / "checkpoint" / "streams" / "s")
    add(left / "events", ALL)
    with Engine(spark, **options) as engine:
        engine.execute(script(left / "events"))
        with pytest.raises(CheckpointError, match=named) as error:
            engine.run()
    assert "mullion repair" in str(error.value.hint)
    (finding,) = Repair(tmp_path / "checkpoint").mend()
    assert finding.problem.message == error.value.message
    assert (None if finding.back_to is None else finding.back_to.at.batch) == back_to
    assert Repair(tmp_path / "checkpoint").findings() == []
    with Engine(spark, **options) as engine:
        engine.execute(script(left / "events"))
        engine.run(close=True)
        assert engine.counts["s"].events == 3 * ALL
        assert rows(engine) == uncut


def test_repair_does_not_go_back_where_files_are_gone(left: Path, tmp_path: Path) -> None:
    copy(left, tmp_path)
    stream = tmp_path / "checkpoint" / "streams" / "s"
    flip_the_newest(stream)
    gone = left / "events" / f"{BEFORE - 1:06d}.json"
    gone.rename(tmp_path / "elsewhere")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    try:
        (finding,) = Repair(tmp_path / "checkpoint").mend()
    finally:
        (tmp_path / "elsewhere").rename(gone)
    assert finding.cannot is not None and str(gone) in finding.cannot
    (tmp_path / "elsewhere").write_bytes(gone.read_bytes())
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
