"""Text to tokens, each with its exact place; what cannot be a token is refused here.

The lexical rules are Spark's: words of any letters, `--` and nested `/* */` comments, strings in single or double
quotes with backslash escapes, names in backquotes, numbers with suffixes. No word is a keyword here. The parser decides
that by where the word stands, so that columns may be called `range` or `rows`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mullion.errors import ParseError, Place


class Kind:
    """The kinds of tokens. They are asked for a hundred times a query, and members of an Enum are found four times more
    slowly."""

    WORD: Final = "word"
    QUOTED: Final = "quoted name"
    STRING: Final = "string"
    NUMBER: Final = "number"
    SYMBOL: Final = "symbol"
    END: Final = "end"


class Token(NamedTuple):
    """`text` is the word as written, the name without backquotes, the string's value, or the symbol."""

    kind: str
    text: str
    start: int
    end: int


_WORD, _SYMBOL, _NUMBER, _STRING, _QUOTED, _COMMENT, _OTHER = range(1, 8)
"""The groups of the expression below."""

_TOKEN = re.compile(
    r"""\s*+(?:--[^\r\n]*+\s*+)*+
    (?:
        ( [^\W0-9]\w*+ )
      | ( <=>|<=|<>|>=|==|!=|::|\|\||/(?!\*)|[-+*%=<>(),.;:|&\[\]{}^!\\~?@\#$] )
      | ( [0-9]++(?:\.[0-9]*+)?+(?:[eE][+-]?[0-9]++)?+\w*+ )
      | ( '(?:[^'\\]++|\\.|'')*+' | "(?:[^"\\]++|\\.)*+" )
      | ( `(?:[^`]++|``)*+` )
      | ( /\* )
      | ( . )
      | \Z
    )""",
    re.DOTALL | re.VERBOSE,
)
"""What may stand before a token, and the token. A number takes the letters after it along: `5L`, `5min`, `5.x`."""

_LITERAL = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[bB][dD]|[lLsSyYdDfF])?", re.ASCII)
_WORD_OF_DIGITS = re.compile(r"(?!0[xX])\w+")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\([0-3][0-7]{2})|\\(.)|''", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def tokenize(text: str) -> list[Token]:
    """All tokens of the text and one of kind END after them.

    >>> [token.text for token in tokenize("a/* and */.b >= .5 -- or so")]
    ['a', '.', 'b', '>=', '.5', '']
    """
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        at = _scan(text, at, tokens)
    end = tokens[-1].end if tokens else len(text)
    tokens.append(Token(Kind.END, "", end, end))
    return tokens


def _scan(text: str, at: int, tokens: list[Token]) -> int:
    """Adds the tokens up to the end of the text or of the next nested comment, and returns that place."""
    word, symbol = Kind.WORD, Kind.SYMBOL
    for match in _TOKEN.finditer(text, at):
        which = match.lastindex
        if which is None:
            break
        start, end = match.span(which)
        if which == _WORD:
            tokens.append(Token(word, text[start:end], start, end))
        elif which == _SYMBOL:
            tokens.append(Token(symbol, text[start:end], start, end))
        elif which == _NUMBER:
            tokens.append(_number(text, start, end, tokens))
        elif which == _STRING:
            tokens.append(Token(Kind.STRING, unescape(text[start:end]), start, end))
        elif which == _QUOTED:
            tokens.append(Token(Kind.QUOTED, _name(text, start, end), start, end))
        elif which == _COMMENT:
            return _comment_end(text, start)
        else:
            raise _mistake(text, start)
    return len(text)


def _number(text: str, start: int, end: int, tokens: list[Token]) -> Token:
    """A number, with the dot before it where it begins with one; or a word that begins with digits, such as 5min."""
    before = tokens[-1] if tokens else None
    if before and before.kind is Kind.SYMBOL and before.text == "." and before.end == start and _starts(tokens):
        start = tokens.pop().start
    raw = text[start:end]
    if _LITERAL.fullmatch(raw):
        return Token(Kind.NUMBER, raw, start, end)
    if _WORD_OF_DIGITS.fullmatch(raw):
        return Token(Kind.WORD, raw, start, end)
    raise ParseError(f"malformed number '{raw}'", Place(text, start, end))


def _name(text: str, start: int, end: int) -> str:
    name = text[start + 1 : end - 1]
    if name in ("", "*"):
        raise ParseError("a name must not be empty or '*'", Place(text, start, end))
    return name.replace("``", "`")


def _starts(tokens: list[Token]) -> bool:
    """Whether the dot at the end begins a number such as .5 rather than following a name."""
    if len(tokens) < 2:
        return True
    before, dot = tokens[-2], tokens[-1]
    return before.end < dot.start or (before.kind is Kind.SYMBOL and before.text not in (")", "]", "."))


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


def _mistake(text: str, at: int) -> ParseError:
    """The error for a character that begins no token: a quote that is not closed, or one that SQL does not have."""
    if text[at] in "'\"`":
        what = "backquoted name" if text[at] == "`" else "string"
        return ParseError(f"{what} without an end, expected a closing {text[at]}", Place(text, at, at + 1))
    return ParseError(f"unexpected character {text[at]!r}", Place(text, at, at + 1))


def unescape(raw: str) -> str:
    """The value of a quoted string, by Spark's escapes.

    >>> unescape(r"'it''s\\t50\\%'")
    "it's\\t50\\\\%"
    """
    doubled = raw[0] == "'"
    if "\\" not in raw and "''" not in raw:
        return raw[1:-1]

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
