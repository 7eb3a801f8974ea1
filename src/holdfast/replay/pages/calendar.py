"""The calendar of a URL: all years as a timeline, one year by its days, and the captures of a year, month, day or hour.

    /<coll>/*/<url>         the newest year
    /<coll>/2024*/<url>     a year; 202402* a month, 20240229* a day, 2024022912* an hour of it

The history is read once, streaming; only counts and the captures that are listed are kept. So a URL with ten thousand
captures costs no more memory than one with ten, and every one of them can be reached: what is too long to be listed is
parted by the next unit of time.
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog import CaptureQuery
from holdfast.replay.pages.chronicle import Chronicle
from holdfast.replay.pages.history import captures, history
from holdfast.replay.pages.listing import listing
from holdfast.replay.pages.missing import not_archived
from holdfast.replay.pages.rendering import render
from holdfast.replay.pages.year import year_grid, year_links
from holdfast.replay.site import Site
from holdfast.replay.target import Target


async def calendar(site: Site, request: Request, target: Target) -> Response:
    """The page for a target of kind `calendar`; a star in the URL asks for all that begin so."""
    if target.url.endswith("*") or target.url.removeprefix("http://").startswith("*."):
        return await listing(site, request, target.collection, target.url.removeprefix("http://"))
    chronicle = await run_in_threadpool(read_chronicle, site, target)
    if not chronicle.total.captures:
        return not_archived(site, request, target)
    return render(
        site,
        request,
        "calendar.html",
        target=target,
        chronicle=chronicle,
        years=year_links(chronicle),
        months=year_grid(chronicle),
        q=target.url,
    )


def read_chronicle(site: Site, target: Target) -> Chronicle:
    """Everything the page tells; the period is the newest year if none was asked for."""
    collection = site.collection(target.collection)
    period = target.timestamp
    if len(period) < 4:
        backwards = captures(site, CaptureQuery(url=target.url, match="exact", collection=collection, sort="reverse"))
        newest = next((each.timestamp for each in backwards if each.timestamp.startswith(period)), "")
        period = newest[:4] or period
    chronicle = Chronicle(period)
    for seen in history(site, collection, target.url):
        chronicle.take(seen)
    return chronicle
