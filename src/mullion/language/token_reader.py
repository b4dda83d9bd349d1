"""A position in the tokens of a text, and the ways to step over them or say what was expected instead."""

from __future__ import annotations

from collections.abc import Callable

from mullion.errors import ParseError, Place, closest
from mullion.language.dialect import RESERVED
from mullion.language.query import Query
from mullion.language.tokens import Kind, Token, tokenize

MAX_NESTING = 40
"""Brackets, sub-queries, CASEs and signs inside each other: deep enough for people, shallow enough for the stack."""


class TokenReader:
    """`select` parses a whole query; it is given from outside because expressions hold queries and queries
    expressions."""

    def __init__(self, text: str, select: Callable[[TokenReader], Query]) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.select = select
        self.at = 0
        word, symbol = Kind.WORD, Kind.SYMBOL
        self._words = [text.lower() if kind is word else "" for kind, text, _, _ in self.tokens]
        self._symbols = [text if kind is symbol else "" for kind, text, _, _ in self.tokens]
        self.depth = 0
        self._guessed: tuple[int, tuple[str, ...]] | None = None

    # Looking

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def ahead(self, n: int = 1) -> Token:
        return self.tokens[min(self.at + n, len(self.tokens) - 1)]

    @property
    def ended(self) -> bool:
        return self.token.kind is Kind.END

    def word(self, n: int = 0) -> str:
        """The n-th word from here in lower case, or '' when another token stands there."""
        at = self.at + n
        return self._words[at] if at < len(self._words) else ""

    def symbol(self, n: int = 0) -> str:
        """The n-th symbol from here, or '' when another token stands there."""
        at = self.at + n
        return self._symbols[at] if at < len(self._symbols) else ""

    def is_symbol(self, symbol: str, n: int = 0) -> bool:
        return self.symbol(n) == symbol

    def is_words(self, *words: str) -> bool:
        at = self.at
        return self._words[at] == words[0] and tuple(self._words[at : at + len(words)]) == words

    # Stepping

    def step(self) -> Token:
        token = self.token
        if token.kind is not Kind.END:
            self.at += 1
        return token

    def accept(self, *words: str) -> bool:
        """Steps over the words when all of them stand here."""
        if self._words[self.at] != words[0] or not self.is_words(*words):
            return False
        self.at += len(words)
        return True

    def accept_symbol(self, symbol: str) -> bool:
        if self._symbols[self.at] != symbol:
            return False
        self.at += 1
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.expected(" ".join(words).upper(), word)

    def expect_symbol(self, symbol: str, *instead: str) -> None:
        """`instead` lists words that could also stand here, for the message."""
        if not self.accept_symbol(symbol):
            raise self.expected(" or ".join([f"'{symbol}'", *(w.upper() for w in instead)]), *instead)

    def name(self, what: str) -> str:
        """A word that is not reserved, or a backquoted name."""
        token = self.token
        if token.kind is Kind.QUOTED or (token.kind is Kind.WORD and self.can_name()):
            return self.step().text
        if token.kind is Kind.WORD and token.text.lower() in RESERVED:
            message = f"expected {what}, found the keyword {token.text.upper()}"
            raise ParseError(message, self.place(self.at), hint=f"as a name, write `{token.text}`")
        raise self.expected(what)

    def can_name(self) -> bool:
        """Whether a name stands here."""
        word = self.word()
        if word:
            return word not in RESERVED and not word[0].isdigit()
        return self.token.kind is Kind.QUOTED

    def string(self, what: str) -> str:
        if self.token.kind is not Kind.STRING:
            raise self.expected(what)
        return self.step().text

    def integer(self, what: str, most: int = 2**63 - 1) -> int:
        """A positive whole number."""
        token = self.token
        if token.kind is not Kind.NUMBER or not token.text.isdecimal() or not token.text.strip("0"):
            raise self.expected(what)
        if len(token.text) > 20 or int(token.text) > most:
            raise ParseError(f"the number is too large: at most {most:,} here", self.place(self.at))
        return int(self.step().text)

    # Places and errors

    def place(self, start: int, end: int | None = None) -> Place:
        """The place of the tokens from index `start` up to, not including, index `end`; one token without `end`."""
        last = start if end is None else max(start, end - 1)
        return Place(self.text, self.tokens[start].start, self.tokens[last].end)

    def since(self, start: int) -> Place:
        """The place of what was stepped over since index `start`."""
        last = self.at - 1 if self.at > start else start
        return Place(self.text, self.tokens[start].start, self.tokens[last].end)

    def guess(self, *words: str) -> None:
        """Remembers that the word just stepped over was taken for a name although one of the words may have been
        meant: FROM trades WERE ..."""
        self._guessed = (self.at, words)

    def expected(self, what: str, *words: str) -> ParseError:
        """The error for the token here. `words` are the keywords that could stand here."""
        if self._guessed and self._guessed[0] == self.at and self.tokens[self.at - 1].kind is Kind.WORD:
            hint = closest(self.tokens[self.at - 1].text, [w.upper() for w in self._guessed[1]])
            if hint:
                return ParseError(f"unexpected '{self.tokens[self.at - 1].text}'", self.place(self.at - 1), hint=hint)
        word = self.word()
        hint = closest(self.token.text, [w.upper() for w in words if w != word]) if words and word else None
        return ParseError(f"expected {what}, found {_shown(self.token, self.text)}", self.place(self.at), hint=hint)

    def recover(self) -> None:
        """After a mistake: on to the next semicolon."""
        self._guessed = None
        while not self.ended and not self.is_symbol(";"):
            self.at += 1

    def finish(self, *words: str) -> None:
        """Refuses what follows."""
        if not self.ended:
            raise self.expected("the end of the text", *words)

    def nested(self) -> _Nesting:
        """Guards the stack around whatever may hold itself."""
        return _Nesting(self)


def _shown(token: Token, text: str) -> str:
    """A token as messages name it."""
    raw = text[token.start : token.end]
    shown = raw if len(raw) <= 40 else raw[:37] + "..."
    match token.kind:
        case Kind.END:
            return "the end of the text"
        case Kind.STRING:
            return f"the string {shown}"
        case Kind.NUMBER:
            return f"the number {shown}"
        case _:
            return f"'{shown}'" if "'" not in shown else shown


class _Nesting:
    """Counts how deep the parser is inside brackets and the like. The reader does not hold it: both, and all tokens,
    would stay until cycles are sought."""

    def __init__(self, reader: TokenReader) -> None:
        self.reader = reader

    def __enter__(self) -> None:
        if self.reader.depth >= MAX_NESTING:
            place = self.reader.place(self.reader.at)
            raise ParseError(f"nested more than {MAX_NESTING} deep", place, hint="write it flatter")
        self.reader.depth += 1

    def __exit__(self, *_: object) -> None:
        self.reader.depth -= 1
