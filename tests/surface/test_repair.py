"""`mullion repair`: what it says, what it changes, and when it changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mullion.storage.lock import Lock
from mullion.surface.cli import app
from without_spark import local_engine

SCRIPT = """
CREATE STREAM a (ts TIMESTAMP, x INT) USING json OPTIONS (path 'nowhere') TIMESTAMP BY ts;
CREATE QUERY total AS SELECT sum(x) AS total FROM a [RANGE '4 us' SLIDE '2 us'];
CREATE QUERY seen AS SELECT DISTINCT x FROM a [RANGE '9 us'];
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    answered_in_batches(range(4), checkpoint=tmp_path / "state", out=tmp_path / "out")
    return tmp_path / "state"


def answered_in_batches(numbers: Iterable[int], **places: Path) -> dict[str, list[dict[str, Any]]]:
    """What queries have answered when batches came, and those of runs before."""
    with local_engine(SCRIPT, **places) as engine:
        for number in numbers:
            engine.deliver("a", [{"ts": 3 * number + i, "x": i + number} for i in range(3)], number)
        return {name: engine.results(name).to_arrow().to_pylist() for name in ("total", "seen")}


def repair(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["repair", *map(str, arguments)])
    return done.exit_code, done.output


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name != ".lock"}


def test_a_whole_checkpoint(checkpoint: Path) -> None:
    before = contents(checkpoint)
    for arguments in ([checkpoint], [checkpoint, "--check"]):
        code, said = repair(*arguments)
        assert (code, "is whole" in said) == (0, True)
    assert contents(checkpoint) == before


def test_relations_that_lost_the_state_of_the_last_step_go_back_by_one(checkpoint: Path, tmp_path: Path) -> None:
    state = max((checkpoint / "relations" / "a" / "shelf").iterdir())
    state.write_bytes(b"")
    code, said = repair(checkpoint)
    assert code == 0 and state.name in said and "went back" in said
    goes_on = answered_in_batches(range(4, 6), checkpoint=checkpoint, out=tmp_path / "out")
    assert goes_on == answered_in_batches(range(6))
    assert goes_on["seen"]


def test_relations_that_lost_their_state_are_told_and_nothing_is_changed(checkpoint: Path) -> None:
    for state in sorted((checkpoint / "relations" / "a" / "shelf").iterdir()):
        state.write_bytes(b"")
    before = contents(checkpoint)
    code, said = repair(checkpoint)
    assert code == 1
    assert state.name in said and "cannot go back" in said and "nothing was changed" in said
    assert contents(checkpoint) == before


def test_a_head_that_was_lost_is_made_again(checkpoint: Path) -> None:
    (head,) = (checkpoint / "relations" / "a").glob("head-*")
    head.unlink()
    code, said = repair(checkpoint, "--check")
    assert code == 1 and head.name in said
    assert not head.exists()
    code, said = repair(checkpoint)
    assert code == 0 and "went back" in said
    assert head.exists()
    assert repair(checkpoint)[0] == 0


def test_no_checkpoint_and_one_in_use(checkpoint: Path, tmp_path: Path) -> None:
    code, said = repair(tmp_path / "nothing")
    assert code == 1 and "no checkpoint" in said
    assert not (tmp_path / "nothing").exists()
    lock = Lock(checkpoint / ".lock", checkpoint, "the checkpoint")
    lock.acquire()
    try:
        code, said = repair(checkpoint)
    finally:
        lock.release()
    assert code == 1 and "in use" in said
