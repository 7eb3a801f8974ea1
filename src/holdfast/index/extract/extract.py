"""Extraction: from a payload to its title, text, language, date and links.

    Payload       URL, headers, and content without its content coding
       │
       └─ by its type, or by its first bytes where that says nothing
            ├─ page      HTML, by turbohtml: title, lines of text, links with their anchor texts
            ├─ plain     any other text; XML without its tags
            └─ documents PDF, by pdfium; docx, xlsx, pptx, odt, ods, odp: XML parts of a zip file
       │
    Extracted     bounded, and never an error: an unreadable document has a `failure` that says why

Guarantees: at most `document_bytes` of a content are read, at most as many unpacked from it, and at most
`text_characters` of text returned. Libraries that loop or crash are bounded from outside: extraction runs in worker
processes. Stateless; thread-safe.

The language is the declared one. Without a declaration, a script that few languages use decides, then a detector
(resiliparse, 0.1 ms) on the beginning of the text. The detector comes last because it confuses related languages
(Portuguese with Galician), and takes tables, names and code for Latin or Romanian.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from holdfast.formats.html.charset import charset_of, decoded
from holdfast.formats.html.links.document import Document, is_page, links_of_fields, links_of_page
from holdfast.formats.html.links.html import PAGE_BYTES_MAX
from holdfast.formats.html.links.references import Hop
from holdfast.formats.html.text import parsed_page, text_with_main, title_of
from holdfast.formats.http import HTML_TYPES, decoded_beginning, media_type
from holdfast.formats.record import Headers

if TYPE_CHECKING:
    from turbohtml import Document as Tree
    from turbohtml import Element

    from holdfast.records.stored_record import StoredRecord

TITLE_CHARACTERS_MAX = 1000
UNKNOWN_LANGUAGE = "-"


class LinkKind:
    """What a link is for."""

    LINK: Final = "link"  # a person may follow it
    RELATION: Final = "relation"  # stated by a <link>, a <meta> or a header field
    EMBED: Final = "embed"  # a browser loads it by itself
    REDIRECT: Final = "redirect"
    FORM: Final = "form"


class Failure:
    """Why a document has no text, or not all of it."""

    TOO_LARGE: Final = "too large"  # beyond `document_bytes`, and useless in part
    ENCRYPTED: Final = "encrypted"
    DAMAGED: Final = "damaged"  # not what its type says
    CRASHED: Final = "crashed"  # the worker died
    TIMEOUT: Final = "timeout"
    MEMORY: Final = "memory"
    CONTENT: Final = "no content"  # the payload is lost, or a revisit's original is not in the archive


@dataclass(frozen=True, slots=True)
class ExtractionLimits:
    """How much of a document is read."""

    document_bytes: int = 32 << 20
    text_characters: int = 4 << 20  # later text is not indexed


class Payload(NamedTuple):
    """A capture to extract from. `content` is without its content coding."""

    url: str
    content: bytes
    content_type: str  # with its parameters; '' if unknown
    headers: Headers
    status: int


class OutLink(NamedTuple):
    """A canonical http or https URL without fragment, its kind, and its anchor text."""

    url: str
    kind: str
    anchor: str


class OutLinks(NamedTuple):
    """Links as columns: pages have many, and the index takes columns."""

    urls: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()


class Extracted(NamedTuple):
    """What was extracted. Missing texts are ''."""

    title: str = ""
    text: str = ""
    language: str = UNKNOWN_LANGUAGE  # ISO 639-1
    date: str = ""  # stated by the document; 14 digits
    out: OutLinks = OutLinks()
    failure: str = ""
    main: tuple[int, int] | None = None  # begin and end of the main text in `text`; None: all of it

    @property
    def links(self) -> tuple[OutLink, ...]:
        return tuple(map(OutLink, *self.out))

    @property
    def main_text(self) -> str:
        return self.text if self.main is None else self.text[self.main[0] : self.main[1]]

    @property
    def rest(self) -> list[str]:
        """The text before and after the main text, if any."""
        return (
            []
            if self.main is None
            else [part for part in (self.text[: self.main[0]], self.text[self.main[1] :]) if part]
        )

    def pack(self) -> bytes:
        """As plain values, for another process."""
        return marshal.dumps((*self[:4], tuple(self.out), self.failure, self.main))

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        title, text, language, date, out, failure, main = marshal.loads(packed)
        return cls(title, text, language, date, OutLinks(*out), failure, main)


Reader = Callable[[Payload, ExtractionLimits], Extracted]
_PDF_KINDS = frozenset(("application/pdf", "application/x-pdf"))
_OFFICE_BEGINNINGS = ("application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.")
_ZIP = b"PK\x03\x04"
_XML_KINDS = frozenset(("text/xml", "application/xml"))
_UNKNOWN_KINDS = frozenset(("", "-", "unknown/unknown", "application/unknown", "application/octet-stream", "*/*"))
_CODE_KINDS = frozenset(("text/css", "text/javascript", "text/ecmascript"))  # not for readers
_PARAGRAPHS = frozenset(("title", "description", "summary", "content", "p", "item", "entry", "name", "link"))
_LINK_KINDS = {
    Hop.LINK: LinkKind.LINK,
    Hop.RELATION: LinkKind.RELATION,
    Hop.EMBED: LinkKind.EMBED,
    Hop.REDIRECT: LinkKind.REDIRECT,
    Hop.FORM: LinkKind.FORM,
}  # without what a script may load, which is a guess
_DATE_NAMES = frozenset(
    [
        "article:modified_time",
        "article:published_time",
        "date",
        "dc.date",
        "dc.date.modified",
        "dcterms.date",
        "dcterms.modified",
        "datemodified",
        "datepublished",
        "last-modified",
    ]
)


def extract(payload: Payload, limits: ExtractionLimits) -> Extracted:
    """Extracts a payload. Raises nothing but MemoryError, whatever the bytes."""
    reader = _reader_of(payload)
    if reader is None:
        return Extracted(out=_links_of_fields(payload))
    if len(payload.content) > limits.document_bytes:
        if reader in (_read_pdf, _read_office):  # their directories are at the end
            return Extracted(out=_links_of_fields(payload), failure=Failure.TOO_LARGE)
        payload = payload._replace(content=payload.content[: limits.document_bytes])
    found = reader(payload, limits)
    if reader is not _read_page:
        found = found._replace(out=_links_of_fields(payload))
    return found


def read_payload(record: StoredRecord, url: str, bytes_max: int) -> tuple[Payload, int]:
    """The payload of a record, without content coding and cut after `bytes_max` + 1 bytes, and the bytes read.

    Types without text are not read. Raises what reading the archive may.
    """
    head = record.http_head
    headers = head.headers if head is not None else Headers([])
    status = head.status if head is not None else 0
    content_type = (headers.get("Content-Type") if head is not None else record.entry.mime) or ""
    parts, size = [], 0
    for part in record.stream() if may_have_text(content_type) else ():
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            break
    content = decoded_beginning(b"".join(parts), headers, bytes_max + 1)
    return Payload(url, content, content_type, headers, status), size


def extract_page(payload: Payload, limits: ExtractionLimits) -> tuple[Extracted | None, dict[str, str] | None]:
    """As `extract`, for a crawl, which parses a page once for its links and for the index.

    Also returns the links of a page, the hop of each URL; None if it is not a page. The first value is None for
    documents that the index workers extract, with their own limits: PDF, office files, very large pages.
    """
    if not may_have_text(payload.content_type):
        payload = payload._replace(content=b"")
    reader = _reader_of(payload)
    if reader in (_read_pdf, _read_office) or len(payload.content) > min(PAGE_BYTES_MAX, limits.document_bytes):
        return None, None
    return _parsed(payload, limits) if reader is _read_page else (extract(payload, limits), None)


def may_have_text(content_type: str) -> bool:
    """True if contents of this type may have text."""
    kind = media_type(content_type)
    if kind in _UNKNOWN_KINDS or kind in _PDF_KINDS or kind in HTML_TYPES or kind.startswith(_OFFICE_BEGINNINGS):
        return True
    if kind.startswith(("image/", "video/", "audio/", "font/")):
        return False
    return kind in _XML_KINDS or kind.endswith("+xml") or (kind.startswith("text/") and kind not in _CODE_KINDS)


def _reader_of(payload: Payload) -> Reader | None:
    """The reader for a type, or by the first bytes if the type is unknown; None without text."""
    kind, content = media_type(payload.content_type), payload.content
    if not content:
        return None
    if kind in HTML_TYPES:
        return _read_page
    if kind in _PDF_KINDS or (kind in _UNKNOWN_KINDS and content.startswith(b"%PDF-")):
        return _read_pdf
    if kind.startswith(_OFFICE_BEGINNINGS) or (kind in _UNKNOWN_KINDS and content.startswith(_ZIP)):
        return _read_office
    if is_page("" if kind in _UNKNOWN_KINDS else kind, content) and not kind.startswith("image/"):
        return _read_page
    if kind in _XML_KINDS or (kind.endswith("+xml") and not kind.startswith("image/")):
        return _read_markup
    return _read_plain if kind.startswith("text/") and kind not in _CODE_KINDS else None


def _links_of_fields(payload: Payload) -> OutLinks:
    """The links in the header of a response: a redirect, above all."""
    document = Document(payload.url, b"", "", payload.headers, payload.status)
    return _kept(links_of_fields(document), {})


# -- pages ---------------------------------------------------------------------------------------------------------


def _read_page(payload: Payload, limits: ExtractionLimits) -> Extracted:
    return _parsed(payload, limits)[0]


def _parsed(payload: Payload, limits: ExtractionLimits) -> tuple[Extracted, dict[str, str]]:
    """A page, and its links: the hop of each URL. The text comes last: extracting it changes the tree."""
    tree = parsed_page(payload.content, charset_of(payload.content_type))
    document = Document(payload.url, payload.content, payload.content_type, payload.headers, payload.status)
    links, anchors = links_of_page(document, tree)
    out = _kept(links, anchors)
    title = title_of(tree)[:TITLE_CHARACTERS_MAX]
    facts = [*tree.iter_elements("meta")]
    date = _page_date(facts)
    declared = _page_language(tree, facts, payload)
    text, start, end = text_with_main(tree)
    most = limits.text_characters
    main = (min(start, most), min(end, most)) if (start, end) != (0, len(text)) else None
    text = text[:most]
    return Extracted(title, text, language_of(text, declared), date, out, main=main), links


def _kept(links: Mapping[str, str], anchors: Mapping[str, str]) -> OutLinks:
    """The links of the kinds that the index has, with their anchor texts."""
    kinds, anchor = _LINK_KINDS, anchors.get
    kept = {url: kinds[hop] for url, hop in links.items() if hop in kinds}
    return OutLinks(tuple(kept), tuple(kept.values()), tuple([anchor(url, "") for url in kept]))


def _page_language(tree: Tree, facts: list[Element], payload: Payload) -> str:
    """The language declared on <html> or <body>, in a <meta>, or in the header of the response."""
    for name in ("html", "body"):
        element = tree.find(name)
        own = (element.attr("lang") or element.attr("xml:lang") or "") if element is not None else ""
        if (code := declared_language(own)) != UNKNOWN_LANGUAGE:
            return code
    for element in facts:
        if (element.attr("http-equiv") or "").strip().lower() == "content-language":
            return declared_language(element.attr("content") or "")
    return _header_language(payload)


def _page_date(facts: list[Element]) -> str:
    """The newest date in a <meta>."""
    found = ""
    for element in facts:
        name = element.attr("property") or element.attr("name") or element.attr("itemprop") or ""
        if name.strip().lower() in _DATE_NAMES:
            found = max(found, document_date(element.attr("content") or ""))
    return found


# -- other kinds ---------------------------------------------------------------------------------------------------


def _read_plain(payload: Payload, limits: ExtractionLimits) -> Extracted:
    content = payload.content[: limits.text_characters]
    text = decoded(content, charset_of(payload.content_type)).text
    return Extracted(text=text, language=language_of(text, _header_language(payload)))


def _read_markup(payload: Payload, limits: ExtractionLimits) -> Extracted:
    """Feeds and other XML: the text without tags."""
    from holdfast.index.extract.documents import MarkupText

    found = MarkupText(limits.text_characters, _PARAGRAPHS).keep("title", "language")
    is_sound = found.read([payload.content])
    title = " ".join(found.named.get("title", "").split())[:TITLE_CHARACTERS_MAX]
    failure = "" if is_sound or found.text else Failure.DAMAGED
    declared = declared_language(found.named.get("language", ""))  # of RSS
    language = language_of(found.text, declared if declared != UNKNOWN_LANGUAGE else _header_language(payload))
    return Extracted(title, found.text, language, failure=failure)


def _read_pdf(payload: Payload, limits: ExtractionLimits) -> Extracted:
    from holdfast.index.extract.documents import read_pdf

    return read_pdf(payload.content, limits)


def _read_office(payload: Payload, limits: ExtractionLimits) -> Extracted:
    from holdfast.index.extract.documents import read_office

    return read_office(payload.content, limits)


# -- languages -----------------------------------------------------------------------------------------------------

_DETECTED_CHARACTERS_MAX = 2000  # more would change the result for one page in fifty
_LETTERS_MIN = 24
_RANK_MAX = 1000  # ranks grow with doubt
_CODE = re.compile(r"\s*([a-z]{2})(?:[-_].*)?\s*", re.IGNORECASE | re.DOTALL)
_NO_LETTERS = re.compile(r"[\W\d_]+")
_ENOUGH_LETTERS = re.compile(rf"(?:[\W\d_]*+[^\W\d_]){{{_LETTERS_MIN}}}")
_SCRIPTS = (  # the first with a tenth of the letters decides
    ("ja", re.compile("[\u3041-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7a3]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("th", re.compile("[\u0e01-\u0e4e]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u05d0-\u05ea]")),
    ("ka", re.compile("[\u10d0-\u10ff]")),
    ("hy", re.compile("[\u0531-\u0587]")),
)
_SCRIPT_SHARE_MIN = 0.1
_ANY_SCRIPT = re.compile(
    "[\u0370-\u03ff\u0531-\u0587\u05d0-\u05ea\u0e01-\u0e4e\u10d0-\u10ff\u3041-\u30ff\u4e00-\u9fff\uac00-\ud7a3]"
)


def declared_language(text: str) -> str:
    """The code in a `lang` attribute or a header field (`de-AT`); '-' unless it has two letters."""
    match = _CODE.fullmatch(text.partition(",")[0])
    return match[1].lower() if match else UNKNOWN_LANGUAGE


def language_of(text: str, declared: str = UNKNOWN_LANGUAGE) -> str:
    """The declared language, else the detected one."""
    if declared != UNKNOWN_LANGUAGE:
        return declared
    sample = text[:_DETECTED_CHARACTERS_MAX]
    if _ENOUGH_LETTERS.match(sample) is None:
        return UNKNOWN_LANGUAGE
    if not sample.isascii() and _ANY_SCRIPT.search(sample):
        letters = len(_NO_LETTERS.sub("", sample))
        for code, script in _SCRIPTS:
            if len(script.findall(sample)) >= letters * _SCRIPT_SHARE_MIN:
                return code
    from resiliparse.parse.lang import detect_fast

    found, rank = detect_fast(sample)
    return str(found)[:2] if found != "unknown" and rank <= _RANK_MAX else UNKNOWN_LANGUAGE


def _header_language(payload: Payload) -> str:
    return declared_language(payload.headers.get("Content-Language") or "")


# -- dates ---------------------------------------------------------------------------------------------------------

# 2003-04-15, 2003-04-15T08:13:06Z, 20030415081306, D:20030415081306+02'00'; missing parts are the earliest.
_DATE = re.compile(
    r"\s*(?:D:)?((?:19|20)\d\d)-?(0[1-9]|1[0-2])(?:-?(0[1-9]|[12]\d|3[01]))?"
    r"(?:[T ]?([01]\d|2[0-3]):?([0-5]\d)(?::?([0-5]\d))?)?(?!\d)",
    re.ASCII,
)
_DATE_DEFAULTS = ("", "", "01", "00", "00", "00")


def document_date(text: str) -> str:
    """The date at the start of a text as 14 digits, in the forms of HTML, PDF and office files; '' if there is none.

    Time zones are ignored: people search by day.
    """
    match = _DATE.match(text)
    if match is None:
        return ""
    return "".join(part or default for part, default in zip(match.groups(), _DATE_DEFAULTS, strict=True))
