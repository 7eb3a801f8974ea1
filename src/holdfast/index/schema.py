"""The fields of an indexed document, and how text becomes words.

    field         kind                what it holds
    record        number, fast        batch number and serial of the capture's record
    page          number, fast        page number of its URL key
    page_id       number, fast        WebBase's page id of its URL
    partition     number, fast        0 to 1023, by registered domain: the part of a cluster that owns the page
    title         words               title of the page or document
    main          words               its main text
    rest          words               navigation, banners, side bars and footers
    title_en ...  stems               stems of the title, in a field for each language of `STEMMERS`
    text_en ...   stems               stems of main text and rest, likewise
    host          keyword, fast       host as URL keys have it: lower case, without www
    suffix        keywords            the host and all domains above it: a.example.com, example.com, com
    mime          keyword, fast       type of the payload: text/html
    type          keywords            its first half, and a short name: text, html
    status        number, fast        of the HTTP response; 0 if there is none
    lang          keyword, fast       ISO 639-1 code; - if unknown
    date          number, fast        when it was captured, 14 digits
    month         number, fast        the first six of them
    size          number, fast        bytes of the payload
    sketch        number, fast        similarity sketch of the main text (`sketch`); 0 if it is too short
    collection    keyword, fast
    card          stored              what a list of hits shows: URL, title, type, language, collection

*Fast* fields are columns: sorted and counted by. Only the card is stored; snippets extract the text again. Links are in
tables (`tables`): forty links of a page would cost as much here as half of its words.

**Words.** Text is normalized to NFC, split at everything but letters and digits, lowercased and stripped of accents:
`L'Été 3.14` is `l ete 3 14`. Scripts without spaces between words (Han, kana, hangul, Thai, Lao, Khmer, Burmese) are
split into characters. A search text of several words is a phrase, so `3.14`, `l'été` and `漢字` match where their words
are adjacent. Words longer than `WORD_BYTES_MAX` bytes are not indexed.

**Stems.** A document in a language of `STEMMERS` also has the stems of its words, without positions, in fields of its
language: `librari` in `text_en` for *library* and *libraries*. Words are stemmed before accents are stripped.

Terms are sorted, so any prefix of a word can be searched for.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Self

from holdfast.model import SERIAL_MAX

if TYPE_CHECKING:
    import tantivy
    from tantivy import Schema, TextAnalyzer

WORDS = "words"  # the name of the tokenizer
TEXT_FIELDS = ("title", "main", "rest")
WORD_BYTES_MAX = 100
PARTITIONS = 1024
_CACHED = 4096  # hosts and types: pages of a site share them
STEMMERS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}  # tantivy's names, by ISO 639-1 code
_DIALECTS = {"nb": "no", "nn": "no"}
UNKNOWN_LANGUAGE = "-"
SEPARATOR = "\u200b"  # zero width space: parts the characters of scripts without spaces, and is not seen
SERIAL_BITS = 32
# Han with extensions and compatibility forms, kana, hangul syllables; Thai, Lao, Khmer and Burmese with their marks.
_UNSPACED = re.compile(
    "["
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u0edc-\u0edf"  # Thai, Lao
    "\u1000-\u103f\u104c-\u109f\ua9e0-\ua9ef\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17d3\u17d7\u17dc"  # Khmer
    "\u3005-\u3007\u3021-\u3029\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # signs, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7a3\uff66-\uff9f"  # hangul, kana of half width
    "]+"
)
# Of UTF-8: ASCII, continuation bytes, and those that begin characters below U+0800 and from U+2000 to U+2FFF.
_SPACED_BYTES = bytes([*range(0xE0), 0xE2])
_SHORT_NAMES = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/plain": "plain",
    "text/css": "css",
    "application/pdf": "pdf",
    "application/x-pdf": "pdf",
    "application/json": "json",
    "application/ld+json": "json",
    "application/xml": "xml",
    "text/xml": "xml",
    "application/rss+xml": "feed",
    "application/atom+xml": "feed",
    "application/msword": "office",
    "application/vnd.ms-excel": "office",
    "application/vnd.ms-powerpoint": "office",
    "application/rtf": "office",
    "application/zip": "archive",
    "application/gzip": "archive",
    "application/x-gzip": "archive",
    "application/x-tar": "archive",
    "application/x-bzip2": "archive",
    "application/x-7z-compressed": "archive",
    "application/x-rar-compressed": "archive",
}
_SHORT_BEGINNINGS = {
    "application/vnd.openxmlformats-officedocument.": "office",
    "application/vnd.oasis.opendocument.": "office",
    "application/vnd.ms-": "office",
    "application/font-": "font",
    "application/x-font-": "font",
}
_KEYS = ("record", "page", "page_id", "partition")  # numbers that documents are found by
_COLUMNS = ("status", "date", "month", "size", "sketch")  # numbers that are compared or read
_TEXTS = ("host", "mime", "lang", "collection")


@cache
def schema() -> Schema:
    """The fields as tantivy knows them."""
    from tantivy import SchemaBuilder

    builder = SchemaBuilder()
    for name in _KEYS:
        builder.add_unsigned_field(name, indexed=True, fast=True)
    for name in _COLUMNS:
        builder.add_unsigned_field(name, indexed=False, fast=True)
    for name in TEXT_FIELDS:
        builder.add_text_field(name, tokenizer_name=WORDS)
    for code in STEMMERS:
        for name in ("title", "text"):
            builder.add_text_field(stemmed_field(name, code), tokenizer_name=code, index_option="freq")
    for name in _TEXTS:
        builder.add_text_field(name, fast=True, tokenizer_name="raw", index_option="basic")
    for name in ("suffix", "type"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("card", stored=True, indexed=False, fast=False)
    return builder.build()


@cache
def analyzer(language: str = "", word_bytes_max: int = WORD_BYTES_MAX) -> TextAnalyzer:
    """The tokenizer `words`, for `separated` text; with a language, one that stems as well."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.lowercase())
    if language:
        builder = builder.filter(Filter.stemmer(STEMMERS[language]))
    return builder.filter(Filter.ascii_fold()).filter(Filter.remove_long(word_bytes_max + 1)).build()


