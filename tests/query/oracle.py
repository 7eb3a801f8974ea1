"""Queries answered the slow way: every record is read, its text extracted, and the query tried on it, term by term.

Nothing of the index is used but the way text is cut into words, and the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

from holdfast import Archive, CaptureQuery, RecordId
from holdfast.formats.http import decoded_content
from holdfast.formats.record import Headers
from holdfast.index.extract.extract import ExtractionLimits, Payload, extract
from holdfast.index.schema import STEMMERS, WORD_BYTES_MAX, analyzer, page_number, separated, short_type
from holdfast.query.language.syntax import And, Compare, Everything, Expression, Match, Not, Or, Prefix, TextTerm, Words
from holdfast.urls import page_id, url_key

_KINDS = ("response", "resource", "revisit", "conversion")


@dataclass(frozen=True, slots=True)
class Document:
    """A capture as a scan finds it."""

    record: RecordId
    url: str
    urlkey: str
    timestamp: str
    title: str  # as `tokens` gives it
    text: tuple[str, ...]  # main text, and what stands before and after it, likewise
    title_stems: frozenset[str]
    text_stems: frozenset[str]
    host: str
    mime: str
    status: int
    lang: str
    size: int
    collection: str
    links: frozenset[str]  # URL keys
    raw_title: str
    raw_text: str
    rank: float = 0.0
    inlinks: int = 0


@cache
def _analyzer() -> TextAnalyzer:
    return TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.lowercase()).filter(Filter.ascii_fold()).build()


def tokens(text: str) -> str:
    """The words of a text in their places, each between two spaces; a star for one that is too long to be indexed."""
    words = _analyzer().analyze(separated(text))
    kept = [word if len(word.encode()) <= WORD_BYTES_MAX else "*" for word in words]
    return f" {' '.join(kept)} "


def stems(text: str, language: str) -> frozenset[str]:
    """The stems of a text in its language; none if that has no stemmer."""
    return frozenset(analyzer(language).analyze(separated(text)) if language in STEMMERS else ())


def scan(archive: Archive) -> list[Document]:
    """Every document of the archive."""
    import numpy as np

    ranks = archive.index.ranks()
    assert ranks is not None
    found = []
    for row in archive.search(CaptureQuery(url="*")):
        capture = row.capture
        if capture.type not in _KINDS:
            continue
        record = archive.records.read(capture.record)
        head = record.http_head
        headers = head.headers if head is not None else Headers([])
        content = decoded_content(record.payload(), headers)
        payload = Payload(capture.url, content, headers.get("Content-Type") or "", headers, int(capture.status))
        seen = extract(payload, ExtractionLimits())
        ranked = ranks.of(np.array([page_number(capture.urlkey)], np.uint64))
        host = capture.urlkey.partition(")")[0].partition(":")[0]
        found.append(
            Document(
                record=capture.record,
                url=capture.url,
                urlkey=capture.urlkey,
                timestamp=capture.timestamp,
                title=tokens(seen.title),
                text=tuple(map(tokens, (seen.main_text, *seen.rest))),
                title_stems=stems(seen.title, seen.language),
                text_stems=stems(seen.text, seen.language),
                host=".".join(reversed(host.split(","))),
                mime=capture.mime.lower(),
                status=int(capture.status),
                lang=seen.language,
                size=capture.size,
                collection=capture.collection,
                links=frozenset(url_key(link.url) for link in seen.links),
                raw_title=seen.title,
                raw_text=seen.text,
                rank=float(ranked.rank[0]),
                inlinks=int(ranked.inlinks[0]),
            )
        )
    return found


class Scan:
    """Looks through all documents, one after the other."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._linked: dict[str, set[str]] = {}
        for each in documents:
            self._linked.setdefault(each.urlkey, set()).update(each.links)

    def matching(self, expression: Expression) -> set[RecordId]:
        """The records of the documents that the query fits."""
        return {document.record for document in self._documents if self.fits(expression, document)}

    def fits(self, expression: Expression, document: Document) -> bool:
        if isinstance(expression, And):
            return all(self.fits(part, document) for part in expression.parts)
        if isinstance(expression, Or):
            return any(self.fits(part, document) for part in expression.parts)
        if isinstance(expression, Not):
            return not self.fits(expression.part, document)
        if isinstance(expression, Everything):
            return True
        if isinstance(expression, TextTerm):
            return _has_words(expression, document)
        if isinstance(expression, Match):
            if expression.field == "linked-from":
                return document.urlkey in self._linked.get(url_key(expression.value), ())
            return _matches(expression, document)
        return _compares(expression, document)


def _has_words(asked: TextTerm, document: Document) -> bool:
    wanted = _tokens_of_query(asked.text)
    if not wanted.strip() or "*" in wanted:
        return False
    texts = (document.title,) if asked.field else (document.title, *document.text)
    if isinstance(asked, Prefix):
        return any(wanted.removesuffix(" ") in text for text in texts)
    return any(wanted in text for text in texts) or (isinstance(asked, Words) and _has_stem(asked, document))


def _has_stem(asked: Words, document: Document) -> bool:
    if len(_tokens_of_query(asked.text).split()) > 1:
        return False
    found = document.title_stems if asked.field else document.title_stems | document.text_stems
    return stems(asked.text, document.lang) <= found if document.lang in STEMMERS else False


_tokens_of_query = cache(tokens)


def _matches(asked: Match, document: Document) -> bool:
    value = asked.value
    match asked.field:
        case "site":
            return document.host == value
        case "domain":
            return document.host == value or (document.host.endswith(f".{value}") and not value.isdigit())
        case "type":
            return value in (document.mime, document.mime.partition("/")[0], short_type(document.mime))
        case "lang":
            return document.lang == value
        case "from":
            return document.timestamp >= value.ljust(14, "0")
        case "to":
            return document.timestamp <= value.ljust(14, "9")
        case "url":
            return document.urlkey == url_key(value)
        case "page-id":
            return page_id(document.url) == int(value, 16)
        case "links-to":
            return url_key(value) in document.links
        case "collection":
            return document.collection == value
        case "batch":
            return document.record.batch == value
    raise AssertionError(asked.field)


def _compares(asked: Compare, document: Document) -> bool:
    value = {
        "status": document.status,
        "size": document.size,
        "rank": document.rank,
        "inlinks": document.inlinks,
    }[asked.field]
    return {
        "<": value < asked.number,
        "<=": value <= asked.number,
        "=": value == asked.number,
        ">=": value >= asked.number,
        ">": value > asked.number,
    }[asked.sign]
