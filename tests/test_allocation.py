"""What a batch frees is there for the next one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np, pyarrow as pa
from mullion.allocation import keep_freed_memory

print(keep_freed_memory() if sys.argv[1] == "keep" else None)
def batch():
    columns = [np.ones(3_000_000) for _ in range(4)]
    pa.array(columns[0]).take(pa.array(np.arange(3_000_000)))
for _ in range(8):
    batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

glibc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc can be told")


def played(what: str, **environment: str) -> list[str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "LD_PRELOAD", "GLIBC_", "ARROW_"))}
    command = [sys.executable, "-c", PROGRAM, what]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**own, **environment})
    return done.stdout.split()


@pytest.mark.slow
@glibc
def test_batches_take_few_new_pages() -> None:
    kept, faults = played("keep")
    _, before = played("leave")
    assert kept == "True"
    assert int(faults) < int(before) / 4


@glibc
@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
@pytest.mark.slow
def test_what_the_user_chose_stays(name: str) -> None:
    assert played("keep", **{name: "2" if name.startswith("MALLOC") else "glibc.malloc.arena_max=2"})[0] == "False"
