"""What the index knows of a capture: the fields of a document, and how text becomes words.

    field       kind                     what it holds
    record      number, fast             batch number and serial of the capture's record
    page        number, fast             page number of its URL key
    page_id     number, fast             WebBase's page id of its URL
    title       words                    title of the page or document
    text        words                    its text, without title
    host        text as it is, fast      host as URL keys have it: lower case, without www
    suffix      texts as they are        the host and all domains above it: a.example.com, example.com, com
    mime        text as it is, fast      type of the payload: text/html
    type        texts as they are        its first half, and a short name: text, html
    status      number, fast             of the HTTP response; 0 where there is none
    lang        text as it is, fast      ISO 639-1 code; - where none is known
    date        number, fast             when it was captured, 14 digits
    month       number, fast             the first six of them
    size        number, fast             bytes of the payload
    collection  text as it is, fast
    card        stored                   what a list of hits shows: URL, title, type, language, collection

*Fast* fields can be sorted and counted by. Nothing but the card is stored: who wants the text extracts it again. Links
are in tables (`tables`): forty on a page would cost as much here as half of its words.

**Words.** Text is brought to Unicode's composed form, cut at everything that is no letter or digit, put into lower case
and stripped of accents: `L'Été 3.14` is `l ete 3 14`. Scripts that do not part words by spaces (Han, kana, hangul,
Thai, Lao, Khmer, Burmese) are cut into single characters. What is more than one word here is looked for as a phrase, so
`3.14`, `l'été` and `漢字` are found where they stand side by side. Words of more than `WORD_BYTES_MAX` bytes are left
out.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Self

from holdfast.model import SERIAL_MAX

if TYPE_CHECKING:
    from tantivy import Schema, TextAnalyzer

WORDS = "words"  # the name of the tokenizer
WORD_BYTES_MAX = 100
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
_KEYS = ("record", "page", "page_id")  # numbers that documents are found by
_RANGES = ("status", "date", "month", "size")  # numbers that are compared, which columns do
_TEXTS = ("host", "mime", "lang", "collection")


@cache
def schema() -> Schema:
    """The fields as tantivy knows them."""
    from tantivy import SchemaBuilder

    builder = SchemaBuilder()
    for name in _KEYS:
        builder.add_unsigned_field(name, indexed=True, fast=True)
    for name in _RANGES:
        builder.add_unsigned_field(name, indexed=False, fast=True)
    for name in ("title", "text"):
        builder.add_text_field(name, tokenizer_name=WORDS)
    for name in _TEXTS:
        builder.add_text_field(name, fast=True, tokenizer_name="raw", index_option="basic")
    for name in ("suffix", "type"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("card", stored=True, indexed=False, fast=False)
    return builder.build()


@cache
def analyzer() -> TextAnalyzer:
    """The tokenizer `words`, for text that went through `separated`."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.lowercase()).filter(Filter.ascii_fold())
    return builder.filter(Filter.remove_long(WORD_BYTES_MAX + 1)).build()


def separated(text: str) -> str:
    """Text as the tokenizer wants it: composed, characters of scripts without spaces parted by `SEPARATOR`."""
    if text.isascii():
        return text
    return _UNSPACED.sub(_parted, unicodedata.normalize("NFC", text))


def words_of(text: str) -> list[str]:
    """The words of a text, in order, as the index has them; several of them are looked for as a phrase."""
    return analyzer().analyze(separated(text))


def _parted(match: re.Match[str]) -> str:
    return SEPARATOR + SEPARATOR.join(match[0]) + SEPARATOR


class Card(NamedTuple):
    """What a list of hits shows of a capture, beside its numbers."""

    url: str
    title: str
    mime: str
    lang: str
    collection: str

    def pack(self) -> bytes:
        return json.dumps(self, ensure_ascii=False, separators=(",", ":")).encode()

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


def host_of(urlkey: str) -> str:
    """The host of a URL key, as people write it: `example.com`; '' where there is none."""
    place, bracket, _ = urlkey.partition(")")
    if not bracket:
        return ""
    host, _, port = place.partition(":")
    if port and not port.isdigit():  # an IPv6 address has colons of its own
        return place
    return ".".join(reversed(host.split(",")))


def suffixes_of(host: str) -> list[str]:
    """The host and all domains above it, the longest first; only itself if it is an address."""
    labels = host.split(".")
    if not host or ":" in host or labels[-1].isdigit():
        return [host] if host else []
    return [".".join(labels[start:]) for start in range(len(labels))]


def types_of(mime: str) -> list[str]:
    """What a type can be asked for by, beside itself: its first half, its short name."""
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
