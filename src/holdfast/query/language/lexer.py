"""Turns the text of a query into tokens with positions.

    -title:"a \\"b\\"" (size>=1M OR pdf)

    minus | field title : 'a "b"' | ( | field size >= '1M' | or | word 'pdf' | )

A value extends to the next space; a closing parenthesis ends it unless it was opened inside, as in URLs. Quotes
may hold anything; there, a backslash escapes the next character. `and`, `or` and `not` are operators in any
letter case; in quotes they are words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from holdfast.errors import MalformedQuery
from holdfast.query.language.fields import ALIASES, COMPARED, NAMES, SIGNS

CHARACTERS_MAX = 8192  # of a query; the longest URLs in use are shorter
_QUOTES = '"“”„'
_OPERATORS = ("and", "or", "not")
_SPACE = re.compile(r"\s+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"|[“„]([^“”]*)[“”]', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_WORD = re.compile(rf"[^\s(){_QUOTES}]+")
_FIELD = re.compile(rf"([A-Za-z][A-Za-z-]*)(:(?:{'|'.join(SIGNS)})?|{'|'.join(SIGNS)})")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class TokenKind(StrEnum):
    OPEN = "("
    CLOSE = ")"
    MINUS = "-"
    AND = "and"
    OR = "or"
    NOT = "not"
    WORD = "word"
    QUOTED = "quoted"
    FIELD = "field"


class QueryToken(NamedTuple):
    kind: TokenKind
    at: int  # of its first character, from 0
    text: str  # of a word, a quotation, or the value of a field; else as it stands in the query
    field: str = ""
    sign: str = ""  # of a field: ':' or one of SIGNS
    is_quoted: bool = False  # of the value of a field


def fault(what: str, at: int, repair: str = "") -> MalformedQuery:
    return MalformedQuery(f"{what} at character {at + 1}" + (f": {repair}" if repair else ""))


def is_bare_word(text: str) -> bool:
    """Whether the text needs no quotes."""
    return (
        _WORD.fullmatch(text) is not None
        and text[0] not in "-*"
        and text.lower() not in _OPERATORS
        and has_word(text)
        and _FIELD.match(text) is None
    )


def is_bare_value(text: str) -> bool:
    """Whether the text needs no quotes after a field's colon."""
    is_balanced = text.count("(") == text.count(")")  # otherwise it would swallow a closing parenthesis
    return bool(text) and is_balanced and not text.startswith(SIGNS) and _value_end(text, 0) == len(text)


def has_word(text: str) -> bool:
    """Whether it has a letter or digit: other characters are not indexed."""
    return any(map(str.isalnum, text))


def scan(text: str) -> Iterator[QueryToken]:
    """Raises MalformedQuery."""
    if len(text) > CHARACTERS_MAX:
        raise MalformedQuery(f"query of {len(text)} characters: at most {CHARACTERS_MAX} are taken")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise fault("an invalid character", error.start, "leave it out") from None
    at = 0
    while at < len(text):
        if space := _SPACE.match(text, at):
            at = space.end()
            continue
        token, at = _token(text, at)
        yield token


def _token(text: str, at: int) -> tuple[QueryToken, int]:
    """The token at this position, and where it ends."""
    sign = text[at]
    if sign in "()":
        return QueryToken(TokenKind(sign), at, sign), at + 1
    if sign in _QUOTES:
        value, end = _quotation(text, at)
        return QueryToken(TokenKind.QUOTED, at, value), end
    if sign == "-" and at + 1 < len(text) and not text[at + 1].isspace():
        return QueryToken(TokenKind.MINUS, at, sign), at + 1
    if field := _FIELD.match(text, at):
        token = _field(text, field)
        if token is not None:
            return token
    word = _WORD.match(text, at)
    assert word is not None, "any character but a space, a parenthesis or a quote begins a word"
    kind = TokenKind(word[0].lower()) if word[0].lower() in _OPERATORS else TokenKind.WORD
    return QueryToken(kind, at, word[0]), word.end()


def _field(text: str, match: re.Match[str]) -> tuple[QueryToken, int] | None:
    """None if it is not a field: `Re: ...`, `a<b`."""
    name = match[1].lower()
    name = ALIASES.get(name, name)
    sign, at, begin = match[2], match.start(), match.end()
    if name not in NAMES:
        following = text[begin : begin + 1]
        is_meant = following.isdigit() if sign != ":" else following.strip() not in ("", "(", ")")
        if not is_meant:
            return None
        raise fault(f"unknown field {match[1]!r}", at, _meant(text, at, match[1]))
    if name not in COMPARED:
        if sign[0] != ":":
            return None
        if sign != ":=":  # which means the same; other characters belong to the value
            begin = match.end(1) + 1
        sign = ":"
    is_quoted = text[begin : begin + 1] in tuple(_QUOTES)
    if is_quoted:
        value, end = _quotation(text, begin)
    else:
        end = _value_end(text, begin)
        value = text[begin:end]
    if not value.strip():
        raise fault(f"nothing behind '{text[at:begin]}'", at, "put the value right behind it, without a space")
    return QueryToken(TokenKind.FIELD, at, value, name, sign.removeprefix(":") or ":", is_quoted), end


def _meant(text: str, at: int, name: str) -> str:
    if _URL.match(text, at):
        return "to find a URL, say url:... or links-to:...; to search for it as text, put it in quotes"
    near = difflib.get_close_matches(name.lower(), [*NAMES, *ALIASES], n=1)
    repair = f"did you mean {ALIASES.get(near[0], near[0])!r}? " if near else f"known are {', '.join(NAMES)}. "
    return f"{repair}To search for it as text, put it in quotes"


def _quotation(text: str, at: int) -> tuple[str, int]:
    match = _QUOTED.match(text, at)
    if match is None:
        raise fault("quotation that does not end", at, "close it with a quote")
    return match[2] if match[1] is None else _ESCAPED.sub(r"\1", match[1]), match.end()


def _value_end(text: str, begin: int) -> int:
    opened = 0
    for at in range(begin, len(text)):
        sign = text[at]
        if sign.isspace() or sign in _QUOTES:
            return at
        if sign == "(":
            opened += 1
        elif sign == ")":
            if not opened:
                return at
            opened -= 1
    return len(text)
