"""The pages that all readers read: of two collections, some captured twice."""

from __future__ import annotations

import holdfast
from holdfast.streams import StreamOptions

FIELDS = ("record", "url", "timestamp", "status", "mime", "headers", "payload", "title", "main_text", "language")
OPTIONS = StreamOptions(fields=FIELDS, batch_size=7)
CAPTURES = 400


def body(number: int) -> bytes:
    story = f"Page {number} tells of harbours, ships and the weather of the coast, at some length and in plain words. "
    return (
        f"<html lang=en><head><title>Page {number}</title></head><body><nav class=menu><a href=/>Start here</a></nav>"
        f"<main><p>{story * 3}</p></main></body></html>"
    ).encode()


def visit(number: int) -> holdfast.Exchange:
    timestamp = f"2026{1 + number % 12:02d}01000000"
    return holdfast.page(f"http://{number % 9}.example/{number % 300}", body(number), timestamp=timestamp)
