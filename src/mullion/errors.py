"""Every error a user may see.

All of them are `MullionError`. Errors about text carry the place in it and print like this:

    unknown column 'prise' in trades
      line 3, column 12
        SELECT sum(prise) FROM trades [RANGE '10 min' SLIDE '5 min']
                   ^^^^^
      did you mean 'price'?
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple


class Place(NamedTuple):
    """Where something stands in a text: half-open character offsets."""

    text: str
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        return self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1

    def drawn(self) -> str:
        """The source line with a caret under the place."""
        begin = self.text.rfind("\n", 0, self.start) + 1
        end = self.text.find("\n", begin)
        line = self.text[begin : end if end >= 0 else len(self.text)]
        width = max(1, min(self.end, begin + len(line)) - self.start)
        pad = "".join("\t" if c == "\t" else " " for c in line[: self.start - begin])
        return f"  line {self.line}, column {self.column}\n    {line.rstrip()}\n    {pad}{'^' * width}"


class MullionError(Exception):
    """Something that the user can mend. `message` says what is wrong, `hint` what to do."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message + (f"\n  {self.hint}" if self.hint else "")


class TextError(MullionError):
    """An error that has a place in a script or query."""

    def __init__(self, message: str, place: Place | None = None, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.place = place

    def __str__(self) -> str:
        drawn = f"\n{self.place.drawn()}" if self.place else ""
        return self.message + drawn + (f"\n  {self.hint}" if self.hint else "")


class ParseError(TextError):
    """The text is not Mullion SQL."""


class CheckError(TextError):
    """The text is Mullion SQL but makes no sense here: unknown names, wrong types, clashes."""


class NotSupported(TextError):
    """The text is Mullion SQL and means something, but this version does not execute it."""

    def __init__(self, feature: str, place: Place | None = None, *, hint: str | None = None) -> None:
        super().__init__(f"{feature} is not supported yet", place, hint=hint)
        self.feature = feature


class ArgumentError(MullionError, TypeError):
    """A function of Mullion was called with something that it cannot use."""


class SourceError(MullionError):
    """A stream or table cannot be read."""


class CheckpointError(MullionError):
    """A checkpoint cannot be continued from."""


class AggregateError(MullionError):
    """An aggregate that a user wrote cannot be used."""


class EnvironmentProblem(MullionError):
    """Java, Spark or the machine is not as needed."""


class SparkDied(EnvironmentProblem):
    """The Java process that Spark runs in has ended."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """A hint for a misspelt name, or None when nothing is near.

    >>> closest("prise", ["price", "volume"])
    "did you mean 'price'?"
    """
    by_lower = {k.lower(): k for k in known}
    near = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f"did you mean '{by_lower[near[0]]}'?" if near else None
