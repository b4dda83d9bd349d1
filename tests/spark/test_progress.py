"""Power cuts that take Spark's newest notes: every file of the source is committed once, or the run is refused.

Spark is played by a model that writes and reads its notes as Spark does.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from dataclasses import asdict
from pathlib import Path

import pytest

from mullion.errors import CheckpointError
from mullion.runtime.batch_input import RECORDED, BatchInput
from mullion.spark.progress import SparkCheckpoint
from mullion.storage.marks import Mark


class Spark:
    """A streaming query over files: what it notes, and how it goes on from its notes."""

    def __init__(self, directory: Path, listing: list[str], *, at_once: int, every: int) -> None:
        self.directory, self.listing, self.at_once, self.every = directory, listing, at_once, every
        (directory / "metadata").write_text('{"id":"a415ec88"}')

    def _write(self, folder: str, name: str, lines: list[str]) -> None:
        path = self.directory / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = "\n".join(["v1", *lines]).encode()
        path.write_bytes(content)
        sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
        path.with_name(f".{name}.crc").write_bytes(b"crc\0" + struct.pack(f">I{len(sums)}I", 512, *sums))

    def _read(self, folder: str, name: str) -> list[str]:
        path = self.directory / folder / name
        content, crc = path.read_bytes(), path.with_name(f".{name}.crc")
        if crc.exists():
            sums = [zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512)]
            assert crc.read_bytes() == b"crc\0" + struct.pack(f">I{len(sums)}I", 512, *sums), "ChecksumException"
        lines = content.decode().splitlines()
        assert lines and lines[0] == "v1", "Incomplete log file"
        return lines[1:]

    def _latest(self, folder: str) -> int:
        base = self.directory / folder
        names = [p.name.removesuffix(".compact") for p in base.iterdir()] if base.exists() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _noted(self) -> dict[int, list[str]]:
        last = self._latest("sources/0")
        compact = (last + 1) // self.every * self.every - 1
        found: dict[int, list[str]] = {}
        for number in range(max(compact, 0), last + 1):
            for line in self._read("sources/0", f"{number}.compact" if number == compact else str(number)):
                note = json.loads(line)
                found.setdefault(note["batchId"], []).append(note["path"])
        return found

    def _end(self, batch: int) -> int:
        return -1 if batch < 0 else json.loads(self._read("offsets", str(batch))[-1])["logOffset"]

    def start(self) -> int:
        """The number of the next batch."""
        planned = self._latest("offsets")
        offsets = self.directory / "offsets"
        assert planned >= 0 or not offsets.exists() or not any(offsets.iterdir()), "CHECKPOINT_LOCATION_NOT_EMPTY"
        metadata = self.directory / "metadata"
        if planned >= 0:
            assert json.loads(metadata.read_bytes()) == {"id": "a415ec88"}
        self.directory.mkdir(exist_ok=True)
        metadata.write_text('{"id":"a415ec88"}')
        done = self._latest("commits")
        if done >= 0:
            self._read("commits", str(done))
        return planned + (planned == done)

    def batch(self, number: int) -> list[str] | None:
        """The files of a batch, which is planned unless it was; None when there is nothing new."""
        noted, start = self._noted(), self._end(number - 1)
        if self._latest("offsets") < number:
            seen = {path for some in noted.values() for path in some}
            new = [path for path in self.listing if path not in seen][: self.at_once]
            last = self._latest("sources/0")
            if new:
                last += 1
                lines = [json.dumps({"path": path, "timestamp": 1, "batchId": last}) for path in new]
                name = str(last)
                if (last + 1) % self.every == 0:
                    name = f"{last}.compact"
                    old = [json.dumps({"path": p, "timestamp": 1, "batchId": n}) for n in noted for p in noted[n]]
                    lines = [*old, *lines]
                self._write("sources/0", name, lines)
            if last == start:
                return None
            self._write("offsets", str(number), ['{"conf": {}}', json.dumps({"logOffset": last})])
            noted = self._noted()
        return [path for n in range(start + 1, self._end(number) + 1) for path in noted[n]]

    def done(self, number: int) -> None:
        self._write("commits", str(number), ['{"nextBatchWatermarkMs":0}'])


class Run:
    """Commits that survive, with what they took in."""

    def __init__(self) -> None:
        self.inputs: list[BatchInput] = []
        self.taken: list[list[str]] = []

    def go_on(self, spark: Spark, dice: random.Random, batches: int) -> None:
        """Some batches, then a power cut at some moment of one."""
        progress = SparkCheckpoint(spark.directory)
        committed = Mark(len(self.taken) - 1) if self.taken else None
        kept = [BatchInput(**json.loads(json.dumps(asdict(one)))) for one in self.inputs[-RECORDED:]]
        progress.put_right(kept, committed, Path("commits"))
        number = spark.start()
        for left in reversed(range(batches)):
            files = spark.batch(number)
            if files is None:
                return
            if left == 0 and dice.random() < 0.3:
                return
            if number < len(self.taken):
                assert files == self.taken[number]
                assert progress.has(self.inputs[number])
            else:
                assert number == len(self.taken)
                assert len(files) <= spark.at_once
                taken = progress.input_of(number, self.inputs[-1] if self.inputs else None)
                assert taken is not None
                self.inputs.append(taken)
                self.taken.append(files)
            if left == 0 and dice.random() < 0.3:
                return
            spark.done(number)
            number += 1

    @property
    def files(self) -> list[str]:
        return [path for files in self.taken for path in files]


def power_cut(directory: Path, dice: random.Random, most: int) -> None:
    """Takes the newest notes, or leaves files without content, or without their checksums, or begun and not named."""
    for folder in ("offsets", "commits", "sources/0"):
        base = directory / folder
        if dice.random() < 0.3:
            base.mkdir(parents=True, exist_ok=True)
            for name in (".7.3f1c.tmp", "..7.3f1c.tmp.crc"):
                (base / name).write_bytes(b"v1")
        names = [p for p in base.iterdir() if not p.name.startswith(".")] if base.exists() else []
        names.sort(key=lambda p: int(p.name.split(".")[0]))
        lost = dice.randrange(most + 1)
        for path in names[len(names) - lost :]:
            crc = path.with_name(f".{path.name}.crc")
            match dice.randrange(3):
                case 0:
                    path.unlink()
                    crc.unlink(missing_ok=True)
                case 1:
                    path.write_bytes(b"")
                case 2:
                    crc.write_bytes(b"")
    if most and dice.random() < 0.2:
        (directory / "metadata").write_bytes(b"")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_after_power_cuts_every_file_is_taken_once(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    listing = [f"file:///events/{i:04d}.json" for i in range(dice.randrange(3))]
    spark, run = Spark(tmp_path, listing, at_once=dice.choice([1, 1, 2, 50]), every=dice.choice([3, 10])), Run()
    for _ in range(12):
        listing += [f"file:///events/{len(listing) + i:04d}.json" for i in range(dice.randrange(5))]
        run.go_on(spark, dice, dice.randrange(1, 6))
        power_cut(tmp_path, dice, dice.choice([0, 1, 3, 100 if len(run.taken) < RECORDED else 5]))
    listing += [f"file:///events/{len(listing):04d}.json"]
    run.go_on(spark, random.Random(0), 200)
    run.go_on(spark, dice, 200)
    assert run.files == listing


def test_commits_that_were_lost_are_noticed(tmp_path: Path) -> None:
    listing = [f"file:///events/{i}" for i in range(6)]
    spark, run = Spark(tmp_path, listing, at_once=1, every=10), Run()
    run.go_on(spark, random.Random(1), 50)
    for lost in range(1, 7):
        left = run.inputs[:-lost]
        with pytest.raises(CheckpointError, match="Spark has done batch 5") as error:
            SparkCheckpoint(tmp_path).put_right(left, Mark(len(left) - 1) if left else None, tmp_path / "commits")
        assert error.value.hint


@pytest.mark.parametrize("seed", range(40))
def test_an_old_note_that_was_changed_is_mended_or_named(seed: int, tmp_path: Path) -> None:
    """Also where nobody has its text any more: a file that Spark takes for new would be read twice."""
    dice = random.Random(seed)
    listing = [f"file:///events/{i:02d}" for i in range(23)]
    spark, run = Spark(tmp_path, listing, at_once=1, every=5), Run()
    run.go_on(spark, random.Random(1), 50)
    run.inputs = [*run.inputs[:19], *run.inputs[19:]]
    path = dice.choice(sorted(p for p in tmp_path.rglob("*") if p.is_file()))
    if dice.random() < 0.2:
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(7)
        path.write_bytes(bytes(content))
        if dice.random() < 0.5:
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    listing += [f"file:///events/{i}" for i in range(23, 30)]
    known = run.inputs
    run.inputs = [BatchInput(one.batch, one.offsets, {}, one.seen) for one in known[:20]] + known[20:]
    try:
        run.go_on(spark, random.Random(0), 50)
        run.go_on(spark, random.Random(1), 50)
    except CheckpointError as error:
        assert path.name in str(error) or "sources/0" in str(error)
    else:
        assert run.files == listing
