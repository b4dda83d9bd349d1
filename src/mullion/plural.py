"""Numbers with their nouns, for sentences."""

from __future__ import annotations


def plural(number: int, singular: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> plural(1, "query", "queries"), plural(2000, "event")
    ('1 query', '2,000 events')
    """
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"
