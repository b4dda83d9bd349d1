"""Times written in a format of the user's: to_timestamp(at, 'dd/MM/yyyy HH:mm:ss').

Formats are Spark's datetime patterns, with the letters that times of events are written with. A text is read as Spark
reads it, from left to right without going back. A field of two letters has two digits. A field of one letter takes all
digits that come. Where digits run together (yyyyMMdd), the first field leaves the others theirs. Letters that mean
themselves may be of either case. Years have at most four digits and no sign, where Spark takes more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any

from mullion.errors import CheckError
from mullion.expressions.functions.base import Args, Function, Plain, gives, register, spelling
from mullion.expressions.functions.calendar import DAY, day_number, month_length
from mullion.language.query import Call, Case, Cast, Expr, Literal
from mullion.language.types import DATE, NULL, STRING, TIMESTAMP, Type

SECOND = 1_000_000
SPARKS_FORMAT = "yyyy-MM-dd HH:mm:ss"
"""The one of unix_timestamp, where none is given."""
DIGITS = frozenset("0123456789")
MOST_DIGITS = 19
"""Of a field that takes as many as come."""
FIELDS = {"y": "year", "M": "month", "d": "day", "H": "hour", "h": "half", "m": "minute", "s": "second"}
WRITTEN = (
    *(letter * count for letter in "Mdms" for count in (1, 2)), *("H", "HH", "h", "hh", "a", "y", "yy", "yyyy"),
    *("S" * count for count in range(1, 10)), *(letter * count for letter in "XxZ" for count in (1, 2, 3)),
)  # fmt: skip
SUPPORTED = (
    "y, yy, yyyy, M, MM, d, dd, H, HH, h and hh with a, m, mm, s, ss, S to SSSSSSSSS, X, XX, XXX, x, xx, xxx, Z, "
    "'text' in quotes, and separators"
)
RESERVED = frozenset("[]{}#")
OTHER_CASES = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}
"""Letters beyond ASCII that are another case of an ASCII one."""

TimeFields = dict[str, int]


@dataclass(frozen=True)
class Number:
    """A field of at least so many digits. `following` are those that later fields of fixed widths need, where nothing
    stands between."""

    field: str
    least: int
    most: int
    following: int = 0

    def __call__(self, text: str, at: int, fields: TimeFields) -> int:
        sign = self.field != "year" and self.least != self.most and text.startswith("-", at)
        start = at + sign
        count = min(_digits(text, start), self.most + self.following)
        if self.following:
            count = min(count, max(self.least, count - self.following))
        if count < self.least or (self.field == "year" and count > 4):
            return -1
        value = int(text[start : start + count])
        if sign and not value:
            return -1
        century = 2000 if self.field == "year" and self.most == 2 else 0
        fields[self.field] = century + (-value if sign else value)
        return start + count

    @property
    def regex(self) -> str:
        sign = "-?" if self.field != "year" and self.least != self.most else ""
        return f"{sign}[0-9]{{{self.least},{self.most}}}"

    @property
    def too_long(self) -> str:
        """A year with a sign, or of more than four digits."""
        return "[+-]" if self.least == 4 else f"([+-]|[0-9]{{{5 + self.following}}})"


@dataclass(frozen=True)
class Fraction:
    most: int

    def __call__(self, text: str, at: int, fields: TimeFields) -> int:
        count = min(_digits(text, at), self.most)
        if not count:
            return -1
        fields["micros"] = int(text[at : at + min(count, 6)].ljust(6, "0"))
        return at + count

    @property
    def regex(self) -> str:
        return f"[0-9]{{1,{self.most}}}"


@dataclass(frozen=True)
class Half:
    def __call__(self, text: str, at: int, fields: TimeFields) -> int:
        word = text[at : at + 2].upper()
        if word not in ("AM", "PM"):
            return -1
        fields["afternoon"] = int(word == "PM")
        return at + 2

    @property
    def regex(self) -> str:
        return "[AaPp][Mm]"


@dataclass(frozen=True)
class Offset:
    """A zone such as +01:00. Minutes may be missing where there is but one letter."""

    zero: str
    colon: str
    minutes: bool

    def __call__(self, text: str, at: int, fields: TimeFields) -> int:
        fields["offset"] = 0
        if text[at : at + len(self.zero)].upper() == self.zero:
            return at + len(self.zero)
        sign, hours = text[at : at + 1], _two_digits(text, at + 1)
        if sign not in ("+", "-") or hours is None or hours > 18:
            return -1
        at += 3
        minutes = _two_digits(text, at + len(self.colon)) if text.startswith(self.colon, at) else None
        if minutes is None and self.minutes:
            return -1
        if minutes is not None:
            at += len(self.colon) + 2
        fields["offset"] = (1 if sign == "+" else -1) * (hours * 60 + (minutes or 0))
        return at if abs(fields["offset"]) <= 18 * 60 else -1


@dataclass(frozen=True)
class Same:
    """One character that means itself, in either case."""

    chars: frozenset[str]

    def __call__(self, text: str, at: int, fields: TimeFields) -> int:
        return at + 1 if text[at : at + 1] in self.chars else -1

    @property
    def regex(self) -> str:
        return "[" + "".join(f"\\x{{{ord(char):x}}}" for char in sorted(self.chars)) + "]"


FormatStep = Number | Fraction | Half | Offset | Same
"""Reads one part of a text from a place on, notes what it says, and gives the place after it; -1 if it does not fit.
`regex` finds the same."""


def _digits(text: str, start: int) -> int:
    at = start
    while at < len(text) and text[at] in DIGITS:
        at += 1
    return at - start


def _two_digits(text: str, at: int) -> int | None:
    """Two digits that are less than 60."""
    if _digits(text[at : at + 2], 0) < 2:
        return None
    value = int(text[at : at + 2])
    return value if value < 60 else None


def _same(char: str) -> Same:
    return Same(frozenset((char, char.upper(), char.lower(), *OTHER_CASES.get(char.lower(), ""))))


def _pieces(format_: str) -> list[tuple[str, bool]]:
    """The format in runs of one letter, and characters that mean themselves (True)."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    while at < len(format_):
        if format_.startswith("''", at):
            pieces.append(("'", True))
            at += 2
        elif format_[at] == "'":
            at += 1
            while not format_.startswith("'", at) or format_.startswith("''", at):
                if at >= len(format_):
                    raise ValueError("a quote in a time format is not closed")
                pieces.append((format_[at], True))
                at += 2 if format_[at] == "'" else 1
            at += 1
        elif format_[at].isascii() and format_[at].isalpha():
            run = "".join(next(groupby(format_[at:]))[1])
            pieces.append((run, False))
            at += len(run)
        else:
            if format_[at] in RESERVED:
                raise ValueError(f"{format_[at]} in a time format must stand in quotes")
            pieces.append((format_[at], True))
            at += 1
    return pieces


