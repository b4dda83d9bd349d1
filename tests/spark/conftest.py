"""Events for every window, and files that hold them; few shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark.every_window import batches, events, write


@pytest.fixture(scope="module", autouse=True)
def few_shards() -> Iterator[None]:
    """A shard is a task in Python for every grouping of every batch. The command line on a cluster has all eight."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mullion.runtime.sharding_choice.SHARDS", 3)
        yield


@pytest.fixture(scope="module")
def made() -> list[dict[str, Any]]:
    return events()


@pytest.fixture(scope="module")
def files(made: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("sources")
    return {format_: write(base / format_, format_, batches(made)) for format_ in ("parquet", "json", "csv")}