def register_tokenizers(index: tantivy.Index) -> None:
    """Required before an index is written or snippets are made."""
    index.register_tokenizer(WORDS, analyzer())
    for code in STEMMERS:
        index.register_tokenizer(code, analyzer(code))


def separated(text: str) -> str:
    """Text as the tokenizer wants it: composed, characters of scripts without spaces parted by `SEPARATOR`."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text)
    if not text.encode("utf-8", "surrogatepass").translate(None, _SPACED_BYTES):
        return text  # a tenth of what the pattern takes, and most texts end here
    return _UNSPACED.sub(_parted, text)


def words_of(text: str) -> list[str]:
    """The words of a text, in order, as the index has them."""
    return analyzer().analyze(separated(text))


def stemmed_field(field: str, language: str) -> str:
    """The field with the stems of `title` or `text` of documents in a language; empty if it has no stemmer."""
    code = _DIALECTS.get(language, language)
    return f"{field}_{code}" if code in STEMMERS else ""


def stem_of(word: str, code: str) -> str:
    """The stem of one word in a language of `STEMMERS`; empty if it is not one word there."""
    found = analyzer(code).analyze(unicodedata.normalize("NFC", word))
    return found[0] if len(found) == 1 else ""


def _parted(match: re.Match[str]) -> str:
    return SEPARATOR + SEPARATOR.join(match[0]) + SEPARATOR


_card_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Card(NamedTuple):
    """The texts of a capture in a list of hits."""

    url: str
    title: str
    mime: str
    lang: str
    collection: str

    def pack(self) -> bytes:
        return _card_text(self).encode()

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        return cls(*json.loads(packed))


def record_number(batch_number: int, serial: int) -> int:
    """The number of a record; batches are numbered in the state of the index."""
    return batch_number << SERIAL_BITS | serial


def split_record_number(number: int) -> tuple[int, int]:
    """Batch number and serial."""
    return number >> SERIAL_BITS, number & SERIAL_MAX


def page_number(urlkey: str) -> int:
    """64 bits that name a URL key, in the index, among the links and in the ranks."""
    return int.from_bytes(blake2b(urlkey.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")


@lru_cache(_CACHED)
def partition_of(domain: str) -> int:
    """The partition of a registered domain, 0 to `PARTITIONS` - 1."""
    return page_number(domain) % PARTITIONS


def host_of(urlkey: str) -> str:
    """The host of a URL key, as people write it: `example.com`; '' where there is none."""
    place, bracket, _ = urlkey.partition(")")
    if not bracket:
        return ""
    host, _, port = place.partition(":")
    if port and not port.isdigit():  # an IPv6 address has colons of its own
        return place
    return ".".join(reversed(host.split(",")))


@lru_cache(_CACHED)
def suffixes_of(host: str) -> list[str]:
    """The host and all domains above it, the longest first; only itself if it is an address."""
    labels = host.split(".")
    if not host or ":" in host or labels[-1].isdigit():
        return [host] if host else []
    return [".".join(labels[start:]) for start in range(len(labels))]


@lru_cache(_CACHED)
def types_of(mime: str) -> list[str]:
    """The other names by which a type is searched: its first half, its short name."""
    half = mime.partition("/")[0]
    return list(dict.fromkeys((half, short_type(mime))))


def short_type(mime: str) -> str:
    """`html`, `pdf`, `image`, ...: what people call a type; its first half where they have no name for it."""
    if mime in _SHORT_NAMES:
        return _SHORT_NAMES[mime]
    for beginning, name in _SHORT_BEGINNINGS.items():
        if mime.startswith(beginning):
            return name
    if mime.endswith(("javascript", "ecmascript")):
        return "script"
    if mime.endswith("+xml") and not mime.startswith("image/"):
        return "xml"
    return "json" if mime.endswith("+json") else mime.partition("/")[0]
