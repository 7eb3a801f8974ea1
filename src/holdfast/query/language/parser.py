"""Parses tokens into an expression.

    query = both { OR both }
    both  = part { [AND] part }
    part  = ( NOT | - ) part | "(" query ")" | term

So `a b OR c` means `(a b) OR c`, and the canonical form says so. Lone symbols (`&`, a dash) are ignored, as
they are not indexed. An empty query matches everything.
"""

from __future__ import annotations

from holdfast.errors import MalformedQuery
from holdfast.query.language.fields import MATCHES, TITLE, number_of, status_class
from holdfast.query.language.lexer import QueryToken, TokenKind, fault, has_word, is_bare_value, is_bare_word, scan
from holdfast.query.language.syntax import (
    EVERYTHING,
    Compare,
    Everything,
    Expression,
    Match,
    Phrase,
    Prefix,
    Words,
    conjunction,
    disjunction,
    negation,
)

DEPTH_MAX = 32  # nesting of parentheses and negations
TERMS_MAX = 256
PREFIX_MIN = 2  # letters and digits
_OPERATORS = (TokenKind.AND, TokenKind.OR)
_DENIALS = (TokenKind.MINUS, TokenKind.NOT)


def parse(text: str) -> Expression:
    """The expression of a query. Raises MalformedQuery, which says what is wrong, where, and how to fix it."""
    tokens = _meaningful(list(scan(text)))
    if not tokens:
        if text.strip():
            raise MalformedQuery(f"no word in {text.strip()[:40]!r}: give at least a letter or a digit")
        return Everything()
    return _Parser(tokens).parse()


def _meaningful(tokens: list[QueryToken]) -> list[QueryToken]:
    """Drops words without a letter or digit, and their negations."""
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
        """`before` is the operator or parenthesis that requires a part here."""
        token = self._peek()
        if token is None or token.kind in (TokenKind.CLOSE, *_OPERATORS):
            raise self._missing(token, before)
        if depth > DEPTH_MAX:
            raise fault(f"more than {DEPTH_MAX} parentheses or negations in each other", token.at)
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
    return _text("", token, is_quoted=token.kind is TokenKind.QUOTED)


def _field(token: QueryToken) -> Expression:
    name, text = token.field, token.text.strip()
    if name == TITLE:
        return _text(TITLE, token, is_quoted=token.is_quoted)
    if name in MATCHES:
        return Match(name, MATCHES[name](text))
    if name == "status" and token.sign == ":" and (bounds := status_class(text)) is not None:
        return conjunction([Compare(name, ">=", bounds[0]), Compare(name, "<=", bounds[1])])
    return Compare(name, "=" if token.sign == ":" else token.sign, number_of(name, text))


def _text(field: str, token: QueryToken, *, is_quoted: bool) -> Expression:
    text = " ".join(token.text.split())
    if not has_word(text):
        raise fault(f"no word in {text[:40]!r}", token.at, "give at least a letter or a digit")
    beginning = text.rstrip("*")
    bare = text if beginning == text else f"{beginning}*"
    if is_quoted or not (is_bare_value(bare) if field else is_bare_word(bare)):
        return Phrase(field, text)
    if beginning == text:
        return Words(field, text)
    if not beginning[-1].isalnum() or sum(map(str.isalnum, beginning)) < PREFIX_MIN:
        raise fault(
            f"prefix {text[:40]!r} is too short", token.at, f"give at least {PREFIX_MIN} letters before the star"
        )
    return Prefix(field, beginning)
