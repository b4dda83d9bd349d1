"""A checkpoint that an earlier commit of this version left is gone on from, with the answers of a run without a break.

`golden/checkpoint.zip` holds one of every kind of state: sub-windows of shared slices, of rows and of partitions, kept
events, synopses, operators with their rows, a materialised result, open windows and a watermark. When the format
changes, it is refused (and VERSION raised), or it is still read. To make it anew, with a commit that wrote the old one:

    PYTHONPATH=src:tests python tests/storage/test_checkpoint_of_before.py SCRATCH
"""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mullion.errors import CheckpointError
from mullion.storage import manifest as manifests
from mullion.storage.files import label_of, write_named
from mullion.storage.journal import VERSION, Journal
from without_spark import EngineWithoutSpark, local_engine

STORED = Path(__file__).parent.parent / "golden" / "checkpoint.zip"
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) USING json OPTIONS (path 'nowhere')
  TIMESTAMP BY ts LATENESS '2 s' KEEP '1 min';
CREATE STREAM t (ts TIMESTAMP, k STRING, y DOUBLE) USING json OPTIONS (path 'nowhere') TIMESTAMP BY ts;
CREATE SYNOPSIS best ON s(x) USING ordered_sharing (rows 4);
CREATE QUERY total AS SELECT count(*) AS n, avg(x) AS mean, max(k) AS last FROM s [RANGE 20 s SLIDE 5 s];
CREATE QUERY keys AS SELECT k, sum(x) AS n, count(DISTINCT x) AS d FROM s [RANGE 12 s SLIDE 4 s] WHERE x > 1 GROUP BY k;
CREATE QUERY ever AS SELECT count(*) AS n FROM s [RANGE UNBOUNDED SLIDE 10 s];
CREATE QUERY rows_of AS SELECT sum(x) AS n FROM s [ROWS 5 SLIDE 2];
CREATE QUERY parts AS SELECT k, max(x) AS m FROM s [PARTITION BY k ROWS 2 SLIDE 3] GROUP BY k;
CREATE QUERY each AS SELECT min(x) AS m FROM s [RANGE 7 s];
CREATE QUERY pairs AS SELECT s.x, t.y FROM s [RANGE 15 s], t [RANGE 10 s] WHERE s.k = t.k;
CREATE QUERY alone AS SELECT k, x FROM s [RANGE 15 s] WHERE NOT EXISTS (SELECT 1 FROM t [RANGE 10 s] WHERE t.k = s.k);
CREATE QUERY once AS SELECT DISTINCT k FROM s [RANGE 10 s SLIDE 5 s];
CREATE QUERY result MATERIALIZED AS SELECT k, count(*) AS n FROM s [RANGE 30 s] GROUP BY k;
"""
QUERIES = ("total", "keys", "ever", "rows_of", "parts", "each", "pairs", "alone", "once", "result")


def batch(stream: str, number: int) -> list[dict[str, Any]]:
    times = range(number * 8, number * 8 + 9, 1 if stream == "s" else 3)
    value = "x" if stream == "s" else "y"
    return [{"ts": t * 1_000_000, "k": "abc"[t * 7 % 3], value: t * 5 % 11} for t in times]


def deliver(engine: EngineWithoutSpark, numbers: range) -> None:
    for number in numbers:
        for stream in "st":
            engine.deliver(stream, batch(stream, number), number)


def answers(engine: EngineWithoutSpark) -> dict[str, list[Any]]:
    """Groups of a window come in any order."""
    return {name: sorted(engine.results(name).to_arrow().to_pylist(), key=repr) for name in QUERIES}


def test_a_checkpoint_of_before_is_gone_on_from(tmp_path: Path) -> None:
    with zipfile.ZipFile(STORED) as stored:
        stored.extractall(tmp_path)
    with local_engine(SCRIPT) as engine:
        deliver(engine, range(3))
        before = answers(engine)
        deliver(engine, range(3, 6))
        for stream in "st":
            engine.end(stream)
        right = {name: [row for row in rows if row not in before[name]] for name, rows in answers(engine).items()}
        asked = engine.ask("SELECT count(*) AS n, max(x) AS m FROM s [RANGE 40 s]").to_arrow().to_pylist()
    with local_engine(SCRIPT, checkpoint=tmp_path / "checkpoint") as engine:
        deliver(engine, range(3, 6))
        for stream in "st":
            engine.end(stream)
        assert answers(engine) == right
        assert engine.ask("SELECT count(*) AS n, max(x) AS m FROM s [RANGE 40 s]").to_arrow().to_pylist() == asked
    assert all(right.values())


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_a_checkpoint_of_another_format_is_refused(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "VERSION", version)
    manifests.Manifest("abc", {}, None).write(tmp_path)
    monkeypatch.undo()
    with (
        pytest.raises(CheckpointError, match=f"has format {version}") as refused,
        local_engine(SCRIPT, checkpoint=tmp_path),
    ):
        pass
    assert (
        refused.value.hint
        == "finish it with the version of Mullion that made it, or start with a new checkpoint directory"
    )


def test_a_commit_of_another_format_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(STORED) as stored:
        stored.extractall(tmp_path)
    journal = Journal(tmp_path / "checkpoint" / "streams" / "s")
    (_, name) = journal.commits()[-1]
    path = tmp_path / "checkpoint" / "streams" / "s" / "commits" / name
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = {**json.loads(content[8 : 8 + size]), "version": VERSION + 1}
    written = json.dumps(header).encode()
    path.unlink()
    label = label_of(name)
    assert label is not None
    journal.set_head(
        write_named(path.parent, label, len(written).to_bytes(8, "little") + written + content[8 + size :])
    )
    with (
        pytest.raises(CheckpointError, match=f"has format {VERSION + 1}"),
        local_engine(SCRIPT, checkpoint=tmp_path / "checkpoint"),
    ):
        pass


if __name__ == "__main__":
    scratch = Path(sys.argv[1])
    with local_engine(SCRIPT, checkpoint=scratch / "checkpoint") as made:
        deliver(made, range(3))
    shutil.make_archive(str(STORED.with_suffix("")), "zip", scratch, "checkpoint")