def _step(run: str) -> FormatStep:
    letter, count = run[0], len(run)
    if letter in FIELDS:
        return Number(FIELDS[letter], count, count if count == 2 else MOST_DIGITS)
    if letter == "S":
        return Fraction(count)
    if letter == "a":
        return Half()
    zero = "Z" if letter == "X" else "+00:00" if count == 3 and letter == "x" else "+0000"
    colon = ":" if count == 3 and letter != "Z" else ""
    return Offset("+00" if run == "x" else zero, colon, minutes=count > 1 or letter == "Z")


@lru_cache(maxsize=256)
def steps_of(format_: str) -> Sequence[FormatStep]:
    """How a text in the format is read; ValueError for a format that is not supported."""
    steps: list[FormatStep] = []
    base = -1  # the field that leaves digits to those of fixed widths that follow it at once
    letters: list[str] = []
    for piece, itself in _pieces(format_):
        if itself:
            if not piece.isascii() and piece.upper() != piece.lower():
                raise ValueError(f"{piece} in a time format is not supported")
            steps.append(_same(piece))
            base = -1
            continue
        if piece not in WRITTEN:
            raise ValueError(f"{piece} in a time format is not supported")
        kind = "zone" if piece[0] in "XxZ" else piece[0]
        if kind in letters:
            raise ValueError(f"{piece} tells a part of the time that the format has already")
        letters.append(kind)
        step = _step(piece)
        fixed = (isinstance(step, Number) and step.least == step.most) or piece == "S"
        first = steps[base] if base >= 0 else None
        if fixed and base >= 0:
            if isinstance(first, Number):
                steps[base] = replace(first, following=first.following + len(piece))
        else:
            if isinstance(step, Number | Fraction) and isinstance(first, Number) and first.most == MOST_DIGITS:
                message = f"{piece} stands right after digits that have no end of their own, so Spark never finds it"
                raise ValueError(f"{message}; put a separator between them")
            base = len(steps) if isinstance(step, Number) or fixed else -1
        steps.append(step)
    if not letters:
        raise ValueError("a time format needs letters such as yyyy-MM-dd HH:mm:ss")
    if ("h" in letters) != ("a" in letters) or ("h" in letters and "H" in letters):
        raise ValueError("h (1 to 12) and a (AM or PM) go together, and H (0 to 23) goes without them")
    if "zone" in letters and "y" in letters[letters.index("zone") :]:
        raise ValueError("the zone of a time format must stand after the year")
    if "S" in letters and format_.endswith("''"):
        raise ValueError("a time format with S cannot end with a quote")
    return steps


