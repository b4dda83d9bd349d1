"""Text to tokens, each with its exact place; what cannot be a token is refused here.

sqlglot's tokenizer says what the tokens are. Most texts hold only plain words, numbers, strings and symbols; one
regular expression finds the same tokens in these, many times faster, and leaves all others to sqlglot.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from sqlglot import TokenType
from sqlglot.errors import TokenError

from mullion.errors import ParseError, Place
from mullion.language.dialect import Mullion


class Kind(Enum):
    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


class Token(NamedTuple):
    """`text` is the word as written, the name without backquotes, the string's value, or the symbol."""

    kind: Kind
    text: str
    start: int
    end: int


_PLAIN = re.compile(
    r"""[ \t\r\n]*+(?:
        ([A-Za-z_]\w*+)(?!')
      | (\d++(?:\.\d++)?+(?:[bB][dD]|[lLsSyYdDfF])?+)(?![\w.'])
      | '([^'\\]*+)'(?!')
      | (<=>|<=|<>|>=|==|!=|::|\|\||[-+*/%=<>(),.;|&\[\]])
      | \Z
      | (.)
    )""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[bB][dD]|[lLsSyYdDfF])?", re.ASCII)
_WORD = re.compile(r"\w+")
_STRING = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`"
_LEXEME = re.compile(rf"--[^\r\n]*|{_STRING}", re.DOTALL)
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\([0-3][0-7]{2})|\\(.)|''", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def tokenize(text: str) -> list[Token]:
    """All tokens of the text and one of kind END after them."""
    tokens = plain_tokens(text)
    if tokens is None:
        tokens = any_tokens(text)
    end = tokens[-1].end if tokens else len(text)
    tokens.append(Token(Kind.END, "", end, end))
    return tokens


def plain_tokens(text: str) -> list[Token] | None:
    """The tokens of a text without comments, escapes, quoted names and rarer forms of numbers; None of another one."""
    if "--" in text or "/*" in text:
        return None
    word, number, string, symbol = Kind.WORD, Kind.NUMBER, Kind.STRING, Kind.SYMBOL
    tokens: list[Token] = []
    for match in _PLAIN.finditer(text):
        which = match.lastindex
        if which is None:
            return tokens
        start, end = match.span(which)
        if which == 1:
            tokens.append(Token(word, match[1], start, end))
        elif which == 4:
            tokens.append(Token(symbol, match[4], start, end))
        elif which == 3:
            tokens.append(Token(string, match[3], start - 1, end + 1))
        elif which == 2 and not (tokens and tokens[-1].kind is symbol and tokens[-1].text == "."):
            tokens.append(Token(number, match[2], start, end))
        else:
            return None
    return tokens


def any_tokens(text: str) -> list[Token]:
    """The tokens of any text, as sqlglot sees them."""
    try:
        found = Mullion().tokenize(text)
    except TokenError as error:
        raise _unterminated(text) from error
    tokens: list[Token] = []
    at = 0
    for token in found:
        _check_gap(text, at, token.start)
        at = token.end + 1
        _append(tokens, text, token.token_type, token.start, at)
    _check_gap(text, at, len(text))
    return tokens


def _append(tokens: list[Token], text: str, kind: TokenType, start: int, end: int) -> None:
    raw = text[start:end]
    before = tokens[-1] if tokens else None
    if kind is TokenType.STRING:
        tokens.append(Token(Kind.STRING, unescape(raw), start, end))
    elif kind is TokenType.IDENTIFIER and raw.startswith("`"):
        if raw == "``" or raw == "`*`":
            raise ParseError("a name must not be empty or '*'", Place(text, start, end))
        tokens.append(Token(Kind.QUOTED, raw[1:-1].replace("``", "`"), start, end))
    elif raw[0].isdigit():
        number = Token(Kind.NUMBER, raw, start, end)
        if before and before.kind is Kind.SYMBOL and before.text == "." and before.end == start and _starts(tokens):
            number = Token(Kind.NUMBER, "." + raw, tokens.pop().start, end)
        if not _NUMBER.fullmatch(number.text):
            if not _WORD.fullmatch(number.text):
                raise ParseError(f"malformed number '{number.text}'", Place(text, number.start, end))
            number = Token(Kind.WORD, raw, start, end)
        tokens.append(number)
    elif _WORD.fullmatch(raw):
        if before and before.kind is Kind.NUMBER and before.end == start:
            raise ParseError(f"malformed number '{before.text}{raw}'", Place(text, before.start, end))
        tokens.append(Token(Kind.WORD, raw, start, end))
    elif raw.isascii() and raw.isprintable() and kind is not TokenType.VAR and not raw[0].isalpha():
        tokens.append(Token(Kind.SYMBOL, raw, start, end))
    else:
        odd = next((i for i, c in enumerate(raw) if not _WORD.match(c)), 0)
        raise ParseError(f"unexpected character {raw[odd]!r}", Place(text, start + odd, start + odd + 1))


def _starts(tokens: list[Token]) -> bool:
    """Whether the dot at the end begins a number such as .5 rather than following a name."""
    if len(tokens) < 2:
        return True
    before, dot = tokens[-2], tokens[-1]
    return before.end < dot.start or (before.kind is Kind.SYMBOL and before.text not in (")", "]", "."))


def _check_gap(text: str, start: int, end: int) -> None:
    """Between tokens there is space and comments. An open comment would swallow the rest in silence."""
    at = start
    while at < end:
        if text.startswith("--", at):
            ends = [i for i in (text.find("\n", at, end), text.find("\r", at, end)) if i >= 0]
            at = min(ends, default=end)
        elif text.startswith("/*", at):
            at = _comment_end(text, at)
        elif text[at].isspace():
            at += 1
        else:
            raise ParseError(f"unexpected character {text[at]!r}", Place(text, at, at + 1))


def _comment_end(text: str, start: int) -> int:
    depth, at = 1, start + 2
    while depth:
        opened, closed = text.find("/*", at), text.find("*/", at)
        if closed < 0:
            raise ParseError("comment without an end, expected '*/'", Place(text, start, start + 2))
        nested = 0 <= opened < closed
        depth += 1 if nested else -1
        at = (opened if nested else closed) + 2
    return at


def _unterminated(text: str) -> ParseError:
    """The error at the first quote that is not closed."""
    at = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = _comment_end(text, at)
        elif match := _LEXEME.match(text, at):
            at = match.end()
        elif text[at] in "'\"`":
            what = "backquoted name" if text[at] == "`" else "string"
            return ParseError(f"{what} without an end, expected a closing {text[at]}", Place(text, at, at + 1))
        else:
            at += 1
    return ParseError("the text cannot be read as SQL", Place(text, 0, len(text)))


def unescape(raw: str) -> str:
    """The value of a quoted string, by Spark's escapes.

    >>> unescape(r"'it''s\\t50\\%'")
    "it's\\t50\\\\%"
    """
    doubled = raw[0] == "'"

    def value(match: re.Match[str]) -> str:
        short, long, octal, char = match.groups()
        if short or long:
            code = int(short or long, 16)
            return chr(code) if code < 0x110000 else "\ufffd"
        if octal:
            return chr(int(octal, 8))
        if char:
            return _ESCAPED.get(char, str(char))
        return "'" if doubled else "''"

    return _ESCAPE.sub(value, raw[1:-1])
