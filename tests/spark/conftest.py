"""Events for every window, and files that hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark.every_window import batches, events, write


@pytest.fixture(scope="module")
def made() -> list[dict[str, Any]]:
    return events()


@pytest.fixture(scope="module")
def files(made: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("sources")
    return {format_: write(base / format_, format_, batches(made)) for format_ in ("parquet", "json", "csv")}
