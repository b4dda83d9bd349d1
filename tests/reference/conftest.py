"""Another engine to compare with."""

from __future__ import annotations

import duckdb
import pytest


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()
