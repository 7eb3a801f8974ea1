"""From tokens to a query.

    query = both { OR both }
    both  = part { [AND] part }
    part  = ( NOT | - ) part | "(" query ")" | term

So `a b OR c` means `(a b) OR c`, and the canonical form says so. Signs that stand alone (`&`, a dash) are left out, as
they are not indexed. An empty query fits everything.
"""

from __future__ import annotations

from holdfast.errors import MalformedQuery
from holdfast.query.fields import MATCHES, TITLE, number_of, status_class
from holdfast.query.lexer import QueryToken, TokenKind, fault, has_word, scan
from holdfast.query.syntax import (
    EVERYTHING,
    Compare,
    Everything,
    Expression,
    Match,
    Words,
    conjunction,
    disjunction,
    negation,
)

DEPTH_MAX = 32  # of parentheses and denials in each other
TERMS_MAX = 256
_OPERATORS = (TokenKind.AND, TokenKind.OR)
_DENIALS = (TokenKind.MINUS, TokenKind.NOT)


def parse(text: str) -> Expression:
    """The query that the text means. Raises MalformedQuery, which says what is wrong, where, and how to mend it."""
    tokens = _meaningful(list(scan(text)))
    if not tokens:
        if text.strip():
            raise MalformedQuery(f"no word in {text.strip()[:40]!r}: give at least a letter or a digit")
        return Everything()
    return _Parser(tokens).parse()


def _meaningful(tokens: list[QueryToken]) -> list[QueryToken]:
    """Without words that have no letter or digit, and what denies them."""
    kept: list[QueryToken] = []
    for token in tokens:
        if token.kind is not TokenKind.WORD or token.text == EVERYTHING or has_word(token.text):
            kept.append(token)
        else:
            while kept and kept[-1].kind in _DENIALS:
                kept.pop()
    return kept


class _Parser:
    def __init__(self, tokens: list[QueryToken]) -> None:
        self._tokens = tokens
        self._next = 0
        self._terms = 0

    def parse(self) -> Expression:
        found = self._either(0)
        if (token := self._peek()) is not None:
            raise fault("a parenthesis is closed that was not opened", token.at, "leave it out, or put it in quotes")
        return found

    def _peek(self) -> QueryToken | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _either(self, depth: int) -> Expression:
        parts = [self._both(depth)]
        while (token := self._peek()) is not None and token.kind is TokenKind.OR:
            self._next += 1
            parts.append(self._both(depth, token))
        return disjunction(parts)

    def _both(self, depth: int, before: QueryToken | None = None) -> Expression:
        parts = [self._part(depth, before)]
        while (token := self._peek()) is not None and token.kind not in (TokenKind.OR, TokenKind.CLOSE):
            operator = token if token.kind is TokenKind.AND else None
            self._next += operator is not None
            parts.append(self._part(depth, operator))
        return conjunction(parts)

    def _part(self, depth: int, before: QueryToken | None) -> Expression:
        """`before` is the operator or parenthesis that asks for a part here."""
        token = self._peek()
        if token is None or token.kind in (TokenKind.CLOSE, *_OPERATORS):
            raise self._missing(token, before)
        if depth > DEPTH_MAX:
            raise fault(f"more than {DEPTH_MAX} parentheses or denials in each other", token.at)
        self._next += 1
        if token.kind in _DENIALS:
            return negation(self._part(depth + 1, token))
        if token.kind is TokenKind.OPEN:
            return self._group(depth + 1, token)
        self._terms += 1
        if self._terms > TERMS_MAX:
            raise fault(f"more than {TERMS_MAX} terms", token.at)
        return _term(token)

    def _group(self, depth: int, opened: QueryToken) -> Expression:
        first = self._peek()
        if first is not None and first.kind is TokenKind.CLOSE:
            raise fault("nothing between two parentheses", opened.at, "leave them out")
        found = self._either(depth)
        if self._peek() is None:
            raise fault("a parenthesis is not closed", opened.at, "close it, or put it in quotes")
        self._next += 1
        return found

    def _missing(self, found: QueryToken | None, before: QueryToken | None) -> MalformedQuery:
        if before is not None:
            repair = "give what it connects; to search for the word, put it in quotes"
            return fault(f"nothing behind '{before.text}'", before.at, repair)
        if found is None:
            opened = self._tokens[-1]
            return fault("a parenthesis is not closed", opened.at, "close it, or put it in quotes")
        repair = "give what it connects; to search for the word, put it in quotes"
        return fault(f"nothing before '{found.text}'", found.at, repair)


def _term(token: QueryToken) -> Expression:
    if token.kind is TokenKind.FIELD:
        try:
            return _field(token)
        except MalformedQuery as error:
            raise fault(f"'{token.field}'", token.at, str(error)) from None
    if token.text == EVERYTHING and token.kind is TokenKind.WORD:
        return Everything()
    return Words("", _words(token.text, token.at))


def _field(token: QueryToken) -> Expression:
    name, text = token.field, token.text.strip()
    if name == TITLE:
        return Words(TITLE, _words(text, token.at))
    if name in MATCHES:
        return Match(name, MATCHES[name](text))
    if name == "status" and token.sign == ":" and (bounds := status_class(text)) is not None:
        return conjunction([Compare(name, ">=", bounds[0]), Compare(name, "<=", bounds[1])])
    return Compare(name, "=" if token.sign == ":" else token.sign, number_of(name, text))


def _words(text: str, at: int) -> str:
    """With single spaces between them."""
    if not has_word(text):
        raise fault(f"no word in {text[:40]!r}", at, "give at least a letter or a digit")
    return " ".join(text.split())
