"""Words in addresses: for archives without an index, and for those who remember a name and not a text.

A look goes through the catalog up to a limit that the page tells. Pages come first, then whatever else has the words,
each in the order of the catalog: pictures and scripts of a site would else hide what they belong to.

What people paste into the box: often the address of a capture, here or in the Wayback Machine, not that of a page.

    https://web.archive.org/web/20200102030405/http://example.com/     the page, at that time
    http://127.0.0.1:8080/main/20200102030405/http://example.com/      the same of this server, in that collection

A fragment is taken off: browsers never sent it, so nothing is archived under it.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from holdfast.catalog import CaptureQuery
from holdfast.formats.http import HTML_TYPES
from holdfast.model import Capture
from holdfast.urls import parse
from holdfast.web.context import WebContext
from holdfast.web.request import parse_target
from holdfast.web.ui.display import readable
from holdfast.web.ui.history import captures

LOOK_MAX = 100_000  # captures
FOUND_MAX = 100  # addresses


class FoundAddress(NamedTuple):
    """What a look through the addresses gave."""

    captures: list[Capture]  # the newest of each address
    looked: int  # captures that were looked at
    is_cut: bool  # there is more than was looked at, or than is shown


def look(site: WebContext, collection: str | None, words: list[str]) -> FoundAddress:
    """Addresses with all the words, which must be in lower case; pages before everything else."""
    if not words:
        return FoundAddress([], 0, False)
    pages: dict[str, Capture] = {}
    others: dict[str, Capture] = {}
    looked = 0
    for capture in captures(site, CaptureQuery(match="all", collection=collection)):
        if looked == LOOK_MAX or (len(pages) == FOUND_MAX and capture.urlkey not in pages):
            return FoundAddress(_first(pages, others), looked, True)
        looked += 1
        if capture.urlkey in pages:
            pages[capture.urlkey] = capture
        elif capture.urlkey in others or _has(capture.url, words):
            _take(capture, pages, others)
    return FoundAddress(_first(pages, others), looked, len(pages) + len(others) > FOUND_MAX)


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


_WAYBACK = frozenset(("web.archive.org", "www.web.archive.org", "web-beta.archive.org", "wayback.archive-it.org"))
_KINDS = frozenset(("replay", "calendar", "timegate", "timemap"))
_DEEP_MAX = 3  # a capture of a capture of a capture


class Pasted(NamedTuple):
    """The page that is meant; time and collection are empty if the text named none."""

    url: str
    time: str = ""
    collection: str = ""


def pasted(site: WebContext, url: str, host: str = "") -> Pasted:
    """What an address stands for. `host` is the name by which the browser knows this server."""
    meant = Pasted(url.partition("#")[0])
    for _ in range(_DEEP_MAX):
        inner = _inner(site, meant, host)
        if inner is None:
            break
        meant = inner
    return meant


def _inner(site: WebContext, outer: Pasted, host: str) -> Pasted | None:
    """The page of which the address is a capture; None if it is a page itself."""
    parsed = parse(outer.url)
    if parsed is None or parsed.scheme not in ("http", "https"):
        return None
    at = f"{parsed.host}:{parsed.port}" if parsed.port else parsed.host
    ours = {host, urlsplit(site.controls_origin).netloc, urlsplit(site.replay_origin).netloc}
    if at not in ours and at not in _WAYBACK:
        return None
    rest = outer.url.split("/", 3)[3:]  # as it was written: the page's own address must come through unchanged
    target = parse_target(f"/{rest[0]}".encode("utf-8", "surrogateescape")) if rest else None
    if target is None or target.kind not in _KINDS or parse(target.url) is None:
        return None
    is_known = at in ours and site.has_collection(target.collection)
    return Pasted(
        target.url.partition("#")[0],
        (target.timestamp if target.kind == "replay" else "") or outer.time,
        target.collection if is_known else outer.collection,
    )
