"""What a batch frees is there for the next one."""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mullion import allocation
from mullion.allocation import LeftAlone, leave_alone_for_good

PROGRAM = """
import resource, sys
import numpy as np, pyarrow as pa
from mullion.allocation import keep_freed_memory

print(keep_freed_memory() if sys.argv[1] == "keep" else None)
def batch():
    columns = [np.ones(3_000_000) for _ in range(4)]
    pa.array(columns[0]).take(pa.array(np.arange(3_000_000)))
for _ in range(16):  # until the heap has its size: after 8, where the environment ends decides
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


GROWING = """
import sys
import numpy as np, pyarrow as pa
from mullion.allocation import give_back, keep_freed_memory, resident_bytes

most = 64 << 20
keep_freed_memory(most if sys.argv[1] == "give" else None)
before, kept = resident_bytes(), []
for size in range(1_000_000, 3_000_000, 100_000):
    columns = [np.ones(size) for _ in range(4)]
    kept.append(pa.array(["small"]).take(pa.array([0])))
    del columns
    give_back()
print(resident_bytes() - before < 2 * most)
"""


@glibc
@pytest.mark.parametrize("what", ["give", "keep"])
@pytest.mark.slow
def test_what_lies_free_is_bounded(what: str) -> None:
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "LD_PRELOAD", "GLIBC_", "ARROW_"))}
    done = subprocess.run([sys.executable, "-c", GROWING, what], capture_output=True, text=True, check=True, env=own)
    assert done.stdout.strip() == str(what == "give")


@pytest.fixture
def nothing_left_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The tests themselves have the collector leave something alone, and remember that they do."""
    monkeypatch.setattr(gc, "get_freeze_count", inspect.unwrap(gc.get_freeze_count))
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_left_alone")
def test_the_collector_leaves_alone_what_is_there_while_a_run_is() -> None:
    first, second = LeftAlone(), LeftAlone()
    first.begin()
    second.begin()
    second.end()
    assert gc.get_freeze_count() > 0, "another run, or the user, is not through with it"
    first.end()
    assert gc.get_freeze_count() == 0
    gc.freeze()
    first.end()
    assert gc.get_freeze_count() > 0, "it was not the run that froze this"


@pytest.mark.usefixtures("nothing_left_alone")
def test_where_it_is_for_good_runs_leave_more_alone_and_nothing_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "_for_good", False)
    leave_alone_for_good()
    new: list[int] = []
    assert _is_looked_at(new)
    own = LeftAlone()
    own.begin()
    assert not _is_looked_at(new)
    own.end()
    assert not _is_looked_at(new)


def _is_looked_at(item: object) -> bool:
    """Whether the collector looks at it."""
    return any(known is item for known in gc.get_objects())
