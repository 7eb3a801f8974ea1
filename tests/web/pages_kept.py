"""Archives made for tests of replay: a few pages, each with the time of its capture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import holdfast
from holdfast.archive.ingest.exchange import Exchange, page


def kept(path: Path, exchanges: Sequence[Exchange], collection: str = "") -> Path:
    """An archive in that directory with these captures; one that is there gets them, too."""
    if not path.exists():
        holdfast.init(path)
    with holdfast.open(path) as archive:
        archive.add(exchanges, collection=collection)
    return path


def html(url: str, timestamp: str, body: str = "", *, charset: str = "") -> Exchange:
    """A page of HTML."""
    content_type = f"text/html; charset={charset}" if charset else "text/html"
    text = body or f"<!doctype html><title>{url}</title><p>{timestamp}"
    return page(url, text.encode(charset or "utf-8"), content_type, timestamp)


def answer(url: str, timestamp: str, status: str, fields: Sequence[str] = (), body: bytes = b"") -> Exchange:
    """A response of any kind."""
    head = "\r\n".join([f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}", "", ""])
    return Exchange(url, head.encode("latin-1"), body, timestamp)
