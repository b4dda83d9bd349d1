"""What `mullion run` was asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mullion.options import Options


class Log(StrEnum):
    text = "text"
    json = "json"


@dataclass(frozen=True)
class RunRequest:
    """A script, where its answers go, and how far it is run."""

    text: str
    out: Path
    checkpoint: Path | None
    options: Options
    config: Mapping[str, str]
    follow: bool
    seconds: float | None
    close: bool
    every: str | None
    stats: Path | None
    log: Log | None
    quiet: bool
