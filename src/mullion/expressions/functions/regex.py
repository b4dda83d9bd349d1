"""Regular expressions, matched in linear time by RE2 (as Arrow has it).

Java's engine, which Spark uses, goes back and tries again: '(a|a)*b' or '.*a.*a.*a.*b' take time that grows with a
power of the text's length, and one value could hold up a batch. So Spark never sees a pattern: the kernel matches it.
A pattern must be of the part of Java's syntax that RE2 can express, which leaves out lookaround, references and
possessive repetition, and is translated so that it means what it means in Java:

| Java | here |
|---|---|
| `.` | anything but the six line terminators |
| `$` | the end, or before one last line terminator; it must stand at the end of the pattern, or of an alternative |
| `\\d \\w \\s \\b` | of ASCII |
| `(?i)` at the start | upper and lower case of ASCII letters are the same |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from re import compile as compiled
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

LONGEST = 10_000
"""Characters of a pattern."""
TERMINATORS = "\n\r\u0085\u2028\u2029"
NOT_NEWLINE = r"[^\n\r\x{85}\x{2028}\x{2029}]"
SPACE = r"\t-\r\x20"
CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": SPACE}
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
PUNCTUATION = ".\\+*?[](){}|^$-/"
REPETITION = compiled(r"\{\d{1,4}(?:,\d{0,4})?\}")
LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")


class _Refused(Exception):
    """Why a pattern is not taken."""


@dataclass(frozen=True)
class Regex:
    """A pattern that is ready to match."""

    text: str
    """As RE2 writes it, with `$` as the very end."""
    has_end: bool

    def matches(self, values: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Where the pattern is found somewhere in the value. Time: linear in the values, for any pattern."""
        is_match = self._search(values)
        if self.has_end:
            cut = [i for i, value in enumerate(values) if value[-1:] in TERMINATORS and value]
            # Nothing follows $ in the pattern, so a match up to the last terminator is one in the text without it.
            is_match[cut] |= self._search([_without_terminator(values[i]) for i in cut])
        return is_match

    def _search(self, values: Sequence[str]) -> npt.NDArray[np.bool_]:
        array = pa.array(values, pa.large_string())
        return np.array(pc.match_substring_regex(array, pattern=self.text), np.bool_)


