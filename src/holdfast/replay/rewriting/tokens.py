"""Where in a script the words stand that matter, and inside of which brackets.

Strings, templates, comments and regular expressions are passed over in one step each, so that what is found is code.
A text that is no script (JSON, a page, a script cut short) gives fewer tokens and never an error. Time is linear: what
has no end ends with its line, or with the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    rb"""
      (?P<quiet> "(?:[^"\\\n\r]|\\.)*+"?+  |  '(?:[^'\\\n\r]|\\.)*+'?+ )
    | (?P<comment> //[^\n\r]*+  |  /\*(?:[^*]|\*(?!/))*+(?:\*/)?+  |  <!--[^\n\r]*+ )
    | (?P<slash> / )
    | (?P<tick> ` )
    | (?P<open> [({\[] )
    | (?P<close> [)}\]] )
    | (?P<word> (?<![\w$\\\#\x80-\xff]) (?:location|top|import|export) (?![\w$\\\x80-\xff]) )
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(rb"/(?![*/])(?:[^\\/\[\n\r]|\\[^\n\r]|\[(?:[^\]\\\n\r]|\\[^\n\r])*+\])++/[a-z]*+")
_REGEX_USED = re.compile(rb"\s*+\.(?:test|exec|source|match)\b")
_TEMPLATE = re.compile(rb"(?:[^`\\$]|\\.|\$(?!\{))*+(?P<end>`|\$\{)?", re.DOTALL)
_GAP = re.compile(rb"(?:\s|//[^\n\r]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_IN_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$" + bytes(range(128, 256)))
_CLASS = re.compile(rb"(?<![\w$.])class\b[^{}();=]*+\Z")
_CASE = re.compile(rb"(?<![\w$.])(?:case\b[^{}?:]*+|default\s*+):\s*+\Z")
_BEFORE_EXPRESSION = frozenset(
    b"return typeof case in of delete void throw new else do instanceof yield await default extends".split()
)
_BEFORE_OBJECT = (_BEFORE_EXPRESSION - {b"else", b"do", b"extends"}) | {b"var", b"let", b"const"}
_BACK_BYTES = 300  # how far is looked back for the head of a class or of a case
_WORD_BYTES_MAX = 64
_PATIENCE = 8  # so many times the length of the text is read in vain for ends of regular expressions

HOLE = b"${"  # the bracket that opens an expression in a template


class Bracket(NamedTuple):
    """One that is open."""

    start: int
    sign: bytes  # one of ( [ { or the opening of a hole


class Token(NamedTuple):
    """A word that matters, or the end of a bracket."""

    start: int
    end: int
    text: bytes


class Script:
    """One text, read once from its start to its end."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.open: list[Bracket] = []  # those around the token that was given last
        self._comments: dict[int, int] = {}  # end -> start
        self._patience = _PATIENCE * len(text)

    def tokens(self) -> Iterator[Token]:
        """The words, and each closing bracket with the position of its opening one as `start`."""
        at, text, search = 0, self.text, _TOKEN.search
        while (found := search(text, at)) is not None:
            at, kind = found.end(), found.lastgroup
            if kind == "open":
                self.open.append(Bracket(found.start(), found.group()))
            elif kind == "close":
                if self.open:
                    bracket = self.open.pop()
                    yield Token(bracket.start, found.start(), b"")
                    if bracket.sign == HOLE:
                        at = self._template(at)
            elif kind == "word":
                yield Token(found.start(), at, found.group())
            elif kind == "comment":
                self._comments[at] = found.start()
            elif kind == "slash":
                at = self._slash(found.start())
            elif kind == "tick":
                at = self._template(at)

    def before(self, at: int) -> tuple[int, bytes]:
        """What stands before `at`, gaps and comments passed over: where it ends, and its last sign or whole word."""
        text = self.text
        while at and (text[at - 1] <= 32 or at in self._comments):
            at = self._comments.get(at, at - 1)
        start = at
        while start and at - start < _WORD_BYTES_MAX and text[start - 1] in _IN_WORD:
            start -= 1
        return at, text[start:at] if start < at else text[at - 1 : at] if at else b""

    def after(self, at: int) -> int:
        """The position of what stands after `at`, gaps and comments passed over."""
        found = _GAP.match(self.text, at)
        assert found is not None  # a gap may be empty
        return found.end()

    def is_object(self, brace: int) -> bool:
        """Whether the brace at this position opens an object or a pattern, and not a block or a class."""
        at, sign = self.before(brace)
        if sign == b":":
            return not _CASE.search(self.text[max(0, at - _BACK_BYTES) : at])
        if sign == b">":
            return self.text[at - 2 : at] != b"=>"
        if sign[:1] and sign[0] in _IN_WORD:
            return sign in _BEFORE_OBJECT
        return sign != b"" and sign in b"([,=?&|+-!<*%^~/"

    def is_class(self, brace: int) -> bool:
        """Whether the brace at this position opens the body of a class."""
        return bool(_CLASS.search(self.text[max(0, brace - _BACK_BYTES) : brace]))

    def _template(self, at: int) -> int:
        """Behind the text of a template: at its end, or inside of its next hole."""
        found = _TEMPLATE.match(self.text, at)
        assert found is not None  # it may be empty
        if found["end"] == HOLE:
            self.open.append(Bracket(found.end(), HOLE))
        return found.end()

    def _slash(self, at: int) -> int:
        """Behind a regular expression that begins here, or behind the sign of a division."""
        divides = self._divides(at)
        if divides or self._patience <= 0:
            return at + 1
        regex = _REGEX.match(self.text, at)
        if regex is None:
            self._patience -= max(self.text.find(b"\n", at), at) - at or len(self.text) - at
            return at + 1
        return regex.end() if divides is False or _REGEX_USED.match(self.text, regex.end()) else at + 1

    def _divides(self, at: int) -> bool | None:
        """Whether a slash here is a division; None after a condition or a block, which only its use tells."""
        end, sign = self.before(at)
        if not sign:
            return False
        if sign[0] in _IN_WORD:
            return sign not in _BEFORE_EXPRESSION or self.text[end - len(sign) - 1 : end - len(sign)] == b"."
        if sign in b")}":
            return None
        return sign in b"]\"'`" or self.text[end - 2 : end] in (b"++", b"--")
