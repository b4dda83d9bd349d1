"""Mullion: many standing sliding-window queries over a stream for about the price of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mullion.engine import Engine

__version__ = "0.1.0"
__all__ = ["Engine", "__version__"]


def __getattr__(name: str) -> Any:
    """Engine brings Spark and Arrow along, so it is imported when it is first used."""
    if name == "Engine":
        from mullion.engine import Engine

        return Engine
    raise AttributeError(f"module 'mullion' has no attribute '{name}'")
