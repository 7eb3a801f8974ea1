"""WET: the text of pages as `conversion` records, as Common Crawl publishes it.

WARC-Type: conversion
WARC-Refers-To: <urn:uuid:...>       the response that the text was taken from
Content-Type: text/plain             always UTF-8
                                     title first; one line per block; no scripts, no styles, no blank lines
"""

from __future__ import annotations

import json
from hashlib import sha256

from holdfast.formats.warc.compose import ID_BYTES, WarcHead, digest_of, record_id, record_parts
from holdfast.model import Capture


def wet_record(capture: Capture, text: str, *, refers_to: str = "") -> list[bytes]:
    """The conversion record of a capture's text, in pieces. `refers_to` is the WARC-Record-ID of the response.

    Its id is made of the capture, so that the same export gives the same file.
    """
    block = text.encode("utf-8", "replace")
    named = "\n".join(("wet", *map(str, (capture.record, capture.timestamp, capture.url, capture.digest))))
    languages = _languages(capture)
    head = WarcHead(
        "conversion",
        capture.timestamp,
        record_id(sha256(named.encode("utf-8", "surrogatepass")).digest()[:ID_BYTES]),
        url=capture.url,
        refers_to=refers_to,
        block_digest=digest_of([block]),
        extra=(("WARC-Identified-Content-Language", languages),) if languages else (),
    )
    return record_parts(head, [block])


def _languages(capture: Capture) -> str:
    if capture.extra == "-":
        return ""
    languages = json.loads(capture.extra).get("languages", "")
    return languages if isinstance(languages, str) and not set("\r\n\0") & set(languages) else ""
