"""Queries that are worth asking of an archive: made by chance of what its documents hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from oracle import Document

from holdfast.index.schema import suffixes_of, words_of
from holdfast.query.language.lexer import has_word, is_bare_value, is_bare_word
from holdfast.query.language.parser import PREFIX_MIN
from holdfast.query.language.syntax import (
    Compare,
    Expression,
    Match,
    Phrase,
    Prefix,
    Words,
    conjunction,
    disjunction,
    negation,
)
from holdfast.urls import page_id, page_id_text

_SIGNS = ("<", "<=", "=", ">=", ">")


class Asker:
    """Makes queries about these documents."""

    def __init__(self, documents: Sequence[Document], seed: int) -> None:
        self._documents = documents
        self._random = Random(seed)
        self._linked = sorted({key for each in documents for key in each.links}) or ["com,example)/"]
        self._terms: list[Callable[[Document], Expression]] = [
            *[self._word] * 6,
            *[self._prefix] * 2,
            *[self._phrase] * 4,
            self._title,
            lambda one: Match("site", one.host),
            lambda one: Match("domain", self._random.choice(suffixes_of(one.host))),
            lambda one: Match("type", self._random.choice((one.mime, one.mime.partition("/")[0], "html", "plain"))),
            lambda one: Match("lang", one.lang),
            lambda one: Match("from", one.timestamp[: self._random.choice((4, 6, 14))]),
            lambda one: Match("to", one.timestamp[: self._random.choice((3, 4, 6, 8))]),
            lambda one: Match("url", one.url),
            lambda one: Match("page-id", page_id_text(page_id(one.url))),
            lambda one: Match("links-to", _url(self._random.choice(self._linked))),
            lambda one: Match("links-to", _url(self._random.choice(sorted(one.links) or self._linked))),
            lambda one: Match("linked-from", one.url),
            lambda one: Match("collection", one.collection),
            lambda one: Match("batch", one.record.batch),
            lambda one: self._compare("status", one.status),
            lambda one: self._compare("size", one.size),
            lambda one: self._compare("rank", round(one.rank, 6)),
            lambda one: self._compare("inlinks", one.inlinks),
        ]

    def expression(self, depth: int = 0) -> Expression:
        """A term, or some of them put together."""
        chance = self._random.random()
        if depth >= 3 or chance < 0.35:
            return self._random.choice(self._terms)(self._random.choice(self._documents))
        if chance < 0.5:
            return negation(self.expression(depth + 1))
        parts = [self.expression(depth + 1) for _ in range(self._random.randrange(2, 4))]
        return conjunction(parts) if chance < 0.8 else disjunction(parts)

    def _word(self, one: Document) -> Expression:
        return self._piece(one, one.raw_text, 1, "")

    def _prefix(self, one: Document) -> Expression:
        """The beginning of a word of the document."""
        word = self._random.choice(words_of(one.raw_text) or ["stanford"])
        if len(word) <= PREFIX_MIN:
            return Phrase("", word)
        return Prefix(self._random.choice(("", "title")), word[: self._random.randrange(PREFIX_MIN, len(word))])

    def _phrase(self, one: Document) -> Expression:
        return self._piece(one, one.raw_text, self._random.randrange(2, 5), "")

    def _title(self, one: Document) -> Expression:
        return self._piece(one, one.raw_title, self._random.randrange(1, 3), "title")

    def _piece(self, one: Document, text: str, count: int, field: str) -> Expression:
        words = text.split()
        if len(words) < count:
            return Match("site", one.host)
        at = self._random.randrange(len(words) - count + 1)
        piece = " ".join(words[at : at + count])[:300].strip()
        if not has_word(piece):
            return Match("site", one.host)
        is_plain = is_bare_word(piece) and is_bare_value(piece) and not piece.endswith("*")
        return Words(field, piece) if is_plain and self._random.random() < 0.7 else Phrase(field, piece)

    def _compare(self, field: str, number: float) -> Expression:
        return Compare(field, self._random.choice(_SIGNS), number)


def _url(key: str) -> str:
    """A URL that has this key."""
    host, _, path = key.partition(")")
    name, _, port = host.partition(":")
    return f"http://{'.'.join(reversed(name.split(',')))}{':' + port if port else ''}{path}"
