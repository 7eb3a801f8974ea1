"""Snippets: a piece of each hit's text around the words of the query.

The index keeps no text, so it is extracted again from the captures shown. The cost is bounded by the bytes
read, per hit and per result. It is not bounded by time, because a busy machine would then show
less. Extraction is the same as when indexing, so a document that crashes it does not come up here
again: it has no indexed text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.index.extract.extract import ExtractionLimits, extract, read_payload
from holdfast.index.schema import SEPARATOR, UNKNOWN_LANGUAGE, schema, separated, stem_of, stemmed_field, words_of
from holdfast.model import RecordId
from holdfast.query.language.syntax import Expression, Prefix, TextTerm, Words, terms
from holdfast.query.results import Snippet
from holdfast.records.records import Records

if TYPE_CHECKING:
    import tantivy

CHARACTERS = 240
EXPANDED_MAX = 100  # words that match a prefix
BYTES_MAX = 64 << 20  # contents read per result; later hits have no snippet
LIMITS = ExtractionLimits(4 << 20, 1 << 20)


class Snippets:
    def __init__(self, searcher: tantivy.Searcher, expression: Expression, bytes_max: int = BYTES_MAX) -> None:
        wanted = [term for term, is_wanted in terms(expression) if is_wanted and isinstance(term, TextTerm)]
        self._words = {word for term in wanted for word in _words(searcher, term)}
        self._has_stems = any(isinstance(term, Words) for term in wanted)
        self._searcher = searcher
        self._left = bytes_max
        self._generators: dict[str, tantivy.SnippetGenerator] = {}  # by field

    def of(self, records: Records, wanted: Iterable[RecordId]) -> list[Snippet | None]:
        """One per record; None if it cannot be read or the byte limit is reached."""
        return [self._of(records, each) if self._left > 0 else None for each in wanted]

    def _of(self, records: Records, record: RecordId) -> Snippet | None:
        try:
            read = records.read(record)
            self._left -= min(read.entry.size, LIMITS.document_bytes)
            found = extract(read_payload(read, read.entry.url, LIMITS.document_bytes)[0], LIMITS)
        except HoldfastError:
            return None  # just removed, lost, or in a file that is not available
        return self.cut(found.text, found.language)

    def cut(self, text: str, language: str = UNKNOWN_LANGUAGE) -> Snippet:
        """The piece of the text with the most words of the query; its beginning if it has none."""
        from tantivy import Document

        if self._words:
            field = (stemmed_field("text", language) if self._has_stems else "") or "main"
            document = Document()
            document.add_text(field, separated(text))
            found = self._generator(field).snippet_from_doc(document)
            if fragment := found.fragment():
                return _tidied(fragment, [(each.start, each.end) for each in found.highlighted()])
        return _tidied(_beginning(text), [])

    def _generator(self, field: str) -> tantivy.SnippetGenerator:
        """Finds words as they are, or in a field of stems, their stems."""
        from tantivy import Occur, Query, SnippetGenerator

        if field not in self._generators:
            _, _, code = field.partition("_")
            found = sorted({stem_of(word, code) if code else word for word in self._words} - {""})
            words = [(Occur.Should, Query.term_query(schema(), field, word)) for word in found]
            generator = SnippetGenerator.create(self._searcher, Query.boolean_query(words), schema(), field)
            generator.set_max_num_chars(CHARACTERS)
            self._generators[field] = generator
        return self._generators[field]


def _words(searcher: tantivy.Searcher, term: TextTerm) -> list[str]:
    """The words of a term; those that begin so, if it is a prefix."""
    words = words_of(term.text)
    if isinstance(term, Prefix) and words:
        words += [word for word, _ in searcher.terms_with_prefix("main", words.pop(), limit=EXPANDED_MAX)]
    return words


def _beginning(text: str) -> str:
    """Cut at a word boundary, unless a word is longer than the piece."""
    if len(text) <= CHARACTERS:
        return text
    cut = text[:CHARACTERS]
    return cut.rpartition(" ")[0] or cut


def _tidied(fragment: str, marks: Sequence[tuple[int, int]]) -> Snippet:
    """On one line, without separators; byte marks converted to characters."""
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
    """Merges adjacent marks, as between characters that are words of their own."""
    joined: list[tuple[int, int]] = []
    for first, last in marks:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined
