"""Checks of arguments: a wrong type becomes a clear error at once."""

from __future__ import annotations

from typing import Any

from mullion.errors import ArgumentError


def require(
    what: str, value: object, kinds: type[Any] | tuple[type[Any], ...], words: str, *, none: bool = False
) -> None:
    """Refuse a value that is of none of these types. `words` say what it should be; `none` allows None.

    >>> require("the text of a query", 3, str, "text")
    Traceback (most recent call last):
        ...
    mullion.errors.ArgumentError: the text of a query is text, not the int 3
    """
    if (none and value is None) or (isinstance(value, kinds) and not _is_wrong_bool(value, kinds)):
        return
    raise ArgumentError(f"{what} is {words}{' or None' if none else ''}, not {_described(value)}")


def require_callable(what: str, value: object, takes: str) -> None:
    """Refuse what cannot be called."""
    if value is not None and not callable(value):
        raise ArgumentError(f"{what} is a function that is called with {takes}, not {_described(value)}")


def _is_wrong_bool(value: object, kinds: type[Any] | tuple[type[Any], ...]) -> bool:
    """True is an int in Python, and never meant as one."""
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    return isinstance(value, bool) and bool not in wanted


def _described(value: object) -> str:
    if value is None:
        return "None"
    text, kind = repr(value), type(value).__name__
    if len(text) <= 40 and "\n" not in text:
        return f"the {kind} {text}"
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
