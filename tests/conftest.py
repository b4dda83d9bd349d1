"""What all tests share: one Spark for each process of a run, and a Hypothesis that repeats itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
