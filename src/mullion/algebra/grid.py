"""Equal steps of time, on which edges of slices lie and cells of join synopses begin."""

from __future__ import annotations

from typing import NamedTuple


class Grid(NamedTuple):
    """The instants `origin + k * step`."""

    step: int
    origin: int
