"""Every error a user may see.

All of them are `MullionError`. Errors about text carry the place in it and print like this:

    unknown column 'prise'
      line 3, column 12
        SELECT sum(prise) FROM trades [RANGE '10 min' SLIDE '5 min']
                   ^^^^^
      did you mean 'price'?
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        before, line, width = _cut(line.rstrip(), self.start - begin, width)
        pad = "".join("\t" if c == "\t" else " " for c in line[:before])
        return f"  line {self.line}, column {self.column}\n    {line}\n    {pad}{'^' * width}"


WIDEST = 160
"""Characters of a source line, or of a message, that are shown."""


def _cut(line: str, before: int, width: int) -> tuple[int, str, int]:
    """The part of a long line around a place: where the place begins in it, the part, and how much of the place is in.

    >>> _cut("a" * 300 + "b" + "c" * 300, 300, 1)[1][76:84]
    'aaaabccc'
    """
    if len(line) <= WIDEST:
        return before, line, width
    first = max(0, min(before - WIDEST // 2, len(line) - WIDEST))
    last = min(len(line), first + WIDEST)
    head, tail = "..." if first else "", "..." if last < len(line) else ""
    shown = head + line[first + len(head) : last - len(tail)] + tail
    return before - first, shown, max(1, min(width, len(shown) - (before - first)))


def _shortened(message: str) -> str:
    """A message whose names and values, however long they are in the text, leave it readable."""
    if len(message) <= 4 * WIDEST:
        return message
    return f"{message[: 3 * WIDEST]} ... {message[-WIDEST:]}"


class MullionError(Exception):
    """Something that the user can mend. `message` says what is wrong, `hint` what to do."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = _shortened(message)
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


class Mistakes(TextError):
    """Several errors of one script. Its place is that of the first."""

    def __init__(self, errors: Sequence[MullionError]) -> None:
        places = (error.place for error in errors if isinstance(error, TextError))
        super().__init__(f"{len(errors)} mistakes", next(places, None))
        self.errors = tuple(errors)

    def __str__(self) -> str:
        shown = [str(error) for error in self.errors[:MOST_TOLD]]
        if len(self.errors) > MOST_TOLD:
            shown.append(f"... and {len(self.errors) - MOST_TOLD:,} more")
        return "\n\n".join([f"{self.message}; nothing was done", *shown])


MOST_TOLD = 50
"""Mistakes that are told in full."""


def refuse(errors: Sequence[MullionError]) -> None:
    """Raise what was found wrong, if anything was."""
    if errors:
        raise errors[0] if len(errors) == 1 else Mistakes(errors)


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


class NothingThere(SourceError, TextError):
    """Nothing lies where a stream or table is to be read."""


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

    >>> closest("prise", ["price", "volume"]), closest("vol", ["price", "volume"])
    ("did you mean 'price'?", "did you mean 'volume'?")
    """
    wanted, known = name.lower(), list(known)
    most = 1 if len(wanted) < 6 else 2 if len(wanted) < 10 else 3
    if len(wanted) > LONGEST_NAME:
        return None
    # Of names that are equally near, the longest: letters are left out more often than mistaken.
    best: tuple[tuple[int, int], str] | None = None
    for candidate in known:
        alike = len(candidate) > 2 or candidate[:1].lower() == wanted[:1]
        if alike and abs(len(candidate) - len(wanted)) <= most:
            found = _typing_errors(wanted, candidate.lower(), most)
            if found <= most and (best is None or (found, -len(candidate)) < best[0]):
                best = (found, -len(candidate)), candidate
    if best is not None:
        return f"did you mean '{best[1]}'?"
    longer = [candidate for candidate in known if len(wanted) > 2 and candidate.lower().startswith(wanted)]
    return f"did you mean '{longer[0]}'?" if len(longer) == 1 else None


LONGEST_NAME = 100
"""Characters of a name that is worth guessing at."""


def _typing_errors(a: str, b: str, most: int) -> int:
    """How many letters were left out, put in, mistaken or swapped with the next; anything above `most` is too many.

    >>> _typing_errors("cuont", "count", 2), _typing_errors("corr", "or", 2), _typing_errors("avg", "sum", 1) > 1
    (1, 2, True)
    """
    if most < 2 and a[:1] != b[:1] and a[1:2] != b[1:2] and a[:1] != b[1:2] and a[1:2] != b[:1]:
        return most + 1
    older: list[int] = []
    old = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        new = [i]
        for j, y in enumerate(b, start=1):
            cost = min(old[j] + 1, new[j - 1] + 1, old[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                cost = min(cost, older[j - 2] + 1)
            new.append(cost)
        if min(new) > most:
            return most + 1
        older, old = old, new
    return old[-1]
