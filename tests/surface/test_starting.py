"""What a command of a process of its own loads: nothing that it does not need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

import mullion
from surface.shell import SCRIPT

PROGRAM = """
import gc, json, sys
from mullion.surface.cli import main
sys.argv = ["mullion", *{arguments}]
try:
    main()
except SystemExit as ended:
    code = ended.code
loaded = [name for name in ("pandas", "pyspark", "duckdb", "sqlglot") if name in sys.modules]
import pyarrow as pa
frame = pa.table({{"x": [1.5, None]}}).to_pandas()
said = dict(code=code, loaded=loaded, frozen=gc.get_freeze_count(), collects=gc.isenabled())
print("\\n" + json.dumps({{**said, "nulls": pa.array(frame["x"]).null_count}}))
"""


def said_by(folder: Path, program: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(Path(mullion.__file__).parents[1])}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_run_over_files_loads_what_it_needs(world: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    copy(world / "data" / "0.parquet", tmp_path / "data")
    (tmp_path / "script.sql").write_text(SCRIPT.replace(", maxFilesPerTrigger '1'", ""))
    said = said_by(tmp_path, PROGRAM.format(arguments=["run", "script.sql", "--out", "answers"]))
    assert said["code"] == 0
    assert said["loaded"] == []
    assert said["frozen"] > 100_000
    assert said["collects"]
    assert said["nulls"] == 1, "pandas is there when it is asked for"


def test_a_process_of_others_keeps_pandas_and_its_collector(world: Path) -> None:
    program = """
import gc, json, sys
from mullion.surface.starting import imported_engine
imported_engine()
import pandas as pd, pyarrow as pa
print(json.dumps([gc.get_freeze_count(), pa.array(pd.Series([1.0, float("nan")])).null_count]))
"""
    assert said_by(world, program) == [0, 1]
