"""Snippets: a piece of each hit's text around the words that were asked for.

The index keeps no text, so it is extracted again from the captures that are shown. That is bounded by the bytes that
are looked at: of one hit, and of all hits of an answer. It is not bounded by time, for then a busy machine would show
less. What was read once when it was indexed is read the same way here, so a document that crashes a reader is not met
again: it has no text to be found by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.formats.http import decoded_beginning
from holdfast.formats.record import Headers
from holdfast.index.extract import ExtractionLimits, Payload, extract
from holdfast.index.schema import SEPARATOR, schema, separated, words_of
from holdfast.model import RecordId
from holdfast.query.results import Snippet
from holdfast.query.syntax import Expression, Words, terms
from holdfast.records.records import Records
from holdfast.records.stored_record import StoredRecord

if TYPE_CHECKING:
    import tantivy

CHARACTERS = 240
BYTES_MAX = 64 << 20  # of the contents of all hits of an answer; those beyond have no snippet
LIMITS = ExtractionLimits(4 << 20, 1 << 20)


class Snippets:
    """Makes the snippets of one answer."""

    def __init__(self, searcher: tantivy.Searcher, expression: Expression, bytes_max: int = BYTES_MAX) -> None:
        import tantivy

        wanted = [term for term, is_wanted in terms(expression) if is_wanted and isinstance(term, Words)]
        words = {word for each in wanted for word in words_of(each.text)}
        should = tantivy.Occur.Should
        query = tantivy.Query.boolean_query(
            [(should, tantivy.Query.term_query(schema(), "text", word)) for word in sorted(words)]
        )
        self._new_document = tantivy.Document
        self._generator = tantivy.SnippetGenerator.create(searcher, query, schema(), "text") if words else None
        if self._generator is not None:
            self._generator.set_max_num_chars(CHARACTERS)
        self._left = bytes_max

    def of(self, records: Records, wanted: Iterable[RecordId]) -> list[Snippet | None]:
        """One for each record; None for those that cannot be read, and those behind the limit of bytes."""
        return [self._of(records, each) if self._left > 0 else None for each in wanted]

    def _of(self, records: Records, record: RecordId) -> Snippet | None:
        try:
            read = records.read(record)
            self._left -= min(read.entry.size, LIMITS.document_bytes)
            text = text_of(read)
        except HoldfastError:
            return None  # removed a moment ago, lost, or in a file that is away
        return self.cut(text)

    def cut(self, text: str) -> Snippet:
        """The piece of the text with the most of the words; its beginning if it has none of them."""
        if self._generator is not None:
            document = self._new_document()
            document.add_text("text", separated(text))
            found = self._generator.snippet_from_doc(document)
            if fragment := found.fragment():
                return _tidied(fragment, [(each.start, each.end) for each in found.highlighted()])
        return _tidied(_beginning(text), [])


def text_of(record: StoredRecord) -> str:
    """The text of a capture, or its beginning. Raises HoldfastError."""
    head = record.http_head
    headers = head.headers if head is not None else Headers([])
    status = head.status if head is not None else 0
    content_type = (headers.get("Content-Type") if head is not None else record.entry.mime) or ""
    parts, size = [], 0
    for part in record.stream():
        parts.append(part)
        size += len(part)
        if size > LIMITS.document_bytes:
            break
    content = decoded_beginning(b"".join(parts), headers, LIMITS.document_bytes + 1)
    return extract(Payload(record.entry.url, content, content_type, headers, status), LIMITS).text


def _beginning(text: str) -> str:
    """Whole words, if they are not endless."""
    if len(text) <= CHARACTERS:
        return text
    cut = text[:CHARACTERS]
    return cut.rpartition(" ")[0] or cut


def _tidied(fragment: str, marks: Sequence[tuple[int, int]]) -> Snippet:
    """In one line and without separators; marks, which come in bytes, in characters."""
    raw = fragment.encode()
    places = sorted(marks)
    parts: list[str] = []
    kept: list[tuple[int, int]] = []
    length = at = 0
    for first, last in [*places, (len(raw), len(raw))]:
        between = _line(raw[at:first].decode(), is_first=not length)
        word = raw[first:last].decode().replace(SEPARATOR, "")
        start = length + len(between)
        if word:
            kept.append((start, start + len(word)))
        parts += [between, word]
        length = start + len(word)
        at = last
    text = "".join(parts)
    return Snippet(text.rstrip(), tuple(_joined(kept, text)))


def _line(text: str, *, is_first: bool) -> str:
    """Runs of white space as one space; none at the very beginning."""
    words = text.replace(SEPARATOR, "").split()
    if not words:
        return " " if text.replace(SEPARATOR, "") and not is_first else ""
    bare = text.replace(SEPARATOR, "")
    before = " " if bare[0].isspace() and not is_first else ""
    return before + " ".join(words) + (" " if bare[-1].isspace() else "")


def _joined(marks: Sequence[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Marks that touch, as those of characters that are words of their own, are one."""
    joined: list[tuple[int, int]] = []
    for first, last in marks:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined
