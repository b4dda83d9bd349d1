"""A program that ends by an exception while batches are at work, and has closed nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PROGRAM = """
import sys
from pathlib import Path
from mullion import Engine

engine = Engine(checkpoint=Path(sys.argv[1]) / "state", out=Path(sys.argv[1]) / "out")
engine.execute(
    "CREATE STREAM s (timestamp TIMESTAMP, value BIGINT) USING rate OPTIONS (rowsPerSecond '1000') "
    "TIMESTAMP BY timestamp; CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 100 ms]"
)
engine.start()
while not engine.counts["s"].batches:
    engine.wait(0.1)
raise RuntimeError("nobody catches this")
"""


def test_an_exception_is_all_that_is_told(tmp_path: Path) -> None:
    """And a new engine finds the lock free and the checkpoint whole."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    for _ in range(2):
        command = [sys.executable, str(program), str(tmp_path)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert ended.returncode == 1, ended.stderr
        assert ended.stderr.rstrip().endswith("RuntimeError: nobody catches this"), ended.stderr
        assert "Fatal" not in ended.stderr and "py4j" not in ended.stderr
