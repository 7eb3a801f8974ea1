"""Words in addresses: for archives without an index, and for those who remember a name and not a text.

A look goes through the catalog up to a limit that the page tells. Pages come first, then whatever else has the words,
each in the order of the catalog: pictures and scripts of a site would else hide what they belong to.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from holdfast.catalog import CaptureQuery
from holdfast.model import Capture
from holdfast.replay.kinds import HTML_TYPES
from holdfast.replay.pages.history import captures
from holdfast.replay.pages.readable import readable
from holdfast.replay.site import Site

LOOK_MAX = 100_000  # captures
FOUND_MAX = 100  # addresses


class Found(NamedTuple):
    """What a look through the addresses gave."""

    captures: list[Capture]  # the newest of each address
    looked: int  # captures that were looked at
    is_cut: bool  # there is more than was looked at, or than is shown


def look(site: Site, collection: str | None, words: list[str]) -> Found:
    """Addresses with all the words, which must be in lower case; pages before everything else."""
    if not words:
        return Found([], 0, False)
    pages: dict[str, Capture] = {}
    others: dict[str, Capture] = {}
    looked = 0
    for capture in captures(site, CaptureQuery(match="all", collection=collection)):
        if looked == LOOK_MAX or (len(pages) == FOUND_MAX and capture.urlkey not in pages):
            return Found(_first(pages, others), looked, True)
        looked += 1
        if capture.urlkey in pages:
            pages[capture.urlkey] = capture
        elif capture.urlkey in others or _has(capture.url, words):
            _take(capture, pages, others)
    return Found(_first(pages, others), looked, len(pages) + len(others) > FOUND_MAX)


def _take(capture: Capture, pages: dict[str, Capture], others: dict[str, Capture]) -> None:
    """One capture that is a page makes its address one, also if it moved or failed later."""
    if capture.mime in HTML_TYPES and capture.status.startswith("2"):
        others.pop(capture.urlkey, None)
        pages[capture.urlkey] = capture
    elif capture.urlkey in others or len(others) <= FOUND_MAX:
        others[capture.urlkey] = capture


def _first(pages: dict[str, Capture], others: dict[str, Capture]) -> list[Capture]:
    return [*pages.values(), *others.values()][:FOUND_MAX]


def _has(url: str, words: list[str]) -> bool:
    text = unquote(readable(url)).casefold()
    return all(word in text for word in words)
