"""What all tests share: one Spark for each process of a run, and a Hypothesis that repeats itself."""

from __future__ import annotations

import gc
import inspect
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from hypothesis.internal import reflection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("steady", derandomize=True, database=None, deadline=None, max_examples=50)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=1000)
settings.register_profile("brief", settings.get_profile("steady"))
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "steady")
settings.load_profile(PROFILE)
BRIEF = 8
"""The part of all random examples that `make check` plays: every eighth, divided among the parameters of a test, but at
least one. `make test` plays all."""
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 1 << 30:
    # Nobody waits for a disk there: a commit takes a tenth of the time. When all examples are played, only trials that
    # make directories of their own are there; tests with a directory from pytest are on the disk.
    if PROFILE != "brief":
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    tempfile.tempdir = str(MEMORY)

gc.disable()  # until tests are collected: that took a quarter of the time

# A test's source is its seed. It is read once for all parameters of the test: each time takes some milliseconds, and
# there are thousands of them.
inspect.getsource = cache(inspect.getsource)
reflection._clean_source = cache(reflection._clean_source)

# Tests are many small queries, each new to the JVM: compiling them well takes longer than running them. A first run
# took 40 s of processor time without this and 23 s with it. The room for compiled code is then a fifth of the usual
# one: it was full after some hundred tests, and looking for code to throw out took a seventh of the JVM's time. So it
# gets the usual one. The processes that tests start inherit both.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Imported here and not above, so that tests without Spark start fast."""
    from mullion.spark.session import local_session

    _remember_names()
    session = local_session(app_name="mullion tests", config={"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


def _remember_names() -> None:
    """py4j asks the JVM at each step of a name such as org.apache.spark, however often it was followed before, and the
    JVM looks for a class of that name in 300 archives: that was a tenth of its time."""
    from py4j.java_gateway import JavaPackage, JVMView

    for owner in (JavaPackage, JVMView):
        owner.__getattr__ = _remembering(owner.__getattr__)


def _remembering(ask: Callable[[object, str], object]) -> Callable[[object, str], object]:
    def followed(self: object, name: str) -> object:
        self.__dict__[name] = found = ask(self, name)
        return found

    return followed


LONG = {"spark", "faults", "surface", "bench"}
"""Folders whose files take long, with Spark or processes of their own. They come first, so that short ones fill up what
is left and no process waits for another at the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", metavar="I/N", help="every N-th file, from the I-th on")


class FewerFiles:
    """Leave files out before they are imported.

    Those of other parts: processes that need not talk about each test save a tenth of the time where tests are many and
    short. Doctests of files without one: pytest walks through all that a module imports for them.
    """

    def __init__(self, part: str) -> None:
        first, self.parts = map(int, part.split("/"))
        self.left = first - 1

    @pytest.hookimpl
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.suffix != ".py" or collection_path.name in ("conftest.py", "__init__.py"):
            return None
        self.left = (self.left - 1) % self.parts
        return True if self.left != self.parts - 1 else None

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        collectors = yield
        if file_path.suffix == ".py" and ">>> " not in file_path.read_text(encoding="utf-8"):
            return [collector for collector in collectors if not isinstance(collector, DoctestModule)]
        return collectors


def pytest_configure(config: pytest.Config) -> None:
    """Hooks of this file would not be asked about src and benchmarks."""
    config.pluginmanager.register(FewerFiles(config.getoption("part")))


def pytest_collection_finish() -> None:
    """Tests stay to the end: what is collected is not searched for garbage, neither now nor again and again. Nor is it
    counted whenever an engine starts and asks whether there is something: that walks through all of it."""
    gc.freeze()
    gc.get_freeze_count = cache(gc.get_freeze_count)
    gc.set_threshold(20_000)
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    if PROFILE == "brief":
        config.hook.pytest_deselected(items=[item for item in items if _seed(item) % BRIEF])
        items[:] = [item for item in items if not _seed(item) % BRIEF]
        tests = [item.obj for item in items if getattr(item.obj, "is_hypothesis_test", False)]
        for test, parameters in Counter(getattr(test, "__func__", test) for test in tests).items():
            _play_fewer(test, BRIEF * parameters)
    items.sort(key=lambda item: not LONG & set(item.path.parts))


def _seed(item: pytest.Item) -> int:
    """Which of its random examples a test plays, counted from 0, if it has a parameter `seed`."""
    spec = getattr(item, "callspec", None)
    return 0 if spec is None else spec.indices.get("seed", 0)


def _play_fewer(test: Callable[..., object], part: int) -> None:
    """Hypothesis has no public way to change the settings of a test that has its own."""
    every = test._hypothesis_internal_use_settings
    test._hypothesis_internal_use_settings = settings(every, max_examples=-(-every.max_examples // part))
