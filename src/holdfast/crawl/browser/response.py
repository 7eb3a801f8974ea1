"""What was fetched, as Chromium takes it: without the encodings that the fetcher has already, or could have, undone."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

from holdfast.crawl.processes.messages import Fetched, FetchOutcome
from holdfast.errors import TooLarge
from holdfast.formats.http import HTML_TYPES, HttpHead, decoded_content, media_type, parse_head

SHOWN_BYTES_MAX = 64 << 20  # of one answer, decoded; a page does without one that is longer
_FRAMING = frozenset(
    (b"content-encoding", b"content-length", b"transfer-encoding", b"connection", b"keep-alive", b"trailer", b"alt-svc")
)
_REASONS = {
    FetchOutcome.DNS: "NameNotResolved",
    FetchOutcome.CONNECT: "ConnectionRefused",
    FetchOutcome.TIMEOUT: "TimedOut",
    FetchOutcome.DROPPED: "ConnectionClosed",
    FetchOutcome.PRIVATE: "BlockedByClient",
}


def reason_of(fetched: Fetched) -> str:
    """Why there is no answer, in the words of Chromium's protocol."""
    return _REASONS.get(fetched.outcome, "Failed")


def answer_of(fetched: Fetched) -> dict[str, Any] | None:
    """What Fetch.fulfillRequest takes beside the request's id; None if there is nothing to show."""
    head = parse_head(fetched.head) if fetched.outcome == FetchOutcome.OK else None
    if head is None or not 200 <= head.status <= 599 or head.status == 304 or fetched.size > SHOWN_BYTES_MAX:
        return None
    body = Path(fetched.spool).read_bytes() if fetched.spool else fetched.body
    try:
        content = decoded_content(body, head.headers, SHOWN_BYTES_MAX)
    except TooLarge:
        return None
    return {
        "responseCode": head.status,
        "binaryResponseHeaders": b64encode(b"\0".join(_fields(fetched.head))).decode("ascii"),
        "body": b64encode(content).decode("ascii"),
    }


def is_page(fetched: Fetched) -> bool:
    """Whether there is something that a browser would show as a page."""
    if fetched.outcome != FetchOutcome.OK or fetched.spool or fetched.truncated or not fetched.body:
        return False
    head = parse_head(fetched.head)
    return head is not None and 200 <= head.status < 300 and is_html(head) and not _is_download(head)


def is_html(head: HttpHead) -> bool:
    return media_type(head.headers.get("Content-Type")) in HTML_TYPES


def _is_download(head: HttpHead) -> bool:
    return (head.headers.get("Content-Disposition") or "").strip().lower().startswith("attachment")


def _fields(head: bytes) -> list[bytes]:
    """Lines that are not about how the body was sent; folded ones are one line."""
    lines: list[bytes] = []
    for line in head.replace(b"\r\n", b"\n").split(b"\n")[1:]:
        if line[:1] in (b" ", b"\t") and lines:
            lines[-1] += b" " + line.strip()
        elif b":" in line:
            lines.append(line.replace(b"\0", b" "))
    return [line for line in lines if line.partition(b":")[0].strip().lower() not in _FRAMING]
