"""Sinks that merge files early."""

from __future__ import annotations

import pytest

from mullion.sinks import compaction


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are merged as soon as there are three."""
    monkeypatch.setattr(compaction, "MANY", 2)
    monkeypatch.setattr(compaction, "FEW", 1)
