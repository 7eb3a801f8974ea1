"""The captures of one URL in the order of time, each marked as changed or unchanged since the one before.

A capture is *changed* if its payload has another digest than the last capture that had one. A revisit is unchanged by
definition. Redirects and errors have separate marks: they say nothing about the page itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from holdfast.catalog import CaptureQuery, Row
from holdfast.model import Capture
from holdfast.web.context import WebContext
from holdfast.web.replay.find import SHOWN


class ChangeMark(StrEnum):
    """How a capture relates to the one before it."""

    FIRST = "first"
    CHANGED = "changed"
    SAME = "same"
    REDIRECT = "redirect"
    ERROR = "error"

    @property
    def words(self) -> str:
        return {"first": "first capture", "same": "unchanged"}.get(self.value, self.value)


class Seen(NamedTuple):
    """A capture in the history of its URL."""

    capture: Capture
    mark: ChangeMark
    before: str  # timestamp of the capture before it; empty for the first


def captures(site: WebContext, query: CaptureQuery) -> Iterator[Capture]:
    """Captures that are pages and not excluded."""
    return shown_of(site.archive.catalog.search(query, permits=site.permits))


def shown_of(rows: Iterable[Row]) -> Iterator[Capture]:
    """Those that are pages."""
    return (row.capture for row in rows if row.capture.type in SHOWN)


def history(site: WebContext, collection: str | None, url: str) -> Iterator[Seen]:
    """All captures of a URL, by time, streaming."""
    digest = before = ""
    for capture in captures(site, CaptureQuery(url=url, match="exact", collection=collection)):
        mark = marked(capture, digest)
        if capture.digest != "-" and mark in (ChangeMark.FIRST, ChangeMark.CHANGED):
            digest = capture.digest
        yield Seen(capture, mark, before)
        before = capture.timestamp


def marked(capture: Capture, digest: str) -> ChangeMark:
    """The mark of a capture after one with this digest; empty: there was none."""
    if capture.type == "revisit":
        return ChangeMark.SAME
    if capture.status.startswith("3"):
        return ChangeMark.REDIRECT
    if capture.status.startswith(("4", "5")):
        return ChangeMark.ERROR
    if not digest:
        return ChangeMark.FIRST
    return ChangeMark.SAME if capture.digest == digest else ChangeMark.CHANGED
