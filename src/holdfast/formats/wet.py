"""WET: the text of pages as `conversion` records, as Common Crawl publishes it.

    WARC-Type: conversion
    WARC-Refers-To: <urn:uuid:...>       the response that the text was taken from
    Content-Type: text/plain             always UTF-8
                                         title first; one line per block; no scripts, no styles, no blank lines

Bytes become characters as in a browser: a byte-order mark, else the charset of the HTTP header, else that of a <meta>,
else UTF-8 if they are that, else windows-1252.
"""

from __future__ import annotations

import json
from hashlib import sha256

from holdfast.formats.html.charset import charset_of, decoded
from holdfast.formats.html.text import lines_of, title_of
from holdfast.formats.html.tree import HTML_BYTES_MAX, is_html, parsed_page
from holdfast.formats.http import HTML_TYPES, media_type
from holdfast.formats.warc.compose import ID_BYTES, Version, WarcHead, digest_of, record_id, record_parts
from holdfast.model import Capture

_PLAIN = "text/plain"


def has_text(content_type: str) -> bool:
    """Whether `text_of` finds text in such contents; one without a type may be a page, too."""
    kind = media_type(content_type)
    return not kind or kind in HTML_TYPES or kind == _PLAIN


def text_of(content: bytes, content_type: str = "") -> str:
    """The text of a page; of plain text itself; '' of everything else. `content` is without its content coding."""
    content = content[:HTML_BYTES_MAX]
    if media_type(content_type) == _PLAIN:
        return decoded(content, charset_of(content_type)).text
    if is_html(content, content_type):
        page = parsed_page(content, charset_of(content_type))
        return "\n".join(filter(None, (title_of(page), lines_of(page))))
    return ""


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


def _languages(capture: Capture) -> str:
    if capture.extra == "-":
        return ""
    languages = json.loads(capture.extra).get("languages", "")
    return languages if isinstance(languages, str) and not set("\r\n\0") & set(languages) else ""
