"""The one way in: which reader a payload needs, and what is the same for all of them."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.formats.html.charset import charset_of, decoded
from holdfast.formats.html.links import Document, is_page, links_of_fields
from holdfast.formats.http import HTML_TYPES, media_type
from holdfast.index.extract.html import KINDS, TITLE_CHARACTERS_MAX, read_page
from holdfast.index.extract.language import UNKNOWN, declared_language, language_of
from holdfast.index.extract.office import is_office, read_office
from holdfast.index.extract.pdf import read_pdf
from holdfast.index.extract.result import Extracted, ExtractionLimits, Failure, OutLink, Payload
from holdfast.index.extract.xml import MarkupText

Reader = Callable[[Payload, ExtractionLimits], Extracted]
_PDF_KINDS = frozenset(("application/pdf", "application/x-pdf"))
_OFFICE_BEGINNINGS = ("application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.")
_XML_KINDS = frozenset(("text/xml", "application/xml"))
_UNKNOWN_KINDS = frozenset(("", "-", "unknown/unknown", "application/unknown", "application/octet-stream", "*/*"))
_CODE_KINDS = frozenset(("text/css", "text/javascript", "text/ecmascript"))  # texts that nobody reads
_PARAGRAPHS = frozenset(("title", "description", "summary", "content", "p", "item", "entry", "name", "link"))


def extract(payload: Payload, limits: ExtractionLimits) -> Extracted:
    """What can be said of a payload. Raises nothing but MemoryError, whatever the bytes."""
    reader = _reader_of(payload)
    if reader is None:
        return Extracted(links=_links_of_fields(payload))
    if len(payload.content) > limits.document_bytes:
        if reader in (read_pdf, read_office):  # they end with what is needed first
            return Extracted(links=_links_of_fields(payload), failure=Failure.TOO_LARGE)
        payload = payload._replace(content=payload.content[: limits.document_bytes])
    found = reader(payload, limits)
    if reader is not read_page:
        found = found._replace(links=_links_of_fields(payload))
    return found


def may_have_text(content_type: str) -> bool:
    """Whether contents of a type are worth reading."""
    kind = media_type(content_type)
    if kind in _UNKNOWN_KINDS or kind in _PDF_KINDS or kind in HTML_TYPES or kind.startswith(_OFFICE_BEGINNINGS):
        return True
    if kind.startswith(("image/", "video/", "audio/", "font/")):
        return False
    return kind in _XML_KINDS or kind.endswith("+xml") or (kind.startswith("text/") and kind not in _CODE_KINDS)


def _reader_of(payload: Payload) -> Reader | None:
    """The one for a type; where it says nothing, the first bytes decide."""
    kind, content = media_type(payload.content_type), payload.content
    if not content:
        return None
    if kind in HTML_TYPES:
        return read_page
    if kind in _PDF_KINDS or (kind in _UNKNOWN_KINDS and content.startswith(b"%PDF-")):
        return read_pdf
    if kind.startswith(_OFFICE_BEGINNINGS) or (kind in _UNKNOWN_KINDS and is_office(content)):
        return read_office
    if is_page("" if kind in _UNKNOWN_KINDS else kind, content) and not kind.startswith("image/"):
        return read_page
    if kind in _XML_KINDS or (kind.endswith("+xml") and not kind.startswith("image/")):
        return _read_markup
    return _read_plain if kind.startswith("text/") and kind not in _CODE_KINDS else None


def _read_plain(payload: Payload, limits: ExtractionLimits) -> Extracted:
    content = payload.content[: limits.text_characters]
    text = decoded(content, charset_of(payload.content_type)).text
    return Extracted(text=text, language=language_of(text, _declared(payload)))


def _read_markup(payload: Payload, limits: ExtractionLimits) -> Extracted:
    """Feeds and other XML: its text without the marks."""
    found = MarkupText(limits.text_characters, _PARAGRAPHS).keep("title", "language")
    is_sound = found.read([payload.content])
    title = " ".join(found.named.get("title", "").split())[:TITLE_CHARACTERS_MAX]
    failure = "" if is_sound or found.text else Failure.DAMAGED
    declared = declared_language(found.named.get("language", ""))  # of RSS
    language = language_of(found.text, declared if declared != UNKNOWN else _declared(payload))
    return Extracted(title, found.text, language, failure=failure)


def _declared(payload: Payload) -> str:
    return declared_language(payload.headers.get("Content-Language") or "")


def _links_of_fields(payload: Payload) -> tuple[OutLink, ...]:
    """What the header of a response leads to: a redirect first of all."""
    document = Document(payload.url, b"", "", payload.headers, payload.status)
    return tuple(OutLink(url, KINDS[hop], "") for url, hop in links_of_fields(document) if hop in KINDS)
