"""Compiled loops are kept from process to process, and never outlive what they were made of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CALLER = """
from mullion.loops import inlined_loop, loop
from pack.more.callee import (
    FACTOR,
    Pair,
    scaled,
)
from pack import limits

@inlined_loop
def third(x):
    return scaled(x) // limits.THIRD

@loop
def work(x):
    pair = Pair(x, third(x))
    return pair.left * FACTOR + pair.right
"""
CALLEE = """
from typing import NamedTuple
from mullion.loops import loop

FACTOR = 100

class Pair(NamedTuple):
    left: int
    right: int

@loop
def scaled(x):
    return x * 3

def told(pair):
    return work_of(pair)

@loop
def work_of(pair):
    return pair.left + pair.right
"""
PROGRAM = """
from numba.core import event
from pack.caller import work
from pack.more import callee
with event.install_recorder("numba:compile") as recorder:
    pair = next(value for name, value in vars(callee).items() if name.startswith("Pair"))
    print(work(2), callee.told(pair(2, 3)), len(recorder.buffer) > 0)
"""


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    (tmp_path / "pack" / "more").mkdir(parents=True)
    for name, source in {
        "__init__": "",
        "more/__init__": "",
        "limits": "THIRD = 3\n",
        "caller": CALLER,
        "more/callee": CALLEE,
    }.items():
        (tmp_path / "pack" / f"{name}.py").write_text(source)
    return tmp_path


def ran(pack: Path, **environment: str) -> tuple[int, int, bool]:
    """What the program says: the results of two loops, and whether something was compiled. Python's own bytecode is not
    kept: a file that changes within a second, and stays as long, has the old one."""
    paths = os.pathsep.join([str(pack), *sys.path])
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert not result.returncode, result.stderr
    work, told, compiled = result.stdout.split()
    return int(work), int(told), compiled == "True"


def change(pack: Path, file: str, before: str, after: str) -> None:
    path = pack / "pack" / f"{file}.py"
    source = path.read_text()
    assert before in source
    path.write_text(source.replace(before, after))


def kept(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.nbi")}


@pytest.mark.slow
def test_what_a_loop_calls_or_reads_is_never_older_than_its_file(pack: Path) -> None:
    assert ran(pack) == (202, 5, True)
    assert ran(pack) == (202, 5, False)
    change(pack, "more/callee", "x * 3", "x * 6")
    assert ran(pack) == (204, 5, True)
    change(pack, "more/callee", "FACTOR = 100", "FACTOR = 10")
    assert ran(pack) == (24, 5, True)
    change(pack, "limits", "THIRD = 3", "THIRD = 2")
    assert ran(pack) == (26, 5, True)
    assert ran(pack) == (26, 5, False)


@pytest.mark.slow
def test_a_type_may_have_another_name(pack: Path) -> None:
    assert ran(pack) == (202, 5, True)
    before = kept(pack)
    for file in ("more/callee", "caller"):
        change(pack, file, "Pair", "Pairs")
    assert ran(pack) == (202, 5, True)
    assert kept(pack) == before, "what the other version kept is gone"


@pytest.mark.slow
def test_where_the_user_says_or_may_write(pack: Path, tmp_path: Path) -> None:
    chosen, home = tmp_path / "chosen", tmp_path / "home"
    assert ran(pack, NUMBA_CACHE_DIR=str(chosen)) == (202, 5, True)
    assert kept(chosen)
    shutil.rmtree(chosen)
    assert not kept(pack)
    if os.getuid() == 0:
        return  # who may write everywhere
    (pack / "pack").chmod(0o500)
    assert ran(pack, XDG_CACHE_HOME=str(home)) == (202, 5, True)
    assert kept(home)