def parse_formatted(text: str, format_: str) -> int | None:
    """Microseconds since the epoch; None for a text that is not in the format.

    >>> parse_formatted("02/01/1970 00:00:01", "dd/MM/yyyy HH:mm:ss"), parse_formatted("2/1/1970", "dd/MM/yyyy")
    (86401000000, None)
    """
    fields: TimeFields = {}
    at = 0
    for step in steps_of(format_):
        at = step(text, at, fields)
        if at < 0:
            return None
    return _instant(fields) if at == len(text) else None


def _instant(fields: TimeFields) -> int | None:
    year, month, day = fields.get("year", 1970), fields.get("month", 1), fields.get("day", 1)
    minute, second = fields.get("minute", 0), fields.get("second", 0)
    hour = fields.get("hour", 0)
    if "half" in fields:
        if not 1 <= fields["half"] <= 12:
            return None
        hour = fields["half"] % 12 + 12 * fields["afternoon"]
    if not (1 <= month <= 12 and 1 <= day <= month_length(year, month)):
        return None
    if not (0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59):
        return None
    minutes = hour * 60 + minute - fields.get("offset", 0)
    return int(day_number(year, month, day)) * DAY + (minutes * 60 + second) * SECOND + fields.get("micros", 0)


def in_spark(args: tuple[Expr, ...]) -> Expr | None:
    """Spark ends the batch at a year that no timestamp can hold, so such a text is kept from it."""
    format_ = args[1].value if isinstance(args[1], Literal) else None
    if format_ is None:
        return None
    regex = "\\A"
    for step in steps_of(format_):
        if isinstance(step, Number) and step.field == "year" and step.most > 2:
            guarded = Call("rlike", (args[0], Literal(regex + step.too_long, STRING)))
            return Call("time_in_spark$", (Case(((guarded, Literal(None, STRING)),), args[0]), args[1]))
        regex += step.regex if not isinstance(step, Offset) else ""
    return None


def formatted_types(args: Args) -> Sequence[Type] | None:
    expr, place = args[1][0], args[1][0].place
    while isinstance(expr, Cast):
        expr = expr.arg
    if not isinstance(expr, Literal) or not isinstance(expr.value, str | None):
        raise CheckError("a time format must be a constant, such as 'dd/MM/yyyy HH:mm:ss'", place)
    if expr.value is not None:
        try:
            steps_of(expr.value)
        except ValueError as problem:
            raise CheckError(str(problem), place, hint=f"a time format is made of {SUPPORTED}") from None
    return [STRING, STRING] if args[0][1] in (STRING, NULL) else None


def to_timestamp(args: Args) -> Expr:
    if len(args) == 1:
        return Cast(args[0][0], TIMESTAMP)
    return Call("to_timestamp$", tuple(arg for arg, _ in args), place=args[0][0].place)


def to_date(args: Args) -> Expr:
    return Cast(_read(args, args[1][0]) if len(args) == 2 else args[0][0], DATE)


def unix_timestamp(args: Args) -> Expr:
    """The seconds since 1970; of a text by its format, which for times and dates is of no account."""
    format_ = args[1][0] if len(args) == 2 else Literal(SPARKS_FORMAT, STRING)
    return Call("unix_timestamp$", (_read(args, format_),), place=args[0][0].place)


def _read(args: Args, format_: Expr) -> Expr:
    """A text as a time; what is no text, as it is."""
    expr, type_ = args[0]
    return Call("to_timestamp$", (expr, format_), place=expr.place) if type_ == STRING else expr


def reading(name: str, **other: Any) -> Function:
    return Function(
        name=name, least=2, most=2, coerce=formatted_types, result=gives(TIMESTAMP), fallible=True,
        text="try_to_timestamp({0}, {1})", row=Plain(parse_formatted), **other,
    )  # fmt: skip


register(
    spelling("to_timestamp", 1, 2, to_timestamp, ("try_to_timestamp",)),
    spelling("to_date", 1, 2, to_date),
    spelling("unix_timestamp", 1, 2, unix_timestamp),
    reading("to_timestamp$", in_spark=in_spark),
    reading("time_in_spark$"),
)
