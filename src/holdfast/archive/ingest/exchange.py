"""Exchanges: a request and its response, not from a file, become WARC 1.1 records."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.arguments import check_fields, checked
from holdfast.env import Environment
from holdfast.errors import UsageError
from holdfast.formats.http import parse_head
from holdfast.formats.io.open import open_records
from holdfast.formats.warc.compose import ID_BYTES, WarcHead, digest_of, record_id, record_parts
from holdfast.records.draft import Drafting, RecordDraft
from holdfast.urls import parse


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request to a server and its response, as bytes on the wire."""

    url: str
    head: bytes  # of the response: status line and fields, as sent
    body: bytes  # as sent, content encodings kept
    timestamp: str = ""  # 14 digits or ISO 8601; empty: now
    request: bytes = b""  # the whole request message; empty: not kept
    ip: str = ""
    protocols: tuple[str, ...] = ()  # 'h2', 'tls/1.3'
    truncated: str = ""  # why the body is not whole: 'length', 'time', 'disconnect'

    def __post_init__(self) -> None:
        check_fields(self)


@checked
def page(url: str, content: bytes | str, content_type: str = "text/html", timestamp: str = "") -> Exchange:
    """An exchange for a content without HTTP headers.

    A string is stored as UTF-8, and the content type says so unless it names an encoding.
    """
    if isinstance(content, str):
        if "charset=" not in content_type.lower():
            content_type += "; charset=utf-8"
        content = content.encode("utf-8", "replace")  # lone surrogates have no bytes
    if not content_type.isascii() or not content_type.isprintable():
        raise UsageError(f"bad content type {content_type!r}: write 'text/html' or the like")
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(content)}\r\n\r\n"
    return Exchange(url, head.encode("ascii"), content, timestamp)


def drafts_of(exchanges: Sequence[Exchange], drafting: Drafting, env: Environment) -> list[RecordDraft]:
    """The records of the exchanges, each response before its request. Raises UsageError for an invalid one."""
    raw = b"".join(part for exchange in exchanges for part in _records(exchange, env))
    records = open_records(io.BytesIO(raw), strict=False, validate=False, verify_digests=False)
    drafts = [drafting.draft(record) for record in records]
    drafting.complete(drafts)
    return drafts


def _records(exchange: Exchange, env: Environment) -> Iterator[bytes]:
    _check(exchange)
    date = exchange.timestamp or datetime.fromtimestamp(env.clock(), UTC).strftime("%Y%m%d%H%M%S")
    response_id = record_id(env.random_bytes(ID_BYTES))
    block = [exchange.head, exchange.body]
    head = WarcHead(
        "response",
        date,
        response_id,
        url=exchange.url,
        ip=exchange.ip,
        block_digest=digest_of(block),
        payload_digest=digest_of([exchange.body]),
        protocols=exchange.protocols,
        truncated=exchange.truncated,
    )
    yield from record_parts(head, block)
    if exchange.request:
        request_id = record_id(env.random_bytes(ID_BYTES))
        asked = WarcHead("request", date, request_id, url=exchange.url, ip=exchange.ip, concurrent_to=(response_id,))
        yield from record_parts(asked, [exchange.request])


def _check(exchange: Exchange) -> None:
    if parse(exchange.url) is None:
        raise UsageError(f"cannot keep a capture of {exchange.url!r}: it is not a URL")
    head = parse_head(exchange.head)
    if head is None or head.kind != "response" or head.size != len(exchange.head):
        raise UsageError(f"cannot keep a capture of '{exchange.url}': its head is not that of an HTTP response")
