"""WET: the text of pages as `conversion` records, as Common Crawl publishes it.

    WARC-Type: conversion
    WARC-Refers-To: <urn:uuid:...>       the response that the text was taken from
    Content-Type: text/plain             always UTF-8
                                         title first; one line per block; no scripts, no styles, no blank lines

Bytes become characters as in a browser: a byte-order mark, else the charset of the HTTP header, else that of a <meta>,
else UTF-8 if they are that, else windows-1252. The parser (turbohtml) is loaded at first use.
"""

from __future__ import annotations

import json
import re
from functools import cache
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.formats.compose import ID_BYTES, Version, WarcHead, digest_of, record_id, record_parts
from holdfast.model import Capture

if TYPE_CHECKING:
    from turbohtml import Document, PlainText

HTML_BYTES_MAX = 32 << 20  # of a page; what lies beyond is not looked at
_HTML = frozenset(("text/html", "application/xhtml+xml"))
_PLAIN = frozenset(("text/plain",))
_CHARSET = re.compile(r";\s*charset\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s;]*))", re.IGNORECASE)
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_LOOKS_HTML = re.compile(
    rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|title|meta|div|p|h1|table)\b", re.I | re.S
)
_SNIFFED_BYTES = 1024
# The renderer lays tables out in columns and numbers lists; there it drops captions and runs the words of nested tables
# together, of which old pages are full. As plain blocks, nothing is lost, added or glued.
_AS_BLOCKS = (
    "button",
    "caption",
    "center",
    "fieldset",
    "legend",
    "ol",
    "option",
    "table",
    "td",
    "textarea",
    "th",
    "tr",
)


def has_text(content_type: str) -> bool:
    """Whether `text_of` finds text in such contents; one without a type may be a page, too."""
    kind = _kind(content_type)
    return not kind or kind in _HTML or kind in _PLAIN


def text_of(content: bytes, content_type: str = "") -> str:
    """The text of a page; of plain text itself; '' of everything else. `content` is without its content coding."""
    kind = _kind(content_type)
    content = content[:HTML_BYTES_MAX]
    if kind in _PLAIN:
        return _decoded(content, charset_of(content_type))
    if kind in _HTML or (not kind and _LOOKS_HTML.match(content[:_SNIFFED_BYTES])):
        return _page_text(content, charset_of(content_type))
    return ""


def charset_of(content_type: str) -> str:
    """The charset that an HTTP header names; '' if none."""
    match = _CHARSET.search(content_type)
    return next((group for group in match.groups() if group), "").strip().lower() if match else ""


def wet_record(
    capture: Capture, text: str, *, refers_to: str = "", random: bytes | None = None, version: Version = "1.1"
) -> list[bytes]:
    """The conversion record of a capture's text, in pieces. `refers_to` is the WARC-Record-ID of the response.

    Without `random` bytes its id is made of the capture, so that the same export gives the same file.
    """
    block = text.encode("utf-8", "replace")
    named = "\n".join(("wet", *map(str, (capture.record, capture.timestamp, capture.url, capture.digest))))
    languages = _languages(capture)
    head = WarcHead(
        "conversion",
        capture.timestamp,
        record_id(random or sha256(named.encode("utf-8", "surrogatepass")).digest()[:ID_BYTES]),
        url=capture.url,
        refers_to=refers_to,
        block_digest=digest_of([block]),
        extra=(("WARC-Identified-Content-Language", languages),) if languages else (),
    )
    return record_parts(head, [block], version)


def _page_text(content: bytes, charset: str) -> str:
    page = _parsed(content, charset)
    title = page.find("title")
    lines = [" ".join(title.text.split())] if title is not None else []
    for element in page.find_all([*_AS_BLOCKS]):
        element.tag = "div"
    lines += [line.strip() for line in page.to_text(_form()).split("\n")]
    return "\n".join(filter(None, lines))


def _parsed(content: bytes, charset: str) -> Document:
    try:
        from turbohtml import parse
    except ImportError as error:
        raise _missing() from error
    try:
        return parse(content, encoding=charset or None, positions=False)
    except LookupError:  # no charset that a browser knows
        return parse(content, positions=False)


@cache
def _form() -> PlainText:
    from turbohtml import PlainText

    return PlainText(layout="strict", bullet="")


def _decoded(content: bytes, charset: str) -> str:
    try:
        import_module("turbohtml.detect")  # brings the codecs 'whatwg-...', which know charsets as browsers do
    except ImportError as error:
        raise _missing() from error
    for mark, name in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(f"whatwg-{name}", "replace")
    if charset:
        try:
            return content.decode(f"whatwg-{charset}", "replace")
        except (LookupError, ValueError):  # no charset that a browser knows
            pass
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("whatwg-windows-1252", "replace")


def _missing() -> UsageError:
    return UsageError("cannot take the text of a page: turbohtml is not installed; run 'pip install holdfast[text]'")


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _languages(capture: Capture) -> str:
    if capture.extra == "-":
        return ""
    languages = json.loads(capture.extra).get("languages", "")
    return languages if isinstance(languages, str) and not set("\r\n\0") & set(languages) else ""
