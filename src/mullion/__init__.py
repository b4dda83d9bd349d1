"""Mullion: many standing sliding-window queries over a stream for about the price of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mullion.aggregates.register import register_aggregate
    from mullion.aggregates.user import UserAggregate
    from mullion.engine import Engine
    from mullion.summaries.base import Summary
    from mullion.summaries.base import register as register_summary

__version__ = "0.1.0"
__all__ = ["Engine", "Summary", "UserAggregate", "__version__", "register_aggregate", "register_summary"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Engine brings Spark and Arrow along, and aggregates numpy, so they are imported when they are first used."""
    if name == "Engine":
        from mullion.engine import Engine

        return Engine
    if name == "UserAggregate":
        from mullion.aggregates.user import UserAggregate

        return UserAggregate
    if name == "register_aggregate":
        from mullion.aggregates.register import register_aggregate

        return register_aggregate
    if name == "Summary":
        from mullion.summaries.base import Summary

        return Summary
    if name == "register_summary":
        from mullion.summaries.base import register

        return register
    raise AttributeError(f"module 'mullion' has no attribute '{name}'")
