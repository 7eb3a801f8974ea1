"""The addresses that begin alike: of a directory, a host or a domain, one page after the other."""

from __future__ import annotations

from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog import CaptureQuery
from holdfast.model import Capture
from holdfast.replay.pages.display import path_to
from holdfast.replay.pages.history import captures
from holdfast.replay.pages.rendering import render
from holdfast.replay.site import Site

PAGE_MAX = 100  # addresses on one page
LOOK_MAX = 50_000  # captures looked at for one page


class Listed(NamedTuple):
    """An address and its captures."""

    newest: Capture
    captures: int
    first: str
    path: str  # of its calendar


class Page(NamedTuple):
    """Part of a listing. `after` goes on behind it; empty: that was all."""

    listed: list[Listed]
    after: str


async def listing(site: Site, request: Request, collection: str, pattern: str, after: str = "") -> Response:
    """`pattern` is 'example.com/a*', '*.example.com' and the like; `after` is that of the page before."""
    page = await run_in_threadpool(read_page, site, collection, pattern, after)
    status = 200 if page.listed or after else 404
    values = {"collection": collection, "pattern": pattern, "page": page, "is_first": not after, "q": pattern}
    return render(site, request, "listing.html", status=status, **values)


def read_page(
    site: Site, collection: str, pattern: str, after: str = "", *, most: int = PAGE_MAX, look: int = LOOK_MAX
) -> Page:
    """The next addresses in the order of their keys, at most so many, from at most `look` captures."""
    query = CaptureQuery(url=pattern, collection=site.collection(collection), resume_key=after)
    listed: list[Listed] = []
    last: Capture | None = None
    for number, capture in enumerate(captures(site, query)):
        if last is None or capture.urlkey != last.urlkey:
            if len(listed) == most:
                return Page(listed, _key_after(query, last))
            listed.append(_listed(collection, capture))
        else:
            listed[-1] = listed[-1]._replace(newest=capture, captures=listed[-1].captures + 1)
        last = capture
        if number == look:
            return Page(listed, _key_after(query, last))
    return Page(listed, "")


def _listed(collection: str, capture: Capture) -> Listed:
    return Listed(capture, 1, capture.timestamp, path_to(collection, "*", capture.url))


def _key_after(query: CaptureQuery, capture: Capture | None) -> str:
    from holdfast.catalog.fields import Row

    return query.resume_key_after(Row(capture)) if capture is not None else ""
