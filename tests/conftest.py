"""What all tests share: one Spark for each process of a run, and a Hypothesis that repeats itself."""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.internal import reflection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("steady", derandomize=True, database=None, deadline=None, max_examples=50)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=1000)
settings.register_profile("brief", settings.get_profile("steady"))
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "steady")
settings.load_profile(PROFILE)
BRIEF = 4
"""The part of all examples that `make check` plays: every fourth. `make test` plays all."""

# A test's source is its seed. It is read once for all parameters of the test: each time takes some milliseconds, and
# there are thousands of them.
inspect.getsource = cache(inspect.getsource)
reflection._clean_source = cache(reflection._clean_source)

# Tests are many small queries, each new to the JVM: compiling them well takes longer than running them. A first run
# took 40 s of processor time without this and 23 s with it. The processes that tests start inherit it.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Imported here and not above, so that tests without Spark start fast."""
    from mullion.spark.session import local_session

    session = local_session(app_name="mullion tests", config={"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


def pytest_collection_finish() -> None:
    """Tests stay to the end: what is collected is not searched for garbage again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if PROFILE == "brief" and getattr(item.obj, "is_hypothesis_test", False):
            _play_fewer(item.obj)


def _play_fewer(test: Callable[..., object]) -> None:
    """Hypothesis has no public way to change the settings of a test that has its own."""
    test = getattr(test, "__func__", test)
    every = test._hypothesis_internal_use_settings
    test._hypothesis_internal_use_settings = settings(every, max_examples=-(-every.max_examples // BRIEF))
