"""The captures of one URL in the order of time, each with what became of the page since the one before.

A capture is *changed* if its payload has another digest than the last capture that had one. A revisit says by its kind
that nothing has changed. Redirects and errors are told apart: they say nothing about the page itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from holdfast.catalog import CaptureQuery
from holdfast.model import Capture
from holdfast.replay.finding import SHOWN
from holdfast.replay.site import Site


class Mark(StrEnum):
    """What a capture is beside the one before it."""

    FIRST = "first"
    CHANGED = "changed"
    SAME = "same"
    REDIRECT = "redirect"
    ERROR = "error"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Mark.FIRST: "first capture",
    Mark.CHANGED: "changed",
    Mark.SAME: "unchanged",
    Mark.REDIRECT: "redirect",
    Mark.ERROR: "error",
}


class Seen(NamedTuple):
    """A capture in the history of its URL."""

    capture: Capture
    mark: Mark
    before: str  # timestamp of the capture before it; empty for the first


def captures(site: Site, query: CaptureQuery) -> Iterator[Capture]:
    """Those that are pages, and that the rules of access do not hide."""
    permits = None if site.access.is_open else site.access.permits
    return (row.capture for row in site.archive.catalog.search(query, permits=permits) if row.capture.type in SHOWN)


def history(site: Site, collection: str | None, url: str) -> Iterator[Seen]:
    """All captures of a URL, by time, streaming."""
    digest = before = ""
    for capture in captures(site, CaptureQuery(url=url, match="exact", collection=collection)):
        mark = marked(capture, digest)
        if capture.digest != "-" and mark in (Mark.FIRST, Mark.CHANGED):
            digest = capture.digest
        yield Seen(capture, mark, before)
        before = capture.timestamp


def marked(capture: Capture, digest: str) -> Mark:
    """What a capture is after one with this digest; empty: there was none."""
    if capture.type == "revisit":
        return Mark.SAME
    if capture.status.startswith("3"):
        return Mark.REDIRECT
    if capture.status.startswith(("4", "5")):
        return Mark.ERROR
    if not digest:
        return Mark.FIRST
    return Mark.SAME if capture.digest == digest else Mark.CHANGED