def _without_terminator(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text[:-1]


@lru_cache(maxsize=1024)
def regex(pattern: str) -> Regex | str:
    """The pattern, or why it is not taken.

    >>> regex("(?i)^ab+$").text
    '^[Aa][Bb]+\\\\z'
    >>> regex("(a)(?=b)")
    'lookaround, (?=, is not supported in a regular expression: it cannot be matched in linear time'
    """
    if len(pattern) > LONGEST:
        return f"a regular expression may have {LONGEST:,} characters, and this has {len(pattern):,}"
    folds = pattern.startswith("(?i)")
    try:
        translation = _Translation(pattern[4:] if folds else pattern, folds)
        translated = Regex(translation.text(), translation.has_end)
    except _Refused as refused:
        return str(refused)
    try:
        translated.matches(["", "\n"])
    except pa.ArrowException as error:
        return f"bad regular expression: {_reason(error)}"
    return translated


def _reason(error: pa.ArrowException) -> str:
    text = str(error).split(": ", 1)[-1]
    return text if len(text) < 200 else text[:200] + " ..."


class _Translation:
    """One pattern, from left to right. `after_end` holds, for each open group and the whole, whether the alternative
    that is being read has had a `$`, after which nothing may follow that takes a character."""

    def __init__(self, pattern: str, folds: bool) -> None:
        self.pattern, self.folds, self.at = pattern, folds, 0
        self.out: list[str] = []
        self.after_end = [False]
        self.holds_end = [False]
        self.has_end = False

    def text(self) -> str:
        while self.at < len(self.pattern):
            self._step()
        if len(self.after_end) > 1:
            raise _Refused("a group of the regular expression is not closed")
        return "".join(self.out)

    def _step(self) -> None:
        char = self.pattern[self.at]
        if char == "\\":
            self._escape()
        elif char == "[":
            self._atom(self._class())
        elif char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char == "|":
            self.after_end[-1] = False
            self._zero_width("|")
        elif char in "*+?{":
            self._repetition()
        elif char == "}":
            raise _Refused("a } that ends no repetition must be written \\}")
        elif char == "^":
            self._zero_width("^")
        elif char == "$":
            self.has_end = self.after_end[-1] = self.holds_end[-1] = True
            self._zero_width(r"\z")
        else:
            self.at += 1
            self._atom(NOT_NEWLINE if char == "." else self._character(char))

    def _zero_width(self, text: str) -> None:
        self.out.append(text)
        self.at += 1

    def _atom(self, text: str) -> None:
        if self.after_end[-1]:
            raise _Refused("a $ before other characters is not supported in a regular expression")
        self.out.append(text)

    def _character(self, char: str) -> str:
        if self.folds and char.isascii() and char.isalpha():
            return f"[{char.upper()}{char.lower()}]"
        return _literal(char)

    def _escape(self) -> None:
        following = self.pattern[self.at + 1 : self.at + 2]
        self.at += 2
        if following and following in "bB":
            self.out.append("\\" + following)
        elif following and following in "dws":
            self._atom(f"[{CLASSES[following]}]")
        elif following and following in "DWS":
            self._atom(f"[^{CLASSES[following.lower()]}]")
        elif following in CONTROLS or (following and following in PUNCTUATION):
            self._atom(_literal(CONTROLS.get(following, following)))
        else:
            raise _Refused(f"\\{following} is not supported in a regular expression")

    def _open(self) -> None:
        rest = self.pattern[self.at : self.at + 4]
        around = next((text for text in LOOKAROUND if rest.startswith(text)), None)
        if around is not None:
            raise _Refused(
                f"lookaround, {around}, is not supported in a regular expression: it cannot be matched in linear time"
            )
        plain = rest.startswith("(?:")
        if rest.startswith("(?") and not plain:
            raise _Refused("only (?: groups, and (?i) at the start, are supported in a regular expression")
        self._atom("(?:")
        self.at += 3 if plain else 1
        self.after_end.append(False)
        self.holds_end.append(False)

    def _close(self) -> None:
        if len(self.after_end) == 1:
            raise _Refused("a ) that closes no group must be written \\)")
        self.after_end.pop()
        if self.holds_end.pop():
            self.after_end[-1] = self.holds_end[-1] = True
        self.out.append(")")
        self.at += 1

    def _repetition(self) -> None:
        repetition = REPETITION.match(self.pattern, self.at)
        if self.pattern[self.at] == "{" and repetition is None:
            raise _Refused("a { that is no repetition must be written \\{")
        text = repetition[0] if repetition else self.pattern[self.at]
        if self.after_end[-1]:
            raise _Refused("a $ that is repeated is not supported in a regular expression")
        if not self.out or self.out[-1] in ("(?:", "|", "^") or self.out[-1] in (r"\b", r"\B"):
            raise _Refused(f"nothing stands before {text} that could be repeated")
        self.at += len(text)
        following = self.pattern[self.at : self.at + 1]
        if following == "+":
            raise _Refused(f"possessive repetition, {text}+, is not supported in a regular expression")
        if following and following in "*{":
            raise _Refused(f"{text}{following} repeats a repetition: put a group around the first")
        # Whether as much or as little as possible is taken does not matter to whether the pattern is found.
        if following == "?":
            self.at += 1
            if self.pattern[self.at : self.at + 1] in tuple("*+?{"):
                raise _Refused(f"{text}?{self.pattern[self.at]} repeats a repetition: put a group around the first")
        self.out.append(text)

    def _class(self) -> str:
        """A character class, from its opening bracket on."""
        unclosed = "a character class that is not closed, nested or of && is not supported"
        pattern, at = self.pattern, self.at + 1
        negated = pattern.startswith("^", at)
        at += negated
        first, items, pending = at, list[str](), ""
        while True:
            if at >= len(pattern):
                raise _Refused(unclosed)
            char = pattern[at]
            if char == "]" and at > first:
                break
            if char in "[]" or pattern.startswith("&&", at):
                raise _Refused(unclosed)
            if char == "\\":
                following = pattern[at + 1 : at + 2]
                at += 2
                if following in CLASSES:
                    if pattern.startswith("-", at) and not pattern.startswith("-]", at):
                        raise _Refused(f"\\{following} cannot begin or end a range of characters")
                    items.append(CLASSES[following])
                    continue
                if not following or (following not in CONTROLS and following not in PUNCTUATION):
                    raise _Refused(f"\\{following} is not supported in a character class")
                pending = CONTROLS.get(following, following)
            else:
                at += 1
                pending = char
            last = pending
            if pattern.startswith("-", at) and not pattern.startswith("-]", at) and at + 1 < len(pattern):
                at, last = self._range_end(at + 1, unclosed)
                if last < pending:
                    raise _Refused(f"the range {pending}-{last} of a character class is empty")
            items.append(self._range(pending, last))
        self.at = at + 1
        return f"[{'^' if negated else ''}{''.join(items)}]"

    def _range_end(self, at: int, unclosed: str) -> tuple[int, str]:
        char = self.pattern[at]
        if char in "[]":
            raise _Refused(unclosed)
        if char != "\\":
            return at + 1, char
        following = self.pattern[at + 1 : at + 2]
        if not following or (following not in CONTROLS and following not in PUNCTUATION):
            raise _Refused(f"\\{following} cannot begin or end a range of characters")
        return at + 2, CONTROLS.get(following, following)

    def _range(self, first: str, last: str) -> str:
        ranges = f"{_literal(first)}-{_literal(last)}" if last != first else _literal(first)
        if not self.folds:
            return ranges
        for low, high, shift in (("a", "z", -32), ("A", "Z", 32)):
            start, end = max(first, low), min(last, high)
            if start <= end:
                ranges += f"{chr(ord(start) + shift)}-{chr(ord(end) + shift)}"
        return ranges


def _literal(char: str) -> str:
    return char if char.isascii() and char.isalnum() else f"\\x{{{ord(char):x}}}"


def matches(pattern: str, values: Any) -> npt.NDArray[np.bool_]:
    """Whether a pattern that was checked before is found in each value."""
    checked = regex(pattern)
    assert isinstance(checked, Regex)
    return checked.matches(values)
