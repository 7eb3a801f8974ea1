"""Captures for tests, made from little."""

from __future__ import annotations

from holdfast.model import Capture, RecordId
from holdfast.urls import url_key


def capture(url: str, timestamp: str, serial: int = 0, **parts: object) -> Capture:
    """A capture of the URL; what is not said is usual."""
    usual: dict[str, object] = {
        "urlkey": url_key(url),
        "timestamp": timestamp,
        "url": url,
        "mime": "text/html",
        "status": "200",
        "digest": f"sha1:{serial:032d}",
        "length": 1000,
        "offset": serial,
        "filename": "a.warc.gz",
        "type": "response",
        "size": 10,
        "contents": "v0:ab",
        "record": RecordId("202001", serial),
        "collection": "main",
    }
    return Capture(**(usual | parts))  # type: ignore[arg-type]
