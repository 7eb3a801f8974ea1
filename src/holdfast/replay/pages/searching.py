"""The one box: an address leads to its captures, words to the addresses that have all of them.

Words are looked for in addresses only, up to a limit that the page tells. Pages come first, then whatever else has the
words, each in the order of the catalog: pictures and scripts of a site would else hide what they belong to.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.catalog import CaptureQuery
from holdfast.errors import UsageError
from holdfast.model import Capture
from holdfast.replay.kinds import HTML_TYPES
from holdfast.replay.pages.display import path_to
from holdfast.replay.pages.history import captures
from holdfast.replay.pages.listing import listing
from holdfast.replay.pages.pasted import pasted
from holdfast.replay.pages.readable import readable
from holdfast.replay.pages.rendering import render
from holdfast.replay.site import Site
from holdfast.urls import parse

LOOK_MAX = 100_000  # captures
FOUND_MAX = 100  # addresses
QUERY_MAX = 16 << 10  # characters
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[^.].*\.[^.].*|localhost|.+:\d+|\[.+\]")
_END = re.compile(r"[/?#*]")
_TIME = re.compile(r"\d{0,14}")


class Found(NamedTuple):
    """What a look through the addresses gave."""

    captures: list[Capture]  # the newest of each address
    looked: int  # captures that were looked at
    is_cut: bool  # there is more than was looked at, or than is shown


def address_in(text: str) -> str:
    """The URL, or beginning of URLs with a star, that the text is; empty if it is words. A fragment is left out."""
    bare = text.strip().partition("#")[0]
    if not bare or any(character.isspace() for character in bare):
        return ""
    if _SCHEME.match(bare) or bare.startswith(("urn:", "dns:")):
        return bare
    host = _END.split(bare.removeprefix("*."), maxsplit=1)[0]
    if _HOST.fullmatch(host) is None or parse(f"http://{host}") is None:
        return ""
    return bare if bare.endswith("*") or bare.startswith("*.") else f"http://{bare}"


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


def routes(site: Site) -> list[Route]:
    async def search(request: Request) -> Response:
        site.tokens.require_read(request)
        query, collection = asked_for(site, request)
        address = "" if request.query_params.get("as") == "words" else address_in(query)
        meant = pasted(site, address, request.headers.get("host", ""))
        if meant.url == address and "*" in (address[-1:], address[:1]):
            return await listing(site, request, collection, address, request.query_params.get("after", ""))
        if address:
            time = meant.time or time_of(request) or "*"
            return RedirectResponse(path_to(meant.collection or collection, time, meant.url), 302)
        words = query.casefold().split()
        found = (
            await run_in_threadpool(look, site, site.collection(collection), words) if words else Found([], 0, False)
        )
        return render(site, request, "search.html", q=query, collection=collection, found=found, words=words)

    return [Route("/search", search)]


def asked_for(site: Site, request: Request) -> tuple[str, str]:
    """What is looked for, and where; raises UsageError or UnknownCollection."""
    query = request.query_params.get("q", "")
    if len(query) > QUERY_MAX:
        raise UsageError(f"a search of {len(query)} characters is too long: give at most {QUERY_MAX}")
    collection = request.query_params.get("collection") or "all"
    site.collection(collection)
    return query, collection


def time_of(request: Request) -> str:
    """The time that the replay banner's box gives with its address, so that one stays in the same days."""
    time = request.query_params.get("time", "")
    return time if _TIME.fullmatch(time) else ""
