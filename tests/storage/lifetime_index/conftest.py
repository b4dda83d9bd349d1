"""Many small indices are made, as fast as can be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from storage.lifetime_index.small_indices import MEMORY


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(directory)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power here, so nobody waits for the disk."""
    monkeypatch.setattr("os.fsync", lambda handle: None)
